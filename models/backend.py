"""What a cache must offer to be held against the specification: perform events, and be observed.

A backend is a cache with its own data and its own checks; nothing here or in it interprets the
specification. It is driven by events of a system's instance, answers each with a `Reply`, and tells
its state in the specification's words. The torch decode backend is one (`kvspec.models.decode`).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import attrs

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.spec.language import Instance


@attrs.frozen
class Reply:
    """A backend's answer to an event: accepted, or refused with the code of its own check.

    detail: found and expected, in the backend's words.
    """

    accepted: bool
    code: str | None = None
    detail: str = ""


@attrs.frozen
class Damage:
    """Harm that a backend has come to, in numbers.

    kind: "logits" (largest difference to an uncached run), "layers" (lengths that differ), "rows"
    (rows of another request), "owner" (rows read from a block that was freed or given twice), "order"
    (companions of a batch row that belong to different requests, or a handle in two rows), "receipt" (a
    client was told of an append that is not its own), "waits" (who never gets on, whatever the others do),
    "gauge" (rows by which a number differs from those that are measured).
    amount: the number; where: what it was measured on.
    """

    kind: str
    where: str
    amount: float
    text: str


class Backend(Protocol):
    """A cache under test."""

    def reset(self, instance: Instance) -> None:
        """Begin anew, with as many handles, layers and so on as the instance has."""

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing but what the refusal is meant to change."""

    def observe(self) -> State:
        """The backend's state as the specification's variables, read off its own data."""

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now; none in a sound backend."""


@runtime_checkable
class Placed(Protocol):
    """A cache that can begin in any of the states in which its system may start.

    One whose system has a single initial state needs none of this: `reset` puts it there.
    """

    def begin_in(self, initial: State) -> None:
        """Take on an initial state of the instance of the last reset, with no step taken since."""
