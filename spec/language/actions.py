"""Actions: one function each, run once on symbols, recorded as guards and simultaneous assignments.

Guards come first, in the order in which failures are told. A guard that fails refuses the step with
its code; the refusal changes nothing, or just what is written beside the guard. What an action does
not assign does not change.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import attrs

from kvspec.spec.language.errors import DefinitionError, caller, listing
from kvspec.spec.language.expr import (
    Expr,
    Fired,
    MapSymbol,
    Op,
    Read,
    Symbol,
    boolean,
    coerce,
    free_symbols,
    walk,
)
from kvspec.spec.language.sorts import map_types, type_of
from kvspec.spec.language.variables import ErrorCode, Variable


@attrs.frozen(repr=False, eq=False)
class Assignment:
    """`variable[index] := value` for all members of the sorts of `binders` (none: once).

    Every binder occurs in the index as itself, so no member is assigned twice.
    """

    variable: Variable
    index: tuple[Expr, ...]
    binders: tuple[Symbol, ...]
    value: Expr
    place: tuple[str, int]


@attrs.frozen(repr=False, eq=False)
class Guard:
    """A condition of an action, the code when it fails, and what such a refusal assigns."""

    condition: Expr
    code: ErrorCode
    refusal: tuple[Assignment, ...]
    place: tuple[str, int]


@attrs.frozen(repr=False, eq=False)
class Action:
    """A named step: parameters (symbols and maps), guards in order, simultaneous assignments.

    extends: the action of which this one is an extension, or None.
    """

    name: str
    module: str
    doc: str
    parameters: tuple[Symbol | MapSymbol, ...]
    guards: tuple[Guard, ...]
    assignments: tuple[Assignment, ...]
    place: tuple[str, int]
    extends: Action | None = None

    def guard(self, code: str) -> Guard:
        """The guard that refuses with `code`."""
        for guard in self.guards:
            if guard.code.name == code:
                return guard
        raise KeyError(f"{self.name} has no guard {code}; it has {[g.code for g in self.guards]}")

    def __repr__(self) -> str:
        from kvspec.spec.language.show import show_action

        return show_action(self)


class Step:
    """What an action's function is given: it records guards and assignments."""

    def __init__(self, action: str, may_write: Callable[[Variable], str | None]) -> None:
        self._action = action
        self._may_write = may_write
        self._binders: list[Symbol] = []
        self.guards: list[Guard] = []
        self.assignments: list[Assignment] = []

    def require(
        self,
        condition: Expr,
        code: ErrorCode,
        refused: Mapping[Any, object] | Callable[[Step], None] | None = None,
    ) -> None:
        """The step needs `condition`, else it is refused with `code`.

        refused: what such a refusal assigns, by default nothing: `{state[x]: REJECTED}`, or a
        function of a step that makes assignments.
        """
        if self.assignments:
            raise DefinitionError(
                f"{self._action}: a guard ({code}) after an assignment: write all guards first"
            )
        if self._binders:
            raise DefinitionError(f"{self._action}: a guard within every(): use forall()")
        if not isinstance(code, ErrorCode):
            raise DefinitionError(f"{self._action}: a guard needs an ErrorCode, found {code!r}")
        if any(code.name == guard.code.name for guard in self.guards):
            raise DefinitionError(
                f"{self._action}: two guards refuse with {code}: give each guard its own code"
            )
        if self.guards and code.order and code.order < max(g.code.order for g in self.guards):
            raise DefinitionError(
                f"{self._action}: the guard {code} comes after one of a later failure class: keep "
                "the order in which failures are told"
            )
        formula = boolean(condition, f"the guard {code}")
        self.guards.append(Guard(formula, code, self._refusal(code, refused), caller()))

    def _refusal(
        self, code: ErrorCode, refused: Mapping[Any, object] | Callable[[Step], None] | None
    ) -> tuple[Assignment, ...]:
        effect = Step(f"{self._action} refused with {code}", self._may_write)
        if callable(refused):
            refused(effect)
        else:
            for target, value in (refused or {}).items():
                effect.assign(target, value)
        if effect.guards:
            raise DefinitionError(f"{self._action}: the refusal with {code} has guards of its own")
        return tuple(effect.assignments)

    def assign(self, target: Expr, value: object) -> None:
        """After the step `target` (a variable at an index) has the value of `value` before it."""
        self._add(self.assignments, target, value, tuple(self._binders))

    def every(self, sort: Any) -> Iterator[Any]:
        """`for layer in step.every(Layer)`: what the loop assigns is assigned for all members."""
        kind = type_of(sort)
        if kind.kind not in ("open", "enum"):
            raise DefinitionError(
                f"{self._action}: every() ranges over open sorts and enumerations"
            )
        binder = Symbol(kind, f"{kind.name.lower()}_{len(self._binders)}", "bound")
        self._binders.append(binder)
        try:
            yield binder
        finally:  # also when the loop is left by break
            self._binders.pop()

    def _add(
        self, record: list[Assignment], target: Any, value: object, binders: tuple[Symbol, ...]
    ) -> None:
        if not isinstance(target, Read) or target.primed:
            raise DefinitionError(
                f"{self._action}: assigned to {target!r}: assign to a variable at an index"
            )
        variable = target.variable
        refusal = self._may_write(variable)
        if refusal is not None:
            raise DefinitionError(f"{self._action}: {refusal}")
        if any(done.variable is variable for done in record):
            raise DefinitionError(
                f"{self._action}: {variable.name} is assigned twice: assignments are simultaneous, so "
                "write one, with where() or every()"
            )
        for binder in binders:
            if not any(part is binder for part in target.index):
                raise DefinitionError(
                    f"{self._action}: {variable.name} is assigned for every {binder.type}, which is "
                    "not among its indices: index by it, or assign outside every()"
                )
        expr = coerce(value, variable.type, f"the value assigned to {variable.name}")
        record.append(Assignment(variable, target.index, binders, expr, caller()))


def record_action(
    function: Callable[..., None], module: str, may_write: Callable[[Variable], str | None]
) -> Action:
    """Run the function once on symbols and return what it recorded."""
    code = function.__code__
    place = (code.co_filename, code.co_firstlineno)
    name = function.__name__
    doc = inspect.getdoc(function)
    if not doc:
        raise DefinitionError(f"{name} has no docstring: say in one sentence what it does", place)
    parameters = parameters_of(function, name, place)
    step = Step(name, may_write)
    function(step, *parameters)
    if not step.guards and not step.assignments:
        raise DefinitionError(f"{name} has neither guards nor assignments", place)
    action = Action(
        name, module, doc, parameters, tuple(step.guards), tuple(step.assignments), place
    )
    check_action(action)
    return action


def check_action(action: Action) -> None:
    """Refuse an action whose parameters have no bound, or whose formulas use what is not theirs."""
    for parameter in action.parameters:
        if isinstance(parameter, Symbol) and parameter.type.kind == "natural":
            _check_bounded(action, parameter)
    _check_names(action)
    for expr in expressions(action):
        for node in walk(expr):
            if isinstance(node, Fired) or (isinstance(node, Read) and node.primed):
                raise DefinitionError(
                    f"{action.name} uses {node!r}: after() and fired() are for properties"
                )
            if isinstance(node, Symbol) and node.role == "top":
                raise DefinitionError(
                    f"{action.name} uses {node!r}: bounds of an instance belong into limits, not actions"
                )


def expressions(action: Action) -> Iterator[Expr]:
    """Every expression of an action: guards, then indices and values of its assignments."""
    for guard in action.guards:
        yield guard.condition
        for done in guard.refusal:
            yield from (*done.index, done.value)
    for done in action.assignments:
        yield from (*done.index, done.value)


def _check_names(action: Action) -> None:
    """Every name in an action is a parameter of its own, or a member of the every() it stands in."""
    assignments = [*action.assignments, *(d for g in action.guards for d in g.refusal)]
    inside: list[tuple[Expr, tuple[Symbol, ...]]] = [(g.condition, ()) for g in action.guards]
    inside += [(e, done.binders) for done in assignments for e in (*done.index, done.value)]
    known = [parameter.name for parameter in action.parameters]
    for expr, binders in inside:
        for found in free_symbols(expr):
            if not any(found is symbol for symbol in (*action.parameters, *binders)):
                raise DefinitionError(
                    f"{action.name} uses {found!r} in `{expr!r}`, which is neither a parameter "
                    f"({listing(known)}) nor a member of the every() it stands in"
                )
    for done in assignments:
        for binder in done.binders:
            if binder.name in known:
                raise DefinitionError(
                    f"{action.name} has a parameter {binder.name}, which every() needs for the "
                    f"members of {binder.type}: choose another name",
                    action.place,
                )


def parameters_of(
    function: Callable[..., None], name: str, place: tuple[str, int]
) -> tuple[Symbol | MapSymbol, ...]:
    """The symbols that stand for a function's parameters, all but the first one (the step)."""
    found: list[Symbol | MapSymbol] = []
    signature = inspect.signature(function, eval_str=True)
    for parameter in list(signature.parameters.values())[1:]:
        if parameter.annotation is inspect.Parameter.empty:
            raise DefinitionError(f"{name}: parameter {parameter.name} has no sort", place)
        maps = map_types(parameter.annotation)
        if maps is not None:
            found.append(MapSymbol(parameter.name, *maps))
        else:
            found.append(Symbol(type_of(parameter.annotation), parameter.name, "parameter"))
    return tuple(found)


def _conjuncts(expr: Expr) -> Iterator[Expr]:
    if isinstance(expr, Op) and expr.op == "and":
        for arg in expr.args:
            yield from _conjuncts(arg)
    else:
        yield expr


def _grows(expr: Expr, parameter: Symbol) -> bool:
    """Whether the sum or difference grows with the parameter."""
    if isinstance(expr, Op) and expr.op == "add":
        return any(_grows(arg, parameter) for arg in expr.args)
    if isinstance(expr, Op) and expr.op == "sub":
        return _grows(expr.args[0], parameter) or _shrinks(expr.args[1], parameter)
    return expr is parameter


def _shrinks(expr: Expr, parameter: Symbol) -> bool:
    """Whether the sum or difference shrinks as the parameter grows."""
    if isinstance(expr, Op) and expr.op == "add":
        return any(_shrinks(arg, parameter) for arg in expr.args)
    if isinstance(expr, Op) and expr.op == "sub":
        return _shrinks(expr.args[0], parameter) or _grows(expr.args[1], parameter)
    return False


def _bounds(part: Expr, parameter: Symbol) -> bool:
    """Whether the comparison leaves the parameter finitely many values."""
    if not isinstance(part, Op) or part.op not in ("eq", "le", "lt"):
        return False
    less, more = part.args
    if _grows(less, parameter) or _shrinks(more, parameter):
        return True
    return part.op == "eq" and (_shrinks(less, parameter) or _grows(more, parameter))


def _check_bounded(action: Action, parameter: Symbol) -> None:
    """A natural parameter must be bounded above by a guard, or no instance could list its values."""
    for guard in action.guards:
        if any(_bounds(part, parameter) for part in _conjuncts(guard.condition)):
            return
    raise DefinitionError(
        f"{action.name}: parameter {parameter.name} of {parameter.type} has no upper bound: add a "
        f"guard such as `{parameter.name} <= ...` or `{parameter.name} == ...`",
        action.place,
    )
