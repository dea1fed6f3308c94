"""The form of an event: what its type lets it carry, each plane apart, and nothing empty or negative."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final

from kvspec.properties.audit.findings import Problem
from kvspec.properties.audit.window import LARGEST
from kvspec.spec.documents.event import OPTIONAL, TYPES, Event, EventType, plane_of

_WALL_TIME: Final = re.compile(
    r"\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])T([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?"
    r"(Z|[+-]([01]\d|2[0-3]):[0-5]\d)"
)
_TEXTS: Final = frozenset(
    {
        "event_id",
        "source_instance",
        "request_id",
        "operation_id",
        "child_request_id",
        "tier",
        "reason",
    }
)
_NUMBERS: Final = ("local_sequence", "monotonic_ns", "handle_generation")
_BOUNDED: Final = frozenset(
    {
        "handle_generation",
        "base_snapshot",
        "result_snapshot",
        "committed_tokens",
        "result_generation",
        "interval_start",
        "interval_end",
        "child_generation",
        "child_snapshot",
        "child_tokens",
    }
)
"""Generations, snapshots and lengths: the window has no room for larger ones."""

_OWN_CODES: Final = {
    ("failure", "result_snapshot"): "FAILURE_MUTATES",
    ("failure", "committed_tokens"): "FAILURE_MUTATES",
    ("output_emit", "result_snapshot"): "OUTPUT_COMMITS",
    ("output_emit", "committed_tokens"): "OUTPUT_COMMITS",
}
_is_wall_time = _WALL_TIME.fullmatch


class Form:
    """The form of one type of event; `is_kept` is fast, `problems` tells what is wrong.

    absent: fields that must be null. carried: fields that must not. texts, numbers: of these, those that
    must not be empty, and not be negative; bounded: of these numbers, those that are steps' own.
    """

    def __init__(self, kind: EventType) -> None:
        self.kind = kind
        carried = (*kind.carries, *(("outcome",) if kind.outcomes else ()))
        self.absent = tuple(n for n in OPTIONAL if n not in (*carried, "caused_by_event_id"))
        self.carried = carried
        self.planes = {plane_of(name) for name in carried} | {"telemetry"}
        self.texts = tuple(
            n for n in ("event_id", "source_instance", "request_id", *carried) if n in _TEXTS
        )
        self.numbers = (*_NUMBERS, *(n for n in kind.carries if n not in _TEXTS))
        self.bounded = tuple(n for n in self.numbers if n in _BOUNDED)
        self._outcomes: frozenset[str | None] = frozenset(kind.outcomes or (None,))
        self.is_kept: Callable[[Event], bool] = self._compiled()

    def _compiled(self) -> Callable[[Event], bool]:
        """Whether an event has the form of its type, as one expression: this is asked of every event."""
        conditions = [
            *(f"e.{name} is None" for name in self.absent),
            *(f"e.{name} is not None" for name in self.carried),
            *(f"e.{name} >= 0" for name in self.numbers if name not in _BOUNDED),
            *(f"0 <= e.{name} <= {LARGEST}" for name in self.bounded),
            *(f"e.{name}" for name in (*self.texts, "trace_id")),
            "e.outcome in outcomes",
            f"e.source_component == {self.kind.component!r}",
            "is_time(e.observed_wall_time) is not None",
        ]
        known = {"outcomes": self._outcomes, "is_time": _is_wall_time}
        source = f"lambda e: bool({' and '.join(conditions)})"
        made: Callable[[Event], bool] = eval(source, known)  # noqa: S307  # made of the table alone
        return made

    def problems(self, event: Event) -> Iterator[Problem]:
        """Everything that is wrong with the form of the event."""
        name = self.kind.name
        for field in self.absent:
            value = getattr(event, field)
            if value is not None:
                code = "FIELD_FOREIGN" if plane_of(field) in self.planes else "PLANE_MIXED"
                code = _OWN_CODES.get((name, field), code)
                yield Problem(code, field, f"null in an event {name}", repr(value))
        for field in self.carried:
            if getattr(event, field) is None:
                yield Problem("FIELD_MISSING", field, f"a value in an event {name}", "null")
        if event.trace_id == "":
            yield Problem("TRACE_MISSING", "trace_id", "the trace of the request", "''")
        for field in self.texts:
            if getattr(event, field) == "":
                yield Problem("IDENTITY_MISSING", field, "a name", "''")
        for field in self.numbers:
            value = getattr(event, field)
            if value is not None and value < 0:
                yield Problem("NEGATIVE_COUNT", field, "0 or more", value)
        for field in self.bounded:
            value = getattr(event, field)
            if value is not None and value > LARGEST:
                yield Problem("BEYOND_BOUNDS", field, f"at most {LARGEST}", value)
        if event.outcome not in self._outcomes and None not in (event.outcome, *self._outcomes):
            expected = " or ".join(self.kind.outcomes)  # there are some, or `outcome` is absent
            yield Problem("OUTCOME", "outcome", expected, repr(event.outcome))
        if event.source_component != self.kind.component:
            found = repr(event.source_component)
            yield Problem("SOURCE_COMPONENT", "source_component", self.kind.component, found)
        if not _is_wall_time(event.observed_wall_time):
            expected, found = (
                "a time such as 2026-01-31T09:30:00.5+00:00",
                repr(event.observed_wall_time),
            )
            yield Problem("WALL_TIME", "observed_wall_time", expected, found)


FORMS: Final = {name: Form(kind) for name, kind in TYPES.items()}
"""The form of each type of event."""
