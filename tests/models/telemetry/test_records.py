"""Records: their place among those of their source, and their form as events and lines."""

import json

import pytest

from kvspec.models.documents.lines import read_events, write_event
from kvspec.models.telemetry.records import Record, Source, event_id, follows, wall_time

FIELDS = {
    "trace_id": "t" * 32,
    "request_id": "r",
    "handle_generation": 2,
    "caused_by_event_id": None,
    "result_snapshot": 0,
    "committed_tokens": 0,
    "outcome": "success",
}


@pytest.fixture
def record() -> Record:
    """The second event of a source."""
    source = Source("engine.1.cache", "cache")
    source.record("request_allocate", 5, 6, FIELDS)
    return source.record("request_allocate", 10, 1_769_860_800_000_000_001, FIELDS)


def test_a_source_counts_its_events_from_0(record: Record) -> None:
    """The number is given when the event is told, whatever becomes of it, and makes its id."""
    assert record.sequence == 1
    assert record.event_id == event_id("engine.1.cache", 1)


def test_wall_time_is_rfc_3339_to_the_nanosecond(record: Record) -> None:
    """Times of one second do not collapse."""
    assert wall_time(record.wall_ns) == "2026-01-31T12:00:00.000000001Z"


def test_a_line_is_the_event_without_what_is_null(record: Record) -> None:
    """The line that is written reads as the event, and has no field that is null."""
    assert None not in record.line.values()
    raw = json.dumps(record.line).encode()
    ((_, found),) = read_events([raw], "log")
    ((_, expected),) = read_events([write_event(record.event).encode()], "log")
    assert found == expected
    assert (found.local_sequence, found.monotonic_ns, found.committed_tokens) == (1, 10, 0)


def test_causes_are_those_of_the_table() -> None:
    """An output follows a publication, and a publication no output."""
    assert follows("output_emit", "append_publish")
    assert not follows("append_publish", "output_emit")
