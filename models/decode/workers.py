"""A worker: a thread with a queue, which is to the CPU what a stream is to a device.

Modelled: work runs when the queue reaches it, and the event of a piece of work fires when it is over; a
queue can be held back and let go piece by piece. What work raises is kept, and told to whoever waits;
nothing behind it is run, as rows may depend on it. Left out: the interface that this shares with CUDA;
`streams` has it.

Assumptions: a cycle of streams that wait for each other is not found; closing one ends it.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from types import TracebackType
from typing import Any, ClassVar, Final, Self

import torch
from attrs import frozen

from kvspec.models.decode.completion import CURRENT_QUEUE, Completion, Write
from kvspec.models.decode.errors import DecodeError

_LOOK_AGAIN: Final = 0.02
"""Seconds after which a worker that waits for another stream looks whether its own was closed."""

_JOIN: Final = 10.0
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


class Closing:
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
            if kind is None and not stream.is_closed:
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


class WorkerStream(Closing):
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

    @property
    def is_closed(self) -> bool:
        """The thread was ended."""
        return self._closed

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
            while self._done < place and self._failure is None:
                # What was begun when the stream was closed still ends.
                is_dropped = self._closed and self._begun < place
                if is_dropped or (given_up is not None and given_up()):
                    break
                self._state.wait(None if given_up is None else _LOOK_AGAIN)
            if given_up is not None and given_up():
                return
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
        while not (completion.is_complete() or self._closed):
            # Other completions cannot be waited for with a limit.
            with self._state:
                self._state.wait(_LOOK_AGAIN / 20)
        if not completion.is_complete():
            self._refuse("wait")

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
