"""What progress of a run-ahead request rests on: each fairness that its claim assumes."""

import attrs
import pytest

from kvspec.models.explicit import explore
from kvspec.properties.run_ahead import properties
from kvspec.spec import run_ahead
from kvspec.spec.language import strong, weak

CLAIM = properties["every_request_ends"]
FAIR = {
    "start": weak(run_ahead.start, "h"),
    "dispatch": weak(run_ahead.dispatch, "h"),
    "settle": strong(run_ahead.settle, "f"),
    "drain": weak(run_ahead.drain, "f"),
    "finish": weak(run_ahead.finish, "h"),
}


def lasso(*fairness):
    """The actions of the loop in which a request never ends; None if it must end."""
    found = explore(run_ahead.AHEAD, [attrs.evolve(CLAIM, fairness=fairness)]).violations
    if not found:
        return None
    (broken,) = found
    loop = len(broken.trace) - 1 if broken.loop is None else broken.loop
    return [step.event.action for step in broken.trace[loop + 1 :]]


def test_a_request_ends_under_the_fairness_that_is_claimed():
    """Steps come back again and again, outputs are drained, and the scheduler goes on."""
    assert lasso(*FAIR.values()) is None
    assert {fair.action for fair in CLAIM.fairness} == {fair.action for fair in FAIR.values()}


def test_steps_that_are_lost_for_ever_are_no_progress():
    """A step that comes back only if it is never lost first may be dispatched and lost for ever."""
    loop = lasso(*{**FAIR, "settle": weak(run_ahead.settle, "f")}.values())
    assert set(loop) == {"dispatch", "lose"}


@pytest.mark.parametrize("left_out", FAIR)
def test_every_fairness_is_needed(left_out):
    """Without any one of them a request may wait for ever."""
    assert lasso(*(fair for name, fair in FAIR.items() if name != left_out)) is not None
