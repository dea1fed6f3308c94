"""Fate: why a rule was not tried on an instance. A rule that was not tried is never kept."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator

import attrs

from kvspec.properties.conformance.explore import Edge, Explorer
from kvspec.properties.conformance.graph import NO_CASE
from kvspec.properties.conformance.rules import STARTS

OUT_OF_REACH, NOT_OFFERED, HIDDEN, UNTRIED = "out of reach", "not offered", "hidden", "not tried"

Pair = tuple[str, str | None]
"""An action with the code of a refusal, or None where it is accepted."""


@attrs.frozen
class Fate:
    """Why nothing can be said of a pair: its kind, the reason, and the rule behind which it hides.

    is_declined: the case is in reach, and can_try() says that it cannot be asked for.
    """

    kind: str
    reason: str
    behind: str = ""
    is_declined: bool = False


class Fates:
    """Why pairs were not tried on one instance; the searches are made once, when first needed."""

    def __init__(self, explorer: Explorer) -> None:
        self.explorer = explorer
        self.graph = explorer.graph
        self._whole: dict[Pair, Edge] | None = None
        self._offered: dict[Pair, Edge] | None = None
        self._behind: dict[Pair, Counter[str]] | None = None
        self._came: dict[str, dict[int, Edge]] = {}

    def of(self, pair: Pair) -> Fate:
        """Why the pair was not tried here."""
        if self._whole is None or self._offered is None:
            self._whole = self._nearest("whole")
            self._offered = self._nearest("offered")
        name = self.graph.instance.name
        if pair not in self._whole:
            return Fate(OUT_OF_REACH, f"the case does not arise in {name}, whatever the cache")
        if pair not in self._offered:
            return self._lacks(self._whole[pair])
        if self.explorer.book.broken[STARTS]:
            return Fate(HIDDEN, f"no run begins as it should ({STARTS} is broken)", STARTS)
        for edge in self._edges("offered", self._offered[pair]):
            if edge in self.explorer.hard or edge in self.explorer.soft:
                rule = self.explorer.broke[edge]
                return Fate(HIDDEN, f"every way to it leads through {rule}, which is broken", rule)
        if self.explorer.is_cut:
            return Fate(UNTRIED, f"the time was up before it was tried in {name}")
        return Fate(UNTRIED, f"it could be asked for in {name}, and was not")

    def behind(self) -> dict[Pair, Counter[str]]:
        """For each pair its cases in states that only a broken rule keeps the search from, by that rule."""
        if self._behind is not None:
            return self._behind
        explorer, graph = self.explorer, self.graph
        found: dict[Pair, Counter[str]] = {}
        for place, rule in self._blocking().items():
            for number in explorer.todo[place] if rule else ():
                pair = (graph.events[number].action, graph.code(place, number))
                found.setdefault(pair, Counter())[rule] += 1
        self._behind = found
        return found

    def _blocking(self) -> dict[int, str]:
        """For each state the broken rule that keeps the search from it, or "" where none does."""
        explorer, graph = self.explorer, self.graph
        found, line = {0: ""}, deque([0])
        later: deque[int] = deque()
        while line or later:
            place = line.popleft() if line else later.popleft()
            is_open = not found[place]
            for number in self._cases(place, "offered"):
                edge, target = (place, number), graph.targets[place][number]
                if target in found and (found[target] == "" or not is_open):
                    continue
                if is_open and explorer.is_open(edge, past=True):
                    found[target] = ""
                    line.append(target)
                elif target not in found:
                    found[target] = found[place] or explorer.broke.get(edge, "")
                    later.append(target)
        return found

    def left(self) -> set[Pair]:
        """The pairs of which something was left to be tried when the time was up."""
        graph = self.graph
        found: set[Pair] = set()
        for place, numbers in enumerate(self.explorer.todo):
            for number in numbers:
                found.add((graph.events[number].action, graph.code(place, number)))
        return found

    def _nearest(self, which: str) -> dict[Pair, Edge]:
        """For each pair its nearest case, by a search over all steps or over those on offer."""
        graph = self.graph
        came: dict[int, Edge] = {0: (-1, -1)}
        found: dict[Pair, Edge] = {}
        line = deque([0])
        while line:
            place = line.popleft()
            for number in self._cases(place, which):
                pair = (graph.events[number].action, graph.code(place, number))
                found.setdefault(pair, (place, number))
                target = graph.targets[place][number]
                if target not in came:
                    came[target] = (place, number)
                    line.append(target)
        self._came[which] = came
        return found

    def _cases(self, place: int, which: str) -> Iterator[int]:
        for number, target in enumerate(self.graph.targets[place]):
            if target != NO_CASE and (which == "whole" or self._is_offered((place, number))):
                yield number

    def _is_offered(self, edge: Edge) -> bool:
        action = self.graph.events[edge[1]].action
        offered = action not in self.explorer.judge.subject.not_offered
        return offered and edge not in self.explorer.declined

    def _edges(self, which: str, last: Edge) -> list[Edge]:
        """The steps on the way to a case, itself included."""
        way, place = [last], last[0]
        while self._came[which][place][0] >= 0:
            way.append(self._came[which][place])
            place = way[-1][0]
        return way[::-1]

    def _lacks(self, case: Edge) -> Fate:
        """What on the way to a case the cache has not."""
        for edge in self._edges("whole", case):
            if not self._is_offered(edge):
                action = self.graph.events[edge[1]].action
                declared = self.explorer.judge.subject.not_offered.get(action)
                why = (
                    f"which is not offered ({declared})"
                    if declared
                    else "which cannot be asked for"
                )
                if edge == case:
                    told = f"can_try() says that {action} cannot be asked for in any such case"
                    return Fate(NOT_OFFERED, told, is_declined=True)
                return Fate(NOT_OFFERED, f"it arises only after {action}, {why}")
        return Fate(NOT_OFFERED, "some call on the way to it is not offered")
