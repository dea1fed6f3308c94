"""Transfers: blocks are loaded from and stored to an outer tier, each time as a transaction of two ends.

Modelled: a transfer serves one incarnation of a request, and each try has an attempt number of its own. It
pins its source and its target from the beginning: the block of the device, and the entry of the tier (a host
pool, a remote store, a prefill worker). While it is queued it is cancelled at once. Once bytes move, giving
up only sends the abort: the sender may still write, and the pins are dropped when it has acknowledged, or
is known to be dead. The sender's report is a notice on a channel that may lose, delay and repeat it. It can
come before the end that waits is registered (then it is remembered), after the attempt was given up, or
twice. Rows are readable, and entries found, only when all layers were written and that was reported.
Environment: a sender that crashes, a notice that is lost, late or there again, a timeout, a client that
goes away, other workers that fill the tier.
Left out: what an entry is the rows of (`index`), tokens and schemas of a hand-off (`handoff`), bandwidth.
Assumed: a sender known to be dead writes nothing any more.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import Txn, append, begin, is_live, target
from kvspec.spec.failures import HANDLE_TERMINAL, FailureClass
from kvspec.spec.handles import (
    Generation,
    Handle,
    Layer,
    Phase,
    generation,
    handles,
    phase,
)
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    forall,
    implies,
    limit,
    member,
    none,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import allocate, lifecycle
from kvspec.spec.prefix import Block, evict, owner, prefix


class Transfer(Open):
    """A transfer by its writer and key: tries of the same one are told apart by their number."""


class Entry(Open):
    """A place of the outer tier that rows are kept in under a key."""


class Notice(Open):
    """A sender's message that all is written."""


class Attempt(Natural):
    """Tries of a transfer so far."""


class Fill(Natural):
    """Requests that a block was given to afresh."""


class Stage(Enum):
    """Where a transfer is: over in VISIBLE and DRAINED, cancelled at once in QUEUED alone."""

    IDLE = member()
    QUEUED = member()
    RUNNING = member()
    WRITTEN = member()
    VISIBLE = member()
    FAILED = member()
    DRAINED = member()


class Direction(Enum):
    """Which end is the source."""

    LOAD = member()
    STORE = member()


class Waiter(Enum):
    """The end that waits for notices and timeouts of a transfer."""

    ABSENT = member()
    WAITING = member()
    CLOSED = member()


class Sender(Enum):
    """What the sender does: it may write as long as it pushes."""

    QUIET = member()
    PUSHING = member()
    DEAD = member()


class Content(Enum):
    """What is really in a layer of a block or an entry."""

    NOTHING = member()
    ROWS = member()
    FOREIGN = member()


class EntryState(Enum):
    """What a lookup finds of an entry: it hits what is VISIBLE."""

    ABSENT = member()
    RESERVED = member()
    VISIBLE = member()


class NoticeState(Enum):
    """Where a notice is."""

    UNUSED = member()
    IN_FLIGHT = member()
    TAKEN = member()
    LOST = member()


def _code(name: str, meaning: str, kind: FailureClass = FailureClass.NONE) -> ErrorCode:
    return ErrorCode(name, meaning, int(kind))


TRANSFER_IN_USE = _code("TRANSFER_IN_USE", "an attempt of the transfer is not over")
ENTRY_IN_USE = _code("ENTRY_IN_USE", "the entry holds rows, or another transfer writes it")
ENTRY_NOT_VISIBLE = _code("ENTRY_NOT_VISIBLE", "a lookup does not find the entry")
NOT_QUEUED = _code("NOT_QUEUED", "the transfer is not queued")
CANCEL_UNSAFE = _code("CANCEL_UNSAFE", "bytes move: the transfer can be given up, not cancelled")
NOT_PUSHING = _code("NOT_PUSHING", "the sender writes nothing any more")
CHUNK_WRITTEN = _code("CHUNK_WRITTEN", "the layer was written already")
CHUNKS_MISSING = _code("CHUNKS_MISSING", "some layer is not written yet")
NOTICE_IN_USE = _code("NOTICE_IN_USE", "the notice was sent already")
NOT_IN_FLIGHT = _code("NOT_IN_FLIGHT", "the notice is not on its way")
NOT_TAKEN = _code("NOT_TAKEN", "the notice has not arrived before")
LATE_NOTICE = _code("LATE_NOTICE", "the notice is of an earlier attempt")
REPEATED_NOTICE = _code("REPEATED_NOTICE", "the attempt takes no notice any more")
EARLY_NOTICE = _code("EARLY_NOTICE", "nobody waits for the notice yet")
WAITER_REGISTERED = _code("WAITER_REGISTERED", "the end that waits was registered already")
NOBODY_WAITS = _code("NOBODY_WAITS", "no end is registered that a timeout or a cancel could reach")
NOT_RUNNING = _code("NOT_RUNNING", "the transfer does not run")
NOT_FAILED = _code("NOT_FAILED", "the transfer was not given up")
STILL_PUSHING = _code("STILL_PUSHING", "the sender may still write to the target")
NOT_WRITTEN = _code("NOT_WRITTEN", "the transfer was not written completely")
OTHER_DIRECTION = _code("OTHER_DIRECTION", "the transfer goes the other way")
REQUEST_GONE = _code(
    "REQUEST_GONE", "the request that the load serves has ended", FailureClass.SNAPSHOT
)
ROWS_ARRIVING = _code(
    "ROWS_ARRIVING", "rows of the request are still being loaded", FailureClass.FRONTIER
)
NOT_OWNED = _code("NOT_OWNED", "the request has no claim on the block", FailureClass.OWNERSHIP)
BLOCK_PINNED = _code("BLOCK_PINNED", "a transfer pins the block", FailureClass.OWNERSHIP)
BLOCK_READ = _code("BLOCK_READ", "an open append reads the block", FailureClass.OWNERSHIP)
ENTRY_PINNED = _code("ENTRY_PINNED", "a transfer pins the entry", FailureClass.OWNERSHIP)

transfer = Module(
    "transfer",
    "Loads and stores as transactions between two ends.",
    uses=(handles, prefix, append, lifecycle),
)

stage = transfer.variable(
    "stage", Transfer, to=Stage, init=Stage.IDLE, meaning="where the transfer is"
)
attempt = transfer.variable(
    "attempt", Transfer, to=Attempt, init=0, meaning="number of its last attempt"
)
direction = transfer.variable(
    "direction", Transfer, to=Direction, init=Direction.LOAD, meaning="which way it goes"
)
serves = transfer.variable(
    "serves", Transfer, to=Option[Handle], init=none(Handle), meaning="handle that it serves"
)
serves_generation = transfer.variable(
    "serves_generation", Transfer, to=Generation, init=0, meaning="incarnation that it serves"
)
block = transfer.variable(
    "block", Transfer, to=Option[Block], init=none(Block), meaning="its end on the device"
)
entry = transfer.variable(
    "entry", Transfer, to=Option[Entry], init=none(Entry), meaning="its end in the tier"
)
block_pin = transfer.variable(
    "block_pin", Transfer, to=Bool, init=False, meaning="it pins its block"
)
entry_pin = transfer.variable(
    "entry_pin", Transfer, to=Bool, init=False, meaning="it pins its entry"
)
waiter = transfer.variable(
    "waiter", Transfer, to=Waiter, init=Waiter.ABSENT, meaning="the end that waits for it"
)
remembered = transfer.variable(
    "remembered", Transfer, to=Bool, init=False, meaning="its report came before anybody waited"
)
sender = transfer.variable(
    "sender", Transfer, to=Sender, init=Sender.QUIET, meaning="what its sender does"
)
landed = transfer.variable(
    "landed", Transfer, Layer, to=Bool, init=False, meaning="the sender has written the layer"
)
base_fill = transfer.variable(
    "base_fill", Transfer, to=Fill, init=0, meaning="filling of its block that it is about"
)
fill = transfer.variable(
    "fill", Block, to=Fill, init=0, meaning="times that the block was given to a new request"
)
arriving = transfer.variable(
    "arriving", Block, to=Bool, init=False, meaning="readiness flag: rows are still being loaded"
)
content = transfer.variable(
    "content",
    Block,
    Layer,
    to=Content,
    init=Content.NOTHING,
    meaning="what a reader would find in the block",
)
entry_state = transfer.variable(
    "entry_state",
    Entry,
    to=EntryState,
    init=EntryState.ABSENT,
    meaning="what a lookup finds",
)
kept = transfer.variable(
    "kept",
    Entry,
    Layer,
    to=Content,
    init=Content.NOTHING,
    meaning="what a load would find in the entry",
)
notice_state = transfer.variable(
    "notice_state", Notice, to=NoticeState, init=NoticeState.UNUSED, meaning="where the notice is"
)
notice_of = transfer.variable(
    "notice_of",
    Notice,
    to=Option[Transfer],
    init=none(Transfer),
    meaning="transfer that it reports",
)
notice_attempt = transfer.variable(
    "notice_attempt", Notice, to=Attempt, init=0, meaning="attempt that it reports"
)


def is_over(t: Expr) -> Expr:
    """No attempt of the transfer is under way."""
    return one_of(stage[t], Stage.IDLE, Stage.VISIBLE, Stage.DRAINED)


def is_load(t: Expr) -> Expr:
    """The transfer brings rows to a block."""
    return direction[t] == Direction.LOAD


def serves_a_ready_request(t: Expr) -> Expr:
    """The incarnation that asked for the transfer is still generating."""
    h = the(serves[t])
    return (generation[h] == serves_generation[t]) & (phase[h] == Phase.DECODE_READY)


def pins_block(t: Expr, b: Expr) -> Expr:
    """The transfer pins that block."""
    return block_pin[t] & (block[t] == b)


def pins_entry(t: Expr, e: Expr) -> Expr:
    """The transfer pins that entry."""
    return entry_pin[t] & (entry[t] == e)


def is_complete(t: Expr) -> Expr:
    """The sender has written every layer."""
    return forall(Layer, lambda l: landed[t, l])


def _queue(step: Step, t: Expr, h: Expr, b: Expr, e: Expr, way: Expr) -> None:
    """A new attempt, with both ends pinned and nothing written."""
    step.assign(stage[t], Stage.QUEUED)
    step.assign(attempt[t], attempt[t] + 1)
    step.assign(direction[t], way)
    step.assign(serves[t], h)
    step.assign(serves_generation[t], generation[h])
    step.assign(block[t], b)
    step.assign(entry[t], e)
    step.assign(block_pin[t], True)
    step.assign(entry_pin[t], True)
    step.assign(waiter[t], Waiter.ABSENT)
    step.assign(remembered[t], False)
    step.assign(base_fill[t], fill[b])
    for layer in step.every(Layer):
        step.assign(landed[t, layer], False)


def _end(step: Step, t: Expr, end: Expr) -> None:
    """The attempt is over: both pins are dropped, and an entry that was not filled is given back."""
    step.assign(stage[t], end)
    step.assign(block_pin[t], False)
    step.assign(entry_pin[t], False)


def _give_back_entry(step: Step, t: Expr) -> None:
    e = the(entry[t])
    step.assign(entry_state[e], where(is_load(t), entry_state[e], EntryState.ABSENT))
    for layer in step.every(Layer):
        step.assign(kept[e, layer], where(is_load(t), kept[e, layer], Content.NOTHING))


@transfer.action
def queue_load(step: Step, t: Transfer, h: Handle, b: Block, e: Entry) -> None:
    """Queue a load of an entry that a lookup finds into a block that nobody reads."""
    step.require(is_over(t), TRANSFER_IN_USE)
    step.require(entry_state[e] == EntryState.VISIBLE, ENTRY_NOT_VISIBLE)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(owner[b, h], NOT_OWNED)
    step.require(forall(Transfer, lambda s: ~pins_block(s, b)), BLOCK_PINNED)
    step.require(forall(Txn, lambda x: implies(is_live(x), ~owner[b, the(target[x])])), BLOCK_READ)
    _queue(step, t, h, b, e, Direction.LOAD)
    step.assign(arriving[b], True)
    for layer in step.every(Layer):
        step.assign(content[b, layer], Content.NOTHING)


@transfer.action
def queue_store(step: Step, t: Transfer, h: Handle, b: Block, e: Entry) -> None:
    """Queue a store of a block into an entry that is reserved for it; the block's own load must be done."""
    step.require(is_over(t), TRANSFER_IN_USE)
    step.require(entry_state[e] == EntryState.ABSENT, ENTRY_IN_USE)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~arriving[b], ROWS_ARRIVING)
    step.require(owner[b, h], NOT_OWNED)
    _queue(step, t, h, b, e, Direction.STORE)
    step.assign(entry_state[e], EntryState.RESERVED)


@transfer.action
def cancel(step: Step, t: Transfer) -> None:
    """Cancel a queued transfer at once; who waits for it is sent away."""
    step.require(stage[t] == Stage.QUEUED, CANCEL_UNSAFE)
    _end(step, t, Stage.DRAINED)
    step.assign(waiter[t], Waiter.CLOSED)
    _give_back_entry(step, t)


@transfer.action
def push(step: Step, t: Transfer) -> None:
    """The sender begins to write to the target."""
    step.require(stage[t] == Stage.QUEUED, NOT_QUEUED)
    step.assign(stage[t], Stage.RUNNING)
    step.assign(sender[t], Sender.PUSHING)


@transfer.action
def land(step: Step, t: Transfer, l: Layer) -> None:
    """A layer arrives at the target, whatever became of it meanwhile."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.require(~landed[t, l], CHUNK_WRITTEN)
    b, e = the(block[t]), the(entry[t])
    read = where(is_load(t), kept[e, l], content[b, l])
    written = where(base_fill[t] == fill[b], read, Content.FOREIGN)
    step.assign(landed[t, l], True)
    step.assign(content[b, l], where(is_load(t), written, content[b, l]))
    step.assign(kept[e, l], where(is_load(t), kept[e, l], written))


@transfer.action
def report(step: Step, t: Transfer, n: Notice) -> None:
    """The sender has written all, and sends a notice with the number of its attempt."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.require(is_complete(t), CHUNKS_MISSING)
    step.require(notice_state[n] == NoticeState.UNUSED, NOTICE_IN_USE)
    step.assign(sender[t], Sender.QUIET)
    step.assign(notice_state[n], NoticeState.IN_FLIGHT)
    step.assign(notice_of[n], t)
    step.assign(notice_attempt[n], attempt[t])


@transfer.action
def crash(step: Step, t: Transfer) -> None:
    """The sender dies while it writes: no more layers, and no notice."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.assign(sender[t], Sender.DEAD)


@transfer.action
def lose(step: Step, n: Notice) -> None:
    """A notice is lost on its way."""
    step.require(notice_state[n] == NoticeState.IN_FLIGHT, NOT_IN_FLIGHT)
    step.assign(notice_state[n], NoticeState.LOST)


@transfer.action
def repeat(step: Step, n: Notice) -> None:
    """A notice that has arrived is on its way a second time."""
    step.require(notice_state[n] == NoticeState.TAKEN, NOT_TAKEN)
    step.assign(notice_state[n], NoticeState.IN_FLIGHT)


@transfer.action
def register(step: Step, t: Transfer) -> None:
    """The end that waits registers; a report that came before is found then."""
    step.require(one_of(stage[t], Stage.QUEUED, Stage.RUNNING), NOT_RUNNING)
    step.require(waiter[t] == Waiter.ABSENT, WAITER_REGISTERED)
    step.assign(waiter[t], Waiter.WAITING)
    step.assign(stage[t], where(remembered[t], Stage.WRITTEN, stage[t]))


@transfer.action
def deliver(step: Step, n: Notice) -> None:
    """A notice ends the writing of the attempt that it reports; late and repeated ones do nothing."""
    t = the(notice_of[n])

    def take(effect: Step) -> None:
        effect.assign(notice_state[n], NoticeState.TAKEN)

    def remember(effect: Step) -> None:
        take(effect)
        effect.assign(remembered[t], True)

    step.require(notice_state[n] == NoticeState.IN_FLIGHT, NOT_IN_FLIGHT)
    step.require(notice_attempt[n] == attempt[t], LATE_NOTICE, refused=take)
    step.require(stage[t] == Stage.RUNNING, REPEATED_NOTICE, refused=take)
    step.require(waiter[t] == Waiter.WAITING, EARLY_NOTICE, refused=remember)
    take(step)
    step.assign(stage[t], Stage.WRITTEN)


@transfer.action
def give_up(step: Step, t: Transfer) -> None:
    """A cancel or a timeout ends a running transfer: the abort is sent, and both ends stay pinned."""
    step.require(stage[t] == Stage.RUNNING, NOT_RUNNING)
    step.require(waiter[t] == Waiter.WAITING, NOBODY_WAITS)
    step.assign(stage[t], Stage.FAILED)


@transfer.action
def acknowledge_abort(step: Step, t: Transfer) -> None:
    """The sender of a transfer that was given up stops writing, and says so."""
    step.require(stage[t] == Stage.FAILED, NOT_FAILED)
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.assign(sender[t], Sender.QUIET)


@transfer.action
def drain(step: Step, t: Transfer) -> None:
    """Drop the pins of a transfer that was given up, once nothing is written for it any more."""
    step.require(stage[t] == Stage.FAILED, NOT_FAILED)
    step.require(sender[t] != Sender.PUSHING, STILL_PUSHING)
    _end(step, t, Stage.DRAINED)
    _give_back_entry(step, t)


@transfer.action
def admit_rows(step: Step, t: Transfer) -> None:
    """Rows that a load has written become readable to the request that asked for them, and to no other."""

    def reject(effect: Step) -> None:
        _end(effect, t, Stage.DRAINED)

    step.require(stage[t] == Stage.WRITTEN, NOT_WRITTEN)
    step.require(is_load(t), OTHER_DIRECTION)
    step.require(serves_a_ready_request(t), REQUEST_GONE, refused=reject)
    _end(step, t, Stage.VISIBLE)
    step.assign(arriving[the(block[t])], False)


@transfer.action
def list_entry(step: Step, t: Transfer) -> None:
    """Lookups find an entry from when its store was written; its request may have ended."""
    step.require(stage[t] == Stage.WRITTEN, NOT_WRITTEN)
    step.require(~is_load(t), OTHER_DIRECTION)
    _end(step, t, Stage.VISIBLE)
    step.assign(entry_state[the(entry[t])], EntryState.VISIBLE)


@transfer.action
def place(step: Step, e: Entry) -> None:
    """Another worker fills an entry of the tier."""
    step.require(entry_state[e] == EntryState.ABSENT, ENTRY_IN_USE)
    step.assign(entry_state[e], EntryState.VISIBLE)
    for layer in step.every(Layer):
        step.assign(kept[e, layer], Content.ROWS)


@transfer.action
def drop(step: Step, e: Entry) -> None:
    """The tier gives up an entry that no transfer pins."""
    step.require(entry_state[e] == EntryState.VISIBLE, ENTRY_NOT_VISIBLE)
    step.require(forall(Transfer, lambda t: ~pins_entry(t, e)), ENTRY_PINNED)
    step.assign(entry_state[e], EntryState.ABSENT)
    for layer in step.every(Layer):
        step.assign(kept[e, layer], Content.NOTHING)


@transfer.extend(evict)
def keep_pinned_blocks(step: Step, b: Block) -> None:
    """A pinned block is not freed, though nobody owns it."""
    step.require(forall(Transfer, lambda t: ~pins_block(t, b)), BLOCK_PINNED)


@transfer.observe(allocate)
def fill_a_block(step: Step, b: Block) -> None:
    """The rows of a new request are its own, and the block is another one to transfers."""
    step.assign(fill[b], fill[b] + 1)
    step.assign(arriving[b], False)
    for layer in step.every(Layer):
        step.assign(content[b, layer], Content.ROWS)


@transfer.extend(begin)
def read_loaded_rows(step: Step, h: Handle) -> None:
    """An append computes on rows that are there."""
    step.require(forall(Block, lambda b: implies(owner[b, h], ~arriving[b])), ROWS_ARRIVING)


system = System.of(
    "transfer",
    "The core, an outer tier, and the transfers between them.",
    *core.system.modules,
    transfer,
)


@limit(queue_load)
def loads_below_the_last_attempt(t: Transfer) -> Expr:
    """A load is one attempt more."""
    return attempt[t] < Attempt.top


@limit(queue_store)
def stores_below_the_last_attempt(t: Transfer) -> Expr:
    """A store is one attempt more."""
    return attempt[t] < Attempt.top


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    generations: int = 1,
    txns: int = 0,
    blocks: int = 1,
    layers: int = 1,
    transfers: int = 1,
    entries: int = 1,
    notices: int = 1,
    attempts: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance with rows of length 1, without a batch."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        generations=generations,
        txns=txns,
        blocks=blocks,
        layers=layers,
        more={
            Transfer: transfers,
            Entry: entries,
            Notice: notices,
            Attempt: attempts,
            Fill: handles * generations,
        },
        expected=expected,
    )
    limits = (*made.limits, loads_below_the_last_attempt, stores_below_the_last_attempt)
    return attrs.evolve(made, limits=limits)


ONE_TRY = make_instance("ONE_TRY", "one attempt to load or to store, and a request after it")

INSTANCES = (ONE_TRY,)
