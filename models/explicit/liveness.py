"""Liveness: leads-to under weak and strong fairness, on the whole state graph.

A run may stop at any time (every state has a step to itself that does nothing) unless fairness asks for
more. The claim fails if a state of its body leads, outside its goal, into a strongly connected set of
states outside the goal in which a run can stay for ever and be fair: each weakly fair condition is not
possible somewhere in the set or taken within it; each strongly fair one is possible nowhere in it or
taken within it. Where a strong condition is possible and not taken, the states where it is possible are
left out and what remains is taken apart again.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from kvspec.models.explicit.graph import Flags, StateGraph
from kvspec.models.explicit.lassos import Condition, Lasso, Places, shortest_lasso
from kvspec.models.explicit.packing import codes, decode
from kvspec.models.explicit.results import TraceStep, Violation
from kvspec.spec.language.properties import Property


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
        sets = _fair_sets(graph, reached & graph.expanded, conditions)
        if sets is not None:
            lasso = shortest_lasso(graph, begins, outside, sets, conditions)
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


def _fair_sets(graph: StateGraph, states: Flags, conditions: list[Condition]) -> Places | None:
    """Strongly connected sets in which a run can stay and be fair: each state's set, -1 where in none."""
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
            sets = np.full(len(graph), -1, np.int64)
            sets[places] = np.where(fair[label], label, -1)
            return sets
        states[places[drop]] = False
    return None


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
