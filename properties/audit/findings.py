"""Findings: what an event breaks, where, and whether that proves the log or the cache wrong."""

from __future__ import annotations

from typing import Final, NamedTuple

import attrs

from kvspec.spec.documents.event import Event


class Problem(NamedTuple):
    """What is wrong with an event. field: where in the event, as the name of a field."""

    code: str
    field: str
    expected: object
    found: object


@attrs.frozen
class Finding:
    """A rule that an event breaks.

    line: where the event stands in the log. event_type: that of the event, or `header` or `closing`.
    verdict: `violated`, or `unknown` where the audit
    or a loss stands in the way of a proof. note: why it is unknown.
    """

    line: int
    code: str
    field: str
    expected: str
    found: str
    event_id: str
    event_type: str
    target: str
    verdict: str
    note: str = ""

    @property
    def subject(self) -> str:
        """What the finding is about: an event, the header or the closing."""
        if not self.event_id:
            return f"{self.event_type} of {self.target}"
        return f"{self.event_type} {self.event_id} of {self.target}"

    def __str__(self) -> str:
        told = f"line {self.line}, {self.subject}: {self.code} at {self.field}: "
        told += f"expected {self.expected}, found {self.found}"
        return told + (f" ({self.note})" if self.note else "")


LOSS: Final = "events before it are lost, which may explain this"
"""The note of a finding that may follow from a loss."""


def order(told: Finding) -> tuple[bool, int]:
    """By line, and what may follow from a loss after all else: the loss is to be read first."""
    return told.note == LOSS, told.line


def finding(line: int, event: Event, problem: Problem, verdict: str, note: str) -> Finding:
    """A problem of an event as a finding."""
    return Finding(
        line,
        problem.code,
        problem.field,
        str(problem.expected),
        str(problem.found),
        event.event_id,
        event.event_type,
        f"{event.request_id}, generation {event.handle_generation}",
        verdict,
        note,
    )
