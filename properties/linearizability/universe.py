"""Universe: histories over one instance from one start, as the arrays that the search takes.

What is asked and told is kept as a row, made once and used again by its number. Operations fall into
classes: an event's shape with what it was told, or the cells of a read. Classes that conflict are kept in
one table, made for all shapes seen so far and made anew when a history brings others.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import Any

import attrs
import numpy as np

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value, values_of
from kvspec.models.explicit.linear import ANY_ANSWER, ANY_REFUSAL, NEVER, NO_ANSWER
from kvspec.models.explicit.linearizer import Limits, Problem
from kvspec.models.explicit.packing import encode
from kvspec.models.explicit.stepper import ACCEPTED, READ, Stepper
from kvspec.properties.linearizability.errors import HistoryError
from kvspec.properties.linearizability.footprints import (
    Footprint,
    Footprints,
    Shape,
    shape_of,
)
from kvspec.properties.linearizability.history import (
    Cell,
    History,
    Operation,
    Read,
    Seen,
    Told,
)

SPARE_SHAPES = 64
"""Shapes of earlier histories are kept while they are no more than those of the next one and so many."""
MOST_ROWS = 1 << 18
"""Rows are forgotten when there are more."""

NO_LIMITS = Limits(seconds=None, max_bytes=1 << 62)

Class = tuple[Shape | Read | None, Told | None]
_FORGOTTEN: Class = (None, None)


@attrs.frozen(eq=False)
class Packed:
    """A history as arrays.

    places: of each operation of the problem its place in the history. clients: of each its client,
    numbered. start: the words of the state before the first.
    """

    problem: Problem
    places: Any
    clients: Any
    start: Any


class _Rows:
    """Rows by number, in arrays with room for more."""

    def __init__(self, width: int) -> None:
        self.numbers: dict[Any, int] = {}
        self.rows = np.empty((64, width), np.int64)
        self.answers = np.empty((64, 2), np.int64)
        self.reads = np.empty(64, np.int64)
        self.cells = 0

    def add(self, name: Any, row: list[int], expected: int, kind: int) -> int:
        """The number of a new row."""
        number = self.numbers[name] = len(self.numbers)
        if number == self.rows.shape[0]:
            self.rows = np.concatenate((self.rows, self.rows))
            self.answers = np.concatenate((self.answers, self.answers))
        self.rows[number] = row
        self.answers[number] = expected, kind
        return number

    def add_cells(self, numbers: list[int]) -> tuple[int, int]:
        """Where the cells of a read are put."""
        first, last = self.cells, self.cells + len(numbers)
        while last > self.reads.shape[0]:
            self.reads = np.concatenate((self.reads, self.reads))
        self.reads[first:last] = numbers
        self.cells = last
        return first // 4, last // 4


class Universe:
    """Classes, conflicts and arrays of the histories over an instance from one start."""

    def __init__(self, stepper: Stepper, start: State) -> None:
        self.stepper = stepper
        self.instance = stepper.instance
        self.start = start
        self.words = np.array(stepper.pack(start), np.int64)
        self.limits = NO_LIMITS
        self._shapes: dict[Any, Shape] = {}
        self._begin(())

    def _begin(self, shapes: Iterable[Shape]) -> None:
        self.prints = Footprints(self.instance, self.start, shapes, self.limits)
        self._begin_rows()

    def _begin_rows(self) -> None:
        self._rows = _Rows(self.stepper.width)
        self._classes: dict[Class, int] = {}
        self._footprints: list[Footprint] = []
        self._conflicts = self._read = self._put = self._quiet = np.zeros(0, np.int64)
        self._masks = np.zeros((2, 0, 0), np.uint8)

    def pack(
        self,
        history: History,
        forgotten: frozenset[int] = frozenset(),
        limits: Limits = NO_LIMITS,
    ) -> Packed:
        """The arrays of a history; forgotten: places of operations that may have been told anything.

        Raises LimitError at a limit; the universe is of no use then, as it may lack what it was adding.
        """
        self.limits = self.prints.reached.limits = limits
        limits.check()
        operations = history.operations
        clients, invoked, returned = _times(operations)
        numbers = self._numbers(operations, forgotten)
        order = np.argsort(clients, kind="stable")
        clients, invoked, returned = clients[order], invoked[order], returned[order]
        same = clients[1:] == clients[:-1]
        early = np.flatnonzero(same & (invoked[1:] < returned[:-1]))
        if early.shape[0]:
            raise _overlap(operations, int(order[early[0] + 1]))
        edges = np.flatnonzero(~same) + 1
        ends = [len(operations)] if operations else []
        starts = np.concatenate((np.zeros(1, np.int64), edges, np.array(ends, np.int64)))
        self._tables()
        chosen = np.array(numbers, np.int64)[order]
        answers = self._rows.answers[chosen]
        problem = Problem(
            first=starts,
            rows=self._rows.rows[chosen].reshape(-1),
            expected=answers[:, 0].copy(),
            invoked=invoked,
            returned=returned,
            reads=self._rows.reads,
            kinds=answers[:, 1].copy(),
            conflicts=self._conflicts,
            many=len(self._footprints),
            read=self._read,
            put=self._put,
            quiet=self._quiet[answers[:, 1]],
        )
        return Packed(problem, order, clients, self.words)

    def _numbers(self, operations: tuple[Operation, ...], forgotten: frozenset[int]) -> list[int]:
        """The row of each operation."""
        found: list[Any] = [] if forgotten else self._known(operations)
        if not operations or (found and None not in found):
            return found
        self._know(operations)
        known = self._rows.numbers
        found = []
        for place, operation in enumerate(operations):
            name = _name(operation, forgotten=place in forgotten)
            number = known.get(name)
            found.append(self._add(operation, name) if number is None else number)
        return found

    def _known(self, operations: tuple[Operation, ...]) -> list[int | None]:
        """The row of each operation, if it has one; names are those that `_name` gives."""
        get, found = self._rows.numbers.get, []
        for operation in operations:
            call, answer = operation.call, operation.answer
            if type(answer) is Told and type(call) is Event:
                found.append(get((call.action, call.values, (answer.accepted, answer.code))))
            elif type(answer) is Seen:
                found.append(get(("", call, answer.values)))
            else:
                found.append(get(_name(operation, forgotten=False)))
        return found

    def _know(self, operations: Iterable[Operation]) -> None:
        """Take in the shapes of these events, or begin anew with them."""
        shapes = set()
        for operation in operations:
            call = operation.call
            if isinstance(call, Event):
                shape = self._shapes.get((call.action, call.values))
                if shape is None:
                    action = self.instance.system.action(call.action)
                    shape = shape_of(action, tuple(value for _, value in call.values))
                    self._shapes[call.action, call.values] = shape
                shapes.add(shape)
        if shapes <= self.prints.shapes:
            if len(self._rows.numbers) > MOST_ROWS:
                self._begin(self.prints.shapes)
            return
        if len(shapes | self.prints.shapes) > 2 * len(shapes) + SPARE_SHAPES:
            self._begin(shapes)
        elif self.prints.extend(shapes):
            self._begin_rows()

    def _add(self, operation: Operation, name: Any) -> int:
        """The number of the row of what was asked and told, made now."""
        call, told = operation.call, name[2]
        if isinstance(call, Read):
            if told is None:
                return self._rows.add(name, self._row(READ), ANY_ANSWER, self._class(_FORGOTTEN))
            cells = self._rows.add_cells(self._cells(call.cells, told))
            return self._rows.add(name, self._row(READ, *cells), 0, self._class((call, None)))
        answer = None if told is None else Told(*told)
        expected = ANY_ANSWER if answer is None else self._expected(answer)
        kind = self._class((self._shapes[call.action, call.values], answer))
        return self._rows.add(name, self.stepper.row(call), expected, kind)

    def _row(self, *numbers: int) -> list[int]:
        return [*numbers, *([0] * (self.stepper.width - len(numbers)))]

    def _expected(self, told: Told) -> int:
        if told.accepted:
            return ACCEPTED
        if told.code is None:
            return ANY_REFUSAL
        return self.stepper.code_numbers.get(told.code, NO_ANSWER)

    def _cells(self, cells: tuple[Cell, ...], values: tuple[Value, ...]) -> list[int]:
        variables = self.instance.system.variables
        found: list[int] = []
        for cell, value in zip(cells, values, strict=True):
            kind = variables[cell.variable].type
            if value not in values_of(kind, self.instance):
                raise HistoryError(
                    f"a read of {cell.variable}",
                    repr(value),
                    f"a {kind.name} of {self.instance!r}",
                    "correct the value, or give the instance larger bounds",
                )
            found += (*self.stepper.place(cell.variable, cell.index), encode(kind, value))
        return found

    def _class(self, of: Class) -> int:
        number = self._classes.get(of)
        if number is None:
            number = self._classes[of] = len(self._footprints)
            what, told = of
            if what is None:
                footprint = Footprint(0, 0)
            elif isinstance(what, Read):
                footprint = self.prints.of_read(what)
            else:
                footprint = self.prints.of_event(what, told)
            self._footprints.append(footprint)
            self._check(number + 1)
        return number

    def _check(self, classes: int) -> None:
        """That the time is not over, and that the tables of so many classes have room."""
        self.limits.check()
        masks = self.prints.reached.layout.size // 8 + 1
        each = 8 * classes + 4 * masks + 16 * self.stepper.layout.words
        self.limits.check_bytes(classes * each, f"the conflicts of {classes:,} kinds of operation")

    def _tables(self) -> None:
        """Which classes conflict, row by row, and the bits of a state that they read and put."""
        many, before = len(self._footprints), self._masks.shape[1]
        if many == before:
            return
        new = self._footprints[before:]
        size = self.prints.reached.layout.size // 8 + 1
        raw = b"".join(f.writes.to_bytes(size, "little") for f in new)
        raw += b"".join((f.reads | f.writes).to_bytes(size, "little") for f in new)
        masks = np.frombuffer(raw, np.uint8).reshape(2, len(new), size)
        self._masks = np.concatenate((self._masks.reshape(2, before, size), masks), axis=1)
        table = np.zeros((many, many), np.int64)
        table[:before, :before] = self._conflicts.reshape(before, before)
        for row in range(len(new)):
            self.limits.check()
            once = (self._masks[1] & masks[0, row]).any(-1)
            table[before + row] = once | (self._masks[0] & masks[1, row]).any(-1)
        table[:, before:] = table[before:].T
        self._conflicts = table.reshape(-1)
        quiet = np.array([f.writes == 0 for f in new], np.int64)
        self._quiet = np.concatenate((self._quiet, quiet))
        self._read = np.concatenate((self._read, *(self._state_bits(f.reads) for f in new)))
        self._put = np.concatenate((self._put, *(self._state_bits(f.certain) for f in new)))

    def _state_bits(self, cells: int) -> Any:
        """The bits of a packed state that belong to cells."""
        found = [0] * self.stepper.layout.words
        while cells:
            lowest = cells & -cells
            word, shift, mask = self._cell_bits[lowest.bit_length() - 1]
            found[word] |= mask << shift
            cells ^= lowest
        return np.array(found, np.int64)

    @cached_property
    def _cell_bits(self) -> list[tuple[int, int, int]]:
        return [
            (*(field.place(element) if field.width else (0, 0)), field.mask)
            for field in self.stepper.layout.fields.values()
            for element in range(field.count)
        ]


def _name(operation: Operation, *, forgotten: bool) -> tuple[Any, Any, Any]:
    """What was asked and told, to be looked up."""
    call, answer = operation.call, operation.answer
    if answer is not None and isinstance(call, Read) is not isinstance(answer, Seen):
        raise HistoryError(
            f"an operation of client {operation.client}",
            f"the answer {answer!r} to {call!r}",
            "values for a read, accepted or refused for an event",
            "write what the client was told",
        )
    if isinstance(call, Read):
        told: Any = answer.values if isinstance(answer, Seen) and not forgotten else None
        return ("", call, told)
    if isinstance(answer, Told) and not forgotten:
        return (call.action, call.values, (answer.accepted, answer.code))
    return (call.action, call.values, None)


def _times(operations: tuple[Operation, ...]) -> tuple[Any, Any, Any]:
    """Clients, calls and returns; NEVER for a return that did not come, and for no other."""
    try:
        clients = np.array([o.client for o in operations], np.int64)
        invoked = np.array([o.invoked for o in operations], np.int64)
        returned = np.array(
            [NEVER if o.returned is None else o.returned for o in operations], np.int64
        )
    except (OverflowError, TypeError, ValueError) as error:
        raise HistoryError(
            "clients and ticks",
            str(error),
            f"whole numbers, ticks from 0 to {NEVER - 1}",
            "number clients from 0, and give times in a coarser clock",
        ) from error
    pending = np.array([o.returned is None for o in operations], np.bool_)
    bad = (invoked < 0) | (invoked >= NEVER) | (returned <= invoked)
    bad |= pending != (returned >= NEVER)
    if bad.any():
        place = int(np.flatnonzero(bad)[0])
        asked = operations[place]
        raise HistoryError(
            f"operation {place}",
            f"invoked {asked.invoked}, returned {asked.returned}",
            f"ticks from 0 to {NEVER - 1}, a return later than the call, None if none came",
            "give both in ticks of one clock",
        )
    return clients, invoked, returned


def _overlap(operations: tuple[Operation, ...], place: int) -> HistoryError:
    asked = operations[place]
    return HistoryError(
        f"operation {place}",
        f"client {asked.client} asks at {asked.invoked}, before it was answered",
        "one operation of a client at a time, in the order of their invocations",
        "give what asks at the same time a client of its own",
    )
