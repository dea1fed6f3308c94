"""Histories: what concurrent clients of a cache asked, what they were told, and when.

Modelled: an operation is an event of an instance, or a read of some cells of the state; it lasts from its
invocation to its response, in a clock that all clients share. An operation without a response may have
taken effect or not. Left out: operations of a client that overlap each other; a client waits for its
answer before it asks again.
"""

from __future__ import annotations

import attrs

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.spec.language import Instance


@attrs.frozen(cache_hash=True)
class Cell:
    """A variable at one index, each member by its number (an enumeration's by its place)."""

    variable: str
    index: tuple[int, ...] = ()


@attrs.frozen(cache_hash=True)
class Read:
    """A look at cells of the state, all at one moment."""

    cells: tuple[Cell, ...]


@attrs.frozen
class Told:
    """The answer to an event: accepted, or refused with a code."""

    accepted: bool
    code: str | None = None


@attrs.frozen
class Seen:
    """The answer to a read: the values of its cells, in their order."""

    values: tuple[Value, ...]


@attrs.frozen
class Operation:
    """What one client asked once.

    Attributes:
        client: who asked; a client asks one thing at a time.
        call: the event, or the cells to read.
        answer: what it was told, None when no answer came.
        invoked: when it asked, in ticks of a clock that all clients share.
        returned: when the answer came, later than ``invoked``; None when none came.
    """

    client: int
    call: Event | Read
    answer: Told | Seen | None
    invoked: int
    returned: int | None


@attrs.frozen
class History:
    """All operations on the objects of one instance.

    Attributes:
        instance: the sizes and the sequential specification.
        operations: in the order of their invocations.
        start: the state before the first one; None for the instance's one initial state.
    """

    instance: Instance
    operations: tuple[Operation, ...]
    start: State | None = None
