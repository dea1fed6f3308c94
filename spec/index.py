"""The prefix index apart from ownership: entries over physical blocks, their readers, epochs and repair.

An entry stands for the rows of one block and says what they are: content, ABI, and the epochs of memory and
weights in which they were written. A request that publishes its block to the index passes it on: the index
has a claim of its own, and what the request does later (retract, abort, finish) frees nothing that is
indexed: a request in prefill that is aborted leaves the chunk that it published. A request that matches an
entry reads the block as its prefix. An entry goes from RESERVED (its rows are loaded) to COMPLETE, and from
either to WITHDRAWN, which nobody matches; the block is given up once nobody reads it. Repair is a
withdrawal and then a load anew, never into rows that somebody reads. A request that reads rows which were
found corrupt goes no further: it has no children, and its appends are rejected. Loads come from a tier whose
rows are of an epoch of weights of their own: what a load brings is settled when it starts, and a tier of
replaced weights is not loaded from until it is filled anew.

Modelled: requests that are aborted at any moment, loads that fail, rows found corrupt, sleep (memory is
dropped) and wake, new weights. `content`, `content_abi`, `content_weights` and `coming` are ghosts: what the
rows of a block, or those that a load brings, really are, which no guard can see. Content is all that tells
rows apart beside ABI and epochs (see `identity`). The block of a request is filled with its first chunk at
allocate, as in the core, and appends are the chunks after it.
Left out: several blocks to a prompt and the tree over them, which rows the tier has beside their weights,
how many rows of a block are written, which entry is withdrawn when room is short.
Assumed: memory is dropped and weights change when no request holds rows.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, TxnState, discard, publish, target
from kvspec.spec.failures import ABI_MISMATCH, BLOCK_IN_USE, HANDLE_TERMINAL
from kvspec.spec.handles import Abi, Handle, Phase, abi, phase
from kvspec.spec.index_entries import (
    ASLEEP,
    BLOCK_INDEXED,
    LOADS_UNDER_WAY,
    NOT_ASLEEP,
    NOT_COMPLETE,
    NOT_OWNER,
    NOT_RESERVED,
    NOT_WITHDRAWN,
    OTHER_CONTENT,
    READS_CORRUPT,
    REQUESTS_HELD,
    STALE_MEMORY,
    STALE_TIER,
    STALE_WEIGHTS,
    STILL_INDEXED,
    STILL_READ,
    TIER_CURRENT,
    Content,
    EntryState,
    Epoch,
    asleep,
    coming,
    content,
    content_abi,
    content_weights,
    corrupt,
    entry,
    entry_abi,
    entry_key,
    entry_memory,
    entry_weights,
    has_reader,
    index,
    kept,
    memory,
    nobody_holds_rows,
    prompt,
    reader,
    reads_corrupt,
    tier_weights,
    weights,
)
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Instance,
    Map,
    Step,
    System,
    forall,
    limit,
    none,
    the,
    where,
)
from kvspec.spec.lifecycle import allocate, fork, release
from kvspec.spec.prefix import Block, evict, filled, owner


@index.extend(allocate)
def ask(step: Step, h: Handle, b: Block, a: Abi, c: Content) -> None:
    """The request fills its block with rows of its prompt."""
    step.require(~asleep[()], ASLEEP)
    step.assign(prompt[h], c)
    step.assign(content[b], c)
    step.assign(content_abi[b], a)
    step.assign(content_weights[b], weights[()])


@index.extend(fork)
def read_as_the_parent(step: Step, p: Handle, children: Map[Handle, Bool]) -> None:
    """A child has the parent's prompt and reads what the parent reads, and that is not corrupt."""
    step.require(~reads_corrupt(p), READS_CORRUPT)
    for c in step.every(Handle):
        step.assign(prompt[c], where(children[c], prompt[p], prompt[c]))
        for b in step.every(Block):
            step.assign(reader[b, c], where(children[c], reader[b, p], reader[b, c]))


@index.extend(publish)
def compute_over_sound_rows(step: Step, x: Txn) -> None:
    """Rows that were computed over a block found corrupt are never published."""

    def reject(effect: Step) -> None:
        discard(effect, x, TxnState.REJECTED)

    step.require(~reads_corrupt(the(target[x])), READS_CORRUPT, refused=reject)


@index.observe(release)
def stop_reading(step: Step, h: Handle) -> None:
    """A released request reads nothing."""
    step.assign(prompt[h], none(Content))
    for b in step.every(Block):
        step.assign(reader[b, h], False)


@index.extend(evict)
def spare_what_is_indexed(step: Step, b: Block) -> None:
    """What the index has a claim on is not free."""
    step.require(~kept[b], STILL_INDEXED)


@index.action
def index_rows(step: Step, h: Handle, b: Block) -> None:
    """Publish a block of a ready request to the index, which has a claim on it from then on."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(entry[b] == EntryState.ABSENT, BLOCK_INDEXED)
    step.require(owner[b, h], NOT_OWNER)
    step.assign(entry[b], EntryState.COMPLETE)
    step.assign(entry_key[b], prompt[h])
    step.assign(entry_abi[b], abi[h])
    step.assign(entry_memory[b], memory[()])
    step.assign(entry_weights[b], weights[()])
    step.assign(kept[b], True)
    for g in step.every(Handle):
        step.assign(reader[b, g], owner[b, g])


@index.action
def match(step: Step, h: Handle, b: Block) -> None:
    """Read a complete entry as prefix: its content, ABI and epochs are those that the request needs."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(entry[b] == EntryState.COMPLETE, NOT_COMPLETE)
    step.require(entry_key[b] == prompt[h], OTHER_CONTENT)
    step.require(entry_abi[b] == abi[h], ABI_MISMATCH)
    step.require(entry_memory[b] == memory[()], STALE_MEMORY)
    step.require(entry_weights[b] == weights[()], STALE_WEIGHTS)
    step.assign(reader[b, h], True)


def _start_load(step: Step, b: Expr, c: Expr) -> None:
    """What a load brings is what the tier has then; what the block had before is gone."""
    step.assign(content[b], none(Content))
    step.assign(coming[b], c)
    step.assign(content_weights[b], tier_weights[()])


@index.action
def reserve(step: Step, b: Block, c: Content, a: Abi) -> None:
    """Begin to load the tier's rows of a content into an empty block; nobody matches them yet."""
    step.require(~asleep[()], ASLEEP)
    step.require(tier_weights[()] == weights[()], STALE_TIER)
    step.require(~filled[b], BLOCK_IN_USE)
    step.assign(filled[b], True)
    step.assign(kept[b], True)
    step.assign(entry[b], EntryState.RESERVED)
    step.assign(entry_key[b], c)
    step.assign(entry_abi[b], a)
    step.assign(entry_memory[b], memory[()])
    step.assign(entry_weights[b], weights[()])
    step.assign(content_abi[b], a)
    _start_load(step, b, c)


@index.action
def complete(step: Step, b: Block) -> None:
    """All rows of a load are there; what they are was settled when it started."""
    step.require(entry[b] == EntryState.RESERVED, NOT_RESERVED)
    step.assign(entry[b], EntryState.COMPLETE)
    step.assign(content[b], coming[b])
    step.assign(coming[b], none(Content))


@index.action
def fail(step: Step, b: Block) -> None:
    """A load fails: its entry is withdrawn without ever having been complete."""
    step.require(entry[b] == EntryState.RESERVED, NOT_RESERVED)
    step.assign(entry[b], EntryState.WITHDRAWN)
    step.assign(coming[b], none(Content))


@index.action
def withdraw(step: Step, b: Block) -> None:
    """Let nobody match an entry any more, for room or since it is stale; who reads it reads on."""
    step.require(entry[b] == EntryState.COMPLETE, NOT_COMPLETE)
    step.assign(entry[b], EntryState.WITHDRAWN)


@index.action
def find_corrupt(step: Step, b: Block) -> None:
    """The rows of a complete entry are found corrupt, and it is withdrawn."""
    step.require(entry[b] == EntryState.COMPLETE, NOT_COMPLETE)
    step.assign(entry[b], EntryState.WITHDRAWN)
    step.assign(corrupt[b], True)
    step.assign(content[b], none(Content))


@index.action
def reload(step: Step, b: Block) -> None:
    """Load the rows of a withdrawn entry anew into its block, once nobody reads it."""
    step.require(~asleep[()], ASLEEP)
    step.require(entry[b] == EntryState.WITHDRAWN, NOT_WITHDRAWN)
    step.require(tier_weights[()] == weights[()], STALE_TIER)
    step.require(~has_reader(b), STILL_READ)
    step.assign(entry[b], EntryState.RESERVED)
    step.assign(entry_memory[b], memory[()])
    step.assign(entry_weights[b], weights[()])
    step.assign(corrupt[b], False)
    _start_load(step, b, entry_key[b])


@index.action
def give_up(step: Step, b: Block) -> None:
    """Forget a withdrawn entry that nobody reads; the block can then be evicted."""
    step.require(entry[b] == EntryState.WITHDRAWN, NOT_WITHDRAWN)
    step.require(~has_reader(b), STILL_READ)
    step.assign(entry[b], EntryState.ABSENT)
    step.assign(entry_key[b], none(Content))
    step.assign(entry_abi[b], none(Abi))
    step.assign(entry_memory[b], 0)
    step.assign(entry_weights[b], 0)
    step.assign(kept[b], False)
    step.assign(corrupt[b], False)


@index.action
def sleep(step: Step) -> None:
    """Drop the memory of all rows; entries stay, and are of an epoch that is over."""
    step.require(~asleep[()], ASLEEP)
    step.require(nobody_holds_rows(), REQUESTS_HELD)
    step.require(forall(Block, lambda b: entry[b] != EntryState.RESERVED), LOADS_UNDER_WAY)
    step.assign(asleep[()], True)
    step.assign(memory[()], memory[()] + 1)
    for b in step.every(Block):
        step.assign(content[b], none(Content))


@index.action
def wake(step: Step) -> None:
    """Have memory again, without rows."""
    step.require(asleep[()], NOT_ASLEEP)
    step.assign(asleep[()], False)


@index.action
def update_weights(step: Step) -> None:
    """Replace the weights: rows of the old ones are of no use, and the tier has no others yet."""
    step.require(nobody_holds_rows(), REQUESTS_HELD)
    step.assign(weights[()], weights[()] + 1)


@index.action
def refill(step: Step) -> None:
    """Fill the tier with rows that the weights in use compute."""
    step.require(tier_weights[()] != weights[()], TIER_CURRENT)
    step.assign(tier_weights[()], weights[()])


system = System.of(
    "index", "The core and a prefix index over its blocks.", *core.system.modules, index
)


@limit(sleep)
def sleeps_below_the_last_epoch() -> Expr:
    """Sleep needs one epoch more."""
    return memory[()] < Epoch.top


@limit(update_weights)
def updates_below_the_last_epoch() -> Expr:
    """New weights need one epoch more."""
    return weights[()] < Epoch.top


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    blocks: int = 1,
    contents: int = 1,
    abis: int = 1,
    epochs: int = 0,
    txns: int = 0,
    generations: int = 1,
    appends: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer without a batch; without transactions no request commits a row of its own.

    appends: how many appends a request can publish, one after the other, each of one row.
    """
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        abis=abis,
        blocks=blocks,
        longest=appends if txns else 0,
        versions=appends if txns else 0,
        generations=generations,
        more={Content: contents, Epoch: epochs},
        limits=(sleeps_below_the_last_epoch, updates_below_the_last_epoch),
        expected=expected,
    )


SLEPT = make_instance(
    "SLEPT",
    "one request, two blocks, a sleep and new weights",
    blocks=2,
    epochs=1,
    expected=Counts(6_207, 28_957, 15, 0),
)
KINDS = make_instance(
    "KINDS",
    "one request, two blocks, two contents, two ABIs",
    blocks=2,
    contents=2,
    abis=2,
    expected=Counts(6_721, 37_477, 14, 0),
)
SHARED = make_instance(
    "SHARED",
    "two requests and two blocks",
    handles=2,
    blocks=2,
    expected=Counts(6_709, 34_171, 14, 0),
)
NIGHTS = make_instance(
    "NIGHTS", "one request, one block, two sleeps", epochs=2, expected=Counts(1_398, 5_326, 14, 0)
)
APPENDED = make_instance(
    "APPENDED",
    "two requests in turn, each with two appends",
    txns=1,
    appends=2,
    generations=2,
    expected=Counts(7_855, 39_546, 25, 0),
)

INSTANCES = (SLEPT, KINDS, SHARED, NIGHTS, APPENDED)
