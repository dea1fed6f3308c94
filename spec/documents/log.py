"""A log of events: who wrote it, under which cache ABI, whether all of it is there, and what must come out.

The same log has two forms. As a document it is one JSON object. As JSON Lines its first line has the
header alone, and each further line is an event, in the order of arrival:

    {"document": "event-log", "version": 1, "header": {...}}
    {"event_id": "e0", "trace_id": "t0", ...}

In lines, fields of an event that are null may be left out.
"""

from __future__ import annotations

from typing import Final

import attrs

from kvspec.spec.documents.cache_abi import CacheAbi
from kvspec.spec.documents.event import Event

SCHEMA_VERSION: Final = 1
"""The version of the table `kvspec.spec.documents.event.TYPES`."""

BOUNDED_LABELS: Final = ("model_name", "engine", "event_type", "outcome")
"""Labels with few values: any other makes a time series for each request."""

PINNED: Final = {"vllm": ("v0.23.0", "0fc695fc6d1d82e9a5ac6835ac8e4e1c83703665")}
"""The releases whose sources were read when events were mapped to them, with their commits."""

COMPLETENESS: Final = ("complete", "sampled")
RELATIONS: Final = ("committed", "unrelated")
METRIC_KINDS: Final = ("counter", "gauge", "histogram")


@attrs.frozen(kw_only=True)
class Source:
    """The runtime to whose source the producer's events are mapped; commit: 40 hexadecimal digits."""

    runtime: str
    release: str
    commit: str


@attrs.frozen(kw_only=True)
class Conversion:
    """How observations may be compared with the cache: without a model, planes are not compared.

    token_bytes: payload of one committed token. used_slots, resident_bytes: `committed` where the
    figure is that of the tokens committed by the cause, else `unrelated` (shared blocks, copies).
    """

    token_bytes: int
    used_slots: str
    resident_bytes: str


@attrs.frozen(kw_only=True)
class MetricFamily:
    """A metric that the producer exports beside the log. outcomes: values of its label `outcome`."""

    name: str
    kind: str
    labels: tuple[str, ...]
    outcomes: tuple[str, ...]


@attrs.frozen(kw_only=True)
class LogHeader:
    """What a reader must know before the first event.

    producer_revision: of the code that tells events. cache_abi_sha256: digest of the cache ABI of all
    requests. source: null where no foreign runtime is mapped. completeness: `complete` or `sampled`.
    """

    schema_version: int
    producer_revision: str
    cache_abi_sha256: str
    source: Source | None
    completeness: str
    conversion: Conversion
    metric_families: tuple[MetricFamily, ...]


@attrs.frozen(kw_only=True)
class EventRef:
    """An event by its id, its type, and the event that caused it."""

    event_id: str
    event_type: str
    after: str | None


@attrs.frozen(kw_only=True)
class ForkEnd:
    """A child that a fork made, from so many rows of its parent."""

    parent: str
    child: str
    tokens: int


@attrs.frozen(kw_only=True)
class HandleEnd:
    """A generation of a handle at the end of the log; end_generation: that of the handle by then."""

    request_id: str
    handle_generation: int
    end_generation: int
    phase: str
    snapshot: int
    committed_tokens: int


@attrs.frozen(kw_only=True)
class OperationEnd:
    """How an append of the rows [start, end) ended; outcome and reason are null for one that is open."""

    operation_id: str
    interval_start: int
    interval_end: int
    outcome: str | None
    reason: str | None


@attrs.frozen(kw_only=True)
class OutputEnd:
    """The tokens that one generation of a handle put out."""

    request_id: str
    handle_generation: int
    token_ids: tuple[int, ...]


@attrs.frozen(kw_only=True)
class AllocatorEnd:
    """An observation of the allocator, and the event that it followed."""

    after: str
    allocated_blocks: int
    allocated_slots: int
    used_slots: int


@attrs.frozen(kw_only=True)
class ResidencyEnd:
    """An observation of a tier, and the event that it followed."""

    after: str
    tier: str
    resident_payload_bytes: int


@attrs.frozen(kw_only=True)
class Expected:
    """What replaying the log must give: events in order of arrival, all else in order of first mention."""

    events: tuple[EventRef, ...]
    handles: tuple[HandleEnd, ...]
    forks: tuple[ForkEnd, ...]
    operations: tuple[OperationEnd, ...]
    outputs: tuple[OutputEnd, ...]
    allocator: tuple[AllocatorEnd, ...]
    residency: tuple[ResidencyEnd, ...]


@attrs.frozen(kw_only=True)
class EventLog:
    """A whole log, with the result that a replay must have. cache_abi: that of the header's digest."""

    header: LogHeader
    cache_abi: CacheAbi
    events: tuple[Event, ...]
    expected: Expected
