"""What is claimed of transfers: what is read is whole and one's own, and every attempt comes to an end."""

from __future__ import annotations

import kvspec.properties.transfer_steps  # noqa: F401  # its claims join those of `transfer`
from kvspec.properties.transfer_claims import reports, transfer
from kvspec.spec.handles import Handle, Layer, Phase, phase
from kvspec.spec.language import Expr, exists, forall, strong, weak
from kvspec.spec.prefix import Block, evict, filled, owner
from kvspec.spec.transfer import (
    admit_rows,
    cancel,
    drain,
    end_lease,
    give_up,
    list_entry,
    recompute,
    register,
)
from kvspec.spec.transfer_record import (
    Lease,
    Notice,
    NoticeState,
    Sender,
    Stage,
    Transfer,
    arriving,
    attempt,
    block,
    block_pin,
    entry_pin,
    is_complete,
    is_load,
    is_over,
    landed,
    lease,
    notice_attempt,
    notice_of,
    notice_state,
    remembered,
    sender,
    serves,
    serves_a_ready_request,
    stage,
)

__all__ = ["transfer"]


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
def reaches_a_sender_that_writes_in_vain() -> Expr:
    """A transfer is drained whose sender has not stopped: its lease has ended."""
    return exists(
        Transfer,
        lambda t: (stage[t] == Stage.DRAINED) & (sender[t] == Sender.PUSHING),
    )


@transfer.witness
def reaches_an_answer_to_an_abort() -> Expr:
    """A transfer was given up, and its sender's word has come before all layers were written."""
    return exists(
        Transfer,
        lambda t: (stage[t] == Stage.FAILED) & (lease[t] == Lease.RETURNED) & ~is_complete(t),
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
def reaches_a_load_that_came_to_nothing() -> Expr:
    """A load is drained, and its request is ready without the rows."""
    return exists(
        Transfer,
        Block,
        lambda t, b: (
            is_load(t)
            & (stage[t] == Stage.DRAINED)
            & (block[t] == b)
            & arriving[b]
            & serves_a_ready_request(t)
        ),
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
    weak(end_lease, "t"),
    weak(drain, "t"),
    weak(admit_rows, "t"),
    weak(list_entry, "t"),
)


@transfer.leads_to(*_ENDING)
def every_started_transfer_reaches_an_outcome(t: Transfer) -> tuple[Expr, Expr]:
    """A transfer that moves bytes ends visible or drained, whatever its sender does."""
    return ~is_over(t) & (stage[t] != Stage.QUEUED), is_over(t)


@transfer.leads_to(*_ENDING, weak(cancel, "t"))
def every_pin_is_dropped(t: Transfer) -> tuple[Expr, Expr]:
    """What a transfer pins it gives back in the end, whatever its sender does."""
    return block_pin[t] | entry_pin[t], ~block_pin[t] & ~entry_pin[t]


@transfer.leads_to(*_ENDING, weak(cancel, "t"), weak(evict, "b"))
def every_block_without_owner_is_evicted(b: Block) -> tuple[Expr, Expr]:
    """A block that nobody owns is freed in the end, whoever pinned it."""
    return filled[b] & forall(Handle, lambda h: ~owner[b, h]), ~filled[b]


@transfer.leads_to(*_ENDING, weak(cancel, "t"), strong(recompute, "h", "b"))
def no_request_waits_for_rows_for_ever(h: Handle, b: Block) -> tuple[Expr, Expr]:
    """A ready request reads its block in the end, though its load be cancelled, lost or given up."""
    waits = (phase[h] == Phase.DECODE_READY) & owner[b, h] & arriving[b]
    return waits, ~waits
