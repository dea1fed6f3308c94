"""Step claims of transfers: what an attempt, a sender, a notice and the tier may do next."""

from __future__ import annotations

from kvspec.properties.transfer_claims import reports, transfer
from kvspec.spec.handles import Handle, Layer, Phase, generation, phase
from kvspec.spec.language import (
    TRUE,
    Expr,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    the,
)
from kvspec.spec.prefix import Block, filled, owner
from kvspec.spec.transfer import (
    acknowledge_abort,
    crash,
    deliver,
    drop,
    end_lease,
    lose,
    place,
    recompute,
    register,
    repeat,
    report,
)
from kvspec.spec.transfer_record import (
    EARLY_NOTICE,
    LATE_NOTICE,
    REPEATED_NOTICE,
    Content,
    Direction,
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
    content,
    direction,
    entry,
    entry_state,
    fill,
    is_complete,
    is_load,
    is_over,
    lease,
    notice_attempt,
    notice_of,
    notice_state,
    pins_block,
    sender,
    serves,
    serves_a_ready_request,
    serves_generation,
    stage,
    waiter,
)

TAKEN_AT_THE_START = (direction, serves, serves_generation, block, entry, base_fill)
"""What an attempt is about: it is settled when it is queued."""
NOTED = (LATE_NOTICE, REPEATED_NOTICE, EARLY_NOTICE)
"""Why a notice that arrives may do nothing to its transfer."""


@transfer.step
def an_outcome_is_written_once() -> Expr:
    """What became of an attempt stays so until the next one is queued."""
    return forall(
        Transfer,
        lambda t: implies(
            is_over(t) & (after(stage[t]) != stage[t]),
            (after(stage[t]) == Stage.QUEUED) & (after(attempt[t]) == attempt[t] + 1),
        ),
    )


@transfer.step
def an_attempt_has_a_number_of_its_own() -> Expr:
    """The number of a transfer goes on with each new attempt, and never else."""
    return forall(
        Transfer,
        lambda t: implies(
            after(attempt[t]) != attempt[t],
            is_over(t)
            & (after(stage[t]) == Stage.QUEUED)
            & (after(attempt[t]) == attempt[t] + 1)
            & (after(waiter[t]) == Waiter.ABSENT),
        ),
    )


@transfer.step
def an_attempt_serves_who_queued_it() -> Expr:
    """An attempt is queued for a ready request, under its incarnation, and for a block that it owns."""
    return forall(
        Transfer,
        Handle,
        lambda t, h: implies(
            is_over(t) & (after(stage[t]) == Stage.QUEUED) & (after(serves[t]) == h),
            (phase[h] == Phase.DECODE_READY)
            & (after(serves_generation[t]) == generation[h])
            & exists(Block, lambda b: owner[b, h] & (after(block[t]) == b)),
        ),
    ) & forall(
        Transfer,
        lambda t: implies(
            is_over(t) & (after(stage[t]) == Stage.QUEUED), is_some(after(serves[t]))
        ),
    )


@transfer.step
def a_load_goes_into_a_block_of_one_request() -> Expr:
    """When a load is queued, nobody else has a claim on its block."""
    return forall(
        Transfer,
        Handle,
        Block,
        lambda t, h, b: implies(
            is_over(t)
            & (after(stage[t]) == Stage.QUEUED)
            & (after(direction[t]) == Direction.LOAD)
            & (after(block[t]) == b)
            & owner[b, h],
            after(serves[t]) == h,
        ),
    )


@transfer.step
def rows_that_did_not_come_are_computed_by_their_owner() -> Expr:
    """Rows are computed for a ready owner, where they are missing and no transfer pins the block."""
    return implies(
        fired(recompute),
        exists(
            Block,
            Handle,
            lambda b, h: (
                arriving[b]
                & ~after(arriving[b])
                & owner[b, h]
                & (phase[h] == Phase.DECODE_READY)
                & forall(Transfer, lambda t: ~pins_block(t, b))
            ),
        ),
    )


@transfer.step
def what_an_attempt_is_about_does_not_change() -> Expr:
    """Ends, direction and request of an attempt are settled when it is queued."""
    return forall(
        Transfer,
        lambda t: implies(
            after(attempt[t]) == attempt[t],
            all_of(*(after(found[t]) == found[t] for found in TAKEN_AT_THE_START)),
        ),
    )


@transfer.step
def bytes_that_move_are_not_cancelled_at_once() -> Expr:
    """A running transfer is written or given up; then it is visible or drained."""
    return forall(
        Transfer,
        lambda t: (
            implies(
                stage[t] == Stage.RUNNING,
                one_of(after(stage[t]), Stage.RUNNING, Stage.WRITTEN, Stage.FAILED),
            )
            & implies(
                stage[t] == Stage.WRITTEN,
                one_of(after(stage[t]), Stage.WRITTEN, Stage.VISIBLE, Stage.DRAINED),
            )
            & implies(
                stage[t] == Stage.FAILED, one_of(after(stage[t]), Stage.FAILED, Stage.DRAINED)
            )
        ),
    )


@transfer.step
def an_end_is_given_back_when_nothing_more_is_taken() -> Expr:
    """A transfer that was given up is drained when its sender is quiet, or the target refuses its writes."""
    return forall(
        Transfer,
        lambda t: implies(
            (stage[t] == Stage.FAILED) & (after(stage[t]) == Stage.DRAINED),
            (sender[t] == Sender.QUIET) | (lease[t] == Lease.ENDED),
        ),
    )


@transfer.step
def a_lease_ends_after_giving_up() -> Expr:
    """The lease of a sender ends when its transfer was given up and before it is drained."""
    ended = exists(
        Transfer,
        lambda t: (
            (stage[t] == Stage.FAILED) & (lease[t] == Lease.HELD) & (after(lease[t]) == Lease.ENDED)
        ),
    )
    return implies(fired(end_lease), ended) & forall(
        Transfer,
        lambda t: implies(
            (lease[t] == Lease.HELD) & (after(lease[t]) == Lease.ENDED), fired(end_lease)
        ),
    )


@transfer.step
def a_lease_is_returned_by_who_has_it() -> Expr:
    """A lease that is returned ran until then: one that has ended is not returned any more."""
    return forall(
        Transfer,
        lambda t: implies(
            (lease[t] != Lease.RETURNED) & (after(lease[t]) == Lease.RETURNED),
            lease[t] == Lease.HELD,
        ),
    )


@transfer.step
def only_what_was_written_becomes_visible() -> Expr:
    """A transfer becomes visible when it counts as written, and never else."""
    return forall(
        Transfer,
        lambda t: implies(
            (stage[t] != Stage.VISIBLE) & (after(stage[t]) == Stage.VISIBLE),
            stage[t] == Stage.WRITTEN,
        ),
    )


@transfer.step
def rows_are_admitted_for_the_request_that_asked() -> Expr:
    """A load becomes visible to the incarnation that it serves, while that is ready."""
    return forall(
        Transfer,
        lambda t: implies(
            is_load(t) & (stage[t] == Stage.WRITTEN) & (after(stage[t]) == Stage.VISIBLE),
            serves_a_ready_request(t) & ~after(arriving[the(block[t])]),
        ),
    )


@transfer.step
def a_visible_store_can_be_found() -> Expr:
    """A store that becomes visible is what lookups find from then on."""
    return forall(
        Transfer,
        lambda t: implies(
            ~is_load(t) & (stage[t] == Stage.WRITTEN) & (after(stage[t]) == Stage.VISIBLE),
            after(entry_state[the(entry[t])]) == EntryState.VISIBLE,
        ),
    )


@transfer.step
def a_report_completes_what_waits_for_it() -> Expr:
    """A notice of the present attempt that arrives where somebody waits ends its writing."""
    return forall(
        Notice,
        Transfer,
        lambda n, t: implies(
            reports(n, t)
            & (notice_state[n] == NoticeState.IN_FLIGHT)
            & (after(notice_state[n]) == NoticeState.TAKEN)
            & (stage[t] == Stage.RUNNING)
            & (waiter[t] == Waiter.WAITING),
            after(stage[t]) == Stage.WRITTEN,
        ),
    )


@transfer.step
def a_block_filled_afresh_is_another_one() -> Expr:
    """A block that is filled afresh counts as another one, and waits for no rows."""
    return forall(
        Block,
        lambda b: implies(
            ~filled[b] & after(filled[b]),
            (after(fill[b]) == fill[b] + 1) & ~after(arriving[b]),
        ),
    )


@transfer.step
def what_is_left_in_a_freed_block_is_nobodys() -> Expr:
    """The rows in a block that was freed are another request's to whoever gets it."""
    return forall(
        Block,
        Layer,
        lambda b, l: implies(
            filled[b] & ~after(filled[b]), after(content[b, l]) == Content.FOREIGN
        ),
    )


@transfer.step
def who_waits_for_a_cancelled_transfer_is_sent_away() -> Expr:
    """A transfer that is cancelled in the queue leaves nobody waiting."""
    return forall(
        Transfer,
        lambda t: implies(
            (stage[t] == Stage.QUEUED) & (after(stage[t]) == Stage.DRAINED),
            after(waiter[t]) == Waiter.CLOSED,
        ),
    )


@transfer.step
def one_wait_is_registered_for_an_attempt() -> Expr:
    """A wait is registered once, and for a transfer that is not over."""
    return implies(
        fired(register),
        exists(
            Transfer,
            lambda t: (waiter[t] == Waiter.ABSENT) & (after(waiter[t]) == Waiter.WAITING),
        ),
    ) & forall(
        Transfer,
        lambda t: implies(
            (waiter[t] != Waiter.WAITING) & (after(waiter[t]) == Waiter.WAITING),
            one_of(stage[t], Stage.QUEUED, Stage.RUNNING),
        ),
    )


@transfer.step
def a_sender_writes_when_its_transfer_runs() -> Expr:
    """With the start of a transfer its sender writes."""
    return forall(
        Transfer,
        lambda t: implies(
            (stage[t] == Stage.QUEUED) & (after(stage[t]) == Stage.RUNNING),
            after(sender[t]) == Sender.PUSHING,
        ),
    )


@transfer.step
def a_sender_stops_in_one_of_four_ways() -> Expr:
    """A sender dies by a crash, and else stops with its report, its answer to an abort, or a new attempt."""

    def some_sender(becomes: Expr, of: Expr | None = None) -> Expr:
        return exists(
            Transfer,
            lambda t: (
                (sender[t] == Sender.PUSHING)
                & (after(sender[t]) == becomes)
                & (after(stage[t]) == stage[t])
                & (TRUE if of is None else stage[t] == of)
            ),
        )

    died, stopped = some_sender(Sender.DEAD), some_sender(Sender.QUIET)
    return (
        implies(fired(crash), died)
        & implies(died, fired(crash))
        & implies(fired(report), stopped)
        & implies(fired(acknowledge_abort), some_sender(Sender.QUIET, Stage.FAILED))
        & implies(stopped, fired(report) | fired(acknowledge_abort))
    )


@transfer.step
def a_notice_has_the_number_of_its_attempt() -> Expr:
    """A sender's word has the number of its attempt, and is of a whole one or the answer to an abort."""
    sent = exists(
        Notice,
        lambda n: (
            (notice_state[n] == NoticeState.UNUSED)
            & (after(notice_state[n]) == NoticeState.IN_FLIGHT)
        ),
    )
    return implies(fired(report) | fired(acknowledge_abort), sent) & forall(
        Notice,
        Transfer,
        lambda n, t: implies(
            (notice_state[n] == NoticeState.UNUSED)
            & (after(notice_state[n]) != NoticeState.UNUSED)
            & (after(notice_of[n]) == t),
            (is_complete(t) | (stage[t] == Stage.FAILED))
            & (sender[t] == Sender.PUSHING)
            & (after(notice_attempt[n]) == attempt[t]),
        ),
    )


@transfer.step
def what_arrives_is_taken() -> Expr:
    """A notice that arrives is taken, whether it is of use, early, late or there again."""
    arrives = any_of(fired(deliver), *(fired(deliver, code) for code in NOTED))
    return implies(
        arrives,
        exists(
            Notice,
            lambda n: (
                (notice_state[n] == NoticeState.IN_FLIGHT)
                & (after(notice_state[n]) == NoticeState.TAKEN)
            ),
        ),
    )


@transfer.step
def a_channel_loses_and_repeats_what_was_sent() -> Expr:
    """A notice is lost from its way, is there again after it was taken, and is sent only once."""
    return (
        implies(
            fired(lose),
            exists(
                Notice,
                lambda n: (
                    (notice_state[n] == NoticeState.IN_FLIGHT)
                    & (after(notice_state[n]) == NoticeState.LOST)
                ),
            ),
        )
        & implies(
            fired(repeat),
            exists(
                Notice,
                lambda n: (
                    (notice_state[n] == NoticeState.TAKEN)
                    & (after(notice_state[n]) == NoticeState.IN_FLIGHT)
                ),
            ),
        )
        & forall(
            Notice,
            lambda n: implies(
                notice_state[n] != NoticeState.UNUSED,
                (after(notice_of[n]) == notice_of[n])
                & (after(notice_attempt[n]) == notice_attempt[n])
                & (after(notice_state[n]) != NoticeState.UNUSED)
                & implies(
                    notice_state[n] == NoticeState.LOST,
                    after(notice_state[n]) == NoticeState.LOST,
                ),
            ),
        )
    )


@transfer.step
def the_tier_fills_and_empties() -> Expr:
    """Another worker fills an absent entry, and a visible one is given up that nobody pins."""
    return implies(
        fired(place),
        exists(
            Entry,
            lambda e: (
                (entry_state[e] == EntryState.ABSENT)
                & (after(entry_state[e]) == EntryState.VISIBLE)
            ),
        ),
    ) & implies(
        fired(drop),
        exists(
            Entry,
            lambda e: (
                (entry_state[e] == EntryState.VISIBLE)
                & (after(entry_state[e]) == EntryState.ABSENT)
            ),
        ),
    )
