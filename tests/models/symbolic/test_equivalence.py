"""A changed action is equivalent if it makes the same steps in all states that matter."""

from typing import Any

import attrs
import pytest

from kvspec.models.symbolic import SameTransitions, prove_same_transitions
from kvspec.spec.examples import peer
from kvspec.spec.language import (
    Bool,
    ErrorCode,
    Module,
    Natural,
    Open,
    Properties,
    System,
    forall,
    implies,
)

CLOSED = ErrorCode("CLOSED", "it is closed")
EMPTY = ErrorCode("EMPTY", "it is empty")


class Box(Open):
    """A box."""


class Size(Natural):
    """How much is in it."""


@pytest.fixture(scope="module")
def boxes() -> tuple[System, Properties]:
    """Boxes that are open whenever something is in them."""
    module = Module("boxes", "Boxes.")
    is_open = module.variable("is_open", Box, to=Bool, init=False, meaning="it is open")
    size = module.variable("size", Box, to=Size, init=0, meaning="what is in it")
    shut = module.variable("shut", Box, to=Size, init=0, meaning="refusals")

    @module.action
    def put(step: Any, b: Box) -> None:
        """Open a box and put something in."""
        step.assign(is_open[b], True)
        step.assign(size[b], size[b] + 1)

    @module.action
    def take(step: Any, b: Box) -> None:
        """Take something out."""
        step.require(is_open[b], CLOSED, refused={shut[b]: shut[b] + 1})
        step.require(size[b] >= 1, EMPTY)
        step.assign(size[b], size[b] - 1)

    system = System.of("boxes", "Boxes.", module)
    properties = Properties(system)

    @properties.invariant
    def what_is_full_is_open() -> Any:
        """A box with something in it is open."""
        return forall(Box, lambda b: implies(size[b] >= 1, is_open[b]))

    return system, properties


def test_an_action_is_equivalent_to_itself() -> None:
    """Every action of the peer system makes its own steps."""
    checker = SameTransitions(peer.system, peer.properties)
    for action in peer.system.actions.values():
        assert checker.compare(action, action, codes=True).verdict == "holds"


def test_a_guard_that_the_invariant_implies_is_no_loss(boxes: Any) -> None:
    """The second guard's first half follows from the invariant, so writing it twice is no change."""
    system, properties = boxes
    take = system.action("take")
    closed, empty = take.guards
    both = attrs.evolve(empty, condition=empty.condition & closed.condition)
    changed = attrs.evolve(take, guards=(closed, both))
    assert prove_same_transitions(system, take, changed, properties, codes=True).verdict == "holds"


def test_a_refusal_with_effect_counts(boxes: Any) -> None:
    """Without the refusal that counts, a call on a closed box leaves another state."""
    system, properties = boxes
    take = system.action("take")
    changed = attrs.evolve(take, guards=take.guards[1:])
    report = prove_same_transitions(system, take, changed, properties)
    assert report.verdict == "violated"
    found = report.items[-1].counterexample
    assert report.items[-1].name == "same:take:shut"
    assert found is not None
    assert "is refused EMPTY" in found.note


def test_codes_are_compared_when_asked(boxes: Any) -> None:
    """Guards in another order refuse the same calls with other codes."""
    system, properties = boxes
    take = system.action("take")
    closed, empty = (attrs.evolve(guard, refusal=()) for guard in take.guards)
    one = attrs.evolve(take, guards=(closed, empty))
    two = attrs.evolve(take, guards=(empty, closed))
    plain = attrs.evolve(system, actions={**system.actions, "take": one})
    assert prove_same_transitions(plain, one, two, properties).verdict == "holds"
    report = prove_same_transitions(plain, one, two, properties, codes=True)
    assert report.verdict == "violated"
    assert report.items[-1].name == "same:take:codes"


def test_a_lost_guard_of_the_peer_system_is_a_difference(planted: Any) -> None:
    """Publish without the comparison of generations accepts more, in a state that is shown."""
    original = peer.system.action("publish")
    changed = planted("publish", "STALE_GENERATION").action("publish")
    report = prove_same_transitions(peer.system, original, changed, peer.properties)
    assert report.verdict == "violated"
    assert report.items[-1].counterexample is not None
    assert "the changed action: publish(t=txn0) is accepted" in report.show()


def test_actions_that_are_called_differently_are_refused() -> None:
    """Only actions with the same parameters can be compared."""
    with pytest.raises(ValueError, match="called alike"):
        prove_same_transitions(
            peer.system,
            peer.system.action("finish"),
            peer.system.action("publish"),
            peer.properties,
        )
