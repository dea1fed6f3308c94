"""Why a history is not linearizable: how far one comes, and what the specification would answer there."""

from __future__ import annotations

import attrs

from kvspec.models.concrete.machine import Event, Machine
from kvspec.models.concrete.state import State, Value, position
from kvspec.models.concrete.text import show_value
from kvspec.properties.linearizability.history import Cell, History, Operation, Read, Seen, Told


@attrs.frozen
class Stuck:
    """An operation that could come next in time but not by its answer.

    place: in the history. told: its answer. instead: what the specification answers there. because:
    the guard that decides, with what it found, or nothing.
    """

    place: int
    told: str
    instead: str
    because: str = ""


def replayed(machine: Machine, history: History, start: State, order: tuple[int, ...]) -> State:
    """The state after the operations in this order, by the plain machine."""
    state = start
    for place in order:
        call = history.operations[place].call
        if isinstance(call, Event):
            state = machine.step(state, call).state
    return state


def stuck_after(
    machine: Machine,
    history: History,
    start: State,
    order: tuple[int, ...],
    part: tuple[int, ...],
) -> tuple[Stuck, ...]:
    """What could come next after a sequence, of one part of the history, and why it cannot."""
    state = replayed(machine, history, start, order)
    left = sorted(set(part) - set(order))
    returns = [history.operations[place].returned for place in left]
    soonest = min((moment for moment in returns if moment is not None), default=0)
    found = []
    for place in left:
        operation = history.operations[place]
        if operation.invoked <= soonest and operation.returned is not None:
            instead, because = _instead(machine, state, operation)
            because = _foreign(machine, operation) or because
            found.append(Stuck(place, answer_text(history, operation), instead, because))
    return tuple(found)


def _instead(machine: Machine, state: State, operation: Operation) -> tuple[str, str]:
    call = operation.call
    if isinstance(call, Read):
        values = tuple(cell_value(machine, state, cell) for cell in call.cells)
        return _values_text(machine, call, values), ""
    outcome = machine.step(state, call)
    if outcome.kind == "cut":
        return "a step beyond the bounds of the instance", ""
    if outcome.refusal is None:
        return "accepted", ""
    refusal = outcome.refusal
    return f"refused: {refusal.code}", f"expected {refusal.expected}; found {refusal.found}"


def _foreign(machine: Machine, operation: Operation) -> str:
    """That the specification has no such answer, if it has none."""
    call, answer = operation.call, operation.answer
    if not isinstance(call, Event) or not isinstance(answer, Told) or answer.accepted:
        return ""
    codes = [guard.code.name for guard in machine.system.action(call.action).guards]
    if answer.code is None or answer.code in codes:
        return ""
    return (
        f"{answer.code} is a refusal that the specification does not have: "
        f"{call.action} is refused with {', '.join(codes)} alone"
    )


def cell_value(machine: Machine, state: State, cell: Cell) -> Value:
    """What a state has in a cell."""
    variable = machine.system.variables[cell.variable]
    index: list[Value] = [
        kind.members[number] if kind.kind == "enum" else number
        for kind, number in zip(variable.domain, cell.index, strict=True)
    ]
    place = position(variable, tuple(index), machine.instance)
    return state.tables[list(machine.system.variables).index(cell.variable)][place]


def call_text(operation: Operation) -> str:
    """What was asked, for a reader: `publish(x=0)`, `read version[0]`."""
    call = operation.call
    if isinstance(call, Read):
        return f"read {', '.join(cell_text(cell) for cell in call.cells)}"
    given = ", ".join(f"{name}={_shown(value)}" for name, value in call.values)
    return f"{call.action}({given})"


def cell_text(cell: Cell) -> str:
    """A cell for a reader: `k_rows[0, 1]`."""
    index = ", ".join(map(str, cell.index))
    return f"{cell.variable}[{index}]" if index else cell.variable


def answer_text(history: History, operation: Operation) -> str:
    """What was told, for a reader."""
    call, answer = operation.call, operation.answer
    if isinstance(answer, Told):
        if answer.accepted:
            return "accepted"
        return f"refused: {answer.code}" if answer.code else "refused"
    if isinstance(answer, Seen) and isinstance(call, Read):
        variables = history.instance.system.variables
        shown = (
            show_value(variables[cell.variable].type, value)
            for cell, value in zip(call.cells, answer.values, strict=True)
        )
        return ", ".join(shown)
    return "no answer"


def _values_text(machine: Machine, call: Read, values: tuple[Value, ...]) -> str:
    variables = machine.system.variables
    shown = (
        show_value(variables[cell.variable].type, value)
        for cell, value in zip(call.cells, values, strict=True)
    )
    return ", ".join(shown)


def _shown(value: object) -> str:
    if isinstance(value, tuple):
        return "(" + ", ".join(map(_shown, value)) + ")"
    if isinstance(value, bool):
        return str(value).lower()
    return "none" if value is None else str(value)
