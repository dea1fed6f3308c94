"""Handle reuse under a generation counter that wraps: how wide must it be?

Modelled: one handle table whose entries are released and given away again, and appends that captured a
generation and come back late. The counter has `width` values and then begins again. `reuses` counts,
for each append, the releases of its handle since it began; a release waits while an append to the
handle has already lived through `lifetime` of them. Generation equality alone decides a publication.
Claimed, and proved for all widths and lifetimes: with lifetime < width no stale append is published.
A width of at most the lifetime brings the fault back: the handle comes round to the captured
generation, and the late append goes through.
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
    Counts,
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
    after,
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
# Claimed without the assumption on the width; false of an instance whose counter is too narrow.
unconditional = Properties(system)


def is_wide() -> Expr:
    """No live append sees as many releases as the counter has values."""
    return lifetime < width


def only_fresh() -> Expr:
    """What is published by this step has seen no release of its handle."""
    return forall(
        Late,
        lambda x: implies(
            fired(publish_late)
            & (late_state[x] == LateState.PREPARED)
            & after(late_state[x] == LateState.IDLE),
            reuses[x] == 0,
        ),
    )


@properties.lemma
def a_counter_stays_below_its_width() -> Expr:
    """A counter, and what an append captured of it, is one of `width` values."""
    return implies(
        is_wide(),
        forall(Handle, lambda h: counter[h] < width) & forall(Late, lambda x: late_base[x] < width),
    )


@properties.lemma
def a_live_append_sees_at_most_its_lifetime() -> Expr:
    """No append has seen more releases of its handle than it may."""
    return forall(Late, lambda x: reuses[x] <= lifetime)


@properties.lemma
def a_prepared_append_has_a_handle() -> Expr:
    """What is prepared extends some handle."""
    return forall(
        Late, lambda x: implies(late_state[x] == LateState.PREPARED, is_some(late_target[x]))
    )


@properties.lemma
def a_counter_is_the_captured_one_and_the_releases_since() -> Expr:
    """The counter of an append's handle is the captured one plus the releases since, wrapped once at most."""
    return forall(
        Late,
        Handle,
        lambda x, h: implies(
            is_wide() & (late_target[x] == h),
            (counter[h] == late_base[x] + reuses[x])
            | (counter[h] + width == late_base[x] + reuses[x]),
        ),
    )


@properties.step
def a_wide_counter_lets_only_fresh_appends_through() -> Expr:
    """With a lifetime below the width, what is published has seen no release of its handle."""
    return implies(is_wide() & fired(publish_late), only_fresh())


@unconditional.step
def only_fresh_appends_are_published() -> Expr:
    """Whatever the width, what is published has seen no release of its handle."""
    return only_fresh()


@properties.witness
def reaches_an_append_that_has_waited() -> Expr:
    """An append is prepared whose handle was released since."""
    return exists(Late, lambda x: is_some(late_target[x]) & (reuses[x] > 0))


@properties.witness
def reaches_a_counter_that_has_wrapped() -> Expr:
    """An append has captured a larger value than the counter of its handle has now."""
    return exists(Late, Handle, lambda x, h: (late_target[x] == h) & (counter[h] < late_base[x]))


def make_instance(
    width_: int,
    lifetime_: int,
    *,
    handles: int = 1,
    appends: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """A counter of that width and appends of that lifetime, by default one append to one handle.

    Counts have one value more, so that a rule which lets an append wait too long is seen to do so.
    """
    return instance(
        f"WIDTH{width_}_LIFETIME{lifetime_}",
        system,
        {Handle: handles, Late: appends, Generation: width_, Count: lifetime_ + 1},
        constants={width: width_, lifetime: lifetime_},
        expected=expected,
        doc=f"a counter of {width_} values under appends that see at most {lifetime_} releases",
    )


SAFE = make_instance(3, 2, handles=2, appends=2, expected=Counts(1_314, 4_860, 20, 0, 393))
