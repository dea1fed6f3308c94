"""Passes: steps of the device, dispatched ahead of their results and settled in order.

Modelled: the host gives the device a pass before the result of the last one is known (run-ahead), so that
several are in flight. The device is one stream: passes settle in the order in which they were dispatched.
A pass has its place among those in flight, and what a released resource waits for is a fence, the place of
the last pass that has to do with it. Places and fences go down by one whenever a pass settles, so that
nothing counts the passes of a run: the host may dispatch for ever, and progress is claimed of such runs
too. What a pass reads and writes is said by those who extend `dispatch` and `settle`, and they let their
fences down. Left out: what a pass computes, streams beside the first, passes that fail.
"""

from __future__ import annotations

from kvspec.spec.failures import error_code
from kvspec.spec.language import Bool, Expr, Module, Natural, Open, Step, limit, where


class Pass(Open):
    """A record of a pass that was given to the device."""


class Tick(Natural):
    """Passes that have still to settle, or the place of one among them."""


PASS_IN_USE = error_code("PASS_IN_USE", "the record belongs to a pass in flight")
PASS_NOT_NEXT = error_code("PASS_NOT_NEXT", "the pass is not the oldest one in flight")

passes = Module("passes", "Passes of the device, in flight and settled.")

unsettled = passes.variable("unsettled", to=Tick, init=0, meaning="passes in flight")
in_flight = passes.variable(
    "in_flight", Pass, to=Bool, init=False, meaning="the pass was dispatched and has not settled"
)
pass_number = passes.variable(
    "pass_number",
    Pass,
    to=Tick,
    init=0,
    meaning="place of the pass among those in flight, 1 of the oldest; 0 of none",
)


def one_less(place: Expr) -> Expr:
    """A place or a fence when the oldest pass has settled."""
    return where(place > 0, place - 1, 0)


@passes.action
def dispatch(step: Step, p: Pass) -> None:
    """Give the device one more pass, whether or not those before it have settled."""
    step.require(~in_flight[p], PASS_IN_USE)
    step.assign(in_flight[p], True)
    step.assign(pass_number[p], unsettled[()] + 1)
    step.assign(unsettled[()], unsettled[()] + 1)


@passes.action
def settle(step: Step, p: Pass) -> None:
    """The oldest pass in flight ends: what it read and wrote is read and written."""
    step.require(pass_number[p] == 1, PASS_NOT_NEXT)
    step.assign(in_flight[p], False)
    step.assign(unsettled[()], unsettled[()] - 1)
    for q in step.every(Pass):
        step.assign(pass_number[q], one_less(pass_number[q]))


def has_passed(fence: Expr) -> Expr:
    """Every pass up to the fence has settled."""
    return fence == 0


@limit(dispatch)
def dispatches_below_the_last_tick() -> Expr:
    """A pass in flight has a place: a record for each pass is also a place for each."""
    return unsettled[()] < Tick.top
