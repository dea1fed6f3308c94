"""Transfers: blocks are loaded from and stored to an outer tier, each time as a transaction of two ends.

Modelled: a transfer serves one incarnation of a request, and each try has an attempt number of its own. It
pins its source and its target from the beginning: the block of the device, and the entry of the tier (a host
pool, a remote store, a prefill worker). While it is queued it is cancelled at once. Once bytes move, the
sender has a lease to write, which the receiving end renews until it gives the transfer up. Giving up only
sends the abort: the sender may still write, and nobody here can tell whether it is slow or dead. The pins are
dropped when the sender's word has come that it writes no more, or else when its lease has ended, from when
on the target refuses what it writes. That word is a notice on a channel that may lose, delay and repeat it:
to who waits, it says that all is written. It can come before the end that waits is registered (then it is
remembered), after the attempt was given up, or twice. Rows are readable, and entries found, only when all
layers were written and that was reported. A load goes into a block that one request owns and that has none
of its committed rows; if it is cancelled or fails, the request computes the rows itself, or a load is queued
again.
Environment: a sender that stalls or crashes, a notice that is lost, late or there again, a timeout, a client
that goes away, other workers that fill the tier.
Left out: what an entry is the rows of (`index`), tokens and schemas of a hand-off (`handoff`), bandwidth.
Assumed: every write is held against the lease of its attempt where it arrives. A sender that is asked for a
new attempt works no more on the one before. A block that is allocated has the rows of its prompt at once.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, begin, is_live, target
from kvspec.spec.failures import HANDLE_TERMINAL
from kvspec.spec.handles import Handle, Layer, Phase, generation, length, phase
from kvspec.spec.language import (
    Counts,
    Expr,
    Instance,
    Step,
    System,
    forall,
    implies,
    limit,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import allocate
from kvspec.spec.prefix import Block, evict, owner
from kvspec.spec.transfer_record import (
    BLOCK_PINNED,
    BLOCK_READ,
    BLOCK_SHARED,
    CANCEL_UNSAFE,
    CHUNKS_MISSING,
    EARLY_NOTICE,
    ENTRY_IN_USE,
    ENTRY_NOT_VISIBLE,
    ENTRY_PINNED,
    LATE_NOTICE,
    LEASE_ENDED,
    NO_END_WAITS,
    NO_LEASE,
    NOT_OWNED,
    NOT_PUSHING,
    NOT_TAKEN,
    NOT_WRITTEN,
    NOTICE_IN_USE,
    NOTICE_NOT_IN_FLIGHT,
    OTHER_DIRECTION,
    REPEATED_NOTICE,
    REQUEST_GONE,
    ROWS_ARRIVING,
    ROWS_COMMITTED,
    ROWS_NOT_MISSING,
    STILL_PUSHING,
    TRANSFER_IN_USE,
    TRANSFER_NOT_GIVEN_UP,
    TRANSFER_NOT_QUEUED,
    TRANSFER_NOT_RUNNING,
    WAITER_REGISTERED,
    Attempt,
    Content,
    Direction,
    Entry,
    EntryState,
    Fill,
    Lease,
    Notice,
    NoticeState,
    Sender,
    Stage,
    Transfer,
    Waiter,
    arriving,
    attempt,
    base_fill,
    block,
    block_pin,
    content,
    direction,
    entry,
    entry_pin,
    entry_state,
    fill,
    is_complete,
    is_load,
    is_over,
    kept,
    landed,
    lease,
    notice_attempt,
    notice_of,
    notice_state,
    pins_block,
    pins_entry,
    remembered,
    sender,
    serves,
    serves_a_ready_request,
    serves_generation,
    stage,
    transfer,
    waiter,
)


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
    step.assign(sender[t], Sender.QUIET)
    step.assign(lease[t], Lease.ENDED)
    step.assign(base_fill[t], fill[b])
    for layer in step.every(Layer):
        step.assign(landed[t, layer], False)


def _end(step: Step, t: Expr, end: Expr) -> None:
    """The attempt is over, and both pins are dropped."""
    step.assign(stage[t], end)
    step.assign(block_pin[t], False)
    step.assign(entry_pin[t], False)


def _give_back_entry(step: Step, t: Expr) -> None:
    """An entry that a store reserved can be used again."""
    e = the(entry[t])
    step.assign(entry_state[e], where(is_load(t), entry_state[e], EntryState.ABSENT))


def _give_word(step: Step, t: Expr, n: Expr) -> None:
    """The sender writes no more, and sends a notice of that with the number of its attempt."""
    step.assign(sender[t], Sender.QUIET)
    step.assign(notice_state[n], NoticeState.IN_FLIGHT)
    step.assign(notice_of[n], t)
    step.assign(notice_attempt[n], attempt[t])


@transfer.action
def queue_load(step: Step, t: Transfer, h: Handle, b: Block, e: Entry) -> None:
    """Queue a load of an entry that a lookup finds into a block of one request that nobody reads."""
    step.require(is_over(t), TRANSFER_IN_USE)
    step.require(entry_state[e] == EntryState.VISIBLE, ENTRY_NOT_VISIBLE)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(length[h] == 0, ROWS_COMMITTED)
    step.require(owner[b, h], NOT_OWNED)
    step.require(forall(Handle, lambda g: implies(owner[b, g], g == h)), BLOCK_SHARED)
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
    """The sender has a lease to write to the target, and begins."""
    step.require(stage[t] == Stage.QUEUED, TRANSFER_NOT_QUEUED)
    step.assign(stage[t], Stage.RUNNING)
    step.assign(sender[t], Sender.PUSHING)
    step.assign(lease[t], Lease.HELD)


@transfer.action
def land(step: Step, t: Transfer, l: Layer) -> None:
    """A layer arrives at the target, whatever became of it meanwhile; it may arrive again."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.require(lease[t] != Lease.ENDED, LEASE_ENDED)
    b, e = the(block[t]), the(entry[t])
    own = base_fill[t] == fill[b]
    arrived = where(kept[e, l], Content.ROWS, Content.NOTHING)
    step.assign(landed[t, l], True)
    step.assign(
        content[b, l], where(is_load(t), where(own, arrived, Content.FOREIGN), content[b, l])
    )
    step.assign(kept[e, l], where(is_load(t), kept[e, l], own & (content[b, l] == Content.ROWS)))


@transfer.action
def report(step: Step, t: Transfer, n: Notice) -> None:
    """The sender has written all, and says so."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.require(is_complete(t), CHUNKS_MISSING)
    step.require(notice_state[n] == NoticeState.UNUSED, NOTICE_IN_USE)
    _give_word(step, t, n)


@transfer.action
def crash(step: Step, t: Transfer) -> None:
    """The sender dies while it writes: no more layers, and no notice; nobody else sees it."""
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.assign(sender[t], Sender.DEAD)


@transfer.action
def lose(step: Step, n: Notice) -> None:
    """A notice is lost on its way."""
    step.require(notice_state[n] == NoticeState.IN_FLIGHT, NOTICE_NOT_IN_FLIGHT)
    step.assign(notice_state[n], NoticeState.LOST)


@transfer.action
def repeat(step: Step, n: Notice) -> None:
    """A notice that has arrived is on its way a second time."""
    step.require(notice_state[n] == NoticeState.TAKEN, NOT_TAKEN)
    step.assign(notice_state[n], NoticeState.IN_FLIGHT)


@transfer.action
def register(step: Step, t: Transfer) -> None:
    """The end that waits registers; a report that came before is found then."""
    step.require(one_of(stage[t], Stage.QUEUED, Stage.RUNNING), TRANSFER_NOT_RUNNING)
    step.require(waiter[t] == Waiter.ABSENT, WAITER_REGISTERED)
    step.assign(waiter[t], Waiter.WAITING)
    step.assign(stage[t], where(remembered[t], Stage.WRITTEN, stage[t]))
    step.assign(lease[t], where(remembered[t], Lease.RETURNED, lease[t]))


@transfer.action
def deliver(step: Step, n: Notice) -> None:
    """The sender's word returns its lease, and ends the writing; late and repeated ones do nothing."""
    t = the(notice_of[n])

    def take(effect: Step) -> None:
        effect.assign(notice_state[n], NoticeState.TAKEN)

    def remember(effect: Step) -> None:
        take(effect)
        effect.assign(remembered[t], True)

    step.require(notice_state[n] == NoticeState.IN_FLIGHT, NOTICE_NOT_IN_FLIGHT)
    step.require(notice_attempt[n] == attempt[t], LATE_NOTICE, refused=take)
    step.require(lease[t] == Lease.HELD, REPEATED_NOTICE, refused=take)
    step.require(waiter[t] == Waiter.WAITING, EARLY_NOTICE, refused=remember)
    take(step)
    step.assign(lease[t], Lease.RETURNED)
    step.assign(stage[t], where(stage[t] == Stage.RUNNING, Stage.WRITTEN, stage[t]))


@transfer.action
def give_up(step: Step, t: Transfer) -> None:
    """A cancel or a timeout ends a running transfer: the abort is sent, and both ends stay pinned."""
    step.require(stage[t] == Stage.RUNNING, TRANSFER_NOT_RUNNING)
    step.require(waiter[t] == Waiter.WAITING, NO_END_WAITS)
    step.assign(stage[t], Stage.FAILED)


@transfer.action
def acknowledge_abort(step: Step, t: Transfer, n: Notice) -> None:
    """The sender of a transfer that was given up stops writing, and says so."""
    step.require(stage[t] == Stage.FAILED, TRANSFER_NOT_GIVEN_UP)
    step.require(sender[t] == Sender.PUSHING, NOT_PUSHING)
    step.require(notice_state[n] == NoticeState.UNUSED, NOTICE_IN_USE)
    _give_word(step, t, n)


@transfer.action
def end_lease(step: Step, t: Transfer) -> None:
    """The lease of a transfer that was given up runs out: the target takes nothing from its sender."""
    step.require(stage[t] == Stage.FAILED, TRANSFER_NOT_GIVEN_UP)
    step.require(lease[t] == Lease.HELD, NO_LEASE)
    step.assign(lease[t], Lease.ENDED)


@transfer.action
def drain(step: Step, t: Transfer) -> None:
    """Drop the pins of a transfer that was given up, once the sender has no lease any more."""
    step.require(stage[t] == Stage.FAILED, TRANSFER_NOT_GIVEN_UP)
    step.require(lease[t] != Lease.HELD, STILL_PUSHING)
    e = the(entry[t])
    _end(step, t, Stage.DRAINED)
    _give_back_entry(step, t)
    for layer in step.every(Layer):
        step.assign(kept[e, layer], where(is_load(t), kept[e, layer], False))


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
def recompute(step: Step, h: Handle, b: Block) -> None:
    """A request whose load came to nothing computes the rows itself."""
    step.require(arriving[b], ROWS_NOT_MISSING)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(owner[b, h], NOT_OWNED)
    step.require(forall(Transfer, lambda t: ~pins_block(t, b)), BLOCK_PINNED)
    step.assign(arriving[b], False)
    for layer in step.every(Layer):
        step.assign(content[b, layer], Content.ROWS)


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
        step.assign(kept[e, layer], True)


@transfer.action
def drop(step: Step, e: Entry) -> None:
    """The tier gives up an entry that no transfer pins."""
    step.require(entry_state[e] == EntryState.VISIBLE, ENTRY_NOT_VISIBLE)
    step.require(forall(Transfer, lambda t: ~pins_entry(t, e)), ENTRY_PINNED)
    step.assign(entry_state[e], EntryState.ABSENT)
    for layer in step.every(Layer):
        step.assign(kept[e, layer], False)


@transfer.extend(evict)
def keep_pinned_blocks(step: Step, b: Block) -> None:
    """A pinned block is not freed, though nobody owns it; what is left in a freed one is nobody's."""
    step.require(forall(Transfer, lambda t: ~pins_block(t, b)), BLOCK_PINNED)
    for layer in step.every(Layer):
        step.assign(content[b, layer], Content.FOREIGN)


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
    return core.make_instance(
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
        limits=(loads_below_the_last_attempt, stores_below_the_last_attempt),
        expected=expected,
    )


TRIES = make_instance(
    "TRIES",
    "one request, two attempts, two entries",
    entries=2,
    attempts=2,
    expected=Counts(23_580, 127_500, 25, 0),
)
LAYERS = make_instance(
    "LAYERS",
    "one request, one attempt, two layers",
    layers=2,
    expected=Counts(3_554, 14_796, 19, 0),
)
CHOICE = make_instance(
    "CHOICE",
    "two requests one after the other, two attempts, two blocks to choose from, no notice",
    generations=2,
    blocks=2,
    attempts=2,
    notices=0,
    expected=Counts(17_722, 74_532, 26, 0),
)
APPENDS = make_instance(
    "APPENDS",
    "one request, one append, one attempt",
    txns=1,
    expected=Counts(12_722, 69_358, 23, 0),
)
FORKS = make_instance(
    "FORKS",
    "a request and its fork, one attempt, no notice",
    handles=2,
    notices=0,
    expected=Counts(18_434, 84_896, 21, 0),
)
RIVALS = make_instance(
    "RIVALS",
    "two transfers of one block and one entry, no notice",
    transfers=2,
    notices=0,
    expected=Counts(10_650, 45_210, 24, 0),
)

INSTANCES = (TRIES, LAYERS, CHOICE, APPENDS, FORKS, RIVALS)
