"""A forward call of the library that can be stopped between layers, and ended there by an exception.

Modelled: the library's own forward pass runs in a thread of its own and stops before each decoder layer
and once after the last; whoever drives it has the turn meanwhile. Only one of the two runs at any time,
so that nothing depends on timing. Left out: stops inside a layer, except where a cache pauses by itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

_HERE = threading.local()


class CallCutError(Exception):
    """A forward call was ended by its caller between two layers."""


class ForwardCall:
    """A running forward call. Made, it runs to its first stop.

    Attributes:
        stops: stops reached so far; with the first one, no layer has been updated.
        logits: what the call gave [vocab]; None until it has returned.
        error: what it raised, if it did; None for a call that was cut.
        is_over: it has returned, raised, or was cut.
    """

    def __init__(self, work: Callable[[], Tensor]) -> None:
        self.stops = 0
        self.logits: Tensor | None = None
        self.error: Exception | None = None
        self.is_over = False
        self._work = work
        self._is_cut = False
        self._to_call = threading.Semaphore(0)
        self._to_caller = threading.Semaphore(0)
        threading.Thread(target=self._run, name="forward call", daemon=True).start()
        self._take_back()

    def go_on(self) -> None:
        """Run to the next stop, or to the end.

        Raises:
            Exception: whatever the forward call raised on the way.
        """
        if self.is_over:
            raise CallCutError("found a forward call that is over: begin a new one")
        self._to_call.release()
        self._take_back()

    def finish(self) -> Tensor:
        """Run to the end; logits [vocab]."""
        while not self.is_over:
            self.go_on()
        if self.logits is None:
            raise CallCutError("found a forward call that was cut: it has no logits")
        return self.logits

    def cut(self) -> None:
        """End the call by an exception at the place where it stands; nothing if it is over."""
        if not self.is_over:
            self._is_cut = True
            self._to_call.release()
            self._to_caller.acquire()

    def _take_back(self) -> None:
        self._to_caller.acquire()
        if self.error is not None:
            raise self.error

    def _stop(self) -> None:
        """In the call's own thread: give the turn to the caller and wait for it."""
        self.stops += 1
        self._to_caller.release()
        self._to_call.acquire()
        if self._is_cut:
            raise CallCutError("the caller ended this forward call between two layers")

    def _run(self) -> None:
        _HERE.call = self
        try:
            with torch.no_grad():
                self.logits = self._work()
        except CallCutError:
            self.logits = None
        except Exception as error:  # noqa: BLE001 - it is raised to the caller, in the caller's thread
            self.error = error
        finally:
            self.is_over = True
            self._to_caller.release()


def stop_here() -> None:
    """Stop the forward call of this thread; nothing in a thread that has none."""
    call: ForwardCall | None = getattr(_HERE, "call", None)
    if call is not None:
        call._stop()  # noqa: SLF001 - the two halves of one hand-over


def stop_between_layers(model: Any) -> None:
    """Make forward calls of a Llama stop before each decoder layer and after the last, for ever."""
    for module in (*model.model.layers, model.model.norm):
        module.register_forward_pre_hook(_stop_hook)


def _stop_hook(_module: Any, _arguments: Any) -> None:
    stop_here()
