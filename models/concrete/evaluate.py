"""The value of an expression in a state: the reference meaning of the language."""

from __future__ import annotations

from itertools import product

import attrs

from kvspec.models.concrete.state import State, Value, position, values_of
from kvspec.spec.language import (
    Apply,
    Bijective,
    Const,
    Expr,
    Fired,
    Instance,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variant,
)

Bound = Value | tuple[Value, ...]


@attrs.frozen
class Environment:
    """What an expression may refer to: a state, the one after the step, names, the step itself.

    names: parameters and bound members by name. fired: the action of the step and the code with
    which it was refused, if it was. variant: which mutant is read.
    """

    instance: Instance
    order: dict[str, int]
    state: State
    after: State | None = None
    names: dict[str, Bound] = attrs.field(factory=dict)
    fired: tuple[str, str | None] | None = None
    variant: int = 0

    def bind(self, names: dict[str, Bound]) -> Environment:
        """This environment with more names."""
        return attrs.evolve(self, names={**self.names, **names})


def evaluate(expr: Expr, env: Environment) -> Value:
    """The value of `expr`; see docs/engine-contract.md for the corner cases."""
    match expr:
        case Const(value=value):
            return value
        case Symbol():
            return _symbol(expr, env)
        case Read():
            state = env.after if expr.primed else env.state
            if state is None:
                raise ValueError(f"{expr!r} speaks of the state after a step, and there is no step")
            index = tuple(evaluate(part, env) for part in expr.index)
            place = position(expr.variable, index, env.instance)
            return state.tables[env.order[expr.variable.name]][place]
        case Op():
            return _operator(expr, env)
        case Quantifier():
            return _quantifier(expr, env)
        case Apply(function=function, argument=argument):
            return _map(function, env)[int(evaluate(argument, env) or 0)]
        case Bijective(function=function):
            values = _map(function, env)
            return len(set(values)) == len(values)
        case Fired(action=action, refusal=refusal):
            return env.fired == (action, refusal)
        case Variant(number=number, plain=plain, altered=altered):
            return evaluate(altered if number == env.variant else plain, env)
    raise TypeError(f"no meaning for a node of type {type(expr).__name__}")


def _map(function: MapSymbol, env: Environment) -> tuple[Value, ...]:
    values = env.names[function.name]
    if not isinstance(values, tuple):
        raise TypeError(f"{function.name} is a map parameter, found the value {values!r}")
    return values


def _symbol(symbol: Symbol, env: Environment) -> Value:
    if symbol.role == "constant":
        return env.instance.constants[symbol.name]
    if symbol.role == "top":
        return env.instance.bounds[symbol.type.name]
    value = env.names[symbol.name]
    if isinstance(value, tuple):
        raise TypeError(f"{symbol.name} is no map parameter, found the value {value!r}")
    return value


def _quantifier(expr: Quantifier, env: Environment) -> bool:
    ranges = [values_of(symbol.type, env.instance) for symbol in expr.bound]
    found = (
        bool(
            evaluate(expr.body, env.bind({s.name: v for s, v in zip(expr.bound, vs, strict=True)}))
        )
        for vs in product(*ranges)
    )
    return all(found) if expr.kind == "forall" else any(found)


def _operator(expr: Op, env: Environment) -> Value:
    args = expr.args
    match expr.op:
        case "not":
            return not evaluate(args[0], env)
        case "and":
            return all(evaluate(arg, env) for arg in args)
        case "or":
            return any(evaluate(arg, env) for arg in args)
        case "implies":
            return not evaluate(args[0], env) or bool(evaluate(args[1], env))
        case "ite":
            return evaluate(args[1] if evaluate(args[0], env) else args[2], env)
        case "some":
            return evaluate(args[0], env)
        case "the":
            return evaluate(args[0], env) or 0
        case "eq":
            left, right = (evaluate(arg, env) for arg in args)
            return left == right
    left, right = (int(evaluate(arg, env) or 0) for arg in args)
    match expr.op:
        case "lt":
            return left < right
        case "le":
            return left <= right
        case "add":
            return left + right
        case "sub":
            return left - right
        case "mul":
            return left * right
        case "div":
            return left // right
    raise TypeError(f"no meaning for the operator {expr.op}")
