"""OpenTelemetry spans: one for each request, within it one for each append, and events on both.

Modelled: the request's trace id comes from whoever asks; the span of a request runs from allocation
to release, the span of an append from its begin to its publication or failure, and what happens to a
request between these is an event on its span. Identities are attributes here. Timestamps are wall
times as the source took them, so a span has the time of the transition and not of its export.
Left out: a promise of completeness. A sampler may leave spans out, and their absence proves nothing.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Final, TextIO

from opentelemetry import trace
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import ConsoleSpanExporter, SimpleSpanProcessor
from opentelemetry.trace import (
    NonRecordingSpan,
    Span,
    SpanContext,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
)

from kvspec.models.telemetry.records import Record
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.log import LogHeader

EVENT_NAMES: Final = {
    "append_publish": "cache.append.publish",
    "failure": "cache.append.failure",
    "output_emit": "cache.output.emit",
    "fork": "cache.fork",
    "truncate": "cache.truncate",
    "finish": "cache.finish",
    "release": "cache.release",
    "allocator_observe": "cache.allocator.observe",
    "residency_observe": "cache.residency.observe",
}
"""The name of each type of event on a span; the other types begin spans."""

REQUEST_SPAN: Final = "cache.request"
APPEND_SPAN: Final = "cache.append"
_PREFIX: Final = "kvspec."


def provider_for(model_name: str, engine: str) -> TracerProvider:
    """A provider whose spans name the model and the engine, and which sends them nowhere yet."""
    named = {"service.name": engine, f"{_PREFIX}model_name": model_name}
    return TracerProvider(resource=Resource.create(named))


def spans_into(stream: TextIO, *, model_name: str, engine: str) -> TracerProvider:
    """A provider that writes each ended span as a line of JSON."""

    def line(span: ReadableSpan) -> str:
        return json.dumps(json.loads(span.to_json(indent=None))) + "\n"

    provider = provider_for(model_name, engine)
    provider.add_span_processor(
        SimpleSpanProcessor(ConsoleSpanExporter(out=stream, formatter=line))
    )
    return provider


class Spans:
    """An exporter of the channel that makes spans. provider: decides what becomes of them.

    Attributes:
        live: spans that have begun and not ended.
    """

    name = "spans"

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer: Tracer = provider.get_tracer("kvspec.cache")
        self._requests: dict[tuple[str, int], Span] = {}
        self._appends: dict[str, Span] = {}

    @property
    def live(self) -> int:
        """Spans that have begun and not ended."""
        return len(self._requests) + len(self._appends)

    def export(self, record: Record | LogHeader | Closing) -> None:
        """Begin, extend or end the spans that a record speaks of; header and closing of a log have none."""
        if not isinstance(record, Record):
            return
        handle = _HANDLERS.get(record.event_type)
        if handle is not None:
            handle(self, record)
        else:
            self._note(self._requests.get(_whose(record)), record)

    def close(self) -> None:
        """End what is still running, marked as such, and send out all that waits."""
        for span in (*self._appends.values(), *self._requests.values()):
            span.set_attribute(f"{_PREFIX}unfinished", True)
            span.end()
        self._appends.clear()
        self._requests.clear()
        self._provider.force_flush()

    def allocated(self, record: Record) -> None:
        """The span of a request begins."""
        whose = _whose(record)
        self._begin(whose, record, _attributes(record))

    def forked(self, record: Record) -> None:
        """The parent's span gets an event, and the child a span of its own in the same trace."""
        fields = record.fields
        self._note(self._requests.get(_whose(record)), record)
        child = (fields["child_request_id"], fields["child_generation"])
        named = {
            f"{_PREFIX}request_id": child[0],
            f"{_PREFIX}handle_generation": child[1],
            f"{_PREFIX}parent_request_id": fields["request_id"],
        }
        self._begin(child, record, named)

    def started(self, record: Record) -> None:
        """The span of an append begins, within that of its request."""
        parent = self._requests.get(_whose(record))
        context = trace.set_span_in_context(parent) if parent is not None else None
        self._appends[record.fields["operation_id"]] = self._tracer.start_span(
            APPEND_SPAN, context, attributes=_attributes(record), start_time=record.wall_ns
        )

    def ended(self, record: Record) -> None:
        """The span of an append ends, with its publication or failure as an event on it."""
        span = self._appends.pop(record.fields["operation_id"], None)
        if span is None:
            return
        self._note(span, record)
        if record.event_type == "failure":
            span.set_status(Status(StatusCode.ERROR, str(record.fields["reason"])))
        span.end(end_time=record.wall_ns)

    def released(self, record: Record) -> None:
        """The span of a request ends."""
        span = self._requests.pop(_whose(record), None)
        if span is not None:
            self._note(span, record)
            span.end(end_time=record.wall_ns)

    def _begin(
        self, whose: tuple[str, int], record: Record, attributes: dict[str, str | int]
    ) -> None:
        caller = SpanContext(
            trace_id=int(record.fields["trace_id"], 16),
            span_id=record.sequence + 1,
            is_remote=True,
            trace_flags=TraceFlags(TraceFlags.SAMPLED),
        )
        context = trace.set_span_in_context(NonRecordingSpan(caller))
        self._requests[whose] = self._tracer.start_span(
            REQUEST_SPAN, context, attributes=attributes, start_time=record.wall_ns
        )

    @staticmethod
    def _note(span: Span | None, record: Record) -> None:
        if span is not None:
            name = EVENT_NAMES[record.event_type]
            span.add_event(name, _attributes(record), timestamp=record.wall_ns)


_HANDLERS: Final[dict[str, Callable[[Spans, Record], None]]] = {
    "request_allocate": Spans.allocated,
    "fork": Spans.forked,
    "append_start": Spans.started,
    "append_publish": Spans.ended,
    "failure": Spans.ended,
    "release": Spans.released,
}


def _whose(record: Record) -> tuple[str, int]:
    return record.fields["request_id"], record.fields["handle_generation"]


def _attributes(record: Record) -> dict[str, str | int]:
    """What the record carries, as attributes; its trace id is the span's own."""
    found: dict[str, str | int] = {
        f"{_PREFIX}{name}": value
        for name, value in record.fields.items()
        if value is not None and name != "trace_id"
    }
    found[f"{_PREFIX}event_id"] = record.event_id
    return found
