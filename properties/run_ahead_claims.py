"""What is claimed of requests under a scheduler that runs ahead of the device, in any one state.

What holds of steps, what is reached and what must happen is in `run_ahead_steps`.
"""

from __future__ import annotations

from kvspec.spec.handles import Handle, context
from kvspec.spec.language import (
    Expr,
    Properties,
    all_of,
    exists,
    forall,
    implies,
    is_some,
    one_of,
)
from kvspec.spec.run_ahead import (
    Frame,
    Outcome,
    chunk,
    counts,
    emitted,
    end_of,
    first,
    in_flight,
    indexed,
    is_running,
    is_step_of,
    more,
    outcome,
    owner,
    prompt,
    protected,
    reserved,
    rows,
    scheduled,
    settled,
    stopped,
    system,
    tag,
    tokens,
)

run_ahead = Properties(system)

FRONTIERS = (reserved, scheduled, settled, indexed)


def is_pending(h: Expr) -> Expr:
    """The request was submitted and has not ended."""
    return outcome[h] == Outcome.PENDING


def awaits(h: Expr) -> Expr:
    """The request runs, and its last output is not out."""
    return is_running(h) & ~stopped[h]


@run_ahead.invariant
def no_row_is_scheduled_without_a_slot() -> Expr:
    """A request holds a slot for every row that it dispatched."""
    return forall(Handle, lambda h: scheduled[h] <= reserved[h])


@run_ahead.invariant
def no_row_settles_that_was_not_scheduled() -> Expr:
    """The count of rows that are still to come is never below zero."""
    return forall(Handle, lambda h: settled[h] <= scheduled[h])


@run_ahead.invariant
def no_row_is_indexed_that_has_not_settled() -> Expr:
    """The index has rows that the device has computed, and no others."""
    return forall(Handle, lambda h: indexed[h] <= settled[h])


@run_ahead.invariant
def every_slot_of_a_running_request_has_its_row() -> Expr:
    """A running request holds no slot but those of the rows that it dispatched: nothing leaks."""
    return forall(Handle, lambda h: implies(is_running(h), reserved[h] == scheduled[h]))


@run_ahead.invariant
def a_request_keeps_within_its_slots() -> Expr:
    """No request holds more slots than it may."""
    return forall(Handle, lambda h: reserved[h] <= context)


@run_ahead.invariant
def a_waiting_request_holds_nothing() -> Expr:
    """A request that does not run has no slot and no row, unless it has finished."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_running(h) & (outcome[h] != Outcome.FINISHED),
            all_of(*(f[h] == 0 for f in FRONTIERS)),
        ),
    )


@run_ahead.invariant
def the_key_is_a_prefix_of_what_the_client_has() -> Expr:
    """The index knows a request by tokens that its client has, and not by the last of them."""
    return forall(Handle, lambda h: implies(indexed[h] >= 1, indexed[h] + 1 <= tokens(h)))


@run_ahead.invariant
def a_finished_request_is_published_up_to_its_last_token() -> Expr:
    """At the end the published length is the tokens of the request without the last one."""
    return forall(
        Handle,
        lambda h: implies(outcome[h] == Outcome.FINISHED, indexed[h] + 1 == tokens(h)),
    )


@run_ahead.invariant
def a_finished_request_has_nothing_scheduled_ahead() -> Expr:
    """At the end the steps that ran ahead are undone: what was scheduled has settled."""
    return forall(
        Handle, lambda h: implies(outcome[h] == Outcome.FINISHED, scheduled[h] == settled[h])
    )


@run_ahead.invariant
def a_finished_request_has_its_settled_rows_in_the_index() -> Expr:
    """At the end the key is as long as the settled rows."""
    return forall(
        Handle, lambda h: implies(outcome[h] == Outcome.FINISHED, indexed[h] == settled[h])
    )


@run_ahead.invariant
def the_client_is_ahead_of_the_settled_rows() -> Expr:
    """The last known token of a pending request has no settled row."""
    return forall(Handle, lambda h: implies(is_pending(h), settled[h] + 1 <= tokens(h)))


@run_ahead.invariant
def a_stopped_request_has_settled_all_but_its_last_token() -> Expr:
    """Rows of a stopped request are just those before its last output."""
    return forall(
        Handle, lambda h: implies(is_pending(h) & stopped[h], settled[h] + 1 == tokens(h))
    )


@run_ahead.invariant
def every_request_has_a_bound_of_outputs() -> Expr:
    """A request that has not stopped has fewer outputs than it may have."""
    return forall(Handle, lambda h: implies(~stopped[h], emitted[h] <= more))


@run_ahead.invariant
def no_request_has_more_outputs_than_it_may() -> Expr:
    """The client has no output beyond the last one that it may have."""
    return forall(Handle, lambda h: emitted[h] <= more + 1)


@run_ahead.invariant
def only_a_pending_request_runs() -> Expr:
    """A request with an incarnation was submitted and has not ended."""
    return forall(Handle, lambda h: implies(is_running(h), is_pending(h)))


@run_ahead.lemma
def a_stopped_request_stays_on_the_device_to_its_end() -> Expr:
    """A request that has stopped and not ended runs: it is not preempted any more."""
    return forall(
        Handle,
        lambda h: implies(
            stopped[h], is_running(h) | ~one_of(outcome[h], Outcome.NEW, Outcome.PENDING)
        ),
    )


@run_ahead.invariant
def a_finished_request_has_stopped() -> Expr:
    """No request finishes before its last output."""
    return forall(
        Handle,
        lambda h: implies(one_of(outcome[h], Outcome.FINISHED, Outcome.RELEASED), stopped[h]),
    )


@run_ahead.lemma
def a_submitted_request_has_a_prompt() -> Expr:
    """A request has a prompt exactly if it was submitted."""
    return forall(Handle, lambda h: (prompt[h] >= 1) == (outcome[h] != Outcome.NEW))


@run_ahead.lemma
def a_new_request_has_no_past() -> Expr:
    """A request that was not submitted has no output and was never preempted."""
    return forall(
        Handle,
        lambda h: implies(
            outcome[h] == Outcome.NEW, (emitted[h] == 0) & ~stopped[h] & ~protected[h]
        ),
    )


@run_ahead.lemma
def a_request_has_slots_for_its_tokens() -> Expr:
    """The slots that a request may hold suffice for its prompt and all but its last output."""
    return forall(Handle, lambda h: implies(is_pending(h), prompt[h] + more <= context))


@run_ahead.lemma
def a_free_frame_carries_nothing() -> Expr:
    """A frame without a step has no tag and no rows."""
    return forall(
        Frame,
        lambda f: implies(~in_flight(f), ~is_some(tag[f]) & (first[f] == 0) & (rows[f] == 0)),
    )


@run_ahead.lemma
def a_step_in_flight_has_rows_and_a_tag() -> Expr:
    """A step in flight computes some rows, for an incarnation."""
    return forall(Frame, lambda f: implies(in_flight(f), is_some(tag[f]) & (rows[f] >= 1)))


@run_ahead.invariant
def no_step_is_longer_than_a_chunk() -> Expr:
    """A step in flight has as many rows as a chunk at most."""
    return forall(Frame, lambda f: implies(in_flight(f), rows[f] <= chunk))


@run_ahead.invariant
def a_step_that_counts_is_scheduled_and_not_settled() -> Expr:
    """Rows of a step that the request waits for lie behind the settled ones, and within the scheduled."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            is_step_of(f, h) & ~stopped[h],
            (settled[h] <= first[f]) & (end_of(f) <= scheduled[h]),
        ),
    )


@run_ahead.invariant
def no_row_is_in_flight_twice() -> Expr:
    """Two steps that a request waits for compute no row in common."""
    return forall(
        Frame,
        Frame,
        lambda f, g: implies(
            (f != g) & counts(f) & counts(g) & (owner[f] == owner[g]),
            (end_of(f) <= first[g]) | (end_of(g) <= first[f]),
        ),
    )


@run_ahead.invariant
def what_is_scheduled_has_settled_or_is_next_in_flight() -> Expr:
    """Where rows are still to come, the step behind the settled ones is in flight."""
    return forall(
        Handle,
        lambda h: implies(
            awaits(h) & (settled[h] < scheduled[h]),
            exists(Frame, lambda f: is_step_of(f, h) & (first[f] == settled[h])),
        ),
    )


@run_ahead.lemma
def steps_that_count_follow_each_other() -> Expr:
    """Behind a step that the request waits for comes the next one, or nothing is scheduled."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            is_step_of(f, h) & ~stopped[h] & (end_of(f) < scheduled[h]),
            exists(Frame, lambda g: is_step_of(g, h) & (first[g] == end_of(f))),
        ),
    )


@run_ahead.lemma
def a_step_of_many_rows_is_of_known_tokens() -> Expr:
    """Only a step of a single row is for a token that the client does not have."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(is_step_of(f, h), (rows[f] == 1) | (end_of(f) <= tokens(h))),
    )
