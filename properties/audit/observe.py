"""Causes, and the observations that follow them: planes are compared by the header's model alone."""

from __future__ import annotations

from kvspec.properties.audit.findings import Problem
from kvspec.spec.documents.event import TYPES, Event
from kvspec.spec.documents.log import Conversion


def cause_problem(event: Event, cause: Event | None, *, forgot: bool) -> Problem | None:
    """What is wrong with the cause that an event names; forgot: some ids are no longer remembered."""
    field = "caused_by_event_id"
    if cause is None:
        code = "BEYOND_WINDOW" if forgot else "CAUSE_UNKNOWN"
        expected, found = "the id of an event that came before", repr(event.caused_by_event_id)
        return Problem(code, field, expected, found)
    kind = TYPES[event.event_type]
    if cause.event_type not in kind.causes:
        expected = " or ".join(kind.causes) or "no cause"
        return Problem("CAUSE_TYPE", field, expected, f"{cause.event_type} {cause.event_id}")
    generation = event.handle_generation
    if event.request_id != cause.request_id or generation != cause.handle_generation:
        expected = f"{event.request_id}, generation {generation}"
        at = f"{cause.event_type} {cause.event_id}"
        found = f"{cause.request_id}, generation {cause.handle_generation}, in {at}"
        return Problem("CAUSE_TARGET", field, expected, found)
    if "operation_id" in kind.carries and kind.name != "append_start":
        if event.operation_id != cause.operation_id:
            told = repr(event.operation_id), repr(cause.operation_id)
            return Problem("CAUSE_TARGET", field, *told)
    elif kind.name in ("output_emit", "append_start"):
        # A failure and an output make no snapshot: what they leave in sight is their base.
        made = cause.result_snapshot
        seen = cause.base_snapshot if made is None else made
        if seen != event.base_snapshot:
            return Problem(
                "CAUSE_SNAPSHOT", field, f"an event of snapshot {event.base_snapshot}", seen
            )
    return None


def observation_problem(event: Event, cause: Event, model: Conversion) -> Problem | None:
    """What an observation says that cannot be, beside the event that it follows."""
    if event.trace_id != cause.trace_id:
        return Problem("TRACE_CHANGED", "trace_id", repr(cause.trace_id), repr(event.trace_id))
    rows = cause.committed_tokens
    if event.event_type == "allocator_observe":
        return allocator_problem(event) or _allocator(event, rows, model)
    held = event.resident_payload_bytes
    if (
        model.resident_bytes == "committed"
        and rows is not None
        and held != rows * model.token_bytes
    ):
        expected = f"{rows * model.token_bytes} ({rows} tokens of {model.token_bytes} bytes)"
        return Problem("RESIDENT_BYTES", "resident_payload_bytes", expected, held)
    return None


def allocator_problem(event: Event) -> Problem | None:
    """What an observation of the allocator says that cannot be, whatever it follows."""
    blocks, slots, used = (
        event.allocated_blocks or 0,
        event.allocated_slots or 0,
        event.used_slots or 0,
    )
    if used > slots:
        return Problem("ALLOCATOR_OVERFLOW", "used_slots", f"at most {slots}", used)
    if (blocks == 0) != (slots == 0):
        expected = "0" if blocks == 0 else "1 or more"
        return Problem("ALLOCATOR_EMPTY", "allocated_slots", expected, slots)
    return None


def _allocator(event: Event, rows: int | None, model: Conversion) -> Problem | None:
    blocks, used = event.allocated_blocks or 0, event.used_slots or 0
    if blocks == 0 and rows:
        expected = f"blocks, until the release of {rows} rows"
        return Problem("FREED_EARLY", "allocated_blocks", expected, blocks)
    if model.used_slots == "committed" and rows is not None and used != rows:
        return Problem("USED_SLOTS", "used_slots", rows, used)
    return None
