"""What can be reached under a scheduler that runs ahead of the device, and what must happen in the end."""

from __future__ import annotations

from kvspec.properties.run_ahead_claims import is_pending, run_ahead
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, exists, forall, one_of, strong, weak
from kvspec.spec.run_ahead import (
    Frame,
    Incarnation,
    Outcome,
    chunk,
    counts,
    dispatch,
    drain,
    emitted,
    end_of,
    finish,
    first,
    in_flight,
    indexed,
    is_step_of,
    outcome,
    owner,
    prompt,
    protected,
    release,
    settle,
    settled,
    start,
    stopped,
    tag,
    tokens,
)


def has_ended(h: Expr) -> Expr:
    """The request has finished or was cancelled."""
    return one_of(outcome[h], Outcome.FINISHED, Outcome.CANCELLED, Outcome.RELEASED)


def is_served() -> Expr:
    """The device takes steps: there is a frame for one, a tag to bear, and a row that it may have."""
    return exists(Frame, Incarnation, lambda _f, _i: chunk >= 1)


@run_ahead.witness
def reaches_a_step_ahead_of_an_unknown_token() -> Expr:
    """A step is in flight for a token that only the step before it gives."""
    return exists(
        Frame, Handle, lambda f, h: is_step_of(f, h) & (end_of(f) == tokens(h) + 1) & ~stopped[h]
    )


@run_ahead.witness
def reaches_a_late_output_beside_a_new_one() -> Expr:
    """Steps of two incarnations of one request are in flight."""
    return exists(
        Frame,
        Frame,
        lambda f, g: counts(f) & in_flight(g) & (owner[g] == owner[f]) & (tag[g] != tag[f]),
    )


@run_ahead.witness
def reaches_a_stop_behind_which_a_step_runs() -> Expr:
    """A request has finished while a step behind its last output is in flight."""
    return exists(Frame, Handle, lambda f, h: (owner[f] == h) & (outcome[h] == Outcome.FINISHED))


@run_ahead.witness
def reaches_a_preempted_request_with_outputs() -> Expr:
    """A preempted request computes rows for outputs that its client has."""
    return exists(
        Frame,
        Handle,
        lambda f, h: counts(f) & is_step_of(f, h) & protected[h] & (end_of(f) > prompt[h]),
    )


@run_ahead.witness
def reaches_a_chunk_that_is_not_published() -> Expr:
    """The first chunk of a prompt has settled and is in no index, and the second one is in flight."""
    return exists(
        Frame,
        Handle,
        lambda f, h: (
            counts(f)
            & is_step_of(f, h)
            & (first[f] == settled[h])
            & (settled[h] >= 1)
            & (indexed[h] == 0)
            & (end_of(f) <= prompt[h])
        ),
    )


@run_ahead.end
def no_request_is_pending() -> Expr:
    """The system may stop where every request has ended."""
    return forall(
        Handle, lambda h: one_of(outcome[h], Outcome.NEW, Outcome.CANCELLED, Outcome.RELEASED)
    )


@run_ahead.leads_to(
    weak(start, "h"), weak(dispatch, "h"), strong(settle, "f"), weak(drain, "f"), weak(finish, "h")
)
def every_request_ends(h: Handle) -> tuple[Expr, Expr]:
    """A request ends, however it is preempted, if steps are not lost for ever."""
    return is_pending(h) & is_served(), has_ended(h)


@run_ahead.leads_to(weak(start, "h"), weak(dispatch, "h"), strong(settle, "f"), weak(drain, "f"))
def every_prompt_gets_its_rows(h: Handle) -> tuple[Expr, Expr]:
    """The chunks of a prompt go on until the first output comes, published or not."""
    waits = is_pending(h) & is_served() & (emitted[h] == 0)
    return waits, (emitted[h] >= 1) | has_ended(h)


@run_ahead.leads_to(weak(settle, "f"), weak(drain, "f"))
def every_frame_comes_free(f: Frame) -> tuple[Expr, Expr]:
    """A step in flight leaves its frame, though its request was preempted, stopped or cancelled."""
    return in_flight(f), ~in_flight(f)


@run_ahead.leads_to(weak(release, "h"))
def every_finished_request_is_released(h: Handle) -> tuple[Expr, Expr]:
    """The slots of a finished request are given back, those of rows that ran ahead among them."""
    return outcome[h] == Outcome.FINISHED, outcome[h] == Outcome.RELEASED
