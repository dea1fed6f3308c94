"""What comes out of a log: its events, handles, appends, outputs and observations, made anew from it."""

from __future__ import annotations

import attrs

from kvspec.spec.documents.event import Event
from kvspec.spec.documents.log import (
    AllocatorEnd,
    EventLog,
    EventRef,
    Expected,
    ForkEnd,
    HandleEnd,
    OperationEnd,
    OutputEnd,
    ResidencyEnd,
)

Target = tuple[str, int]


def results(log: EventLog, ends: tuple[HandleEnd, ...]) -> Expected:
    """The results of a log; ends: where the replay left each generation of a handle."""
    born = {target: place for place, target in reversed(list(enumerate(map(_began, log.events))))}
    order = {target: place for target, place in born.items() if target is not None}
    last = len(log.events)
    handles = sorted(ends, key=lambda e: order.get((e.request_id, e.handle_generation), last))
    return Expected(
        events=tuple(
            EventRef(
                event_id=event.event_id,
                event_type=event.event_type,
                after=event.caused_by_event_id,
            )
            for event in log.events
        ),
        handles=tuple(handles),
        forks=tuple(
            ForkEnd(
                parent=event.request_id,
                child=event.child_request_id or "",
                tokens=event.child_tokens or 0,
            )
            for event in log.events
            if event.event_type == "fork"
        ),
        operations=_operations(log.events),
        outputs=_outputs(log.events),
        allocator=tuple(
            AllocatorEnd(
                after=event.caused_by_event_id or "",
                allocated_blocks=event.allocated_blocks or 0,
                allocated_slots=event.allocated_slots or 0,
                used_slots=event.used_slots or 0,
            )
            for event in log.events
            if event.event_type == "allocator_observe"
        ),
        residency=tuple(
            ResidencyEnd(
                after=event.caused_by_event_id or "",
                tier=event.tier or "",
                resident_payload_bytes=event.resident_payload_bytes or 0,
            )
            for event in log.events
            if event.event_type == "residency_observe"
        ),
    )


def _began(event: Event) -> Target | None:
    """The generation of a handle that begins with the event."""
    if event.event_type == "request_allocate":
        return event.request_id, event.handle_generation
    if event.event_type == "fork" and event.child_request_id and event.child_generation is not None:
        return event.child_request_id, event.child_generation
    return None


def _operations(events: tuple[Event, ...]) -> tuple[OperationEnd, ...]:
    """Each append that was started, and how it ended, in order of their starts."""
    found: dict[str, OperationEnd] = {}
    for event in events:
        name = event.operation_id
        if name is None:
            continue
        if event.event_type == "append_start":
            found[name] = OperationEnd(
                operation_id=name,
                interval_start=event.interval_start or 0,
                interval_end=event.interval_end or 0,
                outcome=None,
                reason=None,
            )
        elif name in found:
            outcome, reason = event.outcome, event.reason
            found[name] = attrs.evolve(found[name], outcome=outcome, reason=reason)
    return tuple(found.values())


def _outputs(events: tuple[Event, ...]) -> tuple[OutputEnd, ...]:
    """The tokens that each generation of a handle put out, in order of the first."""
    found: dict[Target, list[int]] = {}
    for event in events:
        if event.event_type == "output_emit" and event.token_id is not None:
            found.setdefault((event.request_id, event.handle_generation), []).append(event.token_id)
    return tuple(
        OutputEnd(request_id=name, handle_generation=number, token_ids=tuple(tokens))
        for (name, number), tokens in found.items()
    )
