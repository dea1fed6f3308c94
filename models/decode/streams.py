"""Streams: work in order, apart from the thread that hands it in, with events that tell how far it is.

Modelled: one interface, `Stream`, over two kinds. `CudaStream` is a stream of the device; work is
launched under it, and events are the device's. `WorkerStream` is a thread with a queue, for the CPU
(see `workers`). Either can be made the current stream of a thread, so that writes of staged rows go to
it by themselves (`completion.run_now`), or be named (`submit_on`), also several in turn, so that layers
complete out of step. A stream can be held back, so that the gap between handing work in and its end is
as wide as a test needs. Left out: priorities, graphs, work that another process waits for.

Assumptions: what is handed in holds references to all that it reads and writes; both kinds keep these
until the work is over.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from types import TracebackType
from typing import Any, Final, Protocol, Self

import torch

from kvspec.models.decode.completion import Completion, CudaEvent, Submit, Write
from kvspec.models.decode.config import concrete_device, default_device
from kvspec.models.decode.errors import BadConfigError
from kvspec.models.decode.workers import Closing, StreamClosedError, WorkerStream

HOLD_CYCLES: Final = 200_000_000
"""Clock cycles for which a held CUDA stream is kept busy: about a tenth of a second."""


class Stream(Protocol):
    """Work in the order in which it was handed in; also a context that closes it."""

    @property
    def device(self) -> torch.device:
        """Where its work is done."""
        ...

    def launch(self, work: Write) -> Completion:
        """Hand work in, behind what this thread's current stream was given; never blocks.

        Raises:
            StreamFailedError: earlier work raised.
            StreamClosedError: the stream was closed.
        """
        ...

    def record(self) -> Completion:
        """The completion of all work handed in so far."""
        ...

    def wait_event(self, completion: Completion) -> None:
        """Let all work that is handed in from here on wait for a completion, without blocking."""
        ...

    def current(self) -> AbstractContextManager[None]:
        """Make this the current stream of this thread, within the context."""
        ...

    def synchronize(self) -> None:
        """Return once all work handed in so far is over.

        Raises:
            StreamFailedError: some of it raised.
        """
        ...

    def hold(self, *, until_waited: bool = False) -> None:
        """Start no more work until ``release``, or until somebody waits for it, if so asked.

        On CUDA nothing can hold a stream for longer than a busy kernel runs, `HOLD_CYCLES`.
        """
        ...

    def release(self, jobs: int | None = None) -> None:
        """Let so many pieces of work start, or all; on CUDA there is nothing to let go."""
        ...

    def close(self) -> None:
        """End the stream; work not yet started is dropped, work in progress is waited for."""
        ...

    def __enter__(self) -> Self:
        """The stream."""
        ...

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Let all work end, unless the block raised or closed the stream, and close."""
        ...


class CudaStream(Closing):
    """A stream of a CUDA device.

    Attributes:
        device: the device, with its index.
    """

    def __init__(self, device: torch.device | None = None) -> None:
        self.device = default_device() if device is None else concrete_device(device)
        # torch gives its streams no types.
        make: Any = torch.cuda.Stream
        self._stream: Any = make(self.device)
        self._kept: deque[tuple[Completion, Write]] = deque()
        self._lock = threading.Lock()
        self._closed = False

    def launch(self, work: Write) -> CudaEvent:
        """Start ``work`` under this stream, behind what this thread's current stream was given.

        What the device reports of a kernel that failed is raised by torch, at this or a later call.
        """
        if self._closed:
            raise StreamClosedError(
                where="launch on a CUDA stream",
                found="a stream that was closed",
                expected="an open stream",
                fix="open another",
            )
        self._stream.wait_stream(torch.cuda.current_stream(self.device))
        with self.current():
            work()
            done = CudaEvent(self.device)
        with self._lock:
            # The allocator knows of the stream, but a pool of blocks knows only who holds a snapshot.
            while self._kept and self._kept[0][0].is_complete():
                self._kept.popleft()
            self._kept.append((done, work))
        return done

    def record(self) -> CudaEvent:
        """The completion of all work launched so far."""
        with self.current():
            return CudaEvent(self.device)

    def wait_event(self, completion: Completion) -> None:
        """Let later work wait; a completion that is not the device's is waited for by the host."""
        if not completion.in_order:
            completion.wait()
        with self.current():
            completion.follow()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current stream of this thread, within the context."""
        with torch.cuda.stream(self._stream):
            yield

    def synchronize(self) -> None:
        """Return once all work launched so far is over."""
        self._stream.synchronize()

    def hold(self, *, until_waited: bool = False) -> None:
        """Keep the stream busy for `HOLD_CYCLES`; a wait ends with that."""
        del until_waited
        busy: Any = torch.cuda._sleep  # noqa: SLF001 - the only kernel that does nothing for a while
        with self.current():
            busy(HOLD_CYCLES)

    def release(self, jobs: int | None = None) -> None:
        """Nothing: the busy kernel ends by itself."""

    @property
    def is_closed(self) -> bool:
        """No more work is taken."""
        return self._closed

    def close(self) -> None:
        """Wait for the work in progress; on the device none can be dropped."""
        self._closed = True
        self._stream.synchronize()
        with self._lock:
            self._kept.clear()


def open_stream(device: torch.device | None = None, name: str = "") -> Stream:
    """A stream of the device: one of its own on CUDA, a thread on the CPU.

    Raises:
        BadConfigError: there are no streams on such a device.
    """
    found = default_device() if device is None else device
    if found.type == "cuda":
        return CudaStream(found)
    if found.type == "cpu":
        return WorkerStream(name)
    raise BadConfigError(
        where="open_stream",
        found=f"the device {found}",
        expected="a CUDA device or the CPU",
        fix="open a stream where the rows are",
    )


def submit_on(*streams: Stream) -> Submit:
    """A submit function whose writes run on the given streams, one write each in turn."""
    turns = count()

    def submit(write: Write, device: torch.device) -> Completion:
        stream = streams[next(turns) % len(streams)]
        if stream.device != concrete_device(device):
            raise BadConfigError(
                where="a write of staged rows",
                found=f"a stream on {stream.device}",
                expected=f"a stream on {device}, where the rows are",
                fix="open the stream with the device of the cache's shape",
            )
        return stream.launch(write)

    if not streams:
        raise BadConfigError(
            where="submit_on", found="no stream", expected="at least one", fix="open one first"
        )
    return submit
