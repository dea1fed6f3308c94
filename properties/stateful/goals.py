"""Goals: for every action and every code with which it refuses, the nearest state where that happens.

Whether a guard can refuse at all in an instance is found on the whole state graph, by formulas that
the explicit engine compiles; a run that never probes such a guard has not tested it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import attrs
import numpy as np

from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import Value, values_of
from kvspec.spec.language import (
    FALSE,
    TRUE,
    Action,
    Apply,
    Bijective,
    Const,
    Expr,
    Instance,
    MapSymbol,
    Symbol,
    all_of,
    where,
)
from kvspec.spec.language.expr import rewrite

if TYPE_CHECKING:
    from kvspec.models.explicit import StateGraph

Pair = tuple[str, str | None]
"""An action with the code of a refusal, or with None where it is accepted."""

_AT_ONCE = 60  # formulas in one call: each has a bit of a word


@attrs.frozen
class Goal:
    """The nearest state, by its place in the graph, where an event does what `pair` says.

    number: the event. edge: its transition, or -1 for a refusal that changes nothing.
    """

    pair: Pair
    place: int
    number: int
    edge: int = -1


def find_goals(graph: StateGraph) -> list[Goal]:
    """One goal for each pair that occurs in the graph, nearest first."""
    goals = [*_transitions(graph), *_refusals(graph)]
    return sorted(goals, key=lambda goal: (goal.place, goal.number))


def _transitions(graph: StateGraph) -> Iterator[Goal]:
    """Accepted steps, and refusals with an effect."""
    actions = [event.action for event in graph.events]
    classes = graph.number * graph.program.radix + graph.code
    kinds, firsts = np.unique(classes, return_index=True)
    seen: set[Pair] = set()
    for kind, edge in sorted(zip(kinds.tolist(), firsts.tolist(), strict=True), key=lambda k: k[1]):
        number = kind // graph.program.radix
        pair = (actions[number], graph.event(edge)[1])
        if pair not in seen:
            seen.add(pair)
            yield Goal(pair, int(graph.source[edge]), number, edge)


def _refusals(graph: StateGraph) -> Iterator[Goal]:
    """Refusals that change nothing."""
    for action in graph.program.instance.system.actions.values():
        silent = [n for n, guard in enumerate(action.guards) if not guard.refusal]
        for low in range(0, len(silent), _AT_ONCE):
            yield from _of_action(graph, action, silent[low : low + _AT_ONCE])


def _of_action(graph: StateGraph, action: Action, guards: list[int]) -> Iterator[Goal]:
    """For each of these guards of the action, the nearest state in which it refuses some event."""
    from kvspec.models.explicit.packing import encode

    nearest: dict[int, tuple[int, int]] = {}
    for maps, numbers in _by_maps(graph, action):
        plain = tuple(p for p in action.parameters if isinstance(p, Symbol))
        formulas = _formulas(graph.program.instance, action, guards, dict(maps))
        select = graph.program.select(formulas, plain)
        flags = np.zeros(len(graph), np.int64)
        for number in numbers:
            names = graph.events[number].names
            codes = [encode(p.type, _single(names[p.name])) for p in plain]
            bound = np.array([*codes, 0], np.int64)
            select(graph.packed.reshape(-1), 0, len(graph), graph.variant, flags, bound)
            for bit, guard in enumerate(guards):
                hits = (flags & (1 << bit)) != 0
                place = int(hits.argmax())
                if hits[place] and place < nearest.get(guard, (len(graph), 0))[0]:
                    nearest[guard] = (place, number)
    for guard, (place, number) in nearest.items():
        yield Goal((action.name, action.guards[guard].code.name), place, number)


def _by_maps(
    graph: StateGraph, action: Action
) -> Iterator[tuple[tuple[tuple[str, Bound], ...], list[int]]]:
    """The events of an action, grouped by the values of its map parameters."""
    maps = [p.name for p in action.parameters if isinstance(p, MapSymbol)]
    groups: dict[tuple[tuple[str, Bound], ...], list[int]] = {}
    for number, event in enumerate(graph.events):
        if event.action == action.name:
            values = tuple((name, event.names[name]) for name in maps)
            groups.setdefault(values, []).append(number)
    yield from groups.items()


def _formulas(
    instance: Instance, action: Action, guards: list[int], maps: dict[str, Bound]
) -> tuple[Expr, ...]:
    """For each guard: the event is within limits, earlier guards hold and this one does not."""
    limits = instance.limits_on(action)
    conditions = [guard.condition for guard in action.guards]
    found = [all_of(*limits, *conditions[:place], ~conditions[place]) for place in guards]
    return tuple(rewrite(formula, lambda e: _fill(e, maps, instance)) for formula in found)


def _fill(expr: Expr, maps: dict[str, Bound], instance: Instance) -> Expr:
    """The expression with the values of map parameters written in."""
    if isinstance(expr, Apply):
        values = _several(maps[expr.function.name])
        domain, kind = expr.function.domain, expr.function.codomain
        found: Expr = Const(kind, values[-1])
        members = list(zip(values_of(domain, instance), values, strict=True))
        for member, value in reversed(members[:-1]):
            found = where(expr.argument == Const(domain, member), Const(kind, value), found)
        return found
    if isinstance(expr, Bijective):
        values = _several(maps[expr.function.name])
        return TRUE if len(set(values)) == len(values) else FALSE
    return expr


def _single(value: Bound) -> Value:
    if isinstance(value, tuple):
        raise TypeError(f"found a map where one value is expected: {value!r}")
    return value


def _several(value: Bound) -> tuple[Value, ...]:
    if not isinstance(value, tuple):
        raise TypeError(f"found one value where a map is expected: {value!r}")
    return value
