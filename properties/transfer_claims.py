"""Invariants of transfers: what is pinned, what is whole, and what a notice says."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, is_live
from kvspec.spec.handles import Handle, Layer, Phase, length, phase
from kvspec.spec.language import (
    Expr,
    Properties,
    exists,
    forall,
    implies,
    is_some,
    one_of,
    the,
)
from kvspec.spec.lifecycle import is_append_to
from kvspec.spec.prefix import Block, filled, owner
from kvspec.spec.transfer import system
from kvspec.spec.transfer_record import (
    Content,
    Entry,
    EntryState,
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
    stage,
    waiter,
)

transfer = Properties(system, given=core)


def reports(n: Expr, t: Expr) -> Expr:
    """The notice was sent for the attempt that the transfer has now."""
    return (
        (notice_state[n] != NoticeState.UNUSED)
        & (notice_of[n] == t)
        & (notice_attempt[n] == attempt[t])
    )


@transfer.invariant
def a_request_reads_whole_rows_of_its_own() -> Expr:
    """A block whose rows are not still being loaded has the rows of those who own it, in every layer."""
    return forall(
        Block,
        Handle,
        Layer,
        lambda b, h, l: implies(owner[b, h] & ~arriving[b], content[b, l] == Content.ROWS),
    )


@transfer.invariant
def committed_rows_are_in_their_block() -> Expr:
    """The block of a request that has committed rows has them in every layer."""
    return forall(
        Block,
        Handle,
        Layer,
        lambda b, h, l: implies(
            owner[b, h] & (length[h] != 0),
            content[b, l] == Content.ROWS,
        ),
    )


@transfer.lemma
def committed_rows_are_not_waited_for() -> Expr:
    """No load is under way to a block with committed rows, nor was one given up."""
    return forall(Block, Handle, lambda b, h: implies(owner[b, h] & (length[h] != 0), ~arriving[b]))


@transfer.invariant
def a_lookup_finds_whole_rows() -> Expr:
    """An entry that a lookup finds has rows in every layer."""
    return forall(
        Entry,
        Layer,
        lambda e, l: implies(entry_state[e] == EntryState.VISIBLE, kept[e, l]),
    )


@transfer.invariant
def nothing_is_written_to_what_is_not_pinned() -> Expr:
    """As long as a target takes what a sender writes, both ends of its transfer are pinned."""
    return forall(
        Transfer,
        lambda t: implies(
            (sender[t] == Sender.PUSHING) & (lease[t] != Lease.ENDED), block_pin[t] & entry_pin[t]
        ),
    )


@transfer.invariant
def who_gave_its_word_writes_nothing() -> Expr:
    """A sender that has returned its lease is quiet."""
    return forall(
        Transfer,
        lambda t: implies(~is_over(t) & (lease[t] == Lease.RETURNED), sender[t] == Sender.QUIET),
    )


@transfer.invariant
def a_sender_has_a_lease_as_long_as_its_transfer_runs() -> Expr:
    """A sender has a lease while its transfer runs, none before or after, and its word returns it."""
    return forall(
        Transfer,
        lambda t: (
            implies(stage[t] == Stage.RUNNING, lease[t] == Lease.HELD)
            & implies(stage[t] == Stage.QUEUED, lease[t] == Lease.ENDED)
            & implies(stage[t] == Stage.WRITTEN, lease[t] == Lease.RETURNED)
            & implies(is_over(t), lease[t] != Lease.HELD)
        ),
    )


@transfer.invariant
def a_transfer_under_way_pins_its_block() -> Expr:
    """From the queue to its outcome a transfer pins a block that holds rows, and has it for itself alone."""
    return forall(
        Transfer,
        lambda t: implies(
            ~is_over(t),
            block_pin[t]
            & is_some(block[t])
            & filled[the(block[t])]
            & (base_fill[t] == fill[the(block[t])]),
        ),
    )


@transfer.invariant
def a_transfer_under_way_pins_its_entry() -> Expr:
    """From the queue to its outcome a transfer pins an entry: one to be found or one that is reserved."""
    return forall(
        Transfer,
        lambda t: implies(
            ~is_over(t),
            entry_pin[t]
            & is_some(entry[t])
            & implies(is_load(t), entry_state[the(entry[t])] == EntryState.VISIBLE)
            & implies(~is_load(t), entry_state[the(entry[t])] == EntryState.RESERVED),
        ),
    )


@transfer.invariant
def a_transfer_that_is_over_pins_nothing() -> Expr:
    """With its outcome a transfer has dropped both pins."""
    return forall(Transfer, lambda t: implies(is_over(t), ~block_pin[t] & ~entry_pin[t]))


@transfer.invariant
def a_block_that_is_loaded_has_one_transfer() -> Expr:
    """Nobody else pins a block that a load writes to."""
    return forall(
        Transfer,
        Transfer,
        Block,
        lambda t, s, b: implies(
            pins_block(t, b) & is_load(t) & pins_block(s, b),
            s == t,
        ),
    )


@transfer.invariant
def an_entry_that_is_stored_has_one_transfer() -> Expr:
    """Nobody else pins an entry that a store writes to."""
    return forall(
        Transfer,
        Transfer,
        Entry,
        lambda t, s, e: implies(
            pins_entry(t, e) & ~is_load(t) & pins_entry(s, e),
            s == t,
        ),
    )


@transfer.invariant
def a_reserved_entry_has_its_store() -> Expr:
    """An entry stays reserved only as long as a store is under way to it."""
    return forall(
        Entry,
        lambda e: implies(
            entry_state[e] == EntryState.RESERVED,
            exists(Transfer, lambda t: pins_entry(t, e) & ~is_load(t)),
        ),
    )


@transfer.invariant
def rows_being_loaded_are_flagged() -> Expr:
    """A block is flagged as long as a load of it is under way."""
    return forall(
        Transfer,
        lambda t: implies(~is_over(t) & is_load(t), arriving[the(block[t])]),
    )


@transfer.invariant
def an_open_append_reads_no_row_that_is_still_loaded() -> Expr:
    """No block of a request with an open append is flagged."""
    return forall(
        Txn,
        Handle,
        Block,
        lambda x, h, b: implies(
            is_live(x) & is_append_to(x, h) & (phase[h] == Phase.DECODE_READY) & owner[b, h],
            ~arriving[b],
        ),
    )


@transfer.invariant
def what_counts_as_written_is_complete() -> Expr:
    """A transfer counts as written only if its sender has written every layer and writes no more."""
    return forall(
        Transfer,
        lambda t: implies(stage[t] == Stage.WRITTEN, is_complete(t) & (sender[t] == Sender.QUIET)),
    )


@transfer.invariant
def an_early_report_is_remembered() -> Expr:
    """A report that arrived before anybody waited is not forgotten."""
    return forall(
        Notice,
        Transfer,
        lambda n, t: implies(
            reports(n, t)
            & (notice_state[n] == NoticeState.TAKEN)
            & (stage[t] == Stage.RUNNING)
            & (waiter[t] == Waiter.ABSENT),
            remembered[t],
        ),
    )


@transfer.invariant
def only_a_report_is_remembered() -> Expr:
    """What is remembered of a transfer under way is a report of its present attempt."""
    return forall(
        Transfer,
        lambda t: implies(
            remembered[t] & ~is_over(t),
            exists(Notice, lambda n: reports(n, t)) & (stage[t] != Stage.QUEUED),
        ),
    )


@transfer.invariant
def a_remembered_report_is_found_by_who_comes() -> Expr:
    """A report is remembered only until somebody waits for it."""
    return forall(
        Transfer,
        lambda t: implies(remembered[t] & (stage[t] == Stage.RUNNING), waiter[t] == Waiter.ABSENT),
    )


@transfer.invariant
def what_ended_was_waited_for() -> Expr:
    """Whoever waits for a transfer learns that it was written or given up."""
    return forall(
        Transfer,
        lambda t: implies(
            one_of(stage[t], Stage.WRITTEN, Stage.FAILED), waiter[t] == Waiter.WAITING
        ),
    )


@transfer.invariant
def no_wait_is_closed_under_a_running_transfer() -> Expr:
    """Who waits is sent away only with the transfer over."""
    return forall(
        Transfer, lambda t: implies(waiter[t] == Waiter.CLOSED, stage[t] == Stage.DRAINED)
    )


@transfer.lemma
def who_sent_a_notice_is_quiet() -> Expr:
    """A sender that sent a notice of the present attempt is quiet, and has written all but for an abort."""
    return forall(
        Notice,
        Transfer,
        lambda n, t: implies(
            reports(n, t) & ~is_over(t),
            (is_complete(t) | (stage[t] == Stage.FAILED))
            & (sender[t] == Sender.QUIET)
            & (stage[t] != Stage.QUEUED),
        ),
    )


@transfer.lemma
def no_report_is_of_an_attempt_to_come() -> Expr:
    """A notice has the number of an attempt that has begun."""
    return forall(
        Notice,
        lambda n: implies(
            notice_state[n] != NoticeState.UNUSED,
            is_some(notice_of[n]) & (notice_attempt[n] <= attempt[the(notice_of[n])]),
        ),
    )


@transfer.lemma
def senders_write_for_running_transfers() -> Expr:
    """A sender writes in a transfer that runs or was given up, or in vain when that is drained."""
    return forall(
        Transfer,
        lambda t: implies(
            sender[t] == Sender.PUSHING,
            one_of(stage[t], Stage.RUNNING, Stage.FAILED)
            | ((stage[t] == Stage.DRAINED) & (lease[t] == Lease.ENDED)),
        ),
    )


@transfer.lemma
def a_loaded_layer_has_rows() -> Expr:
    """In a load under way those layers have rows that were written, and no others."""
    return forall(
        Transfer,
        Layer,
        lambda t, l: implies(
            ~is_over(t) & is_load(t),
            implies(landed[t, l], content[the(block[t]), l] == Content.ROWS)
            & implies(~landed[t, l], content[the(block[t]), l] == Content.NOTHING),
        ),
    )


@transfer.lemma
def a_stored_layer_has_rows() -> Expr:
    """In a store under way those layers have rows that were written, and no others."""
    return forall(
        Transfer,
        Layer,
        lambda t, l: implies(
            ~is_over(t) & ~is_load(t),
            implies(landed[t, l], kept[the(entry[t]), l])
            & implies(~landed[t, l], ~kept[the(entry[t]), l]),
        ),
    )


@transfer.lemma
def a_store_reads_whole_rows() -> Expr:
    """The block of a store under way has rows in every layer, and none is being loaded."""
    return forall(
        Transfer,
        Layer,
        lambda t, l: implies(
            ~is_over(t) & ~is_load(t),
            (content[the(block[t]), l] == Content.ROWS) & ~arriving[the(block[t])],
        ),
    )


@transfer.lemma
def an_absent_entry_has_no_rows() -> Expr:
    """Nothing is kept in an entry that nobody filled."""
    return forall(
        Entry,
        Layer,
        lambda e, l: implies(entry_state[e] == EntryState.ABSENT, ~kept[e, l]),
    )


@transfer.lemma
def nothing_is_written_in_the_queue() -> Expr:
    """A queued transfer has written nothing, and has a request, a number and a quiet sender."""
    return forall(
        Transfer,
        Layer,
        lambda t, l: implies(stage[t] == Stage.QUEUED, ~landed[t, l]),
    )
