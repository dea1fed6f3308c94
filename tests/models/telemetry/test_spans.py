"""Spans: a request, its appends within it, and what happened as events with identities as attributes."""

import io
import json
from collections.abc import Iterator

import pytest

pytest.importorskip("opentelemetry.sdk")

from kvspec.models.telemetry.records import Record, Source  # after the check for the extra
from kvspec.models.telemetry.spans import EVENT_NAMES, Spans, spans_into
from kvspec.spec.documents.event import TYPES

TRACE = "0123456789abcdef0123456789abcdef"


class Told:
    """Tells records to spans, and reads what was written."""

    def __init__(self) -> None:
        self.stream = io.StringIO()
        self.spans = Spans(spans_into(self.stream, model_name="model", engine="engine"))
        self.source = Source("s", "cache")

    def tell(self, event_type: str, request: str = "r", **fields: object) -> Record:
        """Tell an event, one second after the last."""
        whose = {"trace_id": TRACE, "request_id": request, "handle_generation": 0}
        at = (self.source.told + 1) * 1_000_000_000
        record = self.source.record(event_type, at, at, {**whose, **fields})
        self.spans.export(record)
        return record

    def written(self) -> list[dict]:
        """The spans that have ended, in that order."""
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]


@pytest.fixture
def told() -> Iterator[Told]:
    """A teller whose spans are closed at the end."""
    teller = Told()
    yield teller
    teller.spans.close()


def test_an_append_is_a_span_within_that_of_its_request(told: Told) -> None:
    """Begin and end are those of the source's clock; the publication is an event with its identities."""
    told.tell("request_allocate", result_snapshot=0)
    told.tell("append_start", operation_id="o1", base_snapshot=0)
    publish = told.tell("append_publish", operation_id="o1", result_snapshot=1)
    told.tell("finish")
    told.tell("release")
    append, request = told.written()
    assert (append["name"], request["name"]) == ("cache.append", "cache.request")
    assert append["parent_id"] == request["context"]["span_id"]
    assert append["context"]["trace_id"] == request["context"]["trace_id"] == f"0x{TRACE}"
    assert append["start_time"] == "1970-01-01T00:00:02.000000Z"
    assert append["end_time"] == "1970-01-01T00:00:03.000000Z"
    (event,) = append["events"]
    assert event["name"] == "cache.append.publish"
    assert event["attributes"]["kvspec.request_id"] == "r"
    assert event["attributes"]["kvspec.event_id"] == publish.event_id
    assert [each["name"] for each in request["events"]] == ["cache.finish", "cache.release"]


def test_a_failed_append_is_a_span_with_an_error(told: Told) -> None:
    """Its status has the code of the refusal."""
    told.tell("request_allocate")
    told.tell("append_start", operation_id="o1")
    told.tell("failure", operation_id="o1", reason="STALE_SNAPSHOT")
    (append,) = told.written()
    assert append["status"] == {"status_code": "ERROR", "description": "STALE_SNAPSHOT"}


def test_a_child_has_a_span_of_its_own_in_the_same_trace(told: Told) -> None:
    """A fork is an event of the parent, and the beginning of the child."""
    told.tell("request_allocate")
    told.tell("fork", child_request_id="c", child_generation=0)
    told.tell("release", "c")
    told.tell("release")
    child, parent = told.written()
    assert child["attributes"]["kvspec.parent_request_id"] == "r"
    assert child["context"]["trace_id"] == parent["context"]["trace_id"]
    assert [event["name"] for event in parent["events"]] == ["cache.fork", "cache.release"]


def test_what_is_still_running_at_the_end_says_so(told: Told) -> None:
    """Closing ends every span, marked as unfinished."""
    told.tell("request_allocate")
    told.tell("append_start", operation_id="o1")
    assert told.spans.live == 2
    told.spans.close()
    assert [span["attributes"]["kvspec.unfinished"] for span in told.written()] == [True, True]
    assert told.spans.live == 0


def test_an_event_of_a_request_that_was_never_seen_makes_no_span(told: Told) -> None:
    """A record that was dropped before leaves holes and no error."""
    told.tell("append_publish", operation_id="lost")
    told.tell("finish")
    told.tell("release")
    assert told.written() == []


def test_every_type_of_event_begins_a_span_or_has_a_name() -> None:
    """No event of the table is passed over."""
    assert EVENT_NAMES.keys() | {"request_allocate", "append_start"} == TYPES.keys()
