"""The named instances of the core system have their counts, with and without symmetry (C1)."""

from collections import Counter

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import explore
from kvspec.spec import core

NAMES = ["TINY", "REUSE", "RACE", "BATCH", "LAYERS", "BRANCH", "SMALL", "FAN_OUT"]
ALL = pytest.mark.parametrize("instance", core.INSTANCES, ids=lambda found: found.name)


def test_all_named_instances_are_counted_here():
    """No named instance is left out, and all assert every figure."""
    assert [found.name for found in core.INSTANCES] == NAMES
    assert all(getattr(core, name) in core.INSTANCES for name in NAMES)
    for found in core.INSTANCES:
        expected = found.expected
        figures = expected.states, expected.transitions, expected.depth, expected.terminal
        assert None not in (*figures, expected.symmetric)


@ALL
def test_an_instance_has_its_counts(instance):
    """Distinct states, transitions, depth and states without a way on are the figures asserted (C1)."""
    result = explore(instance)
    expected = instance.expected
    assert result.verdict == "holds", result.violations
    found = result.states, result.transitions, result.depth, result.terminal
    assert found == (expected.states, expected.transitions, expected.depth, expected.terminal)
    assert (result.cut, result.complete) == (0, True)


@ALL
def test_an_instance_has_its_counts_under_symmetry(instance):
    """One state for all that differ by names, which stand for as many states as there are (C1)."""
    result = explore(instance, symmetry=True)
    expected = instance.expected
    assert result.verdict == "holds", result.violations
    assert (result.states, result.represented) == (expected.symmetric, expected.states)
    assert result.depth == expected.depth


@pytest.mark.slow
def test_wide_has_its_counts_under_symmetry():
    """The largest instance, whose states are too many for every run, has its counts (C1)."""
    expected = core.WIDE.expected
    result = explore(core.WIDE, symmetry=True, coverage=False)
    assert result.verdict == "holds", result.violations
    assert (result.states, result.represented) == (expected.symmetric, expected.states)
    assert core.WIDE not in core.INSTANCES
    assert core.WIDE.slow


@pytest.mark.parametrize("instance", [core.TINY, core.REUSE], ids=lambda i: i.name)
def test_brute_force_gives_the_same_counts(instance):
    """A plain search in Python over the reference engine finds the figures as well (C1)."""
    machine = Machine(instance)
    depth = dict.fromkeys(machine.initial_states(), 0)
    waiting = list(depth)
    transitions, terminal, fired = 0, 0, Counter()
    for state in waiting:
        made = machine.transitions(state)
        transitions += len(made)
        fired.update(event.action for event, _ in made)
        terminal += all(outcome.state == state for _, outcome in made)
        for _, outcome in made:
            if outcome.state not in depth:
                depth[outcome.state] = depth[state] + 1
                waiting.append(outcome.state)
    expected = instance.expected
    assert (len(depth), transitions) == (expected.states, expected.transitions)
    assert (max(depth.values()), terminal) == (expected.depth, expected.terminal)
    result = explore(instance)
    assert dict(fired) == {name: n for name, n in result.by_action.items() if n}


def test_lengths_have_one_value_more_than_the_context():
    """So a rule that breaks the context limit is seen to break it, and is not cut off."""
    for found in core.INSTANCES:
        assert found.bounds["Length"] == found.constants["context"] + 1


def test_the_system_is_the_union_of_its_modules():
    """Every action and variable of the six modules is in the system, once."""
    names = [module.name for module in core.system.modules]
    assert names == ["handles", "prefix", "batch", "append", "retry", "lifecycle"]
    assert set(core.system.actions) == {a for m in core.system.modules for a in m.actions}
    assert set(core.system.variables) == {v for m in core.system.modules for v in m.variables}
    assert len(core.system.actions) == sum(len(m.actions) for m in core.system.modules)


def test_only_declared_modules_write():
    """A variable is assigned by actions of its own module, or of one that declares to write it."""
    owners = {name: m for m in core.system.modules for name in m.variables}
    for action in core.system.actions.values():
        module = next(m for m in core.system.modules if m.name == action.module)
        for done in [*action.assignments, *(d for g in action.guards for d in g.refusal)]:
            declared = any(done.variable is variable for variable in module.writes)
            assert declared or owners[done.variable.name] is module


def test_every_declared_write_is_used():
    """No module declares to write what none of its actions assigns."""
    for module in core.system.modules:
        assigned = {
            done.variable.name
            for action in module.actions.values()
            for done in [*action.assignments, *(d for g in action.guards for d in g.refusal)]
        }
        assert {variable.name for variable in module.writes} <= assigned, module
