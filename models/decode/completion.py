"""When a row may be called written: on CUDA once an event has fired, on the CPU at once.

Modelled: the device's own knowledge of a write, apart from the host's hope. A kernel launch returns
before the kernel has run, so rows count as complete only when the event recorded behind their
kernels has fired. ``Deferral`` gives the CPU the same gap between launch and completion, under a
test's control. Left out: writes by other machines, which need an acknowledgement of their own.

A *submit* function starts a write and returns its completion; ``run_now`` is the real one.
"""

import threading
from collections.abc import Callable
from typing import Any, Protocol

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
    return CudaEvent(device) if device.type == "cuda" else Immediate()


def run_now(write: Write, device: torch.device) -> Completion:
    """Start ``write`` at once; on CUDA it completes when the event recorded behind it fires."""
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
