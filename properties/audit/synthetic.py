"""Long lawful logs, made without a cache: for measuring the audit, and for tests of it.

Several requests at a time prefill, decode, fail and try again, fork, truncate, finish and release; two
other sources observe allocator and residency. The same arguments always give the same log.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import count
from typing import Any, Final

import attrs

from kvspec.properties.audit.acceptor import Acceptor
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.event import TYPES, Event, make_event
from kvspec.spec.documents.log import SCHEMA_VERSION, Conversion, HandleEnd, LogHeader

TOKEN_BYTES: Final = 64
PROMPT: Final = 24
BLOCK: Final = 16

HEADER: Final = LogHeader(
    schema_version=SCHEMA_VERSION,
    producer_revision="synthetic 1",
    cache_abi_sha256="0" * 64,
    source=None,
    completeness="complete",
    conversion=Conversion(
        token_bytes=TOKEN_BYTES, used_slots="committed", resident_bytes="committed"
    ),
    metric_families=(),
)
"""The header of every such log."""


@attrs.define
class _Teller:
    """Numbers events, a sequence and a clock for each source."""

    numbers: dict[str, int] = attrs.field(factory=dict)

    def tell(self, kind: str, request: str, **fields: Any) -> Event:
        """The next event of the component that tells this type."""
        component = TYPES[kind].component
        source = f"{component}-0"
        number = self.numbers.get(source, 0)
        self.numbers[source] = number + 1
        outcomes = TYPES[kind].outcomes
        generation = fields.pop("handle_generation", 0)
        return make_event(
            event_id=f"{source}/{number}",
            trace_id=f"trace-{request.split('.', maxsplit=1)[0]}",
            source_instance=source,
            source_component=component,
            local_sequence=number,
            monotonic_ns=1_000_000 + 1_700 * number,
            observed_wall_time="2026-07-27T09:30:00.250+00:00",
            request_id=request,
            handle_generation=generation,
            event_type=kind,
            **{**({"outcome": outcomes[0]} if outcomes else {}), **fields},
        )


def long_log(live: int = 8, outputs: int = 12) -> Iterator[Event]:
    """Events without end; live: requests at a time. outputs: tokens of each."""
    teller, names = _Teller(), count()
    running = [_request(teller, next(names), outputs) for _ in range(live)]
    while True:
        for place, request in enumerate(running):
            event = next(request, None)
            if event is None:
                running[place] = _request(teller, next(names), outputs)
            else:
                yield event


def _request(teller: _Teller, number: int, outputs: int) -> Iterator[Event]:
    """The life of one request; every third has a failed append, every fourth a child."""
    name, rows, snapshot = f"r{number}", 0, 0
    yield teller.tell("request_allocate", name, result_snapshot=0, committed_tokens=0)
    for step in range(outputs + 1):
        more = PROMPT if step == 0 else 1
        if number % 3 == 0 and step == 2:
            yield from _failed(teller, name, snapshot, rows)
        for event in _append(teller, name, f"{name}-{step}", snapshot, rows, more):
            yield event
            if event.event_type == "append_publish" and step % 4 == 0:
                yield from _observed(teller, event, rows + more)
        rows, snapshot = rows + more, snapshot + 1
        if step < outputs:
            emitted = {"base_snapshot": snapshot, "output_index": step, "token_id": 7 * step}
            yield teller.tell("output_emit", name, **emitted)
    if number % 4 == 0:
        yield from _child(teller, name, snapshot, rows)
    yield from _end(teller, name, snapshot, rows)


def _append(
    teller: _Teller, name: str, operation: str, snapshot: int, rows: int, more: int
) -> Iterator[Event]:
    start = teller.tell(
        "append_start",
        name,
        operation_id=operation,
        base_snapshot=snapshot,
        interval_start=rows,
        interval_end=rows + more,
    )
    yield start
    yield teller.tell(
        "append_publish",
        name,
        operation_id=operation,
        base_snapshot=snapshot,
        result_snapshot=snapshot + 1,
        committed_tokens=rows + more,
        caused_by_event_id=start.event_id,
    )


def _failed(teller: _Teller, name: str, snapshot: int, rows: int) -> Iterator[Event]:
    operation = {"operation_id": f"{name}-lost", "base_snapshot": snapshot}
    interval = {"interval_start": rows, "interval_end": rows + 1}
    yield teller.tell("append_start", name, **operation, **interval)
    yield teller.tell("failure", name, **operation, reason="device error")


def _observed(teller: _Teller, cause: Event, rows: int) -> Iterator[Event]:
    blocks = -(-rows // BLOCK)
    name, after = cause.request_id, {"caused_by_event_id": cause.event_id}
    held = {
        "allocated_blocks": blocks,
        "allocated_slots": BLOCK * blocks,
        "used_slots": rows,
    }
    yield teller.tell("allocator_observe", name, **held, **after)
    size = rows * TOKEN_BYTES
    yield teller.tell("residency_observe", name, tier="gpu", resident_payload_bytes=size, **after)


def _child(teller: _Teller, name: str, snapshot: int, rows: int) -> Iterator[Event]:
    child = f"{name}.child"
    yield teller.tell(
        "fork",
        name,
        base_snapshot=snapshot,
        child_request_id=child,
        child_generation=0,
        child_snapshot=0,
        child_tokens=rows,
    )
    cut = {"base_snapshot": 0, "result_snapshot": 1, "committed_tokens": rows - 1}
    yield teller.tell("truncate", child, **cut)
    yield from _end(teller, child, 1, rows - 1)


def _end(teller: _Teller, name: str, snapshot: int, rows: int) -> Iterator[Event]:
    kept = {"base_snapshot": snapshot, "result_snapshot": snapshot, "committed_tokens": rows}
    yield teller.tell("finish", name, **kept)
    gone = {"base_snapshot": snapshot, "result_snapshot": snapshot + 1, "committed_tokens": 0}
    release = teller.tell("release", name, result_generation=1, **gone)
    yield release
    if "." not in name:
        yield from _observed(teller, release, 0)


def closing_of(events: Iterable[Event]) -> Closing:
    """What a sound cache would hold that told these events, and nothing else."""
    ends: list[HandleEnd] = []
    acceptor = Acceptor(HEADER, closed=ends)
    for line, event in enumerate(events, 2):
        acceptor.feed(line, event)
    live = acceptor.replay.live.items()
    return Closing(
        is_all=True,
        sources=tuple(
            SourceEnd(source_instance=name, next_sequence=source.next)
            for name, source in acceptor.sources.items()
        ),
        handles=(*ends, *(acceptor.replay.end(name, each) for name, each in live)),
    )
