"""Findings: what an event breaks, where, and whether that proves the log or the cache wrong."""

from __future__ import annotations

from typing import NamedTuple

import attrs

from kvspec.properties.audit.rules import RULES
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

    line: where the event stands in the log, from 1. verdict: `violated`, or `unknown` where the audit
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

    def __str__(self) -> str:
        rule = RULES[self.code]
        told = f"line {self.line}, {self.event_type or 'event'} {self.event_id} of {self.target}: "
        told += f"{self.code} at {self.field}: expected {self.expected}, found {self.found}"
        return f"{told}: {rule.advice}" + (f" ({self.note})" if self.note else "")


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
