"""A lock: processes enter a critical section by taking a lock; a broken one looks first and takes later."""

from __future__ import annotations

from kvspec.spec.language import (
    Bool,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Open,
    Properties,
    Step,
    System,
    forall,
    implies,
    instance,
    member,
    one_of,
)


class Process(Open):
    """A process."""


class Place(Enum):
    """Where a process is."""

    OUTSIDE = member()
    WAITING = member()
    ENTERING = member()
    INSIDE = member()


NOT_THERE = ErrorCode("NOT_THERE", "the process is at another place")
TAKEN = ErrorCode("TAKEN", "the lock is taken")


def past(place: Expr) -> Expr:
    """Whether a process at this place has gone by the lock."""
    return one_of(place, Place.ENTERING, Place.INSIDE)


def _make(name: str, *, atomic: bool) -> tuple[System, Properties]:
    lock = Module(name, "Processes and one lock.")
    place = lock.variable("place", Process, to=Place, init=Place.OUTSIDE, meaning="where it is")
    held = lock.variable("held", to=Bool, init=False, meaning="the lock is taken")

    @lock.action
    def ask(step: Step, p: Process) -> None:
        """A process wants to enter."""
        step.require(place[p] == Place.OUTSIDE, NOT_THERE)
        step.assign(place[p], Place.WAITING)

    @lock.action
    def look(step: Step, p: Process) -> None:
        """A waiting process finds the lock free, and takes it at once unless the lock is broken."""
        step.require(place[p] == Place.WAITING, NOT_THERE)
        step.require(~held.value, TAKEN)
        step.assign(place[p], Place.ENTERING)
        if atomic:
            step.assign(held.value, True)

    @lock.action
    def enter(step: Step, p: Process) -> None:
        """The process enters."""
        step.require(place[p] == Place.ENTERING, NOT_THERE)
        step.assign(place[p], Place.INSIDE)
        step.assign(held.value, True)

    @lock.action
    def leave(step: Step, p: Process) -> None:
        """The process leaves and frees the lock."""
        step.require(place[p] == Place.INSIDE, NOT_THERE)
        step.assign(place[p], Place.OUTSIDE)
        step.assign(held.value, False)

    made = System.of(name, "Mutual exclusion by a lock.", lock)
    claims = Properties(made)

    @claims.invariant
    def at_most_one_is_inside() -> Expr:
        """Two processes are never inside together."""
        return forall(
            Process,
            Process,
            lambda a, b: implies((place[a] == Place.INSIDE) & (place[b] == Place.INSIDE), a == b),
        )

    if atomic:  # of the broken lock these fail before two are inside

        @claims.lemma
        def at_most_one_is_past_the_lock() -> Expr:
            """Of two processes that are entering or inside, both are the same."""
            return forall(
                Process, Process, lambda a, b: implies(past(place[a]) & past(place[b]), a == b)
            )

        @claims.lemma
        def the_lock_is_taken_by_who_is_past_it() -> Expr:
            """While a process is entering or inside, the lock is taken."""
            return forall(Process, lambda p: implies(past(place[p]), held.value))

    @claims.witness
    def reaches_the_inside() -> Expr:
        """Some process gets inside."""
        return ~forall(Process, lambda p: place[p] != Place.INSIDE)

    return made, claims


system, properties = _make("lock", atomic=True)
broken, broken_properties = _make("broken_lock", atomic=False)

PAIR = instance("pair", system, {Process: 2})
BROKEN_PAIR = instance("broken_pair", broken, {Process: 2})
