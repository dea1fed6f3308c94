"""Values, events and states as text and as JSON, and back, with errors that say what exists."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from kvspec.models.concrete.evaluate import Bound, Environment, evaluate
from kvspec.models.concrete.machine import Event, Machine
from kvspec.models.concrete.state import State, Value, indices, values_of
from kvspec.spec.language import (
    Apply,
    Bijective,
    Expr,
    Instance,
    MapSymbol,
    Quantifier,
    Read,
    Symbol,
    Type,
    Variable,
)
from kvspec.spec.language.expr import children


def member_name(kind: Type, value: Value) -> str:
    """A member of an open sort as text: `handle0`."""
    return f"{kind.name.lower()}{value}"


def value_json(kind: Type, value: Value) -> Value:
    """A value as JSON: members as text, none as null, all else as it is."""
    if kind.kind == "open":
        return member_name(kind, value)
    if kind.kind == "option" and kind.of is not None and value is not None:
        return member_name(kind.of, value)
    return value


def show_value(kind: Type, value: Value) -> str:
    """A value for a reader."""
    shown = value_json(kind, value)
    if shown is None:
        return "none"
    if isinstance(shown, bool):
        return "true" if shown else "false"
    return str(shown)


def value_from_json(kind: Type, given: Any, instance: Instance, where: str) -> Value:
    """The value that JSON gives, or a ValueError that lists what the type has in this instance."""
    options = values_of(kind, instance)
    for option in options:
        shown = value_json(kind, option)
        if type(shown) is type(given) and shown == given:
            return option
    listed = ", ".join(show_value(kind, option) for option in options)
    raise ValueError(f"{where}: found {given!r}, expected a {kind.name}: one of {listed}")


def parameter_json(machine: Machine, event: Event) -> dict[str, Any]:
    """The parameters of an event as JSON."""
    action = machine.system.action(event.action)
    found: dict[str, Any] = {}
    for parameter in action.parameters:
        value = event.names[parameter.name]
        if isinstance(parameter, MapSymbol):
            found[parameter.name] = {
                member_name(parameter.domain, place): value_json(parameter.codomain, item)
                for place, item in enumerate(as_map(value, parameter.name))
            }
        else:
            found[parameter.name] = value_json(parameter.type, value)  # type: ignore[arg-type]
    return found


def as_map(value: Bound, name: str) -> tuple[Value, ...]:
    """The values of a map parameter, or an error for a value that is no map."""
    if not isinstance(value, tuple):
        raise TypeError(f"{name} is a map parameter, found {value!r}")
    return value


def parse_event(machine: Machine, action: str, parameters: dict[str, Any], where: str) -> Event:
    """The event of a JSON step; errors name the step, what was found and what exists."""
    if action not in machine.system.actions:
        known = ", ".join(sorted(machine.system.actions))
        raise ValueError(f"{where}: found action {action!r}, expected one of {known}")
    wanted = machine.system.action(action).parameters
    extra = sorted(set(parameters) - {p.name for p in wanted})
    if extra:
        raise ValueError(
            f"{where}: {action} has no parameter {', '.join(extra)}; it has "
            f"{', '.join(p.name for p in wanted) or 'none'}"
        )
    values: list[tuple[str, Bound]] = []
    for parameter in wanted:
        if parameter.name not in parameters:
            raise ValueError(f"{where}: {action} needs the parameter {parameter.name}")
        given, place = parameters[parameter.name], f"{where}, parameter {parameter.name}"
        if isinstance(parameter, MapSymbol):
            values.append((parameter.name, _parse_map(parameter, given, machine.instance, place)))
        else:
            value = value_from_json(parameter.type, given, machine.instance, place)
            values.append((parameter.name, value))
    return Event(action, tuple(values))


def _parse_map(
    parameter: MapSymbol, given: Any, instance: Instance, where: str
) -> tuple[Value, ...]:
    names = [member_name(parameter.domain, i) for i in range(instance.members(parameter.domain))]
    if not isinstance(given, dict) or set(given) != set(names):
        raise ValueError(f"{where}: found {given!r}, expected an object with {', '.join(names)}")
    return tuple(
        value_from_json(parameter.codomain, given[name], instance, f"{where}[{name}]")
        for name in names
    )


def show_event(machine: Machine, event: Event) -> str:
    """An event as a call: `publish(x=txn0)`."""
    parts = []
    for parameter in machine.system.action(event.action).parameters:
        value = event.names[parameter.name]
        if isinstance(parameter, MapSymbol) and isinstance(value, tuple):
            pairs = ", ".join(
                f"{member_name(parameter.domain, i)}->{show_value(parameter.codomain, item)}"
                for i, item in enumerate(value)
            )
            parts.append(f"{parameter.name}={{{pairs}}}")
        elif not isinstance(parameter, MapSymbol) and not isinstance(value, tuple):
            parts.append(f"{parameter.name}={show_value(parameter.type, value)}")
    return f"{event.action}({', '.join(parts)})"


def cells(machine: Machine, state: State) -> list[tuple[str, str]]:
    """Each variable at each index with its value, as text, in order: ("phase[handle0]", "READY")."""
    found = []
    for variable, table in zip(machine.system.variables.values(), state.tables, strict=True):
        for index, value in zip(indices(variable, machine.instance), table, strict=True):
            shown = ", ".join(show_value(k, i) for k, i in zip(variable.domain, index, strict=True))
            name = f"{variable.name}[{shown}]" if index else variable.name
            found.append((name, show_value(variable.type, value)))
    return found


def show_state(machine: Machine, state: State, before: State | None = None) -> str:
    """A state, one cell a line; with `before`, only the cells that changed."""
    old = dict(cells(machine, before)) if before is not None else {}
    lines = []
    for name, value in cells(machine, state):
        if before is None:
            lines.append(f"{name} = {value}")
        elif old[name] != value:
            lines.append(f"{name}: {old[name]} -> {value}")
    return "\n".join(lines)


def state_json(machine: Machine, state: State) -> dict[str, Any]:
    """A state as JSON: each variable as nested objects keyed by the members of its domain."""
    found: dict[str, Any] = {}
    for variable, table in zip(machine.system.variables.values(), state.tables, strict=True):
        for index, value in zip(indices(variable, machine.instance), table, strict=True):
            keys = [show_value(k, i) for k, i in zip(variable.domain, index, strict=True)]
            shown = value_json(variable.type, value)
            if not keys:
                found[variable.name] = shown
                continue
            level = found.setdefault(variable.name, {})
            for key in keys[:-1]:
                level = level.setdefault(key, {})
            level[keys[-1]] = shown
        found.setdefault(variable.name, {})
    return found


def parse_state(machine: Machine, given: Any, where: str) -> State:
    """The state that JSON gives; every variable at every index must be there, and nothing else."""
    variables = machine.system.variables
    if not isinstance(given, dict) or set(given) != set(variables):
        extra = sorted(set(given) - set(variables)) if isinstance(given, dict) else given
        missing = sorted(set(variables) - set(given)) if isinstance(given, dict) else []
        raise ValueError(
            f"{where}: expected an object with every variable of {machine.system.name}; unknown: "
            f"{extra or 'none'}; missing: {missing or 'none'}"
        )
    return State(
        tuple(
            tuple(_parse_table(variable, variable.domain, given[name], machine, f"{where}, {name}"))
            for name, variable in variables.items()
        )
    )


def _parse_table(
    variable: Variable, domain: tuple[Type, ...], given: Any, machine: Machine, where: str
) -> Iterator[Value]:
    """The values of a variable's table, in order, from objects nested as its domain is."""
    if not domain:
        yield value_from_json(variable.type, given, machine.instance, where)
        return
    keys = [show_value(domain[0], value) for value in values_of(domain[0], machine.instance)]
    if any(not machine.instance.members(kind) for kind in domain):
        keys = []  # a table without cells has no keys, however many members its first sort has
    found = set(given) if isinstance(given, dict) else set()
    for key in keys:
        if key not in found:
            raise ValueError(f"{where}[{key}]: missing")
    if len(found) > len(keys):
        raise ValueError(
            f"{where}: found {', '.join(sorted(found - set(keys)))}, expected "
            f"{', '.join(keys) or 'nothing'}"
        )
    for key in keys:
        yield from _parse_table(variable, domain[1:], given[key], machine, f"{where}[{key}]")


def show_reads(condition: Expr, env: Environment) -> str:
    """The variables that a formula reads, with their values, for the message of a refusal."""
    shown: dict[str, str] = {}
    _collect(condition, env, shown)
    return ", ".join(f"{name} = {value}" for name, value in shown.items()) or "no variable"


def _collect(expr: Expr, env: Environment, shown: dict[str, str]) -> None:
    """Note what gives the formula its value; of a quantifier one member that settles it, or all."""
    match expr:
        case Quantifier():
            for inner in _deciding(expr, env):
                _collect(expr.body, inner, shown)
            return
        case Read(variable=variable):
            index = [evaluate(part, env) for part in expr.index]
            text = ", ".join(show_value(k, i) for k, i in zip(variable.domain, index, strict=True))
            name = f"{variable.name}[{text}]" if index else variable.name
            shown[name] = show_value(variable.type, evaluate(expr, env))
        case Apply(function=function, argument=argument):
            text = show_value(function.domain, evaluate(argument, env))
            shown[f"{function.name}[{text}]"] = show_value(expr.type, evaluate(expr, env))
        case Bijective(function=function):
            for place, value in enumerate(as_map(env.names[function.name], function.name)):
                at = member_name(function.domain, place)
                shown[f"{function.name}[{at}]"] = show_value(function.codomain, value)
        case Symbol(role="parameter"):  # a parameter compared with the state
            shown[expr.name] = show_value(expr.type, evaluate(expr, env))
    for child in children(expr):
        _collect(child, env, shown)


def _deciding(expr: Quantifier, env: Environment) -> list[Environment]:
    """The first members for which `forall` fails or `exists` holds; all of them if there are none."""
    ranges = [values_of(symbol.type, env.instance) for symbol in expr.bound]
    inside = []
    for values in product(*ranges):
        names: dict[str, Bound] = {s.name: v for s, v in zip(expr.bound, values, strict=True)}
        inner = env.bind(names)
        if bool(evaluate(expr.body, inner)) == (expr.kind == "exists"):
            return [inner]
        inside.append(inner)
    return inside
