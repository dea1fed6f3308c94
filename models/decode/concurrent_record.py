"""Recorded calls: what each client asked, what it was told, and when, in one clock for all of them.

Modelled: a façade that every client calls; a call's first tick is taken before it starts and its last one
after it has ended, so that what was recorded lasts no shorter than what was done. Left out: calls of a
client that overlap each other.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from attrs import define, field, frozen

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import Value
from kvspec.models.decode.concurrent import ConcurrentBackend, Look

Call = Event | Look
Answer = Reply | tuple[Value, ...]


@frozen
class Asked:
    """A call of a client.

    Attributes:
        client: who asked.
        call: an event, or a look at a handle.
        answer: the reply, or the values of `looked_at`; None when no answer came.
        invoked: tick before it started.
        returned: tick after it ended, None when no answer came.
    """

    client: int
    call: Call
    answer: Answer | None
    invoked: int
    returned: int | None


@define(eq=False)
class _Open:
    client: int
    call: Call
    invoked: int
    answer: Answer | None = None
    returned: int | None = None


class Clock:
    """A counter that all threads share; no two calls give the same tick."""

    def __init__(self) -> None:
        # One call of a C function, which no other thread can interrupt.
        self.tick: Callable[[], int] = itertools.count(1).__next__


@define(eq=False)
class Recorder:
    """The façade of a backend for all of its clients."""

    backend: ConcurrentBackend
    clock: Clock = field(factory=Clock)
    _calls: list[_Open] = field(factory=list)

    def ask(self, client: int, call: Call) -> Answer:
        """Ask the backend for a client, and record it; what the backend raises goes through."""
        if self.backend.scheduler is not None:
            self.backend.scheduler.point(f"ask {call_text(call)}")
        record = _Open(client, call, self.clock.tick())
        self._calls.append(record)
        if isinstance(call, Look):
            answer: Answer = self.backend.look(call.handle, client, with_rows=call.with_rows)
        else:
            answer = self.backend.perform(call)
        record.answer, record.returned = answer, self.clock.tick()
        return answer

    def asked(self) -> tuple[Asked, ...]:
        """All calls so far, in the order of their first ticks."""
        found = [Asked(c.client, c.call, c.answer, c.invoked, c.returned) for c in self._calls]
        return tuple(sorted(found, key=lambda each: each.invoked))


def call_text(call: Call) -> str:
    """A call as text: `publish(x=0)`, `look(h=0)`."""
    if isinstance(call, Look):
        return str(call)
    return f"{call.action}({', '.join(f'{name}={value}' for name, value in call.values)})"
