"""Passes: steps of the device, dispatched ahead of their results and settled in order.

Modelled: the host gives the device a pass before the result of the last one is known (run-ahead), so that
several are in flight. The device is one stream: passes settle in the order in which they were dispatched.
`dispatched` and `settled` count them; what a released resource waits for is a fence, a number that
`settled` must have reached. What a pass reads and writes is said by those who extend `dispatch` and
`settle`. Left out: what a pass computes, streams beside the first, passes that fail.
"""

from __future__ import annotations

from kvspec.spec.failures import FailureClass
from kvspec.spec.language import Bool, ErrorCode, Expr, Module, Natural, Open, Step, limit


class Pass(Open):
    """A record of a pass that was given to the device."""


class Tick(Natural):
    """Passes so far, or the number of one."""


def _code(name: str, meaning: str) -> ErrorCode:
    return ErrorCode(name, meaning, int(FailureClass.NONE))


PASS_IN_USE = _code("PASS_IN_USE", "the record belongs to a pass in flight")
PASS_NOT_NEXT = _code("PASS_NOT_NEXT", "the pass is not the oldest one in flight")

passes = Module("passes", "Passes of the device, in flight and settled.")

dispatched = passes.variable("dispatched", to=Tick, init=0, meaning="passes dispatched so far")
settled = passes.variable("settled", to=Tick, init=0, meaning="passes settled so far")
in_flight = passes.variable(
    "in_flight", Pass, to=Bool, init=False, meaning="the pass was dispatched and has not settled"
)
pass_number = passes.variable(
    "pass_number",
    Pass,
    to=Tick,
    init=0,
    meaning="which pass of the device it is, from 1 on; 0 of none",
)


@passes.action
def dispatch(step: Step, p: Pass) -> None:
    """Give the device one more pass, whether or not those before it have settled."""
    step.require(~in_flight[p], PASS_IN_USE)
    step.assign(in_flight[p], True)
    step.assign(pass_number[p], dispatched[()] + 1)
    step.assign(dispatched[()], dispatched[()] + 1)


@passes.action
def settle(step: Step, p: Pass) -> None:
    """The oldest pass in flight ends: what it read and wrote is read and written."""
    step.require(pass_number[p] == settled[()] + 1, PASS_NOT_NEXT)
    step.assign(in_flight[p], False)
    step.assign(pass_number[p], 0)
    step.assign(settled[()], settled[()] + 1)


def has_passed(fence: Expr) -> Expr:
    """Every pass up to the fence has settled."""
    return fence <= settled[()]


@limit(dispatch)
def dispatches_below_the_last_tick() -> Expr:
    """A dispatch needs one number more."""
    return dispatched[()] < Tick.top
