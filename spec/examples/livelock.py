"""A livelock: a door that opens and shuts, and a visitor who can go in only while it is open.

Going in is possible again and again but not all the time, so weak fairness does not bring it about and
strong fairness does.
"""

from __future__ import annotations

from kvspec.spec.language import (
    Bool,
    ErrorCode,
    Expr,
    Module,
    Properties,
    Step,
    System,
    instance,
    strong,
    weak,
)

house = Module("house", "A door and a visitor.")
door = house.variable("door", to=Bool, init=False, meaning="the door is open")
inside = house.variable("inside", to=Bool, init=False, meaning="the visitor is in")

SHUT = ErrorCode("SHUT", "the door is shut")
AJAR = ErrorCode("AJAR", "the door is open")
IN = ErrorCode("IN", "the visitor is in")


@house.action
def open_door(step: Step) -> None:
    """The door opens."""
    step.require(~door.value, AJAR)
    step.assign(door.value, True)


@house.action
def shut_door(step: Step) -> None:
    """The door shuts."""
    step.require(door.value, SHUT)
    step.assign(door.value, False)


@house.action
def go_in(step: Step) -> None:
    """The visitor goes in."""
    step.require(~inside.value, IN)
    step.require(door.value, SHUT)
    step.assign(inside.value, True)


system = System.of("livelock", "A door that opens and shuts.", house)
properties = Properties(system)


@properties.leads_to(weak(open_door), weak(shut_door), weak(go_in))
def weakly_fair_visits_succeed() -> tuple[Expr, Expr]:
    """Who is outside gets in, under weak fairness: false."""
    return ~inside.value, inside.value


@properties.leads_to(weak(open_door), weak(shut_door), strong(go_in))
def strongly_fair_visits_succeed() -> tuple[Expr, Expr]:
    """Who is outside gets in, under strong fairness."""
    return ~inside.value, inside.value


HOUSE = instance("house", system, {})
