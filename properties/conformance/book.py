"""Book: what was tried and what came of it, for one instance; the nearest breaks of each rule are kept."""

from __future__ import annotations

from collections import Counter

import attrs

from kvspec.properties.conformance.judge import SILENT, Finding

DETOUR = 4
"""Calls more in a trace that are worth it where then a single guard fails."""
CANDIDATES = 4
"""Places of a break that are kept for each rule: the nearest ones, should the first not come again."""


@attrs.frozen
class Spot:
    """Where a rule was broken: the state, the event, and the run that led there.

    past: rules that the run had broken before. run: events by number from a reset, this one the last.
    depth: distance of the state from the initial one. is_alone: no other guard fails there than that of
    the rule.
    """

    finding: Finding
    place: int
    number: int
    depth: int
    run: tuple[int, ...]
    past: tuple[str, ...] = ()
    is_alone: bool = False

    @property
    def rank(self) -> tuple[bool, bool, int, int]:
        """The less, the better to show: nothing broken before, accepted in silence, then the nearest.

        Where other guards fail as well, a reader cannot tell which is missing: that counts as a way so
        much longer.
        """
        depth = self.depth + (0 if self.is_alone else DETOUR)
        return bool(self.past), self.finding.manner != SILENT, depth, len(self.run)


@attrs.define
class Book:
    """Counts of one instance.

    declined: calls, by action, that the adapter said it cannot try. follows: rules that were not kept
    where a cell on which they rest was wrong before, with the rule that was broken there. blurred: the same
    of rules that came up there. untold: refusals without a code. alone:
    tries of a guard where no other one fails.
    """

    kept: Counter[str] = attrs.field(factory=Counter)
    broken: Counter[str] = attrs.field(factory=Counter)
    manners: dict[str, Counter[str]] = attrs.field(factory=dict)
    spots: dict[str, list[Spot]] = attrs.field(factory=dict)
    untold: Counter[str] = attrs.field(factory=Counter)
    follows: dict[str, str] = attrs.field(factory=dict)
    blurred: dict[str, str] = attrs.field(factory=dict)
    alone: Counter[str] = attrs.field(factory=Counter)
    declined: Counter[str] = attrs.field(factory=Counter)
    calls: int = 0
    runs: int = 0

    def note(self, spot: Spot) -> None:
        """Keep a break, if it is among the nearest of its rule."""
        rule = spot.finding.rule
        self.broken[rule] += 1
        self.manners.setdefault(rule, Counter())[spot.finding.manner] += 1
        spots = self.spots.setdefault(rule, [])
        spots.append(spot)
        spots.sort(key=lambda found: found.rank)
        del spots[CANDIDATES:]
