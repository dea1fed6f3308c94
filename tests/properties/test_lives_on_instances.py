"""The refinements of `life`, state by state on instances: no solver has a part in it."""

import attrs
import pytest

from kvspec.models.concrete import Machine
from kvspec.models.symbolic.refine import explain
from kvspec.properties.atlas import groups
from kvspec.properties.lives import (
    a_round_is_a_publication,
    a_settlement_is_a_publication,
    the_core_lives,
)
from kvspec.spec import core, drafting, run_ahead


def steps_of_no_life(refinement, instance):
    """The transitions of an instance, and the names of those that are none of a life."""
    machine = Machine(instance)
    seen = dict.fromkeys(machine.initial_states())
    waiting, transitions, wrong = list(seen), 0, set()
    for state in waiting:
        for event, outcome in machine.transitions(state):
            transitions += 1
            name = event.action if outcome.code is None else f"{event.action}!{outcome.code}"
            if explain(refinement, name, machine, state, event, outcome) is not None:
                wrong.add(name)
            if outcome.state not in seen:
                seen[outcome.state] = None
                waiting.append(outcome.state)
    return transitions, wrong


@pytest.mark.parametrize(
    ("refinement", "instance"),
    [
        (the_core_lives, core.TINY),
        (a_settlement_is_a_publication, run_ahead.AHEAD),
        (a_round_is_a_publication, drafting.COUPLE),
        (a_round_is_a_publication, drafting.SHORT),
    ],
    ids=lambda each: each.name,
)
def test_every_step_of_an_instance_is_one_of_a_life(refinement, instance):
    """The mapped states before and after each step are those of a step of a life, or the same one."""
    assert steps_of_no_life(refinement, instance) == (instance.expected.transitions, set())


@pytest.mark.parametrize(
    ("refinement", "group", "wrong"),
    [
        (a_settlement_is_a_publication, "A-B06", {"settle"}),
        # behind a close at a wrong position a cancel ends with more rows than were seen
        (a_round_is_a_publication, "A-B41", {"close", "cancel"}),
    ],
)
def test_a_fault_of_the_atlas_reaches_a_step_of_no_life(refinement, group, wrong):
    """On the instance of its case a faulty rule takes such a step in a state that it can reach."""
    case = groups()[group].cases[0]
    faulty = attrs.evolve(refinement, concrete=case.fault.changed)
    assert steps_of_no_life(faulty, case.fault.on(case.instance))[1] == wrong
