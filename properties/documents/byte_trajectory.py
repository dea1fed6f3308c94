"""The contracts of byte trajectories that ask the specification, and the ledgers that rest on them.

Every event is taken to the core system: an arrival allocates, a publication is an append with all its
hidden steps, finish and release are themselves. A refusal has the code of the specification. Each
request runs on an instance of its own, whose context limit is the rows reserved for it: requests of a
trajectory share nothing, and a limit on capacity is then the specification's own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Final

import attrs

from kvspec.models.concrete import Refusal
from kvspec.properties.documents.runs import Positions, core_run
from kvspec.spec.documents.byte_ledger import Ledger
from kvspec.spec.documents.byte_trajectory import (
    ByteEvent,
    ByteTrajectory,
    Request,
    byte_trajectory,
    computed_byte_time,
    computed_ledger,
)
from kvspec.spec.documents.cache_abi import coefficient
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.contracts import Binding, Finding, differs, requires
from kvspec.spec.failures import CODES

REFUSALS: Final = {
    "HANDLE_LIVE": "a request arrives once",
    "BLOCK_IN_USE": "a request does not arrive again after its release",
    "HANDLE_TERMINAL": "a request publishes and finishes after it arrived and before it ends",
    "POSITION_MISMATCH": "rows begin where those of the request end",
    "EMPTY_APPEND": "a publication has a row",
    "CONTEXT_FULL": "a request stays within the rows reserved for it",
    "NOT_TERMINAL": "a request releases once, and after it finished",
}
"""Codes of the specification with which the events of a trajectory can be refused."""

_MEND: Final = (
    "change this event, or those of its request before it, to steps that a cache can take"
)


@attrs.frozen
class Replay:
    """How the specification takes the events. committed: rows of each request after each event.

    refused: the place of the first event refused and why, or None.
    """

    committed: tuple[tuple[int | None, ...], ...]
    refused: tuple[int, Refusal] | None


@lru_cache(maxsize=4)  # each contract asks anew
def replay(t: ByteTrajectory) -> Replay:
    """Take the events to the specification, up to the first that it refuses."""
    runs = {request.name: _Life(t, request) for request in t.requests}
    committed: list[tuple[int | None, ...]] = []
    for n, event in enumerate(t.events):
        refusal = runs[event.request].take(event)
        if refusal:
            return Replay(tuple(committed), (n, refusal))
        committed.append(tuple(life.committed() for life in runs.values()))
    return Replay(tuple(committed), None)


def completed(t: ByteTrajectory) -> ByteTrajectory:
    """The trajectory with all that follows from sizes and events; a ValueError if an event is refused."""
    found = replay(t)
    if found.refused:
        place, refusal = found.refused
        raise ValueError(
            f"event {place} ({t.events[place].operation}): {refusal}: correct the events"
        )
    t = attrs.evolve(t, cache_abi_sha256=digest(t.cache_abi), token_bytes=coefficient(t.cache_abi))
    events = []
    for event, committed in zip(t.events, found.committed, strict=True):
        counted = attrs.evolve(event, committed=committed)
        events.append(attrs.evolve(counted, ledger=computed_ledger(t, counted)))
    t = attrs.evolve(t, events=tuple(events))
    return attrs.evolve(
        t,
        peak_physical=_peak(t, "physical"),
        peak_instantaneous=_peak(t, "instantaneous"),
        logical_byte_time=computed_byte_time(t),
    )


byte_trajectory.binding = Binding(
    (
        "/cache_abi_sha256",
        "/token_bytes",
        "/events/*/committed",
        "/events/*/ledger",
        "/peak_physical",
        "/peak_instantaneous",
        "/logical_byte_time",
    ),
    completed,
    nullable=("/events/*/rows",),
)


def _peak(t: ByteTrajectory, field: str) -> int:
    return max((int(getattr(event.ledger, field)) for event in t.events), default=0)


class _Life:
    """The run of one request."""

    def __init__(self, t: ByteTrajectory, request: Request) -> None:
        asked = [e.rows for e in t.events if e.request == request.name and e.rows is not None]
        ends = [rows.start + rows.count for rows in asked]
        # Rows for which nobody asks need no room.
        longest = min(request.reserved_tokens, max(ends, default=1))
        named = [*(rows.start for rows in asked), *ends, longest, request.reserved_tokens]
        self.positions = Positions(named)
        self.run = core_run(
            handles=1,
            longest=max(1, self.positions.short(longest)),
            appends=len(asked),
            layers=t.cache_abi.cache_schema.layers,
        )

    def take(self, event: ByteEvent) -> Refusal | None:
        """Take an event of the request, or tell why the specification refuses it."""
        if event.operation == "arrive":
            return self.run.step("allocate", h=0, b=0, a=0)
        if event.rows is None:
            return self.run.step(event.operation, h=0)
        start = self.positions.short(event.rows.start)
        end = self.positions.short(event.rows.start + event.rows.count)
        refusal = self.run.append(0, start, end - start)
        if refusal and self.positions.are_shorter:
            return attrs.evolve(refusal, found=f"{event.rows} after {self.committed()} rows")
        return refusal

    def committed(self) -> int | None:
        """Rows of the request, as the document counts them."""
        return self.positions.true(self.run.committed(0))


def _refused_with(code: str) -> Callable[[ByteTrajectory], Iterator[Finding]]:
    def check(t: ByteTrajectory) -> Iterator[Finding]:
        refused = replay(t).refused
        if refused and refused[1].code == code:
            place, refusal = refused
            yield Finding(f"/events/{place}", refusal.expected, refusal.found)

    return check


for _code, _meaning in REFUSALS.items():
    byte_trajectory.contract(_code, f"{_meaning}: {CODES[_code].meaning}", do=_MEND)(
        _refused_with(_code)
    )


@byte_trajectory.contract(
    "COMMITTED", "the rows after each event are those of the specification", derived=True
)
def committed_rows_are_those_of_the_specification(t: ByteTrajectory) -> Iterator[Finding]:
    """The rows after each event are those of the specification."""
    found = replay(t)
    if found.refused:
        raise RuntimeError(
            f"no contract tells {found.refused[1]}: name its code in {__name__}.REFUSALS"
        )
    for n, (event, committed) in enumerate(zip(t.events, found.committed, strict=True)):
        yield from differs(f"/events/{n}/committed", committed, event.committed)


@byte_trajectory.contract("NOT_RELEASED", "after the last event no request holds storage")
def nothing_is_held_at_the_end(t: ByteTrajectory) -> Iterator[Finding]:
    """After the last event no request holds storage."""
    last = len(t.events) - 1
    for request, rows in zip(t.requests, replay(t).committed[last], strict=True):
        yield from requires(
            rows is None, f"/events/{last}", f"{request.name} released", f"{rows} rows"
        )


LEDGERS: Final = {
    "LOGICAL": ("logical", "logical bytes count each committed row once"),
    "MATERIALIZED": ("materialized", "materialized bytes count each committed row in each copy"),
    "REPLICATION_OVERHEAD": ("replication_overhead", "it is materialized less logical bytes"),
    "RESERVED": ("reserved", "reserved bytes count the room of each copy that is held"),
    "RESERVATION_SLACK": ("reservation_slack", "it is reserved less materialized bytes"),
    "ALLOCATOR": ("allocator", "each copy that is held costs its metadata"),
    "PHYSICAL": ("physical", "physical bytes are reserved bytes and metadata"),
    "TIER_PARTITION": ("resident", "bytes in the tiers are the parts of physical bytes"),
    "WORKSPACE": ("workspace", "the workspace in the ledger is the event's own"),
    "INSTANTANEOUS": ("instantaneous", "instantaneous bytes are physical bytes and workspace"),
}
"""The contract of each ledger: its field and what it asks."""


@lru_cache(maxsize=4)
def _ledgers(t: ByteTrajectory) -> tuple[Ledger, ...]:
    return tuple(computed_ledger(t, event) for event in t.events)


def _ledger_is_computed(field: str) -> Callable[[ByteTrajectory], Iterator[Finding]]:
    def check(t: ByteTrajectory) -> Iterator[Finding]:
        for n, (event, expected) in enumerate(zip(t.events, _ledgers(t), strict=True)):
            place = f"/events/{n}/ledger/{field}"
            yield from differs(place, getattr(expected, field), getattr(event.ledger, field))

    return check


for _code, (_field, _meaning) in LEDGERS.items():
    byte_trajectory.contract(_code, _meaning, derived=True)(_ledger_is_computed(_field))


@byte_trajectory.contract("PEAK", "the peaks are the largest bytes after any event", derived=True)
def peaks_are_the_largest_bytes(t: ByteTrajectory) -> Iterator[Finding]:
    """The peaks are the largest bytes after any event."""
    yield from differs("/peak_physical", _peak(t, "physical"), t.peak_physical)
    yield from differs("/peak_instantaneous", _peak(t, "instantaneous"), t.peak_instantaneous)


@byte_trajectory.contract(
    "BYTE_TIME", "the area under the logical bytes follows from the events", derived=True
)
def area_follows_from_the_events(t: ByteTrajectory) -> Iterator[Finding]:
    """The area under the logical bytes follows from the events."""
    yield from differs("/logical_byte_time", computed_byte_time(t), t.logical_byte_time)
