"""Tally: what a run did, counted. It is read when the run is over and never guides it."""

from __future__ import annotations

import attrs

from kvspec.models.concrete import State
from kvspec.properties.stateful.goals import Pair


@attrs.define(eq=False)
class Tally:
    """Counts of a run. Closed at the first failure, so that shrinking does not count.

    examples: those that did anything. sequences: runs from a reset. touched: transitions taken, as the
    state before and the event. seen: actions with None where accepted, with each code where refused.
    """

    examples: int = 0
    sequences: int = 0
    accepted: int = 0
    refused: int = 0
    touched: set[tuple[State, int]] = attrs.field(factory=set)
    seen: dict[Pair, int] = attrs.field(factory=dict)
    is_closed: bool = False

    @property
    def steps(self) -> int:
        """Events performed, refused ones among them."""
        return self.accepted + self.refused

    def count(self, before: State, number: int, pair: Pair, *, is_transition: bool) -> None:
        """Count an event that went as specified."""
        if self.is_closed:
            return
        if pair[1] is None:
            self.accepted += 1
        else:
            self.refused += 1
        self.seen[pair] = self.seen.get(pair, 0) + 1
        if is_transition:
            self.touched.add((before, number))
