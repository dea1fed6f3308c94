"""The event of a mutation: an envelope for delivery, a versioned target, and what its type may carry.

An event is an observation of a step that was taken; it is no part of the state. Its fields belong to
five planes, and each type of event carries the fields that its row of `TYPES` names and no others. Every
field is there in a document; in a log of lines those that are null may be left out.

Snapshots are numbered by handle generation, which release alone advances, and within it by append,
truncate and release. Finish, which changes no rows, keeps the snapshot. A target is named by the
generation that the event acts on; the one that release makes is `result_generation`.

Left out: references, free lists and allocator generations, transfers between tiers, delivery state.
"""

from __future__ import annotations

from typing import Any, Final

import attrs


@attrs.frozen(kw_only=True)
class Event:
    """One event of a log; null where its type carries nothing.

    event_id: unique in the log; the same id again is the same event, byte for byte.
    trace_id: trace of the request. source_instance: the process that tells it.
    source_component: what kind of part that process is. local_sequence: counts the events of the
    source from 0, of all requests together. monotonic_ns: clock of the source, for intervals within
    it alone. observed_wall_time: RFC 3339; orders nothing.
    request_id, handle_generation: the target. operation_id: the append it belongs to.
    caused_by_event_id: the event that it follows. event_type: one of `TYPES`.
    base_snapshot: snapshot of the target before. result_snapshot: the one it makes visible or retains.
    outcome: one of `OUTCOMES`. committed_tokens: rows that a reader of the target sees afterwards.
    result_generation: generation of the handle after release.
    interval_start, interval_end: the rows [start, end) of an append. reason: why it failed.
    output_index, token_id: the output, counted from 0 for each request.
    child_request_id, child_generation, child_snapshot, child_tokens: the request that a fork makes.
    allocated_blocks, allocated_slots, used_slots: what the allocator was seen to hold.
    tier, resident_payload_bytes: payload that was seen resident there.
    """

    event_id: str
    trace_id: str
    source_instance: str
    source_component: str
    local_sequence: int
    monotonic_ns: int
    observed_wall_time: str
    request_id: str
    handle_generation: int
    operation_id: str | None
    caused_by_event_id: str | None
    event_type: str
    base_snapshot: int | None
    result_snapshot: int | None
    outcome: str | None
    committed_tokens: int | None
    result_generation: int | None
    interval_start: int | None
    interval_end: int | None
    reason: str | None
    output_index: int | None
    token_id: int | None
    child_request_id: str | None
    child_generation: int | None
    child_snapshot: int | None
    child_tokens: int | None
    allocated_blocks: int | None
    allocated_slots: int | None
    used_slots: int | None
    tier: str | None
    resident_payload_bytes: int | None


TELEMETRY: Final = (
    "event_id",
    "trace_id",
    "source_instance",
    "source_component",
    "local_sequence",
    "monotonic_ns",
    "observed_wall_time",
    "caused_by_event_id",
    "event_type",
)
SEMANTIC: Final = (
    "request_id",
    "handle_generation",
    "result_snapshot",
    "committed_tokens",
    "result_generation",
    "output_index",
    "token_id",
    "child_request_id",
    "child_generation",
    "child_snapshot",
    "child_tokens",
)
OPERATION: Final = (
    "operation_id",
    "base_snapshot",
    "interval_start",
    "interval_end",
    "outcome",
    "reason",
)
ALLOCATOR: Final = ("allocated_blocks", "allocated_slots", "used_slots")
RESIDENCY: Final = ("tier", "resident_payload_bytes")

PLANES: Final = {
    "semantic": SEMANTIC,
    "operation": OPERATION,
    "allocator": ALLOCATOR,
    "residency": RESIDENCY,
    "telemetry": TELEMETRY,
}
"""Every field of an event by its plane."""

ENVELOPE: Final = (*(name for name in TELEMETRY if name != "caused_by_event_id"), *SEMANTIC[:2])
"""The fields that every event carries."""

OUTCOMES: Final = ("success", "failure", "conflict", "cancelled")
"""How an operation can end. conflict: publication was refused, since the base had changed."""

COMPONENTS: Final = ("cache", "allocator", "residency")
"""The parts of a server that tell events; a source is one of them for its whole life."""


@attrs.frozen(kw_only=True)
class EventType:
    """What an event of a type says and carries.

    component: the part of the server that tells it. carries: fields that are not null, beside the
    envelope. outcomes: those it may have; none where `outcome` is null. causes: types of event that
    `caused_by_event_id` may name. caused: it must name one.
    """

    name: str
    meaning: str
    component: str
    carries: tuple[str, ...]
    outcomes: tuple[str, ...] = ()
    causes: tuple[str, ...] = ()
    caused: bool = False


_SNAPSHOTS: Final = ("base_snapshot", "result_snapshot", "committed_tokens")

TYPES: Final = {
    found.name: found
    for found in (
        EventType(
            name="request_allocate",
            meaning="a generation of a handle begins, with an empty snapshot",
            component="cache",
            carries=("result_snapshot", "committed_tokens"),
            outcomes=("success",),
        ),
        EventType(
            name="append_start",
            meaning="rows of an interval are being computed on a base snapshot; nobody sees them",
            component="cache",
            carries=("operation_id", "base_snapshot", "interval_start", "interval_end"),
            causes=("failure", "append_publish", "output_emit"),
        ),
        EventType(
            name="append_publish",
            meaning="all rows of one append became visible at once",
            component="cache",
            carries=("operation_id", *_SNAPSHOTS),
            outcomes=("success",),
            causes=("append_start",),
        ),
        EventType(
            name="failure",
            meaning="one append ended without effect; its base is still what readers see",
            component="cache",
            carries=("operation_id", "base_snapshot", "reason"),
            outcomes=("failure", "conflict", "cancelled"),
            causes=("append_start",),
        ),
        EventType(
            name="output_emit",
            meaning="a token was put out from one snapshot; its own rows are not appended by that",
            component="cache",
            carries=("base_snapshot", "output_index", "token_id"),
            causes=("append_publish", "truncate"),
        ),
        EventType(
            name="fork",
            meaning="a child was given a prefix; says nothing of copies or shared blocks",
            component="cache",
            carries=(
                "base_snapshot",
                "child_request_id",
                "child_generation",
                "child_snapshot",
                "child_tokens",
            ),
            outcomes=("success",),
            causes=("append_publish", "output_emit"),
        ),
        EventType(
            name="truncate",
            meaning="one handle was cut to a shorter snapshot; blocks are another matter",
            component="cache",
            carries=_SNAPSHOTS,
            outcomes=("success",),
            causes=("append_publish", "output_emit", "fork"),
        ),
        EventType(
            name="finish",
            meaning="generation ended, or was cancelled; the rows are still owned",
            component="cache",
            carries=_SNAPSHOTS,
            outcomes=("success", "cancelled"),
            causes=("append_publish", "output_emit", "failure"),
        ),
        EventType(
            name="release",
            meaning="ownership ended and the generation is fenced; memory may be freed later",
            component="cache",
            carries=(*_SNAPSHOTS, "result_generation"),
            outcomes=("success",),
            causes=("finish",),
        ),
        EventType(
            name="allocator_observe",
            meaning="blocks and slots that the allocator was seen to hold",
            component="allocator",
            carries=ALLOCATOR,
            causes=(
                "request_allocate",
                "append_start",
                "append_publish",
                "failure",
                "fork",
                "truncate",
                "finish",
                "release",
            ),
            caused=True,
        ),
        EventType(
            name="residency_observe",
            meaning="payload bytes that were seen resident in a tier",
            component="residency",
            carries=RESIDENCY,
            causes=("append_publish", "fork", "truncate", "finish", "release"),
            caused=True,
        ),
    )
}
"""Every type of event: nine of the cache itself, and two kinds of observation that follow them."""

OPTIONAL: Final = tuple(
    name for fields in PLANES.values() for name in fields if name not in ENVELOPE
)
"""The fields that are null in events whose type does not carry them."""


def plane_of(field: str) -> str:
    """The plane that a field belongs to."""
    return next(plane for plane, fields in PLANES.items() if field in fields)


def make_event(**fields: Any) -> Event:
    """An event from the fields that it carries; the others are null."""
    return Event(**{**dict.fromkeys(OPTIONAL), **fields})
