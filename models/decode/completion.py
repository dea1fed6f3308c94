"""When a row may be called written: on CUDA once an event has fired, on the CPU at once.

Modelled: the device's own knowledge of a write, apart from the host's hope. A kernel launch returns
before the kernel has run, so rows count as complete only when the event recorded behind their
kernels has fired. The CPU has the same gap between launch and completion where a thread has made a
worker's queue its current stream (``streams``), and, under a test's control, through ``Deferral``.
Left out: writes by other machines, which need an acknowledgement of their own.

A *submit* function starts a write and returns its completion; ``run_now`` is the real one.
"""

import threading
from collections.abc import Callable
from contextvars import ContextVar
from typing import Any, Final, Protocol

import torch
from attrs import frozen
from torch import Tensor

Write = Callable[[], None]
"""A write that has not been started."""


class Completion(Protocol):
    """What can be known of one started write."""

    @property
    def in_order(self) -> bool:
        """Work that is started after ``follow`` finds the rows written."""
        ...

    def follow(self) -> None:
        """Put what the current stream is given from here on behind the write, without blocking."""
        ...

    def is_complete(self) -> bool:
        """The rows are written, as far as any reader anywhere can tell."""
        ...

    def wait(self) -> None:
        """Return once the rows are written."""
        ...


Submit = Callable[[Write, torch.device], Completion]
"""Starts a write on a device and says how its completion is learned."""


class Queue(Protocol):
    """Work in order, apart from the thread that hands it in: what a stream is to the CPU."""

    def launch(self, work: Write) -> Completion:
        """Put work at the end, without waiting for it."""
        ...

    def record(self) -> Completion:
        """The completion of all work handed in so far."""
        ...

    def wait_event(self, completion: Completion) -> None:
        """Put what is handed in from here on behind a completion, without blocking."""
        ...


CURRENT_QUEUE: Final[ContextVar[Queue | None]] = ContextVar("CURRENT_QUEUE", default=None)
"""The stream of this thread for work on the CPU; None does it at once. CUDA keeps its own."""


@frozen
class Immediate:
    """The completion of a write that was over before its call returned."""

    in_order: bool = True

    def is_complete(self) -> bool:
        """True: there is nothing to wait for."""
        return True

    def follow(self) -> None:
        """Nothing to do: all later work comes behind the write anyway."""

    def wait(self) -> None:
        """Return at once."""


DONE: Final[Completion] = Immediate()
"""The completion of work that was over long ago."""


class CudaEvent:
    """The completion of kernels on the stream that was current when this was made."""

    in_order = True

    def __init__(self, device: torch.device) -> None:
        # torch gives its events no types.
        make: Any = torch.cuda.Event
        self._device = device
        self._event = make()
        self._event.record(torch.cuda.current_stream(device))

    def follow(self) -> None:
        """Let the current stream wait for the event; no matter to the stream that recorded it."""
        torch.cuda.current_stream(self._device).wait_event(self._event)

    def is_complete(self) -> bool:
        """The event has fired; asked without blocking."""
        return bool(self._event.query())

    def wait(self) -> None:
        """Block this thread until the event has fired."""
        self._event.synchronize()


def record(device: torch.device) -> Completion:
    """The completion of all work started so far on the current stream of ``device``."""
    if device.type == "cuda":
        return CudaEvent(device)
    queue = CURRENT_QUEUE.get()
    return Immediate() if queue is None else queue.record()


def run_now(write: Write, device: torch.device) -> Completion:
    """Hand ``write`` to the current stream; on CUDA it completes when the event behind it fires."""
    queue = None if device.type == "cuda" else CURRENT_QUEUE.get()
    if queue is not None:
        return queue.launch(write)
    write()
    return record(device)


def settle(device: torch.device) -> None:
    """Return once all work started so far on the current stream of ``device`` is done.

    After it, a reader on any stream or thread finds the rows, with no event of its own.
    """
    record(device).wait()


def borrow(tensor: Tensor) -> Tensor:
    """The tensor itself, marked as read by the current stream.

    Without the mark, CUDA's allocator may give the memory away when its last owner drops it,
    although a kernel of another stream still reads it.
    """
    if tensor.is_cuda:
        tensor.record_stream(torch.cuda.current_stream(tensor.device))
    return tensor


class Deferred:
    """The completion of a write that lands when it is fired."""

    in_order = False

    def __init__(self, write: Write) -> None:
        self._write = write
        self._once = threading.Lock()
        self._fired = threading.Event()

    def fire(self) -> None:
        """Land the write; a second firing does nothing."""
        with self._once:
            if not self._fired.is_set():
                self._write()
                self._fired.set()

    def follow(self) -> None:
        """Nothing can be put behind a write whose time is not known."""

    def is_complete(self) -> bool:
        """The write has landed."""
        return self._fired.is_set()

    def wait(self) -> None:
        """Block this thread until another one fires the write."""
        self._fired.wait()


class Deferral:
    """A submit function that holds every write back until it is told to let go.

    Attributes:
        writes: the writes held back so far, oldest first, landed or not.
    """

    def __init__(self) -> None:
        self.writes: list[Deferred] = []

    def __call__(self, write: Write, device: torch.device) -> Completion:
        """Hold ``write`` back; ``device`` does not matter."""
        del device
        held = Deferred(write)
        self.writes.append(held)
        return held

    def fire_all(self) -> None:
        """Land every write held back so far."""
        for held in self.writes:
            held.fire()
