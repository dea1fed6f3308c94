"""Leads-to on small random graphs: the verdict and the lasso against a search of everything (C4)."""

from itertools import combinations

import attrs
import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.explicit.lassos import Condition, shortest_lasso
from kvspec.models.explicit.liveness import _fair_sets, _reach

LABELS = 3


@attrs.frozen(eq=False)
class Graph:
    """What the search for lassos reads of a state graph; state 0 is the initial one."""

    source: np.ndarray
    target: np.ndarray
    label: np.ndarray
    starts: np.ndarray
    depth: np.ndarray

    def __len__(self) -> int:
        return len(self.depth)


def graph_of(size: int, edges: list[tuple[int, int, int]]) -> Graph:
    """The graph of these edges (source, target, label)."""
    edges = sorted(edges)
    columns = np.array(edges, np.int64).reshape(-1, 3)
    depth = np.full(size, -1, np.int64)
    depth[0], front = 0, [0]
    while front:
        state = front.pop(0)
        for source, target, _ in edges:
            if source == state and depth[target] < 0:
                depth[target] = depth[state] + 1
                front.append(target)
    starts = np.searchsorted(columns[:, 0], np.arange(size + 1))
    return Graph(columns[:, 0], columns[:, 1], columns[:, 2], starts, depth)


@st.composite
def cases(draw, *, strong: bool = True):
    """A graph, where the body holds, where the goal does not, and fairness conditions."""
    size = draw(st.integers(1, 4))
    state = st.integers(0, size - 1)
    edges = draw(st.lists(st.tuples(state, state, st.integers(0, LABELS - 1)), max_size=7))
    graph = graph_of(size, edges)
    flags = st.lists(st.booleans(), min_size=size, max_size=size)
    outside = np.array(draw(flags))
    begins = np.array(draw(flags)) & outside & (graph.depth >= 0)
    conditions = []
    for label in draw(st.sets(st.integers(0, LABELS - 1), max_size=2)):
        takes = graph.label == label
        possible = np.zeros(size, np.bool_)
        possible[graph.source[takes]] = True
        conditions.append(Condition(draw(st.booleans()) and strong, possible, takes))
    return graph, begins, outside, conditions


def keeps(conditions, states, edges) -> bool:
    """Whether a run that is for ever in these states, by these edges, is fair."""
    for condition in conditions:
        if any(condition.takes[edge] for edge in edges):
            continue
        possible = [bool(condition.possible[state]) for state in states]
        if any(possible) if condition.strong else all(possible):
            return False
    return True


def connected(states, edges, graph) -> bool:
    """Whether every state of the set leads to every other within it."""
    for root in states:
        seen, front = {root}, [root]
        while front:
            at = front.pop()
            for edge in edges:
                if graph.source[edge] == at and graph.target[edge] not in seen:
                    seen.add(int(graph.target[edge]))
                    front.append(int(graph.target[edge]))
        if seen != set(states):
            return False
    return True


def some_fair_set(graph, begins, outside, conditions) -> bool:
    """Whether any set of states outside the goal can be stayed in, by trying every one."""
    reached = np.flatnonzero(_reach(graph, np.flatnonzero(begins), outside)).tolist()
    for size in range(1, len(reached) + 1):
        for states in combinations(reached, size):
            edges = [
                edge
                for edge in range(len(graph.source))
                if graph.source[edge] in states and graph.target[edge] in states
            ]
            if connected(states, edges, graph) and keeps(conditions, states, edges):
                return True
    return False


def is_lasso(graph, begins, outside, conditions, stem, cycle) -> bool:
    """Whether the edges are a run from state 0 that begins the body, misses the goal and is fair."""
    path = [0]
    for edge in (*stem, *cycle):
        if graph.source[edge] != path[-1]:
            return False
        path.append(int(graph.target[edge]))
    loop = path[len(stem) :]
    if loop[0] != loop[-1]:
        return False
    starts = range(len(stem) + 1)
    if not any(begins[path[i]] and all(outside[s] for s in path[i:]) for i in starts):
        return False
    return keeps(conditions, set(loop), cycle)


def found(case):
    """The lasso that the engine finds, or None."""
    graph, begins, outside, conditions = case
    reached = _reach(graph, np.flatnonzero(begins), outside)
    sets = _fair_sets(graph, reached, conditions)
    return None if sets is None else shortest_lasso(graph, begins, outside, sets, conditions)


@settings(max_examples=200)
@given(cases())
def test_a_lasso_is_found_where_there_is_one(case) -> None:
    """The verdict is that of trying every set of states; what is found is a fair lasso."""
    lasso = found(case)
    assert (lasso is not None) is some_fair_set(*case)
    if lasso is not None:
        assert is_lasso(*case, lasso.stem, lasso.cycle)


@settings(max_examples=200)
@given(cases(strong=False))
def test_no_lasso_is_shorter_under_weak_fairness(case) -> None:
    """Every run of fewer steps, cut into stem and cycle in every way, is no lasso."""
    graph = case[0]
    lasso = found(case)
    if lasso is None:
        return
    runs = [()]
    for _ in range(min(len(lasso.stem) + len(lasso.cycle), 6)):
        for run in runs:
            for cut in range(len(run) + 1):
                assert not is_lasso(*case, run[:cut], run[cut:])
        runs = [
            (*run, edge)
            for run in runs
            for edge in range(len(graph.source))
            if graph.source[edge] == (graph.target[run[-1]] if run else 0)
        ]
