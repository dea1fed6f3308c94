"""A trace held against its system: every name and value is looked up, and gives states and events.

Nothing here says whether the steps are right; that is `replay`. What is checked is that the trace speaks
of things that exist: system, instance, variables, actions, parameters, codes, values.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import attrs

from kvspec.counterexamples.errors import TraceError, UnknownNameError
from kvspec.counterexamples.format import InstanceRecord, StepRecord, Trace
from kvspec.counterexamples.systems import KnownSystem, find_system
from kvspec.models.concrete import Event, Machine, State, evaluate, parse_event, state_json
from kvspec.models.concrete.state import indices
from kvspec.models.concrete.text import parse_state
from kvspec.spec.language import DefinitionError, Expr, Instance, System, instance

MOST_CELLS = 100_000


@attrs.frozen
class Taken:
    """A step that was taken: outcome is "accepted" or "refused", state is the one after it."""

    event: Event
    outcome: str
    code: str | None
    state: State


@attrs.frozen(eq=False)
class Resolved:
    """A trace with its events and states; `machine` is that of the specification, without mutation."""

    trace: Trace
    machine: Machine
    initial: State
    steps: tuple[Taken, ...]
    where: str

    @property
    def states(self) -> list[State]:
        """All states, by number: the initial one, then the one after each step."""
        return [self.initial, *(step.state for step in self.steps)]


def resolve(trace: Trace, where: str = "the trace", system: System | None = None) -> Resolved:
    """The trace's events and states, or a TraceError that names the step.

    system: for a system that is not among `known_systems()`; its name must be the trace's.
    """
    made = build_instance(trace.system, trace.instance, where, system)
    machine = Machine(made)
    initial = state_of(machine, trace.initial, f"{where}, initial state")
    steps = tuple(
        _step(machine, record, f"{where}, step {number}")
        for number, record in enumerate(trace.steps, 1)
    )
    found = Resolved(trace, machine, initial, steps, where)
    _check_departure(found)
    _check_loop(found)
    return found


def build_instance(
    name: str, record: InstanceRecord, where: str, system: System | None = None
) -> Instance:
    """The instance that a trace names, checked against its sizes, or one made of the sizes alone."""
    known = _known(name, where, system)
    if known is not None and record.name in known.instances:
        named = known.instances[record.name]
        _check_named(named, record, where)
        return named
    target = known.system if known is not None else system
    if target is None:
        raise UnknownNameError("system", name, ())
    kinds = target.sorts()
    given = {**record.sizes, **record.bounds}
    try:
        made = instance(
            record.name or "unnamed",
            target,
            {kinds.get(sort, sort): size for sort, size in given.items()},
            constants=record.constants,
        )
    except DefinitionError as error:
        wanted = [k for k, v in kinds.items() if v.kind in ("open", "natural")]
        raise TraceError(
            f"{where}, instance",
            f"sizes and bounds of {', '.join(sorted(given)) or 'nothing'} and constants "
            f"{', '.join(sorted(record.constants)) or 'none'}",
            f"those of {name}: {', '.join(sorted(wanted)) or 'none'}; constants "
            f"{', '.join(sorted(target.constants)) or 'none'}",
            "give each sort of the system a number, and nothing else",
        ) from error
    _check_kinds(made, record, where)
    return made


def is_initial(machine: Machine, state: State) -> bool:
    """Whether the instance may start in this state."""
    found = machine.instance
    for variable, table in zip(machine.system.variables.values(), state.tables, strict=True):
        start = found.initial.get(variable.name, variable.initial)
        if not isinstance(start, Expr):
            continue
        for index, value in zip(indices(variable, found), table, strict=True):
            names = {b.name: v for b, v in zip(variable.binders, index, strict=True)}
            if evaluate(start, machine.environment(state, names=names)) != value:  # type: ignore[arg-type]
                return False
    return True


def has_one_start(machine: Machine) -> bool:
    """Whether the instance has a single initial state: no variable starts anywhere in its type."""
    pinned = machine.instance.initial
    return all(
        isinstance(pinned.get(variable.name, variable.initial), Expr)
        for variable in machine.system.variables.values()
    )


def state_of(machine: Machine, given: Any, where: str) -> State:
    """The state that JSON gives: each variable at each index, and nothing else."""
    cells = [
        prod(machine.instance.members(kind) for kind in variable.domain)
        for variable in machine.system.variables.values()
    ]
    if sum(cells) > MOST_CELLS:
        raise TraceError(
            where, f"{sum(cells):,} values", f"at most {MOST_CELLS:,}", "use a smaller instance"
        )
    blank = State(tuple((None,) * count for count in cells))
    different = list(_shape(state_json(machine, blank), given, ""))
    if different:
        raise TraceError(
            where,
            "; ".join(different[:5]) + (" and more" if len(different) > 5 else ""),
            f"each variable of {machine.system.name} at each index, and nothing else",
            "write the whole state after the step",
        )
    try:
        return parse_state(machine, given, where)
    except ValueError as error:
        raise _value_error(where, error) from error


def _shape(wanted: Any, given: Any, path: str) -> Iterator[str]:
    """How the keys of a state differ from those it must have."""
    if not isinstance(wanted, dict):
        return
    if not isinstance(given, dict):
        yield f"{path or 'the state'} = {given!r}"
        return
    for key in wanted:
        place = f"{path}[{key}]" if path else key
        if key not in given:
            yield f"no {place}"
        else:
            yield from _shape(wanted[key], given[key], place)
    for key in given:
        if key not in wanted:
            yield f"unknown {f'{path}[{key}]' if path else key}"


def _known(name: str, where: str, system: System | None) -> KnownSystem | None:
    if system is not None:
        if system.name != name:
            raise TraceError(
                where,
                f"system {name!r}",
                f"{system.name!r}",
                "replay the trace on the system of which it speaks",
            )
        return None
    try:
        return find_system(name)
    except UnknownNameError as error:
        raise TraceError(
            where,
            f"system {name!r}",
            f"one of {', '.join(error.known)}",
            "correct the name; a system of your own is given as `system=`",
        ) from error


def _check_named(named: Instance, record: InstanceRecord, where: str) -> None:
    for part, found, expected in (
        ("sizes", record.sizes, named.sizes),
        ("bounds", record.bounds, named.bounds),
        ("constants", record.constants, named.constants),
    ):
        if dict(found) == dict(expected):
            continue
        names = sorted({n for n in {*found, *expected} if found.get(n) != expected.get(n)})
        raise TraceError(
            f"{where}, instance {record.name}, {part}",
            ", ".join(f"{n} = {found.get(n, 'nothing')}" for n in names),
            ", ".join(f"{n} = {expected.get(n, 'nothing')}" for n in names),
            "make the trace again, or set the instance's name to null to keep these sizes",
        )


def _check_kinds(made: Instance, record: InstanceRecord, where: str) -> None:
    for part, found, expected in (
        ("sizes", record.sizes, made.sizes),
        ("bounds", record.bounds, made.bounds),
    ):
        if set(found) != set(expected):
            raise TraceError(
                f"{where}, instance, {part}",
                ", ".join(sorted(found)) or "nothing",
                ", ".join(sorted(expected)) or "nothing",
                "open sorts go under sizes, sorts of naturals under bounds",
            )


def _step(machine: Machine, record: StepRecord, where: str) -> Taken:
    event = _event(machine, record, where)
    codes = [guard.code.name for guard in machine.system.action(event.action).guards]
    _check_code(where, record.outcome, record.code, event.action, codes)
    state = state_of(machine, record.state, f"{where}, state")
    return Taken(event, record.outcome, record.code, state)


def _event(machine: Machine, record: StepRecord, where: str) -> Event:
    actions = machine.system.actions
    if record.action not in actions:
        raise TraceError(
            where,
            f"action {record.action!r}",
            f"one of {', '.join(sorted(actions))}",
            f"correct the name: these are the actions of {machine.system.name}",
        )
    wanted = [parameter.name for parameter in actions[record.action].parameters]
    if set(wanted) != set(record.parameters):
        raise TraceError(
            f"{where}, {record.action}",
            f"parameters {', '.join(sorted(record.parameters)) or 'none'}",
            ", ".join(wanted) or "none",
            "give each parameter of the action a value, and nothing else",
        )
    try:
        return parse_event(machine, record.action, record.parameters, where)
    except ValueError as error:
        raise _value_error(where, error) from error


def _value_error(where: str, error: ValueError) -> TraceError:
    """An error of `models.concrete.text`, "place: found x, expected y", in parts."""
    place, _, rest = str(error).partition(": found ")
    found, _, expected = rest.partition(", expected ")
    return TraceError(
        place or where, found, expected, "correct the value, or make the instance larger"
    )


def _check_code(where: str, outcome: str, code: str | None, action: str, codes: list[str]) -> None:
    if outcome == "refused" and code not in codes:
        raise TraceError(
            where,
            f"{action} refused with {code}",
            f"one of its codes: {', '.join(codes) or 'none, it is never refused'}",
            "correct the code",
        )
    if outcome != "refused" and code is not None:
        raise TraceError(
            where,
            f"{action} {outcome} with the code {code}",
            "a code for refusals alone",
            "set code to null or outcome to refused",
        )


def _check_departure(found: Resolved) -> None:
    sound, where = found.trace.sound, f"{found.where}, sound"
    if sound is None:
        return
    if sound.step > len(found.steps):
        raise TraceError(
            where,
            f"step {sound.step}",
            f"a step from 1 to {len(found.steps)}",
            "name the step at which the specification departs from the trace",
        )
    action = found.steps[sound.step - 1].event.action
    codes = [guard.code.name for guard in found.machine.system.action(action).guards]
    _check_code(where, sound.outcome, sound.code, action, codes)


def _check_loop(found: Resolved) -> None:
    loop, states = found.trace.loop, found.states
    if loop is None:
        return
    if loop >= len(states):
        raise TraceError(
            f"{found.where}, loop",
            f"state {loop}",
            f"a state from 0 to {len(states) - 1}",
            "name the state to which the last step leads back",
        )
    if states[loop] != states[-1]:
        raise TraceError(
            f"{found.where}, loop",
            f"a last state other than state {loop}",
            "the same state, so that the steps between can repeat",
            "add the step that closes the loop",
        )
