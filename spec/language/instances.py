"""Instances: a system with sizes, bounds, constants and initial choices, and what was counted on it.

An instance gives every open sort its number of members and every sort of naturals its largest value.
Limits restrict which actions are tried (`begin` only below the largest version), so that a search
stays inside the bounds; a step that would leave them is cut, counted, and makes a run incomplete.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs

from kvspec.spec.language.actions import Action
from kvspec.spec.language.errors import DefinitionError, listing
from kvspec.spec.language.expr import (
    Expr,
    Read,
    Type,
    boolean,
    coerce,
    free_symbols,
    walk,
)
from kvspec.spec.language.modules import System
from kvspec.spec.language.sorts import type_of
from kvspec.spec.language.variables import Variable


@attrs.frozen(repr=False, eq=False)
class Limit:
    """In an instance, `action` is tried only where `condition` (over its parameters) holds."""

    action: Action
    condition: Expr

    def __repr__(self) -> str:
        return f"{self.action.name} only if {self.condition!r}"


def limit(action: Action) -> Callable[[Callable[..., Expr]], Limit]:
    """Decorator: the function of the action's parameters, by name, says when the action is tried."""

    def make(function: Callable[..., Expr]) -> Limit:
        known = {parameter.name: parameter for parameter in action.parameters}
        names = list(inspect.signature(function).parameters)
        for name in names:
            if name not in known:
                raise DefinitionError(
                    f"{action.name} has no parameter {name}: it has {list(known)}"
                )
        condition = boolean(function(*(known[name] for name in names)), f"limit on {action.name}")
        return Limit(action, condition)

    return make


@attrs.frozen
class Counts:
    """What an exhaustive search of an instance must find; a figure that is None is not asserted.

    terminal: states without any step. symmetric: classes of states under all swaps of members of the
    open sorts that `swapped` names (none named: of all open sorts).
    """

    states: int
    transitions: int | None = None
    depth: int | None = None
    terminal: int | None = None
    symmetric: int | None = None
    swapped: tuple[str, ...] = ()


@attrs.frozen(repr=False, eq=False)
class Instance:
    """A system made finite. Made by `instance(...)`.

    sizes: members of each open sort, by name. bounds: largest value of each sort of naturals.
    constants: values. initial: variables pinned to one value at all indices, for those that start
    anywhere. expected: the counts that a complete search must give. slow: it takes minutes, and runs over
    all instances of a system leave it out unless it is asked for by name.
    """

    name: str
    system: System
    sizes: dict[str, int]
    bounds: dict[str, int]
    constants: dict[str, int]
    limits: tuple[Limit, ...]
    initial: dict[str, Expr]
    expected: Counts | None
    doc: str
    slow: bool = False

    def members(self, kind: Type) -> int:
        """How many values a type has in this instance (an option one more than its sort)."""
        if kind.kind == "bool":
            return 2
        if kind.kind == "enum":
            return len(kind.members)
        if kind.kind == "open":
            return self.sizes[kind.name]
        if kind.kind == "option" and kind.of is not None:
            return self.sizes[kind.of.name] + 1
        return self.bounds[kind.name] + 1

    def limits_on(self, action: Action) -> list[Expr]:
        """The conditions under which this instance tries the action."""
        return [found.condition for found in self.limits if found.action.name == action.name]

    def __repr__(self) -> str:
        sizes = " ".join(f"{k}={v}" for k, v in (*self.sizes.items(), *self.bounds.items()))
        return f"{self.system.name}/{self.name} ({sizes})"


def instance(
    name: str,
    system: System,
    sizes: Mapping[Any, int],
    *,
    constants: Mapping[Any, int] | None = None,
    limits: tuple[Limit, ...] = (),
    initial: Mapping[Variable, object] | None = None,
    expected: Counts | None = None,
    doc: str = "",
    slow: bool = False,
) -> Instance:
    """A checked instance; `sizes` maps sort classes to a number of members or a largest value."""
    known = system.sorts()
    given = {type_of(sort).name: value for sort, value in sizes.items()}
    for sort_name, value in given.items():
        if sort_name not in known:
            raise DefinitionError(
                f"instance {name} sizes {sort_name}, no sort of {system.name}: it has {listing(known)}"
            )
        if known[sort_name].kind == "enum":
            raise DefinitionError(
                f"instance {name} sizes {sort_name}, an enumeration: its members are listed already"
            )
        _check_number(f"instance {name}: the size of {sort_name}", value)
    needed = {n: kind for n, kind in known.items() if kind.kind in ("open", "natural")}
    missing = [n for n in needed if n not in given]
    if missing:
        raise DefinitionError(
            f"instance {name} leaves {', '.join(missing)} without a size or bound: give each a number"
        )
    fixed = {(c if isinstance(c, str) else c.name): v for c, v in (constants or {}).items()}
    if set(fixed) != set(system.constants):
        raise DefinitionError(
            f"instance {name} fixes the constants {listing(fixed)}; {system.name} has "
            f"{listing(system.constants)}"
        )
    for constant, value in fixed.items():
        _check_number(f"instance {name}: the constant {constant}", value)
    for variable in initial or {}:
        if system.variables.get(variable.name) is not variable:
            raise DefinitionError(
                f"instance {name} pins {variable}, no variable of {system.name}: it has "
                f"{listing(system.variables)}"
            )
    for restriction in limits:
        _check_limit(name, system, restriction)
    pinned = {
        variable.name: coerce(value, variable.type, f"the initial value of {variable.name}")
        for variable, value in (initial or {}).items()
    }
    return Instance(
        name,
        system,
        {n: v for n, v in given.items() if known[n].kind == "open"},
        {n: v for n, v in given.items() if known[n].kind == "natural"},
        fixed,
        limits,
        pinned,
        expected,
        doc,
        slow,
    )


def _check_number(what: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int):
        raise DefinitionError(f"{what} is {value!r}: give a whole number")
    if value < 0:
        raise DefinitionError(f"{what} is {value}, below 0")


def _check_limit(name: str, system: System, restriction: Limit) -> None:
    if system.own(restriction.action) is None:
        raise DefinitionError(
            f"instance {name} limits {restriction.action.name}, no action of {system.name}: it has "
            f"{listing(system.actions)}"
        )
    for node in walk(restriction.condition):
        if isinstance(node, Read) and (
            node.primed or system.variables.get(node.variable.name) is not node.variable
        ):
            raise DefinitionError(
                f"instance {name}: a limit reads {node!r}, no variable of {system.name} before the step"
            )
    for found in free_symbols(restriction.condition):
        if not any(found is parameter for parameter in restriction.action.parameters):
            raise DefinitionError(
                f"instance {name}: a limit on {restriction.action.name} uses {found!r}, which is none "
                "of its parameters"
            )
