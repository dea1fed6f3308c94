"""Facts: formulas of the specification about one handle, read in a state of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from kvspec.models.concrete import Machine, State, evaluate
from kvspec.models.concrete.state import Value
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Symbol, type_of

_HANDLE: Final = Symbol(type_of(Handle), "the_handle", "bound")


def fact(machine: Machine, state: State, formula: Callable[[Expr], Expr], handle: int) -> Value:
    """The value of a formula of one handle in a state."""
    return evaluate(formula(_HANDLE), machine.environment(state, names={_HANDLE.name: handle}))


def count(machine: Machine, state: State, formula: Callable[[Expr], Expr], handle: int) -> int:
    """The value of a formula that is a number."""
    return int(fact(machine, state, formula, handle) or 0)


def facts(
    machine: Machine, state: State, formulas: Callable[[Expr], dict[str, Expr]], handle: int
) -> dict[str, Value]:
    """The values of several formulas of one handle, by name."""
    env = machine.environment(state, names={_HANDLE.name: handle})
    return {name: evaluate(formula, env) for name, formula in formulas(_HANDLE).items()}
