"""Walks: runs of bounded length, each from an initial state, that together take every transition.

A walk begins with a shortest way to a goal or to the nearest transition that no walk has taken, and
from there always takes the nearest such transition. Among several at hand the one goes first after
which most remains to be done, so what ends a run comes last. Nothing here is left to chance.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kvspec.properties.stateful.goals import Goal

if TYPE_CHECKING:
    from kvspec.models.explicit import StateGraph

LOOKED_AT = 20_000
"""States that one search for the nearest transition may look at."""

Walk = tuple[int, ...]
"""Events by number, to be tried one after the other; those that plan a refusal are among them."""


class Cover:
    """Walks over a graph, and which transitions they take."""

    def __init__(self, graph: StateGraph, length: int) -> None:
        self.graph = graph
        self.length = length
        self.walks: list[Walk] = []
        self.taken = np.zeros(len(graph.source), np.bool_)
        self._open = np.diff(graph.starts).astype(np.int64)
        self._parent = _parents(graph)
        self._roots = np.flatnonzero(graph.depth == 0).tolist()
        self._walk: list[int] = []
        self._place = 0

    @property
    def covered(self) -> int:
        """How many transitions the walks take."""
        return int(self.taken.sum())

    def reach(self, goals: Iterable[Goal], most: int) -> None:
        """A walk to each goal on a shortest way; goals of one place that change nothing share one."""
        places: dict[int, list[Goal]] = {}
        for goal in goals:
            places.setdefault(goal.place, []).append(goal)
        for place, found in places.items():
            silent = [goal.number for goal in found if goal.edge < 0]
            steps = [goal.edge for goal in found if goal.edge >= 0]
            for edges in [[edge] for edge in steps] or [[]]:
                if len(self.walks) < most:
                    self._start(self._shortest(place), silent, edges)
                    silent = []

    def complete(self, most: int) -> None:
        """More walks until every transition is taken, or there are `most`."""
        while len(self.walks) < most:
            path = self._nearest(self._roots, self.length) or self._first_left()
            if path is None:
                return
            self._start(path)

    def _start(self, way: list[int], silent: Iterable[int] = (), then: Iterable[int] = ()) -> None:
        """Begin a walk: a way from an initial state, events refused there, more transitions."""
        if way:
            self._place = int(self.graph.source[way[0]])
        else:
            self._place = self._roots[0]
        for edge in way:
            self._take(edge)
        self._walk.extend(silent)
        for edge in then:
            self._place = int(self.graph.source[edge])
            self._take(edge)
        self._go_on()

    def _shortest(self, place: int) -> list[int]:
        """The edges of a shortest way to a state."""
        way: list[int] = []
        while self._parent[place] >= 0:
            way.append(int(self._parent[place]))
            place = int(self.graph.source[way[-1]])
        return way[::-1]

    def _go_on(self) -> None:
        """Take nearest transitions until the walk is long enough or there are none, and keep it."""
        while len(self._walk) < self.length:
            edge = self._best(self._place)
            path = (
                [edge]
                if edge is not None
                else self._nearest([self._place], self.length - len(self._walk))
            )
            if not path:
                break
            for step in path:
                self._take(step)
        self.walks.append(tuple(self._walk))
        self._walk = []

    def _take(self, edge: int) -> None:
        if not self.taken[edge]:
            self.taken[edge] = True
            self._open[self.graph.source[edge]] -= 1
        self._walk.append(int(self.graph.number[edge]))
        self._place = int(self.graph.target[edge])

    def _edges(self, place: int) -> Iterator[int]:
        yield from range(int(self.graph.starts[place]), int(self.graph.starts[place + 1]))

    def _best(self, place: int) -> int | None:
        """The transition of a state, not yet taken, after which most is to be done."""
        if not self._open[place]:
            return None
        fresh = [edge for edge in self._edges(place) if not self.taken[edge]]
        return max(fresh, key=lambda edge: (self._open[self.graph.target[edge]], -edge))

    def _nearest(self, places: list[int], steps: int) -> list[int] | None:
        """The shortest way, of at most so many steps, that ends with a transition not yet taken."""
        came: dict[int, int] = dict.fromkeys(places, -1)
        line = deque((place, 1) for place in places)
        while line and len(came) < LOOKED_AT:
            place, depth = line.popleft()
            edge = self._best(place)
            if edge is not None:
                return [*self._way(came, place), edge]
            if depth < steps:
                for step in self._edges(place):
                    target = int(self.graph.target[step])
                    if target not in came:
                        came[target] = step
                        line.append((target, depth + 1))
        return None

    def _way(self, came: dict[int, int], place: int) -> list[int]:
        way: list[int] = []
        while came[place] >= 0:
            way.append(came[place])
            place = int(self.graph.source[way[-1]])
        return way[::-1]

    def _first_left(self) -> list[int] | None:
        """A shortest way through the first transition left, where the nearest was too far to see."""
        for place in np.flatnonzero(self._open > 0).tolist():
            edge = self._best(place)
            if edge is not None and self.graph.depth[place] < self.length:
                return [*self._shortest(place), edge]
        return None


def _parents(graph: StateGraph) -> npt.NDArray[np.int64]:
    """For each state the first edge of a shortest way to it; -1 for initial states."""
    found = np.full(len(graph), -1, np.int64)
    forward = np.flatnonzero(graph.depth[graph.target] == graph.depth[graph.source] + 1)[::-1]
    found[graph.target[forward]] = forward
    return found
