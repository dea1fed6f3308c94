"""The faults of telemetry: what a producer of a log, or the way that a log takes, gets wrong.

Modelled: one switch for each entry of the failure lab that a log can show: told too early, lost, told
twice, told otherwise, out of order, timed backwards, the wrong kind, an identity as a label. The cache
itself is sound under all of them. Left out: faults of the cache (`kvspec.models.decode.FAULTS`), and a
consumer who reads a sound log wrongly (wall clocks of two processes, a sampled trace as complete).
"""

from __future__ import annotations

from typing import Final

import attrs

from kvspec.models.telemetry.records import Record

EMIT_BEFORE_PUBLISH: Final = "emit-before-publish"
LOSE_EVENT: Final = "lose-event"
LOSE_TAIL: Final = "lose-tail"
DUPLICATE_EVENT: Final = "duplicate-event"
FORGE_EVENT: Final = "forge-event"
REORDER_EVENTS: Final = "reorder-events"
CLOCK_BACK: Final = "clock-back"
FINISH_AS_RELEASE: Final = "finish-as-release"
REQUEST_ID_LABEL: Final = "request-id-label"

TELEMETRY_FAULTS: Final[dict[str, str]] = {
    EMIT_BEFORE_PUBLISH: "success is told before the publication, and the process dies between the two",
    LOSE_EVENT: "an event is lost on its way, and later ones arrive",
    LOSE_TAIL: "everything from one publication on is lost on its way, so that no number is missing",
    DUPLICATE_EVENT: "an event is delivered twice, byte for byte",
    FORGE_EVENT: "an event is delivered a second time under its id, with other content",
    REORDER_EVENTS: "two events of one source are delivered in the other order",
    CLOCK_BACK: "the monotonic clock of a source goes back",
    FINISH_AS_RELEASE: "the end of a request's output is told as the end of its ownership",
    REQUEST_ID_LABEL: "a metric has the label request_id, and nothing refuses it",
}
"""Every fault of telemetry, by name, with what it does."""

AT: Final = 2
"""Which publication of a run is hit: the second one, so that there is a sound part before it."""

_BACK_NS: Final = 3_600_000_000_000


def known_telemetry_faults(faults: tuple[str, ...]) -> frozenset[str]:
    """The faults as a set.

    Raises:
        ValueError: a name is not one of `TELEMETRY_FAULTS`.
    """
    unknown = sorted(set(faults) - TELEMETRY_FAULTS.keys())
    if unknown:
        raise ValueError(
            f"found the faults {', '.join(unknown)}, expected names out of {', '.join(TELEMETRY_FAULTS)}"
        )
    return frozenset(faults)


class CrashError(Exception):
    """The process died here: what it had in mind to do next was not done."""


@attrs.define(eq=False)
class Delivery:
    """What becomes of records on their way to the writer; all arrive once and in order, or a fault.

    faults: names of `TELEMETRY_FAULTS`. publications: how many were seen so far.
    """

    faults: frozenset[str] = frozenset()
    publications: int = 0
    _held: Record | None = None
    _cut: bool = False

    def of(self, record: Record) -> tuple[Record, ...]:
        """The records that arrive in place of this one, in order."""
        if not self.faults:
            return (record,)
        if self._held is not None and record.component == self._held.component:
            held, self._held = self._held, None
            return record, held
        if self._cut:
            return ()
        is_hit = record.event_type == "append_publish"
        self.publications += is_hit
        if not is_hit or self.publications != AT:
            return (record,)
        return self._hit(record)

    def _hit(self, record: Record) -> tuple[Record, ...]:
        if LOSE_EVENT in self.faults:
            return ()
        if LOSE_TAIL in self.faults:
            self._cut = True
            return ()
        if DUPLICATE_EVENT in self.faults:
            return record, record
        if FORGE_EVENT in self.faults:
            committed = record.fields["committed_tokens"] + 1
            return record, attrs.evolve(
                record, fields={**record.fields, "committed_tokens": committed}
            )
        if REORDER_EVENTS in self.faults:
            self._held = record
            return ()
        if CLOCK_BACK in self.faults:
            return (attrs.evolve(record, monotonic_ns=record.monotonic_ns - _BACK_NS),)
        return (record,)
