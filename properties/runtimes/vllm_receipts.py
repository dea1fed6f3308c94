"""Claims about vLLM with receipts: the counter runs ahead of the receipt, and meets it between steps."""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import longest
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Properties, after, exists, fired, forall, implies, one_of
from kvspec.spec.runtimes import vllm as vl
from kvspec.spec.runtimes.vllm_receipts import receipts, system

properties = Properties(system)
rows, computed, scheduled = receipts.rows, vl.num_computed_tokens, vl.scheduled


def _known(h: Expr) -> Expr:
    return vl.num_prompt_tokens[h] + vl.output_token_ids[h]


@properties.lemma
def a_request_that_is_gone_leaves_nothing() -> Expr:
    """Of a request that the scheduler has not, every field has its first value."""
    return forall(
        Handle,
        lambda h: implies(
            vl.status[h] == vl.Status.ABSENT,
            (vl.request_id[h] == None)  # noqa: E711  # an expression, true of none
            & (_known(h) == 0)
            & (computed[h] == 0)
            & (rows[h] == 0)
            & vl.is_between_steps(h)
            & (vl.drafts[h] == 0),
        ),
    )


@properties.lemma
def a_held_request_has_a_prompt() -> Expr:
    """A request that the scheduler has began with a token at least, and commits no more rows than it may."""
    return forall(
        Handle,
        lambda h: implies(
            vl.status[h] != vl.Status.ABSENT,
            (vl.num_prompt_tokens[h] >= 1) & (computed[h] <= longest),
        ),
    )


@properties.lemma
def a_waiting_request_has_no_rows() -> Expr:
    """A request that waits or was preempted has no rows, and no step is under way."""
    return forall(
        Handle,
        lambda h: implies(
            one_of(vl.status[h], vl.Status.WAITING, vl.Status.PREEMPTED),
            (computed[h] == 0) & (rows[h] == 0) & vl.is_between_steps(h) & (vl.drafts[h] == 0),
        ),
    )


@properties.lemma
def steps_are_of_running_requests() -> Expr:
    """A request that has finished has no step under way."""
    return forall(
        Handle,
        lambda h: implies(
            vl.status[h] == vl.Status.FINISHED,
            vl.is_between_steps(h) & (vl.drafts[h] == 0) & (rows[h] == computed[h]),
        ),
    )


@properties.lemma
def a_prefill_under_way_has_no_receipt() -> Expr:
    """While a prefill is under way there is no receipt of rows, and the counter has every known token."""
    return forall(
        Handle,
        lambda h: implies(
            (scheduled[h] >= 1) & (scheduled[h] == computed[h]),
            (rows[h] == 0)
            & (computed[h] == _known(h))
            & (vl.sampled[h] == 0)
            & (vl.drafts[h] == 0),
        ),
    )


@properties.invariant
def the_counter_is_ahead_by_what_is_scheduled() -> Expr:
    """While a decode step is under way the counter is ahead of the receipt by the scheduled tokens."""
    return forall(
        Handle,
        lambda h: implies(
            (scheduled[h] >= 1) & (scheduled[h] != computed[h]),
            (rows[h] >= 1)
            & (computed[h] == rows[h] + scheduled[h])
            & (scheduled[h] == 1 + vl.drafts[h])
            & (rows[h] + 1 == _known(h))
            & (vl.sampled[h] == 0),
        ),
    )


@properties.invariant
def between_steps_the_counter_is_the_receipt() -> Expr:
    """Of a running request without a scheduled step the counter is the rows of the last receipt."""
    return forall(
        Handle,
        lambda h: implies(
            (vl.status[h] == vl.Status.RUNNING) & (scheduled[h] == 0),
            (rows[h] == computed[h])
            & (rows[h] >= 1)
            & (vl.drafts[h] == 0)
            & (_known(h) + vl.sampled[h] == rows[h] + 1),
        ),
    )


@properties.step
def a_schedule_moves_no_receipt() -> Expr:
    """A step that schedules moves the counter, and no receipt."""
    return forall(
        Handle,
        lambda h: implies(
            fired(vl.schedule_decode) & (after(computed[h]) != computed[h]),
            (after(rows[h]) == rows[h])
            & (after(receipts.snapshots[h]) == receipts.snapshots[h])
            & (after(computed[h]) > computed[h]),
        ),
    )


@properties.witness
def reaches_a_draft_to_be_verified() -> Expr:
    """Some decode step has a draft to be verified."""
    return exists(Handle, lambda h: vl.drafts[h] >= 1)


@properties.witness
def reaches_blocks_held_after_the_end() -> Expr:
    """A finished request keeps its slots while a connector sends them."""
    return exists(
        Handle,
        lambda h: (vl.status[h] == vl.Status.FINISHED) & vl.sending[h] & (vl.slots[h] >= 1),
    )
