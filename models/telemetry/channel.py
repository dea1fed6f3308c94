"""The channel between the cache and those who write things down: bounded, and never in the way.

Modelled: whoever puts a record never waits for the writer. What does not fit is dropped and counted by
kind. One thread takes records off and hands each to every exporter; an exporter that raises is counted
and hears of the next record all the same. The thread looks at the queue every few milliseconds, or when
it is half full, so that it does not take the interpreter from the cache at every record. Flush
returns when all that was put before it has been handed over, close does so and ends the thread.
Left out: keeping what was dropped for later; a record has its local sequence before it is put, so that a
reader of the log sees the gap. A process that dies takes with it what waits.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Sequence
from typing import Generic, Protocol, TypeVar

import attrs

Item = TypeVar("Item")
Received_contra = TypeVar("Received_contra", contravariant=True)

CAPACITY = 8192
PATIENCE = 30.0
LINGER = 0.02
"""Seconds between two looks at the queue."""


class Exporter(Protocol[Received_contra]):
    """Something that writes records down. It is called by the channel's thread alone."""

    @property
    def name(self) -> str:
        """Under which its failures are counted."""
        ...

    def export(self, item: Received_contra) -> None:
        """Write one record down."""
        ...

    def close(self) -> None:
        """Nothing more will come."""
        ...


@attrs.frozen
class _Mark:
    """A place in the queue: set when the writer gets there."""

    reached: threading.Event
    is_end: bool = False


class ChannelError(Exception):
    """The channel is closed, or its writer does not come to an end."""


class Channel(Generic[Item]):
    """A bounded queue and the thread that empties it.

    Attributes:
        capacity: most records that wait at a time.
        dropped: records that did not fit, or came after close, by kind.
        failures: exceptions of exporters, by their names.
        accepted: records that did fit.
        handed_over: records that every exporter has heard of.
        first_failure: the first exception of an exporter, as text.
    """

    def __init__(self, exporters: Sequence[Exporter[Item]], capacity: int = CAPACITY) -> None:
        if capacity < 1:
            raise ValueError(f"capacity = {capacity}, expected at least 1: give the channel room")
        self.capacity = capacity
        self.dropped: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()
        self.first_failure = ""
        self.accepted = 0
        self.handed_over = 0
        self._exporters = tuple(exporters)
        self._queue: deque[Item | _Mark] = deque()
        self._wake = threading.Event()
        # Held by producers alone, for a moment; the writer never takes it.
        self._producers = threading.Lock()
        self._closed = False
        self._writer = threading.Thread(target=self._write, name="kvspec-telemetry", daemon=True)
        self._writer.start()

    def put(self, kind: str, item: Item) -> bool:
        """Hand a record to the writer, or drop it: it fits, or it does not, and nobody waits."""
        with self._producers:
            if self._closed or self.depth >= self.capacity:
                self.dropped[kind] += 1
                return False
            self._queue.append(item)
            self.accepted += 1
            if 2 * self.depth > self.capacity and not self._wake.is_set():
                self._wake.set()
            return True

    @property
    def depth(self) -> int:
        """Records that wait, with the one that is being written."""
        return self.accepted - self.handed_over

    def flush(self, timeout: float = PATIENCE) -> None:
        """Return when everything that was put so far has been handed over.

        Raises:
            ChannelError: the writer did not get there in time.
        """
        mark = _Mark(threading.Event())
        with self._producers:
            if self._closed:
                return
            self._queue.append(mark)
        self._reach(mark, timeout)

    def close(self, timeout: float = PATIENCE) -> None:
        """Hand over what waits, close the exporters and end the thread; a second close does nothing.

        Raises:
            ChannelError: the writer did not end in time.
        """
        mark = _Mark(threading.Event(), is_end=True)
        with self._producers:
            if self._closed:
                return
            self._closed = True
            self._queue.append(mark)
        self._reach(mark, timeout)
        self._writer.join(timeout)

    def _reach(self, mark: _Mark, timeout: float) -> None:
        self._wake.set()
        if not mark.reached.wait(timeout):
            raise ChannelError(
                f"{self.depth} records wait after {timeout:g} s, expected none: an exporter hangs"
            )

    def _write(self) -> None:
        while True:
            self._wake.wait(LINGER)
            self._wake.clear()
            while self._queue:
                item = self._queue.popleft()
                if not isinstance(item, _Mark):
                    for exporter in self._exporters:
                        self._hand(exporter, item)
                    self.handed_over += 1
                    continue
                if item.is_end:
                    for exporter in self._exporters:
                        self._end(exporter)
                item.reached.set()
                if item.is_end:
                    return

    def _hand(self, exporter: Exporter[Item], item: Item) -> None:
        try:
            exporter.export(item)
        except Exception as error:  # noqa: BLE001 - whatever an exporter does must stay with it
            self._fail(exporter, error)

    def _end(self, exporter: Exporter[Item]) -> None:
        try:
            exporter.close()
        except Exception as error:  # noqa: BLE001 - as above
            self._fail(exporter, error)

    def _fail(self, exporter: Exporter[Item], error: Exception) -> None:
        self.failures[exporter.name] += 1
        if not self.first_failure:
            self.first_failure = f"{exporter.name}: {type(error).__name__}: {error}"
