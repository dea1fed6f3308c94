"""What is claimed of transfers: what is read is whole and one's own, and every attempt comes to an end."""

from __future__ import annotations

from kvspec.properties.transfer_claims import reports, transfer
from kvspec.spec.handles import Handle, Layer, Phase, generation, phase
from kvspec.spec.language import (
    Expr,
    after,
    all_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    the,
    weak,
)
from kvspec.spec.prefix import Block, evict, filled, owner
from kvspec.spec.transfer import (
    acknowledge_abort,
    admit_rows,
    crash,
    drain,
    drop,
    give_up,
    list_entry,
    lose,
    place,
    push,
    register,
    repeat,
)
from kvspec.spec.transfer_record import (
    Entry,
    EntryState,
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
    direction,
    entry,
    entry_pin,
    entry_state,
    fill,
    is_complete,
    is_load,
    is_over,
    landed,
    notice_attempt,
    notice_of,
    notice_state,
    remembered,
    sender,
    serves,
    serves_a_ready_request,
    serves_generation,
    stage,
    waiter,
)

TAKEN_AT_THE_START = (direction, serves, serves_generation, block, entry, base_fill)
"""What an attempt is about: it is settled when it is queued."""


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
    """A running transfer is written or given up, and one that was given up is drained."""
    return forall(
        Transfer,
        lambda t: (
            implies(
                stage[t] == Stage.RUNNING,
                one_of(after(stage[t]), Stage.RUNNING, Stage.WRITTEN, Stage.FAILED),
            )
            & implies(
                stage[t] == Stage.FAILED, one_of(after(stage[t]), Stage.FAILED, Stage.DRAINED)
            )
        ),
    )


@transfer.step
def an_end_is_given_back_when_its_sender_is_done() -> Expr:
    """A transfer that was given up is drained only when its sender writes no more."""
    return forall(
        Transfer,
        lambda t: implies(
            (stage[t] == Stage.FAILED) & (after(stage[t]) == Stage.DRAINED),
            sender[t] != Sender.PUSHING,
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
def a_filling_of_a_block_counts() -> Expr:
    """A block that is filled afresh is another one than before."""
    return forall(
        Block,
        lambda b: implies(~filled[b] & after(filled[b]), after(fill[b]) == fill[b] + 1),
    )


@transfer.step
def a_sender_stops_by_itself_or_by_a_crash() -> Expr:
    """A sender dies by a crash, and else stops when it has written all, or after an abort."""
    return forall(
        Transfer,
        lambda t: implies(
            (sender[t] == Sender.PUSHING) & (after(sender[t]) != sender[t]),
            implies(fired(crash), after(sender[t]) == Sender.DEAD)
            & implies(
                ~fired(crash),
                (after(sender[t]) == Sender.QUIET) & (is_complete(t) | (stage[t] == Stage.FAILED)),
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


@transfer.witness
def reaches_a_late_report() -> Expr:
    """A report of an earlier attempt is on its way while a later one runs."""
    return exists(
        Notice,
        Transfer,
        lambda n, t: (
            (notice_state[n] == NoticeState.IN_FLIGHT)
            & (notice_of[n] == t)
            & (notice_attempt[n] < attempt[t])
            & (stage[t] == Stage.RUNNING)
        ),
    )


@transfer.witness
def reaches_an_early_report() -> Expr:
    """A report was there before anybody waited."""
    return exists(Transfer, lambda t: remembered[t] & (stage[t] == Stage.RUNNING))


@transfer.witness
def reaches_a_report_twice() -> Expr:
    """A report is on its way again when its transfer is visible."""
    return exists(
        Notice,
        Transfer,
        lambda n, t: (
            reports(n, t) & (notice_state[n] == NoticeState.IN_FLIGHT) & (stage[t] == Stage.VISIBLE)
        ),
    )


@transfer.witness
def reaches_a_pinned_block_of_nobody() -> Expr:
    """A sender still writes to a block whose request was released."""
    return exists(
        Transfer,
        Block,
        lambda t, b: (
            (stage[t] == Stage.FAILED)
            & (sender[t] == Sender.PUSHING)
            & (block[t] == b)
            & forall(Handle, lambda h: ~owner[b, h])
        ),
    )


@transfer.witness
def reaches_rows_that_nobody_waits_for() -> Expr:
    """A load is written whose request has ended."""
    return exists(
        Transfer,
        lambda t: is_load(t) & (stage[t] == Stage.WRITTEN) & ~serves_a_ready_request(t),
    )


@transfer.witness
def reaches_a_store_that_outlives_its_request() -> Expr:
    """A store is visible, and the request that it served is released."""
    return exists(
        Transfer,
        Handle,
        lambda t, h: (
            (stage[t] == Stage.VISIBLE)
            & ~is_load(t)
            & (serves[t] == h)
            & (phase[h] == Phase.RELEASED)
        ),
    )


@transfer.witness
def reaches_a_loaded_block() -> Expr:
    """A load is visible, and its request reads the rows."""
    return exists(
        Transfer,
        lambda t: is_load(t) & (stage[t] == Stage.VISIBLE) & serves_a_ready_request(t),
    )


@transfer.witness
def reaches_a_half_written_target() -> Expr:
    """A transfer that was given up has written one layer and not another."""
    return exists(
        Transfer,
        Layer,
        Layer,
        lambda t, l, m: (stage[t] == Stage.FAILED) & landed[t, l] & ~landed[t, m],
    )


_ENDING = (
    weak(register, "t"),
    weak(give_up, "t"),
    weak(acknowledge_abort, "t"),
    weak(drain, "t"),
    weak(admit_rows, "t"),
    weak(list_entry, "t"),
)


@transfer.leads_to(*_ENDING)
def every_started_transfer_reaches_an_outcome(t: Transfer) -> tuple[Expr, Expr]:
    """A transfer that moves bytes is visible or drained in the end, whatever its sender does."""
    return ~is_over(t) & (stage[t] != Stage.QUEUED), is_over(t)


@transfer.leads_to(*_ENDING, weak(push, "t"))
def every_pin_is_dropped(t: Transfer) -> tuple[Expr, Expr]:
    """What a transfer pins it gives back in the end."""
    return block_pin[t] | entry_pin[t], ~block_pin[t] & ~entry_pin[t]


@transfer.leads_to(*_ENDING, weak(push, "t"), weak(evict, "b"))
def every_block_without_owner_is_evicted(b: Block) -> tuple[Expr, Expr]:
    """A block that nobody owns is freed in the end, whoever pinned it."""
    return filled[b] & forall(Handle, lambda h: ~owner[b, h]), ~filled[b]
