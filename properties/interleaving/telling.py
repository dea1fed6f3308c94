"""A failing run as text: the calls with their answers, and who ran from where to where."""

from __future__ import annotations

from itertools import groupby

from kvspec.models.concrete.machine import Machine
from kvspec.models.concrete.text import show_event, show_value
from kvspec.models.decode.concurrent_scenarios import Recording, Scenario
from kvspec.properties.interleaving.histories import history_of
from kvspec.properties.linearizability.history import Cell, Operation, Read, Seen, Told

_WIDTH = 96


def show_call(machine: Machine, operation: Operation) -> str:
    """What was asked: `publish(x=txn0)`, `look(handle0)`."""
    if not isinstance(operation.call, Read):
        return show_event(machine, operation.call)
    cell = operation.call.cells[0]
    kind = machine.system.variables[cell.variable].domain[0]
    return f"look({show_value(kind, cell.index[0])})"


def show_answer(machine: Machine, operation: Operation) -> str:
    """What was told: `accepted`, `refused: STALE_SNAPSHOT`, `phase=RELEASED version=1 ...`."""
    answer = operation.answer
    if isinstance(answer, Told):
        return "accepted" if answer.accepted else f"refused: {answer.code}"
    if isinstance(answer, Seen) and isinstance(operation.call, Read):
        return show_seen(machine, operation.call, answer)
    return "no answer"


def show_seen(machine: Machine, read: Read, seen: Seen) -> str:
    """The values of cells that were looked at."""
    pairs = zip(read.cells, seen.values, strict=True)
    return " ".join(f"{_name(machine, cell)}={value}" for cell, value in pairs)


def show_calls(scenario: Scenario, recording: Recording) -> list[str]:
    """One line for each call: client, first and last tick, call and answer."""
    machine = Machine(scenario.instance)
    lines = []
    for each in history_of(scenario.instance, recording.asked).operations:
        end = "-" if each.returned is None else str(each.returned)
        told = f"{show_call(machine, each)}: {show_answer(machine, each)}"
        lines.append(f"client {each.client} [{each.invoked:>2}, {end:>2}]  {told}")
    return lines


def show_pieces(recording: Recording) -> list[str]:
    """One line for each piece that a thread ran through, and where it was stopped."""
    run, lines, place = recording.run, [], 0
    for thread, group in groupby(run.steps, key=lambda step: step.thread):
        points = [step.at for step in group]
        place += len(points)
        text = ", ".join(points)
        if len(text) > _WIDTH:
            text = f"{points[0]} ... {points[-1]} ({len(points)} steps)"
        end = ""
        if place < len(run.steps) and run.choices[place].is_preemption(run.steps[place].thread):
            end = f"  <- stopped before: {run.choices[place].point(thread)}"
        lines.append(f"client {thread}: {text}{end}")
    return lines


def _name(machine: Machine, cell: Cell) -> str:
    """A cell behind the handle that is looked at: `version`, `k_rows[layer1]`."""
    kinds = machine.system.variables[cell.variable].domain
    rest = zip(kinds[1:], cell.index[1:], strict=True)
    shown = ", ".join(show_value(kind, place) for kind, place in rest)
    return f"{cell.variable}[{shown}]" if shown else cell.variable
