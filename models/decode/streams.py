"""Streams: work in order, apart from the thread that hands it in, with events that tell how far it is.

Modelled: one interface, `Stream`, over two kinds. `CudaStream` is a stream of the device; work is
launched under it, and events are the device's. `WorkerStream` is a thread with a queue, for the CPU:
work runs when the queue reaches it, and an event fires when it is over. Either can be made the current
stream of a thread, so that writes of staged rows go to it by themselves (`completion.run_now`), or be
named (`submit_on`), also several in turn, so that layers complete out of step. A stream can be held
back, so that the gap between handing work in and its end is as wide as a test needs. Left out:
priorities, graphs, work that another process waits for.

Assumptions: what is handed in holds references to all that it reads and writes; both kinds keep these
until the work is over. A cycle of streams that wait for each other is not found; closing one ends it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Final, Protocol, Self

import torch
from attrs import frozen

from kvspec.models.decode.completion import (
    CURRENT_QUEUE,
    Completion,
    CudaEvent,
    Immediate,
    Submit,
    Write,
)
from kvspec.models.decode.config import concrete_device, default_device
from kvspec.models.decode.errors import BadConfigError, DecodeError

HOLD_CYCLES: Final = 200_000_000
"""Clock cycles for which a held CUDA stream is kept busy: about a tenth of a second."""

_LOOK_AGAIN = 0.02
"""Seconds after which a worker that waits for another stream looks whether its own was closed."""
_JOIN = 10.0
"""Seconds that closing waits for the work in progress."""


class StreamFailedError(DecodeError):
    """Work on a stream raised; nothing behind it was run, and its rows are not written."""

    code: ClassVar[str] = "STREAM_FAILED"


class StreamClosedError(DecodeError):
    """Work reaches a stream that was closed, or was dropped when it was."""

    code: ClassVar[str] = "STREAM_CLOSED"


class SelfWaitError(DecodeError):
    """Work on a stream waits for what comes behind it on the same stream."""

    code: ClassVar[str] = "SELF_WAIT"


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
        """Let all work end, if the block did not raise, and close."""
        ...


class _Closing:
    """A stream as a context."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        stream: Any = self
        try:
            if kind is None:
                stream.release()
                stream.synchronize()
        finally:
            stream.close()


@frozen(eq=False)
class WorkerMark:
    """The completion of the first ``place`` pieces of work on a worker's queue."""

    stream: WorkerStream
    place: int

    @property
    def in_order(self) -> bool:
        """False: the thread that goes on may be ahead of the queue."""
        return False

    def follow(self) -> None:
        """Let this thread's current stream wait; without one there is nothing to put behind."""
        queue = CURRENT_QUEUE.get()
        if queue is not None and queue is not self.stream:
            queue.wait_event(self)

    def is_complete(self) -> bool:
        """All of that work is over; never so if it raised or was dropped."""
        return self.stream.reached(self.place)

    def wait(self) -> None:
        """Block this thread until that work is over.

        Raises:
            StreamFailedError: it raised, or it came behind work that did.
            StreamClosedError: it was dropped.
            SelfWaitError: it comes behind the work that waits, on the same stream.
        """
        self.stream.wait_for(self.place)


class WorkerStream(_Closing):
    """A thread that does what it is handed, in order: a stream of the CPU.

    Work that the thread itself hands in is part of the work it is doing, and is done at once.

    Attributes:
        name: what the stream is called in messages.
        device: the CPU.
    """

    _numbers: ClassVar[Iterator[int]] = count()

    def __init__(self, name: str = "") -> None:
        self.name = name or f"stream{next(self._numbers)}"
        self.device = torch.device("cpu")
        self._state = threading.Condition()
        self._jobs: deque[Write] = deque()
        self._begun = 0
        self._done = 0
        # While held, the number of the last piece of work that may start.
        self._allowed: int | None = None
        self._until_waited = False
        self._closed = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._work, name=f"kvspec {self.name}", daemon=True)
        self._thread.start()

    def launch(self, work: Write) -> WorkerMark:
        """Hand work in, behind what this thread's current stream was given; never blocks."""
        if self._is_here:
            work()
            return WorkerMark(self, self._done)
        queue = CURRENT_QUEUE.get()
        if queue is not None and queue is not self:
            self.wait_event(queue.record())
        return self._put(work)

    def record(self) -> WorkerMark:
        """The completion of all work handed in so far; for its own thread, of what it has done."""
        with self._state:
            place = self._done if self._is_here else self._begun + len(self._jobs)
        return WorkerMark(self, place)

    def wait_event(self, completion: Completion) -> None:
        """Let all work that is handed in from here on wait for a completion, without blocking."""
        if completion.is_complete() or (
            isinstance(completion, WorkerMark) and completion.stream is self
        ):
            return
        if self._is_here:
            self._stand_by(completion)
        else:
            self._put(lambda: self._stand_by(completion))

    @contextmanager
    def current(self) -> Iterator[None]:
        """Make this the current stream of this thread for the CPU, within the context."""
        token = CURRENT_QUEUE.set(self)
        try:
            yield
        finally:
            CURRENT_QUEUE.reset(token)

    def synchronize(self) -> None:
        """Return once all work handed in so far is over; raise what it raised."""
        self.record().wait()

    def hold(self, *, until_waited: bool = False) -> None:
        """Start no more work until ``release``, or until somebody waits for it, if so asked."""
        with self._state:
            self._allowed, self._until_waited = self._begun, until_waited

    def release(self, jobs: int | None = None) -> None:
        """Let so many pieces of work start, or all of them and those to come."""
        with self._state:
            if self._allowed is not None:
                self._allowed = None if jobs is None else self._allowed + jobs
            self._state.notify_all()

    def close(self) -> None:
        """End the thread; work not yet started is dropped, work in progress is waited for.

        Raises:
            StreamFailedError: the work in progress does not end.
        """
        with self._state:
            self._closed = True
            self._jobs.clear()
            self._state.notify_all()
        if not self._is_here:
            self._thread.join(_JOIN)
        if self._thread.is_alive() and not self._is_here:
            raise StreamFailedError(
                where=f"closing of {self.name}",
                found=f"work that has not ended after {_JOIN:g} s",
                expected="work that ends by itself",
                fix="let the work go before its stream is closed",
            )

    # What marks ask.

    def reached(self, place: int) -> bool:
        """The first ``place`` pieces of work are over."""
        return self._done >= place

    def wait_for(self, place: int, given_up: Callable[[], bool] | None = None) -> None:
        """Return once the first ``place`` pieces are over, or the one who waits gives up."""
        if self._is_here and self._done < place:
            raise SelfWaitError(
                where=f"work on {self.name}",
                found="a wait for work that comes behind it",
                expected="a wait for work of another stream, or for earlier work",
                fix="wait on another thread, or leave the wait out: a stream keeps its order",
            )
        with self._state:
            if self._until_waited and self._allowed is not None and self._allowed < place:
                self._allowed = place
                self._state.notify_all()
            while not (self._done >= place or self._failure is not None or self._closed):
                if given_up is not None and given_up():
                    return
                self._state.wait(None if given_up is None else _LOOK_AGAIN)
            if self._done < place:
                self._refuse("wait")

    # The thread.

    @property
    def _is_here(self) -> bool:
        return threading.current_thread() is self._thread

    def _put(self, work: Write) -> WorkerMark:
        with self._state:
            if self._closed or self._failure is not None:
                self._refuse("launch")
            self._jobs.append(work)
            self._state.notify_all()
            return WorkerMark(self, self._begun + len(self._jobs))

    def _stand_by(self, completion: Completion) -> None:
        """Wait on the worker's thread, unless the stream is closed meanwhile."""
        if isinstance(completion, WorkerMark):
            completion.stream.wait_for(completion.place, lambda: self._closed)
            return
        while not (completion.is_complete() or self._closed):
            # Other completions cannot be waited for with a limit.
            with self._state:
                self._state.wait(_LOOK_AGAIN / 20)

    def _may_go(self) -> bool:
        is_let = self._allowed is None or self._begun < self._allowed
        return self._closed or (bool(self._jobs) and is_let)

    def _work(self) -> None:
        CURRENT_QUEUE.set(self)
        while True:
            with self._state:
                self._state.wait_for(self._may_go)
                if self._closed:
                    return
                work = self._jobs.popleft()
                self._begun += 1
            failure: BaseException | None = None
            try:
                work()
            except BaseException as error:  # noqa: BLE001 - told to whoever waits
                failure = error
            # What the work held is let go before anybody is told that it is over.
            del work
            with self._state:
                if failure is not None:
                    self._failure = failure
                    self._jobs.clear()
                else:
                    self._done += 1
                self._state.notify_all()
            if failure is not None:
                return

    def _refuse(self, what: str) -> None:
        if self._failure is None:
            raise StreamClosedError(
                where=f"{what} on {self.name}",
                found="a stream that was closed",
                expected="an open stream",
                fix="synchronize before the stream is closed, or open another",
            )
        raise StreamFailedError(
            where=f"{what} on {self.name}",
            found=f"work that raised {type(self._failure).__name__}: {self._failure}",
            expected="work that ends",
            fix="discard the append, see to the cause, and open another stream",
        ) from self._failure


class CudaStream(_Closing):
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


DONE: Final[Completion] = Immediate()
"""The completion of work that was over long ago."""
