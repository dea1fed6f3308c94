"""History files: what concurrent clients asked and were told, as one JSON document.

A history names a system and an instance of it, or gives its sizes, as a trace does. `start` is null, a
list of events that lead from the initial state to it, or the whole state. `expected` and `about` are for
a reader and for tests: nothing is decided by them.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import attrs
import msgspec

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.files import read_text
from kvspec.counterexamples.format import InstanceRecord, Record, StateJson
from kvspec.counterexamples.resolve import build_instance, has_one_start, state_of
from kvspec.counterexamples.writing import to_text
from kvspec.models.concrete import Event, Machine, State, parse_event, state_json
from kvspec.models.concrete.state import Value, values_of
from kvspec.models.concrete.text import parameter_json, value_from_json, value_json
from kvspec.models.documents.strict import JsonError, strict_loads
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.spec.language import Instance, Variable
from kvspec.spec.language.expr import Type

FORMAT: Final = "kvspec-history"
VERSION: Final = 1
FOLDER: Final = Path(__file__).resolve().parent / "histories"
"""Histories with known verdicts."""

Tick = Annotated[int, msgspec.Meta(ge=0, lt=(1 << 62) - 1)]
"""Less than what the search takes for the return that never came."""
Verdict = Literal["holds", "violated", "unknown"]


class CellRecord(Record, frozen=True, kw_only=True):
    """A variable at an index, members by name: `{"variable": "length", "index": ["handle0"]}`."""

    variable: str
    index: tuple[Any, ...] = ()


class EventRecord(Record, frozen=True, kw_only=True):
    """An event of the system."""

    action: str
    parameters: dict[str, Any] = msgspec.field(default_factory=dict)


class OperationRecord(Record, frozen=True, kw_only=True):
    """One operation: `event` or `read`, and its answer.

    answer: "accepted", "refused" (by a code that is not known), {"refused": CODE}, {"values": [...]} of a
    read, or null with `returned` null if none came.
    """

    client: Annotated[int, msgspec.Meta(ge=0, lt=1 << 62)]
    event: EventRecord | None = None
    read: list[CellRecord] | None = None
    answer: Any
    invoked: Tick
    returned: Tick | None


class HistoryRecord(Record, frozen=True, kw_only=True):
    """A history file."""

    format: Literal["kvspec-history"] = FORMAT
    version: Literal[1] = VERSION
    system: str
    instance: InstanceRecord
    about: str = ""
    expected: Verdict | None = None
    start: list[EventRecord] | StateJson | None = None
    operations: list[OperationRecord]


@attrs.frozen(eq=False)
class HistoryFile:
    """A history with what its file says of it."""

    history: History
    expected: str | None
    about: str


def read_history(path: str | os.PathLike[str]) -> HistoryFile:
    """The history in a file, checked against its system; a TraceError for anything else."""
    return parse_history(read_text(path, "history"), str(path))


def parse_history(text: str, where: str = "the history") -> HistoryFile:
    """The history in a text, checked against its system."""
    try:
        document = strict_loads(text)
    except JsonError as fault:
        expected, advice = "a history as JSON", "check that the file is complete"
        if fault.reason == "surrogate":
            expected, advice = "Unicode text", "write the whole character"
        raise TraceError(where + fault.place, fault.found, expected, advice) from fault
    if not isinstance(document, dict) or document.get("format") != FORMAT:
        found = document.get("format") if isinstance(document, dict) else type(document).__name__
        raise TraceError(where, f"{found!r} as format", repr(FORMAT), "name a history file")
    try:
        record = msgspec.convert(document, HistoryRecord)
    except msgspec.ValidationError as error:
        message, _, path = str(error).partition(" - at ")
        place = path.strip("`").removeprefix("$").removeprefix(".")
        raise TraceError(
            f"{where}, {place}" if place else where,
            f"a field that does not fit ({message})",
            f"what the format says ({FORMAT} version {VERSION})",
            "see docs/linearizability.md",
        ) from error
    instance = build_instance(record.system, record.instance, where)
    reader = _Reader(instance, where)
    operations = tuple(
        reader.operation(each, f"{where}, operation {place}")
        for place, each in enumerate(record.operations)
    )
    _check_order(operations, where)
    start = reader.start(record.start)
    return HistoryFile(History(instance, operations, start), record.expected, record.about)


class _Reader:
    """Looks up what a file says in its instance."""

    def __init__(self, instance: Instance, where: str) -> None:
        self.instance = instance
        self.machine = Machine(instance)
        self.where = where

    def start(self, given: list[EventRecord] | StateJson | None) -> State | None:
        """The state before the first operation."""
        if isinstance(given, dict):
            return state_of(self.machine, given, f"{self.where}, start")
        if not has_one_start(self.machine):
            raise TraceError(
                f"{self.where}, start",
                "no state, of a system that may start anywhere",
                "the state before the first operation",
                "write the whole state",
            )
        if given is None:
            return None
        (state,) = self.machine.initial_states()
        for place, each in enumerate(given):
            where = f"{self.where}, start, event {place}"
            outcome = self.machine.step(state, self._event(each, where))
            if outcome.kind != "accepted":
                told = str(outcome.refusal) if outcome.refusal else "cut at the bounds"
                raise TraceError(where, told, "an event that is accepted", "correct the events")
            state = outcome.state
        return state

    def operation(self, record: OperationRecord, where: str) -> Operation:
        """One operation."""
        if (record.event is None) == (record.read is None):
            raise TraceError(
                where, "both or neither of event and read", "one of them", "drop or add one"
            )
        if (record.answer is None) != (record.returned is None):
            raise TraceError(
                where,
                f"answer {record.answer!r} and returned {record.returned}",
                "both, or null for both where no answer came",
                "complete the operation",
            )
        if record.returned is not None and record.returned <= record.invoked:
            raise TraceError(
                where,
                f"returned {record.returned}, invoked {record.invoked}",
                "a return later than the call",
                "give both in ticks of one clock",
            )
        call: Event | Read
        if record.event is not None:
            call = self._event(record.event, where)
            answer: Told | Seen | None = self._told(record.answer, call, where)
        else:
            call = self._read(record.read or [], where)
            answer = self._seen(record.answer, call, where)
        return Operation(record.client, call, answer, record.invoked, record.returned)

    def _event(self, record: EventRecord, where: str) -> Event:
        try:
            return parse_event(self.machine, record.action, record.parameters, where)
        except ValueError as error:
            raise _told_by(error, where) from error

    def _told(self, answer: Any, call: Event, where: str) -> Told | None:
        """What was told; a code that the specification lacks is an answer, which it does not give."""
        match answer:
            case None:
                return None
            case "accepted":
                return Told(accepted=True)
            case "refused":
                return Told(accepted=False)
            case {"refused": str(code), **rest} if not rest and code:
                return Told(accepted=False, code=code)
        codes = [guard.code.name for guard in self.machine.system.action(call.action).guards]
        raise TraceError(
            f"{where}, answer",
            repr(answer),
            f"'accepted', 'refused' or {{'refused': CODE}}, a code of {', '.join(codes)}",
            "write what the client was told",
        )

    def _read(self, records: list[CellRecord], where: str) -> Read:
        variables, cells = self.instance.system.variables, []
        for each in records:
            variable = variables.get(each.variable)
            if variable is None:
                raise TraceError(
                    f"{where}, read",
                    f"variable {each.variable!r}",
                    f"one of {', '.join(variables)}",
                    "correct the name",
                )
            cells.append(self._cell(variable, each.index, where))
        if not cells:
            raise TraceError(f"{where}, read", "no cell", "one or more", "name a cell")
        return Read(tuple(cells))

    def _cell(self, variable: Variable, index: tuple[Any, ...], where: str) -> Cell:
        if len(index) != len(variable.domain):
            raise TraceError(
                f"{where}, {variable.name}",
                f"an index of {len(index)}",
                f"of {len(variable.domain)}: {', '.join(map(str, variable.domain)) or 'none'}",
                "name a member of each",
            )
        numbers = []
        for kind, member in zip(variable.domain, index, strict=True):
            value = self._value(kind, member, f"{where}, {variable.name}")
            numbers.append(values_of(kind, self.instance).index(value))
        return Cell(variable.name, tuple(numbers))

    def _value(self, kind: Type, given: Any, where: str) -> Value:
        try:
            return value_from_json(kind, given, self.instance, where)
        except ValueError as error:
            raise _told_by(error, where) from error

    def _seen(self, answer: Any, call: Read, where: str) -> Seen | None:
        if answer is None:
            return None
        values = answer.get("values") if isinstance(answer, dict) and len(answer) == 1 else None
        if not isinstance(values, list) or len(values) != len(call.cells):
            raise TraceError(
                f"{where}, answer",
                repr(answer),
                f"{{'values': [...]}} with {len(call.cells)} of them",
                "give each cell its value, in order",
            )
        variables = self.instance.system.variables
        return Seen(
            tuple(
                self._value(variables[cell.variable].type, value, f"{where}, {cell.variable}")
                for cell, value in zip(call.cells, values, strict=True)
            )
        )


def _told_by(error: ValueError, where: str) -> TraceError:
    place, _, rest = str(error).partition(": found ")
    found, _, expected = rest.partition(", expected ")
    if not rest:
        return TraceError(where, str(error), "what the action takes", "correct the operation")
    return TraceError(place, found, expected, "correct it, or make the instance larger")


def _check_order(operations: tuple[Operation, ...], where: str) -> None:
    """Operations stand in the order of their calls, and no client asks before it is answered."""
    last, busy = 0, dict[int, int | None]()
    for place, operation in enumerate(operations):
        if operation.invoked < last:
            raise TraceError(
                f"{where}, operation {place}",
                f"invoked {operation.invoked}, after one invoked {last}",
                "operations in the order of their calls",
                "sort them",
            )
        last = operation.invoked
        until = busy.get(operation.client, -1)
        if until is None or operation.invoked < until:
            raise TraceError(
                f"{where}, operation {place}",
                f"client {operation.client} asks before it was answered",
                "one operation of a client at a time",
                "give what asks at the same time a client of its own",
            )
        busy[operation.client] = operation.returned


def dump_history(history: History, *, expected: Verdict | None = None, about: str = "") -> str:
    """The text of a history file; its start is written as a whole state."""
    instance, machine = history.instance, Machine(history.instance)
    record: dict[str, Any] = {
        "format": FORMAT,
        "version": VERSION,
        "system": instance.system.name,
        "instance": {
            "name": None,
            "sizes": dict(sorted(instance.sizes.items())),
            "bounds": dict(sorted(instance.bounds.items())),
            "constants": dict(sorted(instance.constants.items())),
        },
        "about": about,
        "expected": expected,
        "start": None if history.start is None else state_json(machine, history.start),
        "operations": [_operation_json(machine, each) for each in history.operations],
    }
    return to_text(record)


def _operation_json(machine: Machine, operation: Operation) -> dict[str, Any]:
    call, answer = operation.call, operation.answer
    found: dict[str, Any] = {"client": operation.client}
    variables = machine.system.variables
    if isinstance(call, Read):
        found["read"] = [
            {"variable": cell.variable, "index": _index_json(machine, cell)} for cell in call.cells
        ]
    else:
        found["event"] = {"action": call.action, "parameters": parameter_json(machine, call)}
    told: Any = None
    if isinstance(answer, Told):
        told = "accepted" if answer.accepted else "refused"
        told = {"refused": answer.code} if answer.code else told
    elif isinstance(answer, Seen) and isinstance(call, Read):
        pairs = zip(call.cells, answer.values, strict=True)
        told = {"values": [value_json(variables[c.variable].type, v) for c, v in pairs]}
    return {**found, "answer": told, "invoked": operation.invoked, "returned": operation.returned}


def _index_json(machine: Machine, cell: Cell) -> list[Value]:
    domain = machine.system.variables[cell.variable].domain
    return [
        value_json(kind, values_of(kind, machine.instance)[number])
        for kind, number in zip(domain, cell.index, strict=True)
    ]
