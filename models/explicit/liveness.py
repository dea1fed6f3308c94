"""Liveness: leads-to under weak and strong fairness, on the whole state graph.

A run may stop at any time (every state has a step to itself that does nothing) unless fairness asks for
more. The claim fails if a state of its body leads, outside its goal, into a strongly connected set of
states outside the goal in which a run can stay for ever and be fair: each weakly fair condition is not
possible somewhere in the set or taken within it; each strongly fair one is possible nowhere in it or
taken within it. Where a strong condition is possible and not taken, the states where it is possible are
left out and what remains is taken apart again.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from itertools import product

import attrs
import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kvspec.models.explicit.graph import Flags, StateGraph
from kvspec.models.explicit.packing import codes, decode
from kvspec.models.explicit.results import TraceStep, Violation
from kvspec.spec.language.properties import Property

Places = npt.NDArray[np.int64]


@attrs.frozen(eq=False)
class Condition:
    """One fairness condition: where it is possible and which edges take it."""

    strong: bool
    possible: Flags
    takes: Flags


@attrs.frozen(eq=False)
class Lasso:
    """A path of edges to a state, and a cycle of edges from there; an empty cycle is standing still."""

    start: int
    stem: list[int]
    cycle: list[int]


def check_leads_to(graph: StateGraph, claim: Property) -> tuple[str, Violation | None, str]:
    """The verdict on a leads_to, a lasso if it fails, the reason if it is unknown."""
    if claim.goal is None:
        raise ValueError(f"{claim.name} has no goal: only a leads_to can be checked here")
    program = graph.program
    select = program.select((claim.body, claim.goal), claim.bound)
    conditions = list(_conditions(graph, claim))
    flags = np.zeros(len(graph), np.int64)
    ranges = [codes(symbol.type, program.instance) for symbol in claim.bound]
    for members in product(*ranges):
        bound = np.array([*members, 0], np.int64)
        select(graph.packed.reshape(-1), 0, len(graph), graph.variant, flags, bound)
        outside = (flags & 2) == 0
        begins = ((flags & 1) == 1) & outside
        reached = _reach(graph, np.flatnonzero(begins), outside)
        fair = _fair_set(graph, reached & graph.expanded, conditions)
        if fair is not None:
            lasso = _lasso(graph, begins, outside, fair, conditions)
            named = [
                f"{symbol.name} = {decode(symbol.type, code)}"
                for symbol, code in zip(claim.bound, members, strict=True)
            ]
            return "violated", _violation(graph, claim, lasso, named), ""
    if not graph.complete:
        return "unknown", None, f"{claim.name} was looked at on a part of the graph: {graph.reason}"
    return "holds", None, ""


def _conditions(graph: StateGraph, claim: Property) -> Iterator[Condition]:
    """The fairness conditions of a claim, one for each value of the named parameters."""
    for fairness in claim.fairness:
        groups: dict[tuple[object, ...], list[int]] = {}
        for number, event in enumerate(graph.events):
            if event.action == fairness.action.name:
                key = tuple(event.names[name] for name in fairness.parameters)
                groups.setdefault(key, []).append(number)
        for numbers in groups.values():
            member = np.zeros(len(graph.events), np.bool_)
            member[numbers] = True
            takes = member[graph.number]
            possible = np.zeros(len(graph), np.bool_)
            possible[graph.source[takes]] = True
            yield Condition(fairness.strong, possible, takes)


def _reach(graph: StateGraph, begins: Places, allowed: Flags) -> Flags:
    """The allowed states that can be reached from `begins` through allowed states."""
    reached = np.zeros(len(graph), np.bool_)
    reached[begins] = True
    edges = allowed[graph.source] & allowed[graph.target]
    source, target = graph.source[edges], graph.target[edges]
    front = reached.copy()
    while front.any():
        following = np.zeros(len(graph), np.bool_)
        following[target[front[source]]] = True
        front = following & ~reached
        reached |= front
    return reached


def _fair_set(graph: StateGraph, states: Flags, conditions: list[Condition]) -> Flags | None:
    """A strongly connected set among the states in which a run can stay and be fair."""
    states = states.copy()
    while states.any():
        places = np.flatnonzero(states)
        local = np.full(len(graph), -1, np.int64)
        local[places] = np.arange(places.size)
        inner = states[graph.source] & states[graph.target]
        source, target = local[graph.source[inner]], local[graph.target[inner]]
        shape = (places.size, places.size)
        matrix = coo_matrix((np.ones(source.size, np.int8), (source, target)), shape=shape)
        count, label = connected_components(matrix.tocsr(), directed=True, connection="strong")
        within = np.flatnonzero(inner)[label[source] == label[target]]
        owner = label[local[graph.source[within]]]
        fair = np.ones(count, np.bool_)
        drop = np.zeros(places.size, np.bool_)
        for condition in conditions:
            taken = np.zeros(count, np.bool_)
            taken[owner[condition.takes[within]]] = True
            possible = condition.possible[places]
            if condition.strong:
                wanted = possible & ~taken[label]
                fair[label[wanted]] = False
                drop |= wanted
            else:
                somewhere_not = np.zeros(count, np.bool_)
                somewhere_not[label[~possible]] = True
                unfair = ~(somewhere_not | taken)
                fair &= ~unfair
                drop |= unfair[label]
        good = np.flatnonzero(fair)
        if good.size:
            nearest = np.full(count, np.iinfo(np.int64).max)
            np.minimum.at(nearest, label, graph.depth[places])
            states[:] = False
            states[places[label == good[np.argmin(nearest[good])]]] = True
            return states
        states[places[drop]] = False
    return None


def _lasso(
    graph: StateGraph,
    begins: Flags,
    outside: Flags,
    fair: Flags,
    conditions: list[Condition],
) -> Lasso:
    everywhere = np.ones(len(graph), np.bool_)
    roots = np.flatnonzero(graph.depth == 0).tolist()
    middle = _nearest_beginning(graph, begins, outside, fair)
    first, stem = _path(graph, roots, {middle}, everywhere)
    _, more = _path(graph, [middle], set(np.flatnonzero(fair).tolist()), outside)
    here = int(graph.target[more[-1]]) if more else middle
    cycle: list[int] = []
    at = here
    for condition in conditions:
        at = _satisfy(graph, fair, condition, at, cycle)
    if cycle:
        _, back = _path(graph, [at], {here}, fair)
        cycle.extend(back)
    return Lasso(first, [*stem, *more], cycle)


def _nearest_beginning(graph: StateGraph, begins: Flags, outside: Flags, fair: Flags) -> int:
    """The first state of the body from which the fair set can be reached outside the goal."""
    edges = outside[graph.source] & outside[graph.target]
    reached, size = fair.copy(), -1
    while int(reached.sum()) != size:
        size = int(reached.sum())
        reached[graph.source[edges][reached[graph.target[edges]]]] = True
    return int(np.flatnonzero(begins & reached)[0])


def _satisfy(
    graph: StateGraph, fair: Flags, condition: Condition, at: int, cycle: list[int]
) -> int:
    """Go on from `at` within the fair set until the condition is satisfied."""
    inner = np.flatnonzero(condition.takes & fair[graph.source] & fair[graph.target])
    if inner.size:
        sources = {int(graph.source[edge]): int(edge) for edge in inner[::-1]}
        _, way = _path(graph, [at], set(sources), fair)
        cycle.extend(way)
        edge = sources[int(graph.target[way[-1]]) if way else at]
        cycle.append(edge)
        return int(graph.target[edge])
    if condition.strong:
        return at
    free = set(np.flatnonzero(fair & ~condition.possible).tolist())
    _, way = _path(graph, [at], free, fair)
    cycle.extend(way)
    return int(graph.target[way[-1]]) if way else at


def _path(
    graph: StateGraph, roots: list[int], goals: set[int], allowed: Flags
) -> tuple[int, list[int]]:
    """A shortest path of edges from a root to a goal through allowed states, and its root."""
    parent: dict[int, int] = dict.fromkeys(roots, -1)
    queue = deque(roots)
    while queue:
        state = queue.popleft()
        if state in goals:
            edges: list[int] = []
            while parent[state] >= 0:
                edges.append(parent[state])
                state = int(graph.source[parent[state]])
            return state, edges[::-1]
        for edge in range(int(graph.starts[state]), int(graph.starts[state + 1])):
            following = int(graph.target[edge])
            if allowed[following] and following not in parent:
                parent[following] = edge
                queue.append(following)
    raise RuntimeError("no path in the state graph where one must be: a fault of this engine")


def _violation(graph: StateGraph, claim: Property, lasso: Lasso, named: list[str]) -> Violation:
    steps = [TraceStep(None, "initial", graph.state(lasso.start))]
    for edge in (*lasso.stem, *lasso.cycle):
        event, code = graph.event(edge)
        outcome = "accepted" if code is None else "refused"
        steps.append(TraceStep(event, outcome, graph.state(int(graph.target[edge])), code))
    where = f" Fails for {', '.join(named)}." if named else ""
    stops = "" if lasso.cycle else " The run stops in the last state."
    message = f"{claim.doc}{where}{stops}"
    return Violation(claim.name, claim.kind, message, tuple(steps), len(lasso.stem))
