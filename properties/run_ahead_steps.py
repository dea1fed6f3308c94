"""What is claimed of the steps of requests under a scheduler that runs ahead of the device."""

from __future__ import annotations

from kvspec.properties.run_ahead_claims import FRONTIERS, is_pending, run_ahead
from kvspec.spec.handles import Handle
from kvspec.spec.language import (
    Expr,
    after,
    all_of,
    exists,
    fired,
    forall,
    implies,
    one_of,
)
from kvspec.spec.run_ahead import (
    Frame,
    Outcome,
    cancel,
    counts,
    dispatch,
    drain,
    emitted,
    end_of,
    finish,
    first,
    in_flight,
    incarnation,
    index,
    indexed,
    is_running,
    is_step_of,
    lose,
    outcome,
    owner,
    prompt,
    protected,
    reserved,
    rows,
    scheduled,
    settle,
    settled,
    start,
    stopped,
    tag,
    tokens,
)


def ends(f: Expr) -> Expr:
    """The step leaves its frame."""
    return in_flight(f) & ~after(in_flight(f))


@run_ahead.step
def a_late_output_changes_no_frontier() -> Expr:
    """A step that the request does not wait for leaves its frame, and every frontier and output as it was."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            ends(f) & (owner[f] == h) & ~counts(f),
            all_of(*(after(v[h]) == v[h] for v in (*FRONTIERS, emitted, stopped, incarnation))),
        ),
    )


@run_ahead.step
def every_output_is_the_token_behind_its_row() -> Expr:
    """What a step gives out is emitted as the token behind its last row."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            ends(f) & (owner[f] == h) & (emitted[h] < after(emitted[h])),
            after(tokens(h)) == end_of(f) + 1,
        ),
    )


@run_ahead.step
def no_token_is_emitted_twice() -> Expr:
    """Behind an output that the client has, only a step that reached its row gives another one."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            ends(f) & (owner[f] == h) & (emitted[h] < after(emitted[h])) & (emitted[h] >= 1),
            tokens(h) <= end_of(f),
        ),
    )


@run_ahead.step
def what_was_emitted_stays_emitted() -> Expr:
    """The client's outputs survive every preemption, one comes at a time, and their prompt stays."""
    return forall(
        Handle,
        lambda h: (
            (emitted[h] <= after(emitted[h]))
            & (after(emitted[h]) <= emitted[h] + 1)
            & implies(prompt[h] >= 1, after(prompt[h]) == prompt[h])
        ),
    )


@run_ahead.step
def nothing_is_emitted_behind_the_stop() -> Expr:
    """After the last output neither an output nor a settled row is added."""
    return forall(
        Handle,
        lambda h: implies(
            stopped[h],
            after(stopped[h])
            & (after(emitted[h]) == emitted[h])
            & (after(settled[h]) <= settled[h]),
        ),
    )


@run_ahead.step
def progress_is_recorded_as_steps_settle() -> Expr:
    """A settlement adds the rows of its step to the settled ones, whatever the index has of them."""
    return implies(
        fired(settle),
        exists(
            Frame,
            Handle,
            lambda f, h: (
                ends(f)
                & is_step_of(f, h)
                & (settled[h] == first[f])
                & (after(settled[h]) == end_of(f))
                & (after(scheduled[h]) == scheduled[h])
                & (after(indexed[h]) == indexed[h])
            ),
        ),
    )


@run_ahead.step
def a_settlement_emits_behind_the_last_known_token() -> Expr:
    """A settlement that reaches the last known token gives one more, and no other settlement does."""
    return forall(
        Handle,
        lambda h: implies(
            fired(settle) & (settled[h] < after(settled[h])),
            (emitted[h] < after(emitted[h])) == (after(settled[h]) == tokens(h)),
        ),
    )


@run_ahead.step
def a_request_stops_with_an_output() -> Expr:
    """The last output comes with the settlement of a step."""
    return forall(
        Handle,
        lambda h: implies(~stopped[h] & after(stopped[h]), after(emitted[h]) == emitted[h] + 1),
    )


@run_ahead.step
def a_new_incarnation_has_no_step_in_flight() -> Expr:
    """No step in flight of a request bears the tag under which it starts."""
    return forall(
        Handle,
        Frame,
        lambda h, f: implies(
            ~is_running(h) & after(is_running(h)) & (owner[f] == h),
            tag[f] != after(incarnation[h]),
        ),
    )


@run_ahead.step
def a_request_starts_over_only_off_the_device() -> Expr:
    """While a request runs it keeps its incarnation."""
    return forall(
        Handle,
        lambda h: implies(
            is_running(h) & after(is_running(h)), after(incarnation[h]) == incarnation[h]
        ),
    )


@run_ahead.step
def a_start_is_of_a_waiting_request() -> Expr:
    """A start gives an incarnation to a request that had none."""
    return implies(fired(start), exists(Handle, lambda h: ~is_running(h) & after(is_running(h))))


@run_ahead.step
def a_request_is_preempted_once_for_an_output() -> Expr:
    """A request that leaves the device and goes on later had an output since it last did."""
    return forall(
        Handle,
        lambda h: implies(
            is_running(h) & after(is_pending(h) & ~is_running(h)),
            ~protected[h] & after(protected[h]),
        ),
    )


@run_ahead.step
def only_an_output_lifts_the_protection() -> Expr:
    """A preempted request may be preempted again with its next output and not before."""
    return forall(
        Handle,
        lambda h: (
            implies(protected[h], (after(protected[h])) == (after(emitted[h]) == emitted[h]))
            & implies(~protected[h] & after(protected[h]), is_running(h) & ~after(is_running(h)))
        ),
    )


@run_ahead.step
def a_dispatched_step_is_the_next_one() -> Expr:
    """A step is dispatched behind the scheduled rows, for the incarnation that runs, and bears its tag."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            ~in_flight(f) & (after(owner[f]) == h),
            is_running(h)
            & (after(tag[f]) == incarnation[h])
            & (after(first[f]) == scheduled[h])
            & (after(scheduled[h]) == scheduled[h] + after(rows[f]))
            & ~stopped[h],
        ),
    )


@run_ahead.step
def a_dispatch_takes_a_frame() -> Expr:
    """A dispatch puts a step into a frame that was free."""
    return implies(fired(dispatch), exists(Frame, lambda f: ~in_flight(f) & after(in_flight(f))))


@run_ahead.step
def a_step_in_flight_stays_what_it_is() -> Expr:
    """Until it leaves its frame a step keeps its request, its tag and its rows."""
    return forall(
        Frame,
        lambda f: implies(
            in_flight(f) & after(in_flight(f)),
            all_of(*(after(v[f]) == v[f] for v in (owner, tag, first, rows))),
        ),
    )


@run_ahead.step
def a_drained_output_frees_a_frame() -> Expr:
    """An output that nobody waits for frees its frame."""
    return implies(fired(drain), exists(Frame, lambda f: ends(f) & ~counts(f)))


@run_ahead.step
def one_output_frees_one_frame() -> Expr:
    """Only a loss takes several steps away at once."""
    return implies(
        ~fired(lose), forall(Frame, Frame, lambda f, g: implies(ends(f) & ends(g), f == g))
    )


@run_ahead.step
def a_loss_takes_back_what_was_behind_it() -> Expr:
    """Where a step is lost that counts, scheduled rows end before it, and no step behind it is left."""
    return forall(
        Frame,
        Handle,
        lambda f, h: implies(
            fired(lose) & ends(f) & is_step_of(f, h) & ~stopped[h],
            (after(scheduled[h]) <= first[f])
            & (after(settled[h]) == settled[h])
            & forall(
                Frame,
                lambda g: implies(
                    is_step_of(g, h) & after(in_flight(g)), end_of(g) <= after(scheduled[h])
                ),
            ),
        ),
    )


@run_ahead.step
def a_loss_leaves_other_steps() -> Expr:
    """A step is lost, and no step before it, nor one of another request or incarnation, with it."""
    return implies(
        fired(lose),
        exists(
            Frame,
            lambda f: (
                ends(f)
                & forall(
                    Frame,
                    lambda g: implies(
                        (f != g) & ends(g),
                        counts(f) & (owner[g] == owner[f]) & counts(g) & (first[f] < first[g]),
                    ),
                )
            ),
        ),
    )


@run_ahead.step
def rows_are_indexed_up_to_the_settled_ones() -> Expr:
    """What is published into the index is every settled row."""
    return forall(
        Handle,
        lambda h: implies(indexed[h] < after(indexed[h]), after(indexed[h]) == settled[h]),
    ) & implies(fired(index), exists(Handle, lambda h: indexed[h] < after(indexed[h])))


@run_ahead.step
def rows_are_taken_back_as_a_whole() -> Expr:
    """Settled rows of a request grow, or all of them are gone: it was preempted, cancelled or released."""
    return forall(
        Handle,
        lambda h: implies(
            after(settled[h]) < settled[h],
            (after(settled[h]) == 0)
            & (
                (is_running(h) & ~after(is_running(h)))
                | ((outcome[h] == Outcome.FINISHED) & after(outcome[h] == Outcome.RELEASED))
            ),
        ),
    )


@run_ahead.step
def requests_take_their_course() -> Expr:
    """A request is submitted, pends, and finishes or is cancelled; a finished one is released."""
    return forall(
        Handle,
        lambda h: (
            (after(outcome[h]) == outcome[h])
            | ((outcome[h] == Outcome.NEW) & after(is_pending(h)))
            | (is_pending(h) & after(one_of(outcome[h], Outcome.FINISHED, Outcome.CANCELLED)))
            | ((outcome[h] == Outcome.FINISHED) & after(outcome[h] == Outcome.RELEASED))
        ),
    )


@run_ahead.step
def a_cancel_is_of_a_pending_request() -> Expr:
    """A cancel ends a request that had not ended, at whatever point it was."""
    return implies(
        fired(cancel),
        exists(Handle, lambda h: is_pending(h) & after(outcome[h] == Outcome.CANCELLED)),
    )


@run_ahead.step
def a_finish_keeps_the_rows() -> Expr:
    """A finish gives up no slot: that is the release."""
    return implies(
        fired(finish),
        exists(
            Handle,
            lambda h: (
                after(outcome[h] == Outcome.FINISHED)
                & is_pending(h)
                & (after(reserved[h]) == reserved[h])
                & (after(settled[h]) == settled[h])
            ),
        ),
    )
