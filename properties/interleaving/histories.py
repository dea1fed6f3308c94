"""From recorded calls to a history: what the linearizability checker reads."""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.backend import Reply
from kvspec.models.concrete.state import State
from kvspec.models.decode.concurrent import Look, looked_at
from kvspec.models.decode.concurrent_record import Asked
from kvspec.properties.linearizability.history import (
    Cell,
    History,
    Operation,
    Read,
    Seen,
    Told,
)
from kvspec.spec.handles import Layer
from kvspec.spec.language import Instance


def history_of(instance: Instance, asked: Iterable[Asked], start: State | None = None) -> History:
    """The history of recorded calls on an instance of the core system.

    start: the state before the first call; None for the initial one.
    """
    layers = instance.sizes[Layer.__name__]
    return History(instance, tuple(_operation(each, layers) for each in asked), start)


def _operation(asked: Asked, layers: int) -> Operation:
    call, answer = asked.call, asked.answer
    if isinstance(call, Look):
        cells = looked_at(call.handle, layers)
        read = Read(tuple(Cell(variable, index) for variable, index in cells))
        seen = None if answer is None or isinstance(answer, Reply) else Seen(answer)
        return Operation(asked.client, read, seen, asked.invoked, asked.returned)
    told = Told(answer.accepted, answer.code) if isinstance(answer, Reply) else None
    return Operation(asked.client, call, told, asked.invoked, asked.returned)
