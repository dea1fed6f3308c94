"""Traces in Apalache's Informal Trace Format (ITF), which other tools write and viewers show.

A variable over a domain is a `#map` (one within the other for two indices), a number is a `#bigint`, an
option is `{"tag": "None"}` or `{"tag": "Some", "value": member}`, all else is plain JSON. The action
that leads to a state stands in the state's `#meta`, and what ITF has no place for in the `#meta` of the
document under `kvspec`; with these a trace comes back as it was. A trace of another tool has neither: the
system must then be named, and the steps are found by trying every event of the specification.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from kvspec.counterexamples.documents import from_plain
from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import FORMAT, VERSION, Trace, plain
from kvspec.counterexamples.resolve import resolve, state_of
from kvspec.models.concrete import Machine, State, show_state, state_json
from kvspec.models.concrete.text import parameter_json
from kvspec.spec.language import Instance, System, Variable

_ABOUT = "https://apalache-mc.org/docs/adr/015adr-trace.html"
_STEP = ("action", "parameters", "outcome", "code")


def is_itf(document: Any) -> bool:
    """Whether a JSON document is in ITF and not in this project's format."""
    return isinstance(document, dict) and "format" not in document and "states" in document


def to_itf(trace: Trace, system: System | None = None) -> dict[str, Any]:
    """The trace as an ITF document; `system` as for `resolve`."""
    found = resolve(trace, system=system)
    variables = found.machine.system.variables
    document = plain(trace)
    states: list[dict[str, Any]] = []
    for index, state in enumerate([document["initial"], *(s["state"] for s in document["steps"])]):
        meta: dict[str, Any] = {"index": index}
        if index:
            meta.update({name: document["steps"][index - 1][name] for name in _STEP})
        values = {name: _out(v, len(v.domain), state[name]) for name, v in variables.items()}
        states.append({"#meta": meta, **values})
    kept = {k: v for k, v in document.items() if k not in ("initial", "steps", "loop")}
    result: dict[str, Any] = {
        "#meta": {"format": "ITF", "format-description": _ABOUT, "kvspec": kept},
        "vars": list(variables),
        "states": states,
    }
    if trace.loop is not None:
        result["loop"] = trace.loop
    return result


def from_itf(
    document: Any,
    where: str = "the ITF trace",
    system: System | None = None,
    instance: Instance | None = None,
) -> Trace:
    """The trace of an ITF document.

    instance: needed for a trace that this project did not write; its steps are then looked for.
    """
    states = document.get("states") if isinstance(document, dict) else None
    if not isinstance(states, list) or not states or not all(isinstance(s, dict) for s in states):
        raise TraceError(where, "no list of states", "`states` with one or more", "name a trace")
    meta = document.get("#meta")
    kept = meta.get("kvspec") if isinstance(meta, dict) else None
    if kept is None and instance is None:
        raise TraceError(
            where,
            "an ITF trace of another tool",
            "one with `kvspec` in its #meta, or an instance to read it on",
            "name the system and the instance of which it speaks",
        )
    if instance is not None:
        return _foreign(states, document.get("loop"), where, instance)
    if not isinstance(kept, dict):
        raise TraceError(where, f"kvspec = {kept!r}", "an object", "export the trace again")
    plains = [_plain_state(state, f"{where}, state {n}") for n, state in enumerate(states)]
    fields = {**kept, "initial": plains[0], "loop": document.get("loop"), "steps": []}
    for number, state in enumerate(states[1:], 1):
        about = state.get("#meta")
        if not isinstance(about, dict) or any(name not in about for name in _STEP):
            raise TraceError(
                f"{where}, state {number}",
                f"#meta = {about!r}",
                f"{', '.join(_STEP)} of the step that leads here",
                "give an instance, and the steps are looked for",
            )
        fields["steps"].append({n: about[n] for n in _STEP} | {"state": plains[number]})
    trace = from_plain(fields, where)
    resolve(trace, where, system)
    return trace


def _out(variable: Variable, depth: int, value: Any) -> Any:
    """A value of a trace as ITF; `depth` indices are still to come."""
    if depth:
        return {"#map": [[key, _out(variable, depth - 1, item)] for key, item in value.items()]}
    if variable.type.kind == "natural":
        return {"#bigint": str(value)}
    if variable.type.kind == "option":
        return _option(value)
    return value


def _option(value: Any) -> dict[str, Any]:
    if value is None:
        return {"tag": "None", "value": {"#tup": []}}
    return {"tag": "Some", "value": value}


def _plain_state(state: dict[str, Any], where: str) -> dict[str, Any]:
    return {k: _in(v, f"{where}, {k}") for k, v in state.items() if k != "#meta"}


def _in(value: Any, where: str) -> Any:
    """A value of ITF as in a trace."""
    if not isinstance(value, dict):
        if isinstance(value, list):
            raise TraceError(where, f"{value!r}", "a value or a #map", "export the trace again")
        return value
    match value:
        case {"#bigint": str(digits), **rest} if not rest:
            if not digits.removeprefix("-").isdecimal() or len(digits) > 20:
                raise TraceError(where, f"#bigint {digits!r}", "an integer", "correct the number")
            return int(digits)
        case {"#map": list(pairs), **rest} if not rest:
            return _map(pairs, where)
        case {"tag": "None"}:
            return None
        case {"tag": "Some", "value": inner, **rest} if not rest:
            return _in(inner, where)
    raise TraceError(
        where,
        f"an object with {', '.join(map(str, value)) or 'nothing'}",
        "#bigint, #map, or tag and value",
        "write the value as this project's ITF does",
    )


def _map(pairs: list[Any], where: str) -> dict[str, Any]:
    """A map, also one whose keys are tuples, as nested objects."""
    found: dict[str, Any] = {}
    for pair in pairs:
        match pair:
            case [str(key), value]:
                parts = [key]
            case [{"#tup": list(keys)}, value] if keys and all(isinstance(k, str) for k in keys):
                parts = keys
            case _:
                raise TraceError(where, f"{pair!r}", "[key, value]", "correct the #map")
        level = found
        for part in parts[:-1]:
            level = level.setdefault(part, {})
        if parts[-1] in level:
            raise TraceError(where, f"the key {parts} twice", "each key once", "drop one")
        level[parts[-1]] = _in(value, f"{where}[{', '.join(parts)}]")
    return found


def _foreign(states: list[Any], loop: Any, where: str, instance: Instance) -> Trace:
    """A trace of another tool: between two states, the first event of the system that leads there."""
    machine = Machine(instance)
    names = machine.system.variables
    found = []
    for number, state in enumerate(states):
        kept = {k: v for k, v in state.items() if k in names}
        plain_state = _plain_state(kept, f"{where}, state {number}")
        found.append(state_of(machine, plain_state, f"{where}, state {number}"))
    steps = [
        _step_between(machine, before, after, f"{where}, step {number}")
        for number, (before, after) in enumerate(pairwise(found), 1)
    ]
    fields = {
        "format": FORMAT,
        "version": VERSION,
        "system": machine.system.name,
        "instance": {
            "name": instance.name,
            "sizes": instance.sizes,
            "bounds": instance.bounds,
            "constants": instance.constants,
        },
        "mutation": None,
        "property": None,
        "initial": state_json(machine, found[0]),
        "steps": steps,
        "sound": None,
        "loop": loop,
        "provenance": "read from an ITF trace; its steps were found by trying every event",
    }
    trace = from_plain(fields, where)
    resolve(trace, where, machine.system)
    return trace


def _step_between(machine: Machine, before: State, after: State, where: str) -> dict[str, Any]:
    for event in machine.events():
        outcome = machine.step(before, event)
        if outcome.is_transition and outcome.state == after:
            return {
                "action": event.action,
                "parameters": parameter_json(machine, event),
                "outcome": outcome.kind,
                "code": outcome.code,
                "state": state_json(machine, after),
            }
    changed = show_state(machine, after, before).replace("\n", "; ") or "nothing"
    raise TraceError(
        where,
        f"a change that no event makes ({changed})",
        f"a step of {machine.instance!r}",
        "check that the trace is one of this system, without steps left out",
    )
