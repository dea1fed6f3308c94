"""Telemetry: where a cache tells what it has done, after it has done it.

Modelled: three sources (the cache, what was seen of its allocator, what was seen resident), each with a
sequence and a clock of its own; metrics, counted at once; a channel to the exporters, which write the
audit log and make spans. Telling never waits and never raises, and nothing told becomes state of the
cache. Left out: what to tell when; `kvspec.models.decode.backend_telemetry` does that for the
torch cache.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any, Final

import attrs

from kvspec.models.telemetry.channel import CAPACITY, PATIENCE, Channel, Exporter
from kvspec.models.telemetry.faults import Delivery, known_telemetry_faults
from kvspec.models.telemetry.records import Record, Source, event_id
from kvspec.spec.documents.closing import Closing, SourceEnd
from kvspec.spec.documents.event import COMPONENTS, TYPES
from kvspec.spec.documents.log import SCHEMA_VERSION, Conversion, LogHeader

if TYPE_CHECKING:
    from kvspec.models.telemetry.metrics import Metrics  # an audit log needs no extra

Item = Record | LogHeader | Closing
HEADER: Final = "header"
CLOSING: Final = "closing"
_TRACE_DIGITS = 32


class Telemetry:
    """What one engine tells, and to whom.

    exporters: called by the channel's thread. metrics: by default none. engine: names the process
    among all that ever wrote to the same log. capacity: of the channel. clock, wall: nanoseconds.
    faults: names of `TELEMETRY_FAULTS`.

    Attributes:
        errors: exceptions of whoever looks at the cache to tell of it.
        first_error: the first of them, as text.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(
        self,
        exporters: Sequence[Exporter[Item]] = (),
        metrics: Metrics | None = None,
        *,
        engine: str = "engine",
        capacity: int = CAPACITY,
        clock: Callable[[], int] = time.monotonic_ns,
        wall: Callable[[], int] = time.time_ns,
        faults: tuple[str, ...] = (),
    ) -> None:
        self.faults = known_telemetry_faults(faults)
        self.metrics = metrics
        self.engine = engine
        self.clock = clock
        self.wall = wall
        self.errors = 0
        self.first_error = ""
        self.run = 0
        self.channel: Channel[Item] = Channel(exporters, capacity)
        self._delivery = Delivery(self.faults)
        self._sources: dict[str, Source] = {}
        self._ended: list[SourceEnd] = []
        self._lock = threading.Lock()
        if metrics is not None:
            metrics.follow(self.channel.dropped, self.channel.failures, lambda: self.channel.depth)

    def begin(self, cache_abi_sha256: str, token_bytes: int) -> None:
        """A cache begins anew: new sources, which count from 0, after the header of the log.

        token_bytes: K and V payload of one committed token in all layers.
        """
        header = LogHeader(
            schema_version=SCHEMA_VERSION,
            producer_revision=f"kvspec {_version()}",
            cache_abi_sha256=cache_abi_sha256,
            source=None,
            completeness="complete",
            conversion=Conversion(
                token_bytes=token_bytes, used_slots="committed", resident_bytes="committed"
            ),
            metric_families=tuple(self.metrics.families) if self.metrics is not None else (),
        )
        with self._lock:
            self.run += 1
            self._ended.extend(self._stand())
            self._sources = {
                part: Source(f"{self.engine}.{self.run}.{part}", part) for part in COMPONENTS
            }
            self.channel.put(HEADER, header)

    def tell(self, event_type: str, **fields: Any) -> str:
        """Tell an event that has happened, and return its id; it may be dropped, and has its number then."""
        with self._lock:
            source = self._sources[TYPES[event_type].component]
            record = source.record(event_type, self.clock(), self.wall(), fields)
            for arriving in self._delivery.of(record):
                self.channel.put(event_type, arriving)
        return event_id(record.instance, record.sequence)

    def end(self, closing: Closing) -> None:
        """Nothing more will be told: what the cache held then, for a reader of the log to compare.

        How many events each source has told is filled in here, whatever the closing says of it.
        """
        self.flush()
        with self._lock:
            sources = (*self._ended, *self._stand())
            self.channel.put(CLOSING, attrs.evolve(closing, sources=sources))

    def _stand(self) -> list[SourceEnd]:
        """The number of the next event of each source that has told any."""
        return [
            SourceEnd(source_instance=each.instance, next_sequence=each.told)
            for each in self._sources.values()
            if each.told
        ]

    def trace_id(self, request_id: str) -> str:
        """A trace id for a request whose caller has given none: 32 hexadecimal digits."""
        named = f"{self.engine}|{self.run}|{request_id}|{self.wall()}"
        return hashlib.sha256(named.encode()).hexdigest()[:_TRACE_DIGITS]

    def fail(self, error: Exception) -> None:
        """Whoever looked at the cache to tell of it has raised: counted, and kept from the cache."""
        self.errors += 1
        if not self.first_error:
            self.first_error = f"{type(error).__name__}: {error}"

    def flush(self, timeout: float = PATIENCE) -> None:
        """Return when every exporter has heard of all that was told so far."""
        self.channel.flush(timeout)

    def close(self, timeout: float = PATIENCE) -> None:
        """Let the exporters finish and close them."""
        self.channel.close(timeout)


def _version() -> str:
    try:
        return version("kvspec")
    except PackageNotFoundError:
        return "unknown"
