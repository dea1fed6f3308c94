"""Brute force: the same search in plain Python over the concrete machine, for comparison."""

from collections import Counter

import attrs

from kvspec.models.concrete.machine import Machine


@attrs.define
class Found:
    """What a plain search finds."""

    levels: dict
    transitions: Counter
    effects: Counter
    refusals: Counter
    cut: int
    terminal: int
    edges: Counter


def brute_force(instance, variant=0, max_states=100_000):
    """Every reachable state with its depth, and counts of what every event did."""
    machine = Machine(instance, variant)
    found = Found({}, Counter(), Counter(), Counter(), 0, 0, Counter())
    level = list(dict.fromkeys(machine.initial_states()))
    found.levels.update(dict.fromkeys(level, 0))
    depth = 0
    while level:
        following = []
        depth += 1
        for state in level:
            moved = False
            for event in machine.events():
                if not machine.within_limits(state, event):
                    continue
                outcome = machine.step(state, event)
                if outcome.kind == "cut":
                    found.cut += 1
                if outcome.code:
                    found.refusals[event.action, outcome.code] += 1
                if not outcome.is_transition:
                    continue
                found.transitions[event.action] += 1
                found.effects[event.action, outcome.code] += 1
                found.edges[state, event, outcome.code, outcome.state] += 1
                moved |= outcome.state != state
                if outcome.state not in found.levels:
                    found.levels[outcome.state] = depth
                    following.append(outcome.state)
            found.terminal += not moved
        level = following
        assert len(found.levels) <= max_states
    return found
