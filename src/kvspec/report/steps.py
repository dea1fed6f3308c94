"""A trace of the explicit engine as text and as JSON: events and what each of them changed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kvspec.models.concrete import Machine, show_event, show_state, state_json
from kvspec.models.concrete.text import parameter_json
from kvspec.spec.language import Instance

if TYPE_CHECKING:
    from kvspec.counterexamples.record import EngineStep


def trace_text(instance: Instance, trace: Sequence[EngineStep], loop: int | None = None) -> str:
    """One step a paragraph: its number, the event, and each value that it changed."""
    machine = Machine(instance)
    lines: list[str] = []
    last = len(trace) - 1
    for number, step in enumerate(trace):
        if step.event is None:
            lines.append(f"{number:>4}  initial state")
        else:
            refused = f"  refused with {step.code}" if step.code else ""
            lines.append(f"{number:>4}  {show_event(machine, step.event)}{refused}")
            before = trace[number - 1].state
            changed = show_state(machine, step.state, before) or "nothing changes"
            lines.extend(f"        {line}" for line in changed.splitlines())
        if loop is not None and number == loop:
            stays = "the run stops here: this state stays for ever"
            lines.append(f"      {stays if loop == last else 'from here on, repeated for ever:'}")
    return "\n".join(lines)


def trace_json(instance: Instance, trace: Sequence[EngineStep]) -> list[dict[str, Any]]:
    """Each step with its action, parameters, outcome and the state after it."""
    machine = Machine(instance)
    found = []
    for step in trace:
        event = step.event
        found.append(
            {
                "action": event.action if event else None,
                "parameters": parameter_json(machine, event) if event else {},
                "outcome": step.outcome,
                "code": step.code,
                "state": state_json(machine, step.state),
            }
        )
    return found
