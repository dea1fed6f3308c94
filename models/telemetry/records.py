"""Records: what the cache and its observers tell, with the place and the time that their source gives them.

Modelled: a source is one part of one process (cache, allocator, residency) and counts what it tells
from 0, of all requests together, before anything can get lost: a reader of what arrives sees the gap.
Its clock is for intervals within it alone; wall time is for people. Left out: how records travel.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

import attrs

from kvspec.spec.documents.event import TYPES, Event, make_event

_NS = 1_000_000_000


@attrs.frozen
class Record:
    """One event, not yet written down.

    instance, component, sequence: its place among the events of its source. monotonic_ns, wall_ns:
    when. fields: what its type carries, and whose it is, by the names of `Event`.
    """

    event_type: str
    instance: str
    component: str
    sequence: int
    monotonic_ns: int
    wall_ns: int
    fields: dict[str, Any]

    @property
    def event_id(self) -> str:
        """Unique in the log: a source never gives a number twice."""
        return event_id(self.instance, self.sequence)

    @property
    def event(self) -> Event:
        """The event in the words of the specification."""
        return make_event(
            event_id=self.event_id,
            source_instance=self.instance,
            source_component=self.component,
            local_sequence=self.sequence,
            monotonic_ns=self.monotonic_ns,
            observed_wall_time=wall_time(self.wall_ns),
            event_type=self.event_type,
            **self.fields,
        )

    @property
    def line(self) -> dict[str, Any]:
        """The event as it stands in a log of lines: fields that it does not carry are left out."""
        carried = {name: value for name, value in self.fields.items() if value is not None}
        return {
            "event_id": self.event_id,
            "source_instance": self.instance,
            "source_component": self.component,
            "local_sequence": self.sequence,
            "monotonic_ns": self.monotonic_ns,
            "observed_wall_time": wall_time(self.wall_ns),
            "event_type": self.event_type,
            **carried,
        }


@attrs.define(eq=False)
class Source:
    """A part of a process that tells events. instance: unique among all that ever told any."""

    instance: str
    component: str
    told: int = 0

    def record(
        self, event_type: str, monotonic_ns: int, wall_ns: int, fields: dict[str, Any]
    ) -> Record:
        """The next event of this source."""
        sequence, self.told = self.told, self.told + 1
        return Record(
            event_type, self.instance, self.component, sequence, monotonic_ns, wall_ns, fields
        )


def event_id(instance: str, sequence: int) -> str:
    """The id of the event that a source numbered so."""
    return f"{instance}:{sequence}"


def wall_time(ns: int) -> str:
    """RFC 3339 in UTC, with all nine digits: `2026-01-31T12:00:00.000000001Z`."""
    seconds, rest = divmod(ns, _NS)
    return f"{_second(seconds)}.{rest:09d}Z"


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    """The text of a second, which many events share."""
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}"


def follows(event_type: str, cause_type: str) -> bool:
    """Whether an event of this type may name one of that type as its cause."""
    return cause_type in TYPES[event_type].causes
