"""The river crossing: a farmer takes a wolf, a goat and a cabbage across, one at a time.

A puzzle whose shortest solution, seven crossings, is known: searched for as a counterexample.
"""

from __future__ import annotations

from kvspec.spec.language import (
    Bool,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Properties,
    Step,
    System,
    forall,
    instance,
    member,
)


class Passenger(Enum):
    """Who is to be taken across."""

    WOLF = member()
    GOAT = member()
    CABBAGE = member()


river = Module("river", "A farmer, a boat for one passenger, and two banks.")
across = river.variable("across", Passenger, to=Bool, init=False, meaning="on the far bank")
farmer = river.variable("farmer", to=Bool, init=False, meaning="the farmer is on the far bank")

ELSEWHERE = ErrorCode("ELSEWHERE", "the passenger is on the other bank")
EATEN = ErrorCode("EATEN", "somebody would be eaten")


def _safe_without(passenger: Expr | None) -> Expr:
    """Whom the farmer leaves behind gets along: the goat is with neither the wolf nor the cabbage."""

    def stays(who: Expr) -> Expr:
        here = across[who] == farmer.value
        return here if passenger is None else here & (passenger != who)

    goat, wolf, cabbage = (
        stays(who) for who in (Passenger.GOAT, Passenger.WOLF, Passenger.CABBAGE)
    )
    return ~(goat & (wolf | cabbage))


@river.action
def cross(step: Step, p: Passenger) -> None:
    """The farmer crosses with a passenger."""
    step.require(across[p] == farmer.value, ELSEWHERE)
    step.require(_safe_without(p), EATEN)
    step.assign(across[p], ~farmer.value)
    step.assign(farmer.value, ~farmer.value)


@river.action
def cross_alone(step: Step) -> None:
    """The farmer crosses alone."""
    step.require(_safe_without(None), EATEN)
    step.assign(farmer.value, ~farmer.value)


system = System.of("river", "The wolf, the goat and the cabbage.", river)
properties = Properties(system)


@properties.invariant
def somebody_stays() -> Expr:
    """Not all get across: false, and its shortest counterexample is the solution."""
    return ~forall(Passenger, lambda p: across[p])


PUZZLE = instance("puzzle", system, {})
