"""Universe: histories over one instance from one start, as the arrays that the search takes.

Operations fall into classes: an event's shape with what it was told, or the cells of a read. Classes that
conflict are kept in one table, made for all shapes seen so far and made anew when a history brings others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value, values_of
from kvspec.models.explicit.linear import ANY_ANSWER, ANY_REFUSAL, NEVER
from kvspec.models.explicit.linearizer import Problem
from kvspec.models.explicit.packing import encode
from kvspec.models.explicit.stepper import ACCEPTED, READ, Stepper
from kvspec.properties.linearizability.errors import HistoryError
from kvspec.properties.linearizability.footprints import (
    Footprint,
    Footprints,
    Shape,
    shape_of,
)
from kvspec.properties.linearizability.history import Cell, History, Operation, Read, Seen, Told

SPARE_SHAPES = 32
"""Shapes of earlier histories are kept while they are no more than those of the next one and so many."""

Class = tuple[Shape | Read | None, Told | None]
_FORGOTTEN: Class = (None, None)


@attrs.frozen(eq=False)
class Packed:
    """A history as arrays. places: for each operation of the problem its place in the history."""

    problem: Problem
    places: Any
    clients: Any
    start: Any


class Universe:
    """Classes, conflicts and arrays of the histories over an instance from one start."""

    def __init__(self, stepper: Stepper, start: State) -> None:
        self.stepper = stepper
        self.instance = stepper.instance
        self.start = start
        self.words = np.array(stepper.pack(start), np.int64)
        self.prints = Footprints(self.instance, start, ())
        self._numbers: dict[Class, int] = {}
        self._footprints: list[Footprint] = []
        self._conflicts = self._read = self._put = np.zeros(0, np.int64)
        self._rows: dict[Any, tuple[list[int], int, int]] = {}
        self._shapes: dict[Any, tuple[list[int], Shape]] = {}

    def pack(self, history: History, forgotten: frozenset[int] = frozenset()) -> Packed:
        """The arrays of a history; forgotten: places of operations that may have been told anything."""
        self._know(history.operations)
        clients: dict[int, list[int]] = {}
        for place, operation in enumerate(history.operations):
            clients.setdefault(operation.client, []).append(place)
        rows: list[int] = []
        reads: list[int] = []
        places, first, of, flat = [], [0], [], []
        for number, client in enumerate(sorted(clients)):
            before = -1
            for place in clients[client]:
                operation = history.operations[place]
                if operation.invoked < before:
                    raise _overlap(operation, place)
                row, expected, kind = self._operation(operation, reads, place in forgotten)
                rows += row
                returned = operation.returned
                before = NEVER if returned is None else returned
                flat += (expected, operation.invoked, before, kind)
                of.append(number)
                places.append(place)
            first.append(len(places))
        table = np.array(flat, np.int64).reshape(-1, 4)
        self._tables()
        problem = Problem(
            first=np.array(first, np.int64),
            rows=np.array(rows or [0], np.int64),
            expected=np.ascontiguousarray(table[:, 0]),
            invoked=np.ascontiguousarray(table[:, 1]),
            returned=np.ascontiguousarray(table[:, 2]),
            reads=np.array(reads or [0], np.int64),
            kinds=np.ascontiguousarray(table[:, 3]),
            conflicts=self._conflicts,
            many=len(self._footprints),
            read=self._read,
            put=self._put,
        )
        return Packed(problem, np.array(places, np.int64), np.array(of, np.int64), self.words)

    def _know(self, operations: Iterable[Operation]) -> None:
        """Take in the shapes of these events, or begin anew with them."""
        shapes = set()
        for operation in operations:
            call = operation.call
            if isinstance(call, Event):
                known = self._shapes.get((call.action, call.values))
                if known is None:
                    action = self.instance.system.action(call.action)
                    shape = shape_of(action, tuple(value for _, value in call.values))
                    known = self._shapes[call.action, call.values] = (
                        self.stepper.row(call),
                        shape,
                    )
                shapes.add(known[1])
        if shapes <= self.prints.shapes:
            return
        both = shapes | self.prints.shapes
        kept = both if len(both) <= 2 * len(shapes) + SPARE_SHAPES else shapes
        self.prints = Footprints(self.instance, self.start, kept)
        self._numbers, self._footprints, self._rows = {}, [], {}
        self._conflicts = np.zeros(0, np.int64)

    def _operation(
        self, operation: Operation, reads: list[int], forgotten: bool
    ) -> tuple[list[int], int, int]:
        """Row, expected answer and class; cells read are put behind `reads`."""
        call, answer = operation.call, operation.answer
        if isinstance(call, Read):
            if forgotten or not isinstance(answer, Seen):
                return self._row(READ), ANY_ANSWER, self._number(_FORGOTTEN)
            first = len(reads) // 4
            reads += self._cells(call.cells, answer.values)
            return self._row(READ, first, len(reads) // 4), 0, self._number((call, None))
        told = None if forgotten or not isinstance(answer, Told) else answer
        name = (call.action, call.values, told and (told.accepted, told.code))
        known = self._rows.get(name)
        if known is None:
            row, shape = self._shapes[call.action, call.values]
            expected = ANY_ANSWER if told is None else self._expected(told)
            known = self._rows[name] = (row, expected, self._number((shape, told)))
        return known

    def _row(self, *numbers: int) -> list[int]:
        return [*numbers, *([0] * (self.stepper.width - len(numbers)))]

    def _expected(self, told: Told) -> int:
        if told.accepted:
            return ACCEPTED
        return ANY_REFUSAL if told.code is None else self.stepper.code_numbers[told.code]

    def _cells(self, cells: tuple[Cell, ...], values: tuple[Value, ...]) -> list[int]:
        variables, found = self.instance.system.variables, []
        for cell, value in zip(cells, values, strict=True):
            kind = variables[cell.variable].type
            if value not in values_of(kind, self.instance):
                raise HistoryError(
                    f"a read of {cell.variable}",
                    repr(value),
                    f"a {kind.name} of {self.instance!r}",
                    "give the instance larger bounds",
                )
            found += (*self.stepper.place(cell.variable, cell.index), encode(kind, value))
        return found

    def _number(self, of: Class) -> int:
        number = self._numbers.get(of)
        if number is None:
            number = self._numbers[of] = len(self._footprints)
            what, told = of
            if what is None:
                footprint = Footprint(0, 0)
            elif isinstance(what, Read):
                footprint = self.prints.of_read(what)
            else:
                footprint = self.prints.of_event(what, told)
            self._footprints.append(footprint)
        return number

    def _tables(self) -> None:
        """Which classes conflict, row by row, and the bits of a state that they read and put."""
        many = len(self._footprints)
        if self._conflicts.shape[0] != many * many:
            reads = self._bits([found.reads for found in self._footprints])
            writes = self._bits([found.writes for found in self._footprints])
            once = writes @ (reads | writes).T
            self._conflicts = ((once | once.T) != 0).astype(np.int64).reshape(-1)
            puts = self._bits([found.certain for found in self._footprints])
            self._read = self._state_bits(reads)
            self._put = self._state_bits(puts)

    def _bits(self, masks: list[int]) -> Any:
        size = self.prints.reached.layout.size // 8 + 1
        raw = b"".join(mask.to_bytes(size, "little") for mask in masks)
        bits = np.unpackbits(np.frombuffer(raw, np.uint8), bitorder="little")
        return bits.reshape(len(masks), size * 8).astype(np.int64)


    def _state_bits(self, cells: Any) -> Any:
        """The bits of a packed state that belong to cells; one row of 0 and 1 for each class."""
        found = np.zeros((cells.shape[0], self.stepper.layout.words), np.int64)
        for cell, (word, shift, mask) in enumerate(self._cell_bits):
            found[:, word] |= cells[:, cell] * (mask << shift)
        return found.reshape(-1)

    @cached_property
    def _cell_bits(self) -> list[tuple[int, int, int]]:
        layout = self.stepper.layout
        return [
            (*(field.place(element) if field.width else (0, 0)), field.mask)
            for field in layout.fields.values()
            for element in range(field.count)
        ]


def _overlap(operation: Operation, place: int) -> HistoryError:
    return HistoryError(
        f"operation {place}",
        f"client {operation.client} asks at {operation.invoked}, before it was answered",
        "one operation of a client at a time, in the order of their invocations",
        "give what asks at the same time a client of its own",
    )
