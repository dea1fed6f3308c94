"""The state graph of an instance in plain Python: every call in every state, and what must come of it.

Calls that the instance does not try, and steps that would leave its bounds, are no cases. States are
numbered by distance from the initial one, so that the first is the nearest.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator
from functools import cached_property, lru_cache
from typing import Any

import attrs

from kvspec.models.concrete import Event, State
from kvspec.models.concrete.compiled import CUT, Compiled, StepFunction
from kvspec.properties.conformance.errors import AdapterError
from kvspec.spec.language import Instance

MOST_STATES = 40_000
"""States of an instance on which a cache is held against the specification."""

Kind = tuple[int, int, int, int]
"""Cases of one kind are much alike: with a quota so many of them are tried."""

NO_CASE = -1
ACCEPTED = 0
"""Number of the outcome `accepted`; the codes of refusals are numbered from 1."""


@attrs.frozen(eq=False, slots=False)
class Graph:
    """States by number, and for each the outcome and the next state of every event by number.

    outcomes[place][number]: -1 where there is no case, 0 accepted, else a code by its place in
    `codes`. targets[place][number]: the state after it. alone[place][number]: 1 where a single guard
    fails, so that a cache without it would accept. depth: distance from the initial state, 0.
    """

    compiled: Compiled
    events: tuple[Event, ...]
    codes: tuple[str, ...]
    states: list[tuple[Any, ...]]
    depth: list[int]
    outcomes: list[array[int]]
    targets: list[array[int]]
    alone: list[bytearray]

    @property
    def instance(self) -> Instance:
        """The instance whose graph this is."""
        return self.compiled.instance

    def state(self, place: int) -> State:
        """The state of a number."""
        return self.compiled.restore(list(self.states[place]))

    def code(self, place: int, number: int) -> str | None:
        """The code with which the event is refused, None if it is accepted."""
        found = self.outcomes[place][number]
        return None if found == ACCEPTED else self.codes[found - 1]

    def kind(self, place: int, number: int) -> Kind:
        """What a case is of: the event, its outcome, whether one guard fails alone, and the phases."""
        outcome, alone = self.outcomes[place][number], self.alone[place][number]
        return number, outcome, alone, self.phases[place]

    @cached_property
    def phases(self) -> list[int]:
        """For each state a number for how many things are in which phase: values of enumerations."""
        layout, numbers = self.compiled.layout, dict[tuple[Any, ...], int]()
        spans = [
            slice(layout.base[variable.name], layout.base[variable.name] + layout.count(variable))
            for variable in self.instance.system.variables.values()
            if variable.type.kind == "enum"
        ]
        return [
            numbers.setdefault(tuple(tuple(sorted(cells[s])) for s in spans), len(numbers))
            for cells in self.states
        ]

    def is_case(self, place: int, number: int) -> bool:
        """Whether the instance tries the event in the state."""
        return self.outcomes[place][number] != NO_CASE

    def cases(self) -> Iterator[tuple[int, int]]:
        """Every state with every event that is tried there, nearest states first."""
        for place, outcomes in enumerate(self.outcomes):
            yield from ((place, n) for n, found in enumerate(outcomes) if found != NO_CASE)

    def count_transitions(self) -> int:
        """Accepted steps, and refusals that assign something."""
        return sum(
            self.outcomes[place][number] == ACCEPTED or self.targets[place][number] != place
            for place, number in self.cases()
        )


@lru_cache(maxsize=8)
def build_graph(instance: Instance, most: int = MOST_STATES) -> Graph:
    """The graph of an instance with at most so many states, or an AdapterError that names another."""
    compiled = Compiled(instance)
    events = tuple(compiled.machine.events())
    actions = instance.system.actions.values()
    codes = tuple(dict.fromkeys(guard.code.name for a in actions for guard in a.guards))
    number_of = {code: place + 1 for place, code in enumerate(codes)} | {None: ACCEPTED}
    steps = _steps(compiled, events)
    first = tuple(compiled.initial())
    lone = _without_one_guard(instance)
    graph = Graph(compiled, events, codes, [first], [0], [], [], [])
    index = {first: 0}
    for place, cells in enumerate(graph.states):
        outcomes, targets, alone = array("i"), array("i"), bytearray(len(events))
        for number, (step, values, limits) in enumerate(steps):
            after = list(cells)
            code = step(after, *values) if all(lim(cells, *values) for lim in limits) else CUT
            if code == CUT:
                outcomes.append(NO_CASE)
                targets.append(NO_CASE)
                continue
            reached = tuple(after)
            if reached not in index:
                index[reached] = len(graph.states)
                graph.states.append(reached)
                graph.depth.append(graph.depth[place] + 1)
            outcomes.append(number_of[code])
            targets.append(index[reached])
            if code is not None:
                alone[number] = lone[events[number].action, code](list(cells), *values) in (
                    None,
                    CUT,
                )
        graph.outcomes.append(outcomes)
        graph.targets.append(targets)
        graph.alone.append(alone)
        if len(graph.states) > most:
            raise _too_large(instance, most)
    return graph


def _steps(
    compiled: Compiled, events: tuple[Event, ...]
) -> list[tuple[Callable[..., Any], tuple[Any, ...], list[Callable[..., Any]]]]:
    """Each event as the function of its action, its values, and the limits on it."""
    instance = compiled.instance
    limits = {
        name: [compiled.value(found, *action.parameters) for found in instance.limits_on(action)]
        for name, action in instance.system.actions.items()
    }
    return [
        (compiled.steps[e.action], tuple(value for _, value in e.values), limits[e.action])
        for e in events
    ]


def _without_one_guard(instance: Instance) -> dict[tuple[str, str], StepFunction]:
    """For each action and code the step without the guard that refuses with it."""
    names = {}
    for name, action in instance.system.actions.items():
        for guard in action.guards:
            kept = tuple(other for other in action.guards if other is not guard)
            names[f"{name}__{guard.code.name}"] = name, guard.code.name, kept
    actions = {
        made: attrs.evolve(instance.system.actions[name], name=made, guards=kept)
        for made, (name, _, kept) in names.items()
    }
    system = attrs.evolve(instance.system, actions=actions)
    compiled = Compiled(attrs.evolve(instance, system=system, limits=()))
    return {(name, code): compiled.steps[made] for made, (name, code, _) in names.items()}


def _too_large(instance: Instance, most: int) -> AdapterError:
    return AdapterError(
        f"{instance.name} is too large to hold a cache against all of it",
        found=f"more than {most:,} states",
        expected=f"an instance of at most {most:,} states",
        where=f"the instance {instance!r}",
        do="choose a smaller one, such as TINY",
    )
