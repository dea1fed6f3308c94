"""Lassos: the shortest run into a set of states where it can stay for ever and be fair, and round in it.

A stem leads from an initial state through one of the body to a state of a fair set, outside the goal from
the body on. A cycle leads from there back and keeps every fairness condition. Of all states of the fair
sets the one is taken whose stem and cycle together are shortest.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

import attrs
import numpy as np
import numpy.typing as npt

from kvspec.models.explicit.graph import Flags, StateGraph

Places = npt.NDArray[np.int64]
MOST_STEPS = 2_000_000
"""Edges that a search for cycles looks at before it is content with the best one found."""


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


def shortest_lasso(
    graph: StateGraph, begins: Flags, outside: Flags, sets: Places, conditions: list[Condition]
) -> Lasso:
    """The shortest lasso into one of the fair sets; `sets` gives each state's set, -1 where in none."""
    stems = _Stems(graph, begins, outside)
    best: tuple[int, int, list[int]] | None = None
    looked = 0
    for here, distance in stems.into(sets):
        if best is not None and (distance >= best[0] or looked > MOST_STEPS):
            break
        most = None if best is None else best[0] - distance - 1
        cycle, seen = _cycle(graph, here, sets, conditions, most)
        looked += seen
        if cycle is not None:
            best = (distance + len(cycle), here, cycle)
    if best is None:
        raise RuntimeError("no cycle in a fair set where one must be: a fault of this engine")
    start, stem = stems.to(best[1])
    return Lasso(start, stem, best[2])


class _Stems:
    """Shortest paths from initial states to states outside the goal, by way of a state of the body."""

    def __init__(self, graph: StateGraph, begins: Flags, outside: Flags) -> None:
        self.graph = graph
        self.begins = begins
        self.outside = outside
        # A place is a state before the body (even) or from the body on (odd).
        self.parent: dict[int, tuple[int, int]] = {}
        self.distance: dict[int, int] = {}
        self._search()

    def _search(self) -> None:
        queue: deque[int] = deque()

        def reach(state: int, begun: bool, before: tuple[int, int], distance: int) -> None:
            """Note a state; where the body holds, the run may begin there, and need not."""
            for odd in {begun, begun or bool(self.begins[state])}:
                place = 2 * state + odd
                if place not in self.parent and (self.outside[state] or not odd):
                    self.parent[place], self.distance[place] = before, distance
                    queue.append(place)

        for root in np.flatnonzero(self.graph.depth == 0).tolist():
            reach(root, False, (-1, -1), 0)
        while queue:
            place = queue.popleft()
            state, begun = divmod(place, 2)
            for edge in _edges(self.graph, state):
                target = int(self.graph.target[edge])
                reach(target, bool(begun), (place, edge), self.distance[place] + 1)

    def into(self, sets: Places) -> Iterator[tuple[int, int]]:
        """The states of the sets with their distances, the nearest first."""
        found = [(d, place // 2) for place, d in self.distance.items() if place % 2]
        for distance, state in sorted(found):
            if sets[state] >= 0:
                yield state, distance

    def to(self, state: int) -> tuple[int, list[int]]:
        """The initial state and the edges of the path to a state."""
        place = 2 * state + 1
        edges: list[int] = []
        while True:
            before, edge = self.parent[place]
            if edge < 0:
                return place // 2, edges[::-1]
            edges.append(edge)
            place = before


def _cycle(
    graph: StateGraph,
    here: int,
    sets: Places,
    conditions: list[Condition],
    most: int | None,
) -> tuple[list[int] | None, int]:
    """The shortest way from a state back to it that keeps all conditions, and how many edges were looked at.

    None if none has at most `most` steps.
    """
    own = sets == sets[here]
    every = (1 << len(conditions)) - 1
    granted = sum(
        1 << bit
        for bit, c in enumerate(conditions)
        if c.strong and not bool((c.possible & own).any())
    )

    def kept(state: int) -> int:
        return sum(
            1 << bit for bit, c in enumerate(conditions) if not c.strong and not c.possible[state]
        )

    first = granted | kept(here)
    if first == every:
        return [], 0
    parent: dict[tuple[int, int], tuple[tuple[int, int], int]] = {}
    queue: deque[tuple[tuple[int, int], int]] = deque([((here, first), 0)])
    seen = 0
    while queue:
        at, depth = queue.popleft()
        if most is not None and depth >= most:
            return None, seen
        for edge in _edges(graph, at[0]):
            target = int(graph.target[edge])
            if not own[target]:
                continue
            seen += 1
            taken = sum(1 << bit for bit, c in enumerate(conditions) if c.takes[edge])
            following = (target, at[1] | taken | kept(target))
            if following in parent:
                continue
            parent[following] = (at, edge)
            if following == (here, every):
                return _back(parent, following, (here, first)), seen
            queue.append((following, depth + 1))
    return None, seen


def _back(
    parent: dict[tuple[int, int], tuple[tuple[int, int], int]],
    end: tuple[int, int],
    start: tuple[int, int],
) -> list[int]:
    edges: list[int] = []
    at = end
    while True:
        at, edge = parent[at]
        edges.append(edge)
        if at == start:
            return edges[::-1]


def _edges(graph: StateGraph, state: int) -> range:
    return range(int(graph.starts[state]), int(graph.starts[state + 1]))
