"""Delivery: the order of one source, with loss, duplication and reordering told apart.

Sequence numbers count the events of a source. An event that comes before its turn is held, up to `reorder`
of them: if those before it arrive, they were reordered; if not, they are lost. A number that was given
before, under another event id, was reused; below the floor, of which the ids are no longer remembered,
that cannot be told from a late duplicate.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvspec.properties.audit.findings import Problem
from kvspec.spec.documents.event import Event

GAPS: int = 64
"""Gaps of a source that are remembered, to tell a late event of one from a reused number."""


class Source:
    """One source: the number of its next event, its clock, and the events that came too early.

    lost: events given up for lost. floor: ids of events from this number on are all remembered.
    """

    __slots__ = ("clock", "component", "floor", "gaps", "held", "lost", "mark", "next")

    def __init__(self, component: str) -> None:
        self.component = component
        self.next = 0
        self.clock = 0
        self.lost = 0
        self.floor = 0
        self.mark = 0
        self.held: dict[int, tuple[int, Event]] = {}
        self.gaps: list[tuple[int, int]] = []

    def age(self) -> None:
        """Ids of events before the mark are forgotten now."""
        self.floor, self.mark = self.mark, self.next

    def arrive(self, line: int, event: Event) -> Problem | None:
        """Hold an event that is early; what is wrong with one that is late."""
        number = event.local_sequence
        if number > self.next and number not in self.held:
            self.held[number] = (line, event)
            return None
        if number == self.next:
            self.held[number] = (line, event)
            latest = max(self.held)
            return Problem("REORDERED", "local_sequence", f"to come before {latest}", number)
        if any(first <= number < end for first, end in self.gaps):
            return Problem("REORDERED", "local_sequence", f"to come before {self.next}", number)
        if number < self.floor:
            expected = f"{self.floor} or later: ids of earlier events are forgotten"
            return Problem("BEYOND_WINDOW", "local_sequence", expected, number)
        return Problem("SEQUENCE_REUSED", "local_sequence", f"{self.next} or a later one", number)

    def ready(self) -> Iterator[tuple[int, Event]]:
        """Held events whose turn has come."""
        while self.next in self.held:
            held = self.held.pop(self.next)
            self.next += 1
            yield held

    def give_up(self) -> tuple[int, Event, Problem]:
        """Give events for lost that held ones wait for: the first that can go on, and what is missing."""
        first = min(self.held)
        line, event = self.held[first]
        last = f" to {first - 1}" if first - 1 > self.next else ""
        self.gaps = [*self.gaps[1 - GAPS :], (self.next, first)]
        self.lost += first - self.next
        problem = Problem(
            "SEQUENCE_GAP",
            "local_sequence",
            f"event {self.next}{last} of {event.source_instance}",
            first,
        )
        self.next = first
        return line, event, problem
