"""Refusals: what the specification asked where it refused a step, and what it read; of findings alone.

A compiled step gives its code and nothing else. Here the guard is looked up, and read by the interpreter
on the same cells, so that a finding tells the condition and the values that made it fail.
"""

from __future__ import annotations

import re

from kvspec.models.concrete.compiled import CUT, Cells
from kvspec.models.concrete.evaluate import Bound, evaluate
from kvspec.properties.audit.findings import Problem
from kvspec.properties.audit.followed import Live
from kvspec.properties.audit.window import LARGEST, TXNS, Window
from kvspec.spec.documents.event import Event
from kvspec.spec.language import Guard

Attempt = tuple[str, dict[str, Bound]]
"""An action with its parameters."""


def publication(window: Window, cells: Cells, x: int) -> tuple[Attempt, ...]:
    """The steps that a publication takes, one after the other."""
    row = {"x": x, "l": 0, "p": cells[window.start[x]]}
    return ("stage_k", row), ("stage_v", row), ("prepare", {"x": x}), ("publish", {"x": x})


def refused(
    window: Window,
    code: str,
    event: Event,
    live: Live,
    attempts: tuple[Attempt, ...],
    field: str = "event_type",
) -> Problem:
    """A step that the specification refuses, or that leaves the bounds of the window."""
    if code == CUT:
        found = getattr(event, field)
        return Problem("BEYOND_BOUNDS", field, f"numbers of at most {LARGEST}", found)
    # A publication that is refused may have an effect, so that its cells are kept before it.
    cells = window.before if attempts[-1][0] == "publish" else live.cells
    hit = _guard(window, cells, code, attempts)
    if hit is None:
        expected = "a step that the specification takes"
        return Problem(code, field, expected, getattr(event, field))
    return told(window, hit[0], event, live, cells, hit[1], field)


def told(
    window: Window,
    guard: Guard,
    event: Event,
    live: Live,
    cells: Cells,
    names: dict[str, Bound],
    field: str = "event_type",
) -> Problem:
    """A guard that failed: its condition, and what it read by the names of the log."""
    machine, state = window.compiled.machine, window.compiled.restore(cells)
    read = machine.found(guard, machine.environment(state, names=names))
    known = {"handle0": event.request_id, "handle1": event.child_request_id or "the child"}
    known |= {f"txn{x}": live.names[x] or str(event.operation_id) for x in range(TXNS)}
    read = re.sub(r"\b(?:handle[01]|txn\d)\b", lambda hit: known.get(hit[0], hit[0]), read)
    found = f"{_value(event, field)}, where {read}"
    return Problem(guard.code.name, field, repr(guard.condition), found)


def _value(event: Event, field: str) -> str:
    if field == "interval_start":
        return f"[{event.interval_start}, {event.interval_end})"
    return str(getattr(event, field))


def _guard(
    window: Window, cells: Cells, code: str, attempts: tuple[Attempt, ...]
) -> tuple[Guard, dict[str, Bound]] | None:
    """The guard with this code that fails, of steps that were to be taken, and its parameters."""
    machine, state = window.compiled.machine, window.compiled.restore(cells)
    for action, names in attempts:
        env = machine.environment(state, names=names)
        for guard in machine.system.action(action).guards:
            if guard.code.name == code and not evaluate(guard.condition, env):
                return guard, names
    return None
