"""Handle reuse under a generation counter that wraps: how wide must it be?

Modelled: one handle table whose entries are released and given away again, and appends that captured a
generation and come back late. The counter has `width` values and then begins again. `reuses` counts,
for each append, the releases of its handle since it began; a release waits while an append to the
handle has already lived through `lifetime` of them. Generation equality alone decides a publication.
Claimed: with lifetime < width no stale append is published. A width of at most the lifetime brings the
fault back: the handle comes round to the captured generation, and the late append goes through.
Left out: everything but handles, generations and the two ends of an append.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    HANDLE_TERMINAL,
    NOT_PREPARED,
    STALE_GENERATION,
    TXN_IN_USE,
)
from kvspec.spec.handles import Generation, Handle
from kvspec.spec.language import (
    Bool,
    Enum,
    ErrorCode,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    Step,
    System,
    exists,
    fired,
    forall,
    implies,
    instance,
    is_some,
    member,
    none,
    the,
    where,
)


class Late(Open):
    """An append that may come back late."""


class Count(Natural):
    """Releases of a handle during the life of an append."""


class LateState(Enum):
    """Whether the append is under way."""

    IDLE = member()
    PREPARED = member()


wrapping = Module("wrapping", "Handles reused under a generation counter that wraps.")

width = wrapping.constant("width", Generation, meaning="values of the generation counter")
lifetime = wrapping.constant("lifetime", Count, meaning="releases that a live append may see")

STALE_WORK = ErrorCode("STALE_WORK", "an append to the handle has seen as many releases as it may")
HANDLE_BUSY = ErrorCode("HANDLE_BUSY", "the handle is in use")

ready = wrapping.variable("ready", Handle, to=Bool, init=False, meaning="a request has the handle")
counter = wrapping.variable(
    "counter", Handle, to=Generation, init=0, meaning="generation counter, modulo width"
)
late_state = wrapping.variable(
    "late_state", Late, to=LateState, init=LateState.IDLE, meaning="state of the append"
)
late_target = wrapping.variable(
    "late_target", Late, to=Option[Handle], init=none(Handle), meaning="handle that it extends"
)
late_base = wrapping.variable(
    "late_base", Late, to=Generation, init=0, meaning="counter that it captured"
)
reuses = wrapping.variable(
    "reuses", Late, to=Count, init=0, meaning="releases of its handle since it began"
)


@wrapping.action
def reuse(step: Step, h: Handle) -> None:
    """Give a free handle to a request."""
    step.require(~ready[h], HANDLE_BUSY)
    step.assign(ready[h], True)


@wrapping.action
def prepare_late(step: Step, x: Late, h: Handle) -> None:
    """Prepare an append and capture the counter of its handle."""
    step.require(late_state[x] == LateState.IDLE, TXN_IN_USE)
    step.require(ready[h], HANDLE_TERMINAL)
    step.assign(late_state[x], LateState.PREPARED)
    step.assign(late_target[x], h)
    step.assign(late_base[x], counter[h])
    step.assign(reuses[x], 0)


def _end(step: Step, x: Expr) -> None:
    step.assign(late_state[x], LateState.IDLE)
    step.assign(late_target[x], none(Handle))
    step.assign(late_base[x], 0)
    step.assign(reuses[x], 0)


@wrapping.action
def publish_late(step: Step, x: Late) -> None:
    """Publish if the counter is the captured one."""
    step.require(late_state[x] == LateState.PREPARED, NOT_PREPARED)
    step.require(ready[the(late_target[x])], HANDLE_TERMINAL, refused=lambda s: _end(s, x))
    step.require(
        counter[the(late_target[x])] == late_base[x],
        STALE_GENERATION,
        refused=lambda s: _end(s, x),
    )
    _end(step, x)


@wrapping.action
def release_reused(step: Step, h: Handle) -> None:
    """Release a handle and advance its counter, unless an append to it has waited too long."""
    step.require(ready[h], HANDLE_TERMINAL)
    step.require(
        forall(Late, lambda x: implies(late_target[x] == h, reuses[x] < lifetime)), STALE_WORK
    )
    step.assign(ready[h], False)
    step.assign(counter[h], where(counter[h] + 1 == width, 0, counter[h] + 1))
    for x in step.every(Late):
        step.assign(reuses[x], where(late_target[x] == h, reuses[x] + 1, reuses[x]))


system = System.of("wrapping", "Handle reuse under a generation counter that wraps.", wrapping)
properties = Properties(system)


@properties.step
def only_fresh_appends_are_published() -> Expr:
    """An append that is published has seen no release of its handle."""
    return implies(
        fired(publish_late),
        exists(Late, lambda x: (late_state[x] == LateState.PREPARED) & (reuses[x] == 0)),
    )


@properties.witness
def reaches_an_append_that_has_waited() -> Expr:
    """An append is prepared whose handle was released since."""
    return exists(Late, lambda x: is_some(late_target[x]) & (reuses[x] > 0))


def make_instance(width_: int, lifetime_: int) -> Instance:
    """One handle and one late append, with a counter of that width and appends of that lifetime."""
    return instance(
        f"WIDTH{width_}_LIFETIME{lifetime_}",
        system,
        {Handle: 1, Late: 1, Generation: width_, Count: lifetime_},
        constants={width: width_, lifetime: lifetime_},
    )
