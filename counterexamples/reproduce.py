"""A trace as a pytest file that reproduces it: calls and expected answers, readable and complete."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.resolve import has_one_start, is_initial, resolve
from kvspec.models.concrete import show_state
from kvspec.models.concrete.text import parameter_json

TEMPLATE = '''"""{title}

{about}
"""

import pytest

from kvspec.counterexamples.format import InstanceRecord
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.resolve import build_instance{more_imports}
from kvspec.counterexamples.targets import sound_backend
from kvspec.models.concrete import Machine, parse_event, show_state

SIZES = InstanceRecord(
    name=None,
    sizes={sizes},
    bounds={bounds},
    constants={constants},
)
{initial}# Each call, and the answer that the specification gives.
STEPS = [
{steps}
]
# What the last call changes.
CHANGES = [
{changes}
]


def run():
    """The calls, taken by the specification."""
    machine = Machine(build_instance({system}, SIZES, {file}))
    events = [parse_event(machine, action, given, action) for action, given, _ in STEPS]
    return machine, run_events(machine, events{start})


def test_{name}():
    """{claim}"""
    machine, steps = run()
    assert [step.code or step.outcome for step in steps[1:]] == [answer for *_, answer in STEPS]
    changes = show_state(machine, steps[-1].state, steps[-2].state)
    assert changes.splitlines() == CHANGES


def test_{name}_on_a_cache():
    """A sound cache gives the same answers, has the same states, and comes to no harm."""
    backend = sound_backend({system})
    if backend is None:
        pytest.skip("there is no cache for this system here (the one for core needs torch)")
    machine, steps = run()
    result = replay(trace_of(machine, steps, sound=machine.system), backend, system=machine.system)
    assert result.passed, result.show()
'''


def as_test(trace: Trace, file: str | os.PathLike[str] = "trace.json") -> str:
    """The text of a pytest file: the specification's answers to the trace's calls, and a cache's.

    It ends with the step at which the specification departs from the trace. file: the trace's file;
    its name alone is used.
    """
    name = Path(file).name
    found = resolve(trace, name)
    if not found.steps:
        raise TraceError(name, "a trace without steps", "one step or more", "nothing to reproduce")
    machine, sound = found.machine, trace.sound
    last = sound.step if sound is not None else len(found.steps)
    if sound is not None and sound.outcome == "cut":
        raise TraceError(
            name,
            f"step {last}, which the specification takes beyond the bounds of the instance",
            "a step that stays within",
            "make the trace on a larger instance",
        )
    state, calls, changes = found.initial, [], ""
    for step in found.steps[:last]:
        outcome = machine.step(state, step.event)
        given = _python(parameter_json(machine, step.event))
        answer = _python(outcome.code or outcome.kind)
        calls.append(f"    ({_python(step.event.action)}, {given}, {answer}),")
        changes = show_state(machine, outcome.state, state)
        state = outcome.state
    starts = has_one_start(machine) and is_initial(machine, found.initial)
    initial = "" if starts else f"INITIAL = {_python(trace.initial)}\n"
    return TEMPLATE.format(
        title=_doc(_title(trace, name)),
        about=_doc(_about(trace)),
        more_imports="" if starts else ", state_of",
        sizes=_python(dict(sorted(trace.instance.sizes.items()))),
        bounds=_python(dict(sorted(trace.instance.bounds.items()))),
        constants=_python(dict(sorted(trace.instance.constants.items()))),
        initial=initial,
        steps="\n".join(calls),
        changes="\n".join(f"    {_python(line)}," for line in changes.splitlines()),
        system=_python(trace.system),
        file=_python(name),
        start="" if starts else ', state_of(machine, INITIAL, "the initial state")',
        name=_slug(name),
        claim=_doc(_claim(trace, last)),
    )


def _title(trace: Trace, name: str) -> str:
    if trace.mutation is None:
        return f"The calls of {name}, and how the specification answers them."
    return (
        f"{name}: what a cache must not do, and does with this fault: {trace.mutation.description}."
    )


def _about(trace: Trace) -> str:
    lines = [f"System {trace.system}. Made by `kvspec replay --as-test`; needs kvspec alone."]
    if trace.property is not None:
        lines.append(f"It is about {trace.property.name} ({trace.property.kind}).")
    return "\n".join(lines)


def _claim(trace: Trace, last: int) -> str:
    if trace.sound is None:
        return f"The specification answers the {last} calls so."
    if trace.sound.outcome == "refused":
        return f"The specification refuses call {last} with {trace.sound.code}."
    return f"The specification accepts call {last} and changes just this."


def _doc(text: str) -> str:
    """Text that can stand in a docstring."""
    return text.replace("\\", "/").replace('"""', "'''")


def _slug(name: str) -> str:
    stem = name.removesuffix(".json").removesuffix(".itf")
    return re.sub(r"\W+", "_", stem).strip("_").lower() or "trace"


def _python(value: Any) -> str:
    """A value of JSON as Python source, strings in double quotes."""
    if isinstance(value, str):
        quoted = repr(value)
        if '"' not in value and quoted.startswith("'"):
            return '"' + quoted[1:-1].replace("\\'", "'") + '"'
        return quoted
    if isinstance(value, dict):
        return "{" + ", ".join(f"{_python(k)}: {_python(v)}" for k, v in value.items()) + "}"
    return repr(value)
