"""The replica: what an external consumer knows of the cache, from a log of blocks stored and removed.

The engine tells of every block that comes to hold a prefix, and of every one that is emptied, each with the
next number of its log; clearing the whole cache is one event. The channel holds one event and never blocks:
an event that finds it full, or is lost, has used up its number. The consumer applies an event with the number
that it expects. Another number is a gap, as is a heartbeat, which tells the engine's next number, that is
beyond it; from then on the consumer trusts nothing until it has a snapshot of the engine. An event that is
older than a snapshot is in it already. A consumer that was started again knows nothing, and knows that.
An engine that is started again has an empty cache and a log that begins anew: the numbers of two logs do not
compare. So events, heartbeats and snapshots carry the number of the engine's start, and one of another start
than the consumer last heard of is a gap, whatever its number in the log.

Modelled: one prefix in several blocks, so that a removal takes one copy of it. Lost events, restarts of the
engine and of the consumer, an event that is still on its way from before a restart.
Left out: events that arrive out of order or twice (see `journal`), several consumers.
Assumed: an event names the copy; a consumer that is told hashes alone keeps a count, which is their number.
A snapshot is read at one moment, with the number that comes next. No two starts have one number.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.failures import BLOCK_EMPTY, FailureClass, error_code
from kvspec.spec.handles import Handle, handles
from kvspec.spec.language import (
    Action,
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Limit,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    exists,
    forall,
    limit,
    member,
    none,
    where,
)
from kvspec.spec.lifecycle import allocate, lifecycle
from kvspec.spec.prefix import Block, evict, filled, owner, prefix


class Hash(Open):
    """What a block holds, by the digest of its tokens and all that came before them."""


class Sequence(Natural):
    """A number of the log."""


class Boot(Natural):
    """A start of the engine."""


class Kind(Enum):
    """What an event tells."""

    STORED = member()
    REMOVED = member()
    CLEARED = member()


CHANNEL_EMPTY = error_code("CHANNEL_EMPTY", "no event is on its way")
CHANNEL_FULL = error_code("CHANNEL_FULL", "an event is on its way")
NO_GAP = error_code("NO_GAP", "the consumer misses nothing that it knows of")
BLOCK_OWNED = error_code("BLOCK_OWNED", "some handle owns a block", FailureClass.OWNERSHIP)

replica = Module(
    "replica",
    "The log of blocks, its channel and its consumer.",
    uses=(handles, prefix, lifecycle),
    writes=(filled,),
)

holds = replica.variable(
    "holds", Block, to=Option[Hash], init=none(Hash), meaning="what the block holds"
)
sequence = replica.variable(
    "sequence", to=Sequence, init=0, meaning="next number of the engine's log"
)
boot = replica.variable("boot", to=Boot, init=0, meaning="start of the engine, whose log it is")
on_its_way = replica.variable(
    "on_its_way", to=Bool, init=False, meaning="the channel holds an event"
)
event_kind = replica.variable(
    "event_kind", to=Kind, init=Kind.STORED, meaning="what the event tells"
)
event_block = replica.variable(
    "event_block", to=Option[Block], init=none(Block), meaning="block that it tells of"
)
event_hash = replica.variable(
    "event_hash", to=Option[Hash], init=none(Hash), meaning="hash that it tells of"
)
event_sequence = replica.variable("event_sequence", to=Sequence, init=0, meaning="its number")
event_boot = replica.variable("event_boot", to=Boot, init=0, meaning="start that it is of")
known = replica.variable(
    "known", Block, to=Option[Hash], init=none(Hash), meaning="what the consumer takes it to hold"
)
expected = replica.variable(
    "expected", to=Sequence, init=0, meaning="number that the consumer takes to be next"
)
followed = replica.variable(
    "followed", to=Boot, init=0, meaning="start that the consumer last heard of"
)
gap = replica.variable(
    "gap", to=Bool, init=False, meaning="the consumer knows that it misses something"
)


def tell(
    step: Step, kind: Expr | None = None, b: Expr | None = None, k: Expr | None = None
) -> None:
    """Send an event with the next number; one that finds the channel full is lost.

    What is not given stays as it is in an empty channel.
    """
    full = on_its_way[()]
    step.assign(sequence[()], sequence[()] + 1)
    step.assign(on_its_way[()], True)
    step.assign(event_sequence[()], where(full, event_sequence[()], sequence[()]))
    step.assign(event_boot[()], where(full, event_boot[()], boot[()]))
    for variable, value in ((event_kind, kind), (event_block, b), (event_hash, k)):
        if value is not None:
            step.assign(variable[()], where(full, variable[()], value))


def empty_channel(step: Step) -> None:
    """No event is on its way."""
    step.assign(on_its_way[()], False)
    step.assign(event_kind[()], Kind.STORED)
    step.assign(event_block[()], none(Block))
    step.assign(event_hash[()], none(Hash))
    step.assign(event_sequence[()], 0)
    step.assign(event_boot[()], 0)


@replica.extend(allocate)
def store(step: Step, b: Block, k: Hash) -> None:
    """The block holds the prefix k from now on, which is told."""
    step.assign(holds[b], k)
    tell(step, b=b, k=k)


@replica.observe(evict)
def remove(step: Step, b: Block) -> None:
    """The block holds nothing any more, which is told; other blocks may hold the same."""
    step.assign(holds[b], none(Hash))
    tell(step, Kind.REMOVED, b, holds[b])


def empty_blocks(step: Step) -> None:
    """No block holds anything any more; there is none that a handle owns."""
    step.require(forall(Block, Handle, lambda b, h: ~owner[b, h]), BLOCK_OWNED)
    for b in step.every(Block):
        step.assign(filled[b], False)
        step.assign(holds[b], none(Hash))


@replica.action
def clear_all(step: Step) -> None:
    """Empty every block at once, which is told by one event."""
    step.require(exists(Block, lambda b: filled[b]), BLOCK_EMPTY)
    empty_blocks(step)
    tell(step, Kind.CLEARED)


@replica.action
def restart_engine(step: Step) -> None:
    """The engine is started again: its cache is empty, its log begins anew, and no event tells that."""
    empty_blocks(step)
    step.assign(sequence[()], 0)
    step.assign(boot[()], boot[()] + 1)


@replica.action
def lose(step: Step) -> None:
    """The event on its way is lost."""
    step.require(on_its_way[()], CHANNEL_EMPTY)
    empty_channel(step)


@replica.action
def deliver(step: Step) -> None:
    """The consumer applies the event that it expects; a number beyond that, or another start, is a gap."""
    step.require(on_its_way[()], CHANNEL_EMPTY)
    number, kind = event_sequence[()], event_kind[()]
    another = event_boot[()] != followed[()]
    in_order = ~another & (number == expected[()])
    for b in step.every(Block):
        stored = where((event_block[()] == b) & (kind == Kind.STORED), event_hash[()], known[b])
        removed = where((event_block[()] == b) & (kind == Kind.REMOVED), None, stored)
        step.assign(known[b], where(in_order, where(kind == Kind.CLEARED, None, removed), known[b]))
    step.assign(expected[()], where(in_order, number + 1, expected[()]))
    step.assign(gap[()], where(another | (expected[()] < number), True, gap[()]))
    step.assign(followed[()], event_boot[()])
    empty_channel(step)


@replica.action
def heartbeat(step: Step) -> None:
    """The engine tells its start and its next number where no event is on its way: what was lost shows."""
    step.require(~on_its_way[()], CHANNEL_FULL)
    another = followed[()] != boot[()]
    step.assign(gap[()], where(another | (expected[()] < sequence[()]), True, gap[()]))
    step.assign(followed[()], boot[()])


@replica.action
def restart(step: Step) -> None:
    """The consumer is started again: it knows nothing, and knows that."""
    for b in step.every(Block):
        step.assign(known[b], none(Hash))
    step.assign(expected[()], 0)
    step.assign(followed[()], 0)
    step.assign(gap[()], True)


@replica.action
def resynchronize(step: Step) -> None:
    """A consumer with a gap takes a snapshot of the engine, its start and the number that comes next."""
    step.require(gap[()], NO_GAP)
    for b in step.every(Block):
        step.assign(known[b], holds[b])
    step.assign(expected[()], sequence[()])
    step.assign(followed[()], boot[()])
    step.assign(gap[()], False)


system = System.of(
    "replica", "The core, and an external view of its blocks.", *core.system.modules, replica
)


def _limit(action: Action) -> Limit:
    return limit(action)(lambda: sequence[()] < Sequence.top)


LIMITS = tuple(_limit(action) for action in (allocate, evict, clear_all))
"""An event needs one number more."""


@limit(restart_engine)
def restarts_below_the_last_start() -> Expr:
    """A start of the engine has a number of its own."""
    return boot[()] < Boot.top


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 0,
    blocks: int = 2,
    hashes: int = 1,
    generations: int = 2,
    restarts: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer, without a batch."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        blocks=blocks,
        generations=generations,
        more={Hash: hashes, Sequence: 2 * handles * generations + 1, Boot: restarts},
        limits=(*LIMITS, restarts_below_the_last_start),
        expected=expected,
    )


COPIES = make_instance(
    "COPIES",
    "one prefix in two blocks, two requests of one handle, two starts of the engine",
    expected=Counts(6_084, 34_413, 15, 0),
)
PREFIXES = make_instance(
    "PREFIXES",
    "two prefixes in one block, two requests, two starts of the engine",
    blocks=1,
    hashes=2,
    expected=Counts(4_344, 24_167, 15, 0),
)
STARTS = make_instance(
    "STARTS",
    "one request and one block, three starts of the engine",
    blocks=1,
    generations=1,
    restarts=2,
    expected=Counts(616, 3_105, 10, 0),
)

INSTANCES = (COPIES, PREFIXES, STARTS)
