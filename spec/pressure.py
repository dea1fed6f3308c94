"""Pressure: requests share a pool that cannot hold all of them, and everybody gets on in the end.

A request is admitted with one slot and cannot finish before it has a second. A slot that is released is
parked behind the fence of the steps in flight, and free once they have settled. Where a request lacks a slot
and no slot is free, and none will be when the device settles, the youngest that holds one is preempted, be
it the one that asks; who was preempted keeps its place by age. Flush gives up what a request holds, for the
scheduler (preempt) or for its owner (leave); a second flush finds nothing, and is no error.

Modelled: exhaustion, deferred release, preemption by age, owners that leave at any time. Left out: what a
slot holds (see `ownership`), more than two slots to a request, work that a preemption loses. A request's
life is told by its slots alone, so that the core, which knows no admission, is not needed here.
Assumed: the device settles what it was given, as `ownership` claims.
"""

from __future__ import annotations

from kvspec.spec.failures import error_code
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Step,
    System,
    exists,
    forall,
    implies,
    instance,
    member,
    where,
)


class Request(Open):
    """A request that wants slots."""


class Slot(Open):
    """A slot of the pool."""


class Age(Natural):
    """Requests that came before."""


class Life(Enum):
    """Where a request is."""

    ABSENT = member()
    ACTIVE = member()
    ENDED = member()


REQUEST_KNOWN = error_code("REQUEST_KNOWN", "the request came before")
NOT_ACTIVE = error_code("NOT_ACTIVE", "the request has not come, or has ended")
SLOT_HELD = error_code("SLOT_HELD", "a request has the slot")
SLOT_PARKED = error_code("SLOT_PARKED", "the slot waits for the steps in flight to settle")
NOT_PARKED = error_code("NOT_PARKED", "the slot does not wait for any step")
OLDER_WAITS = error_code("OLDER_WAITS", "an older request lacks a slot")
NEVER_FITS = error_code("NEVER_FITS", "the whole pool has too few slots for the request")
HAS_ENOUGH = error_code("HAS_ENOUGH", "the request has all slots that it needs")
LACKS_SLOTS = error_code("LACKS_SLOTS", "the request has not all slots that it needs")
IS_LEAVING = error_code("IS_LEAVING", "the owner of the request has given it up")
NOT_LEAVING = error_code("NOT_LEAVING", "the owner of the request still wants it")
NOT_THE_YOUNGEST = error_code("NOT_THE_YOUNGEST", "a younger request holds slots")
YOUNGER_ASKS = error_code("YOUNGER_ASKS", "the victim is older than the request that lacks a slot")
NOTHING_TO_GAIN = error_code("NOTHING_TO_GAIN", "the victim holds no slot")
SLOTS_COME_BACK = error_code(
    "SLOTS_COME_BACK", "a slot is free, or will be when the device settles"
)

pressure = Module("pressure", "A pool that is too small, and who gives way.")

life = pressure.variable("life", Request, to=Life, init=Life.ABSENT, meaning="where the request is")
age = pressure.variable("age", Request, to=Age, init=0, meaning="requests that came before it")
arrivals = pressure.variable("arrivals", to=Age, init=0, meaning="requests that have come")
leaving = pressure.variable(
    "leaving", Request, to=Bool, init=False, meaning="its owner has given it up"
)
holds = pressure.variable(
    "holds", Slot, Request, to=Bool, init=False, meaning="the request has the slot"
)
parked = pressure.variable(
    "parked", Slot, to=Bool, init=False, meaning="the slot was released, and steps are in flight"
)


def is_held(s: Expr) -> Expr:
    """Some request has the slot."""
    return exists(Request, lambda q: holds[s, q])


def has_slots(q: Expr) -> Expr:
    """The request has a slot."""
    return exists(Slot, lambda s: holds[s, q])


def has_enough(q: Expr) -> Expr:
    """The request has two slots, and can finish."""
    return exists(Slot, Slot, lambda s, t: (s != t) & holds[s, q] & holds[t, q])


def is_waiting(q: Expr) -> Expr:
    """The request lacks a slot, and its owner still wants it."""
    return (life[q] == Life.ACTIVE) & ~leaving[q] & ~has_enough(q)


def is_older(q: Expr, r: Expr) -> Expr:
    """The first request came before the second."""
    return age[q] < age[r]


def comes_back(s: Expr) -> Expr:
    """The slot is free, or will be when the device settles."""
    return parked[s] | ~is_held(s)


def flush(step: Step, q: Expr) -> None:
    """Give up all slots of a request, if it has any; they wait for the steps in flight."""
    for s in step.every(Slot):
        step.assign(parked[s], where(holds[s, q], True, parked[s]))
        step.assign(holds[s, q], False)


def _require_free(step: Step, s: Expr) -> None:
    step.require(~is_held(s), SLOT_HELD)
    step.require(~parked[s], SLOT_PARKED)


@pressure.action
def arrive(step: Step, q: Request, s: Slot) -> None:
    """Admit a request that fits the pool, with its first slot, if none before it waits without any."""
    step.require(life[q] == Life.ABSENT, REQUEST_KNOWN)
    step.require(exists(Slot, Slot, lambda t, u: t != u), NEVER_FITS)
    _require_free(step, s)
    step.require(forall(Request, lambda r: implies(is_waiting(r), has_slots(r))), OLDER_WAITS)
    step.assign(life[q], Life.ACTIVE)
    step.assign(age[q], arrivals[()])
    step.assign(arrivals[()], arrivals[()] + 1)
    step.assign(holds[s, q], True)


@pressure.action
def take(step: Step, q: Request, s: Slot) -> None:
    """Give a free slot to the oldest request that lacks one."""
    step.require(life[q] == Life.ACTIVE, NOT_ACTIVE)
    step.require(~leaving[q], IS_LEAVING)
    step.require(~has_enough(q), HAS_ENOUGH)
    _require_free(step, s)
    step.require(forall(Request, lambda r: implies(is_waiting(r), ~is_older(r, q))), OLDER_WAITS)
    step.assign(holds[s, q], True)


@pressure.action
def preempt(step: Step, v: Request, q: Request) -> None:
    """Take all slots from the youngest request that has any, for one that would wait for ever."""
    step.require(is_waiting(q), HAS_ENOUGH)
    step.require(~is_older(v, q), YOUNGER_ASKS)
    step.require(has_slots(v), NOTHING_TO_GAIN)
    step.require(
        forall(Request, lambda r: implies(has_slots(r), ~is_older(v, r))), NOT_THE_YOUNGEST
    )
    step.require(~exists(Slot, comes_back), SLOTS_COME_BACK)
    flush(step, v)


@pressure.action
def settle_slot(step: Step, s: Slot) -> None:
    """The steps that were in flight at the release of a slot have settled: it is free."""
    step.require(parked[s], NOT_PARKED)
    step.assign(parked[s], False)


@pressure.action
def end(step: Step, q: Request) -> None:
    """A request that has its slots finishes and gives them up."""
    step.require(has_enough(q), LACKS_SLOTS)
    step.assign(life[q], Life.ENDED)
    step.assign(leaving[q], False)
    flush(step, q)


@pressure.action
def give_up(step: Step, q: Request) -> None:
    """The owner of a request wants it no more."""
    step.require(life[q] == Life.ACTIVE, NOT_ACTIVE)
    step.assign(leaving[q], True)


@pressure.action
def leave(step: Step, q: Request) -> None:
    """Flush a request that was given up, whether or not the scheduler has flushed it before."""
    step.require(leaving[q], NOT_LEAVING)
    step.assign(life[q], Life.ENDED)
    step.assign(leaving[q], False)
    flush(step, q)


system = System.of("pressure", "Requests that share a pool which is too small.", pressure)


def make_instance(
    name: str, doc: str, *, requests: int, slots: int, expected: Counts | None = None
) -> Instance:
    """An instance by its sizes; each request comes once."""
    return instance(
        name,
        system,
        {Request: requests, Slot: slots, Age: requests},
        expected=expected,
        doc=doc,
    )


TOO_SMALL = make_instance(
    "TOO_SMALL", "one request, and a slot too few", requests=1, slots=1, expected=Counts(1, 0, 0, 1)
)
TIGHT = make_instance(
    "TIGHT",
    "two requests, and slots for one",
    requests=2,
    slots=2,
    expected=Counts(141, 422, 8, 2),
)
ODD = make_instance(
    "ODD",
    "two requests, and slots for one and a half",
    requests=2,
    slots=3,
    expected=Counts(357, 1_272, 9, 2),
)
CROWD = make_instance(
    "CROWD",
    "three requests, and slots for one",
    requests=3,
    slots=2,
    expected=Counts(1_339, 5_055, 12, 6),
)

INSTANCES = (TOO_SMALL, TIGHT, ODD, CROWD)
