"""What is claimed of any scheduler: its decisions change no fact about a request."""

from __future__ import annotations

from collections.abc import Callable

from kvspec.properties.serving import serving
from kvspec.spec.handles import Handle, length
from kvspec.spec.language import (
    Expr,
    Properties,
    Variable,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
)
from kvspec.spec.language.refinement import STUTTER, call, refinement
from kvspec.spec.scheduling import (
    Priority,
    admit,
    admitted,
    batch_id,
    choose_chunk,
    choose_next,
    lower_priority,
    preempt,
    preempted,
    prefill_chunk_size,
    priority,
    put_in_batch,
    raise_priority,
    run_next,
    system,
)
from kvspec.spec.scheduling import (
    scheduling as module,
)
from kvspec.spec.serving import (
    Work,
    eligible_work,
    is_waiting_prefill,
    prompt_rows_remaining,
    service_view,
)
from kvspec.spec.serving import system as cache

scheduling = Properties(system, given=serving)

DECISIONS = tuple(module.actions.values())


@scheduling.step
def no_decision_changes_the_view() -> Expr:
    """Whatever a scheduler decides, every field of the service view of every request stays."""
    decided = any_of(*(fired(action) for action in DECISIONS))
    return implies(
        decided,
        forall(
            Handle,
            lambda h: all_of(*(after(fact) == fact for fact in service_view(h).values())),
        ),
    )


@scheduling.step
def a_waiting_request_is_admitted() -> Expr:
    """What is let in is a request whose prompt waits."""
    return implies(
        fired(admit), exists(Handle, lambda h: is_waiting_prefill(h) & after(admitted[h]))
    )


@scheduling.step
def a_raised_priority_is_high() -> Expr:
    """After raising a priority, some request is urgent."""
    return implies(
        fired(raise_priority), exists(Handle, lambda h: after(priority[h]) == Priority.HIGH)
    )


@scheduling.step
def a_lowered_priority_is_low() -> Expr:
    """After lowering a priority, some request is not urgent."""
    return implies(
        fired(lower_priority), exists(Handle, lambda h: after(priority[h]) == Priority.LOW)
    )


@scheduling.step
def a_batch_takes_a_request_with_work() -> Expr:
    """What is put into a batch has work that can be selected."""
    return implies(
        fired(put_in_batch),
        exists(Handle, lambda h: (eligible_work(h) != Work.NOTHING) & is_some(after(batch_id[h]))),
    )


@scheduling.step
def a_chunk_is_of_rows_that_wait() -> Expr:
    """A chunk has at least one row, and no more than the prompt has left."""
    return implies(
        fired(choose_chunk),
        exists(
            Handle,
            lambda h: (
                is_waiting_prefill(h)
                & (after(prefill_chunk_size[h]) >= 1)
                & (after(prefill_chunk_size[h]) <= prompt_rows_remaining(h))
            ),
        ),
    )


@scheduling.step
def a_victim_runs_no_more() -> Expr:
    """A request that is chosen as a victim is not admitted any more."""
    return implies(
        fired(preempt), exists(Handle, lambda h: after(preempted[h]) & ~after(admitted[h]))
    )


@scheduling.step
def who_runs_next_has_work() -> Expr:
    """The request chosen to run next has work that can be selected."""
    return implies(
        fired(choose_next),
        exists(Handle, lambda h: (eligible_work(h) != Work.NOTHING) & (after(run_next[()]) == h)),
    )


@scheduling.witness
def reaches_a_victim_with_rows() -> Expr:
    """A request with committed rows is chosen as a victim, and keeps them."""
    return exists(Handle, lambda h: preempted[h] & (length[h] >= 1))


@scheduling.end
def nothing_is_left_to_decide() -> Expr:
    """The system may stop where no handle holds rows."""
    return serving["nothing_is_left_to_release"].body


def _itself(variable: Variable) -> Expr | Callable[..., Expr]:
    """The variable as an expression of its indices."""
    return lambda *index: variable[index]


decisions_leave_the_cache_alone = refinement(
    "decisions_leave_the_cache_alone",
    concrete=system,
    abstract=cache,
    mapping={variable: _itself(variable) for variable in cache.variables.values()},
    steps={
        **{action: call(action, *action.parameters) for action in cache.actions.values()},
        **{
            (action, guard.code): call(action, *action.parameters, refused=guard.code)
            for action in cache.actions.values()
            for guard in action.guards
            if guard.refusal
        },
        **dict.fromkeys(DECISIONS, STUTTER),
    },
    doc="Each step beside a scheduler is one of the serving system, or changes nothing of it.",
)
