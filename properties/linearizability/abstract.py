"""Abstract values: what an expression may be in the states of a history, and on which cells it depends.

Modelled: of each cell the values it may have, as a set, or all of its type. Of cells that decide which
other cells an action speaks of (the handle that an append is to) the sets are joint with the
enumerations beside them, one set of tuples for each member: an append that is prepared has a handle.
Left out: sums over long ranges; a natural with more than a few values may have any.
Assumed: states are reached from one start by the events given.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import product
from typing import Any, Final

import attrs

from kvspec.models.concrete.compiled import Layout
from kvspec.models.concrete.state import State, Value, values_of
from kvspec.models.explicit.linearizer import Limits
from kvspec.spec.language import (
    Apply,
    Bijective,
    Const,
    Expr,
    Instance,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variable,
    Variant,
)
from kvspec.spec.language.actions import expressions
from kvspec.spec.language.expr import Type, key, walk

Values = frozenset[Any] | None
"""The values that something may have; None: any of its type."""

MOST_NATURALS: Final = 2
MOST_SUMS: Final = 16
_EITHER: Final[Values] = frozenset((False, True))
_SUMS: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul": operator.mul,
    "div": operator.floordiv,
}


@attrs.frozen
class Found:
    """What an expression may be, and the cells that this depends on, as bits."""

    values: Values
    reads: int = 0

    @property
    def known(self) -> bool:
        """It has one value, so that no state matters to it."""
        return self.values is not None and len(self.values) == 1

    def is_only(self, value: object) -> bool:
        """It has this value and no other."""
        return self.values is not None and self.values == {value}


def found(values: Values, reads: int) -> Found:
    """A finding; what has one value depends on nothing."""
    return Found(values, 0 if values is not None and len(values) == 1 else reads)


class Reached:
    """The values that cells may have in the states reached, growing until nothing is added."""

    def __init__(self, instance: Instance, start: State, limits: Limits) -> None:
        self.limits = limits
        self.instance = instance
        self.layout = Layout(instance)
        self.types: list[Type] = []
        for variable in instance.system.variables.values():
            self.types.extend([variable.type] * self.layout.count(variable))
        flat = [value for table in start.tables for value in table]
        self.cells: list[Values] = [frozenset((value,)) for value in flat]
        self.groups = groups_of(instance)
        self.records: dict[tuple[str, int], set[tuple[Value, ...]]] = {}
        for sort, variables in self.groups.items():
            for member in range(instance.sizes[sort]):
                places = [self.layout.place(variable, member) for variable in variables]
                self.records[sort, member] = {tuple(flat[place] for place in places)}
        self.grown = False
        self._places: dict[tuple[Any, ...], int] = {}

    def place(self, variable: Variable, *index: int) -> int:
        """The cell of a variable at an index, looked up once."""
        known = self._places.get((variable.name, *index))
        if known is None:
            known = self._places[variable.name, *index] = self.layout.place(variable, *index)
        return known

    def add(self, cell: int, values: Values) -> None:
        """The cell may have these values as well."""
        before = self.cells[cell]
        if before is None:
            return
        after = None if values is None else before | values
        if after is not None and self.types[cell].kind == "natural" and len(after) > MOST_NATURALS:
            after = None
        if after != before:
            self.cells[cell] = after
            self.grown = True

    def add_record(self, sort: str, member: int, record: tuple[Value, ...]) -> None:
        """The cells of a member may have these values together."""
        if record not in self.records[sort, member]:
            self.records[sort, member].add(record)
            self.grown = True


def groups_of(instance: Instance) -> dict[str, tuple[Variable, ...]]:
    """For each sort the variables over it of which values are kept together.

    Those that an index speaks of, and the enumerations beside them.
    """
    names: set[str] = set()
    for action in instance.system.actions.values():
        assigned = [*action.assignments, *(a for g in action.guards for a in g.refusal)]
        indices = [part for done in assigned for part in done.index]
        for expr in expressions(action):
            for node in walk(expr):
                indices.extend(node.index if isinstance(node, Read) else ())
        for part in indices:
            names |= {node.variable.name for node in walk(part) if isinstance(node, Read)}
    groups: dict[str, tuple[Variable, ...]] = {}
    variables = instance.system.variables.values()
    for variable in variables:
        if variable.name in names and [kind.kind for kind in variable.domain] == ["open"]:
            groups[variable.domain[0].name] = tuple(
                other
                for other in variables
                if other.domain == variable.domain
                and (other.type.kind == "enum" or other.name in names)
                and other.type.kind != "natural"
            )
    return groups


class Evaluator:
    """Expressions over abstract values. names: symbols that are known. case: cells taken to be known.

    assumed: conditions, by their `key`, taken to hold or not.
    """

    def __init__(self, reached: Reached) -> None:
        self.reached = reached
        self.instance = reached.instance
        self.layout = reached.layout
        self.names: dict[str, Any] = {}
        self.case: dict[int, Value] = {}
        self.assumed: dict[Any, bool] = {}

    def find(self, expr: Expr) -> Found:
        """What the expression may be."""
        match expr:
            case Const(value=value):
                return Found(frozenset((value,)))
            case Symbol():
                return self._symbol(expr)
            case Read():
                return self._read(expr)
            case Op():
                return self._operator(expr)
            case Quantifier():
                return self._quantifier(expr)
            case Apply(function=function, argument=argument):
                return self._apply(self.names.get(function.name), self.find(argument))
            case Bijective(function=function):
                given = self.names.get(function.name)
                return Found(
                    _EITHER if given is None else frozenset((len(set(given)) == len(given),))
                )
            case Variant(plain=plain):
                return self.find(plain)
        raise TypeError(f"{expr!r} speaks of a step, and a step's own guards and values cannot")

    def members(self, symbols: Sequence[Symbol]) -> Iterator[tuple[Value, ...]]:
        """Bind the symbols to each choice of members in turn."""
        for chosen in product(*(values_of(symbol.type, self.instance) for symbol in symbols)):
            self.reached.limits.check()
            for symbol, member in zip(symbols, chosen, strict=True):
                self.names[symbol.name] = member
            yield chosen

    def cells(self, variable: Variable, index: tuple[Expr, ...]) -> tuple[list[int], int]:
        """The cells that an index may speak of, and what that depends on."""
        reads, parts = 0, []
        for kind, part in zip(variable.domain, index, strict=True):
            one = self.find(part)
            reads |= one.reads
            if one.known and kind.kind == "open":
                parts.append(list(one.values or ()))
                continue
            every = values_of(kind, self.instance)
            parts.append([n for n, v in enumerate(every) if one.values is None or v in one.values])
        return [self.reached.place(variable, *chosen) for chosen in product(*parts)], reads

    def values(self, cell: int) -> Values:
        """What a cell may be."""
        if cell in self.case:
            return frozenset((self.case[cell],))
        return self.reached.cells[cell]

    def _quantifier(self, expr: Quantifier) -> Found:
        outer = dict(self.names)
        cases = (self.find(expr.body) for _ in self.members(expr.bound))
        whole = self._all(cases) if expr.kind == "forall" else self._any(cases)
        self.names = outer
        return whole

    def _symbol(self, symbol: Symbol) -> Found:
        if symbol.role == "constant":
            return Found(frozenset((self.instance.constants[symbol.name],)))
        if symbol.role == "top":
            return Found(frozenset((self.instance.bounds[symbol.type.name],)))
        value = self.names.get(symbol.name, _unknown)
        return Found(None if value is _unknown else frozenset((value,)))

    def _read(self, expr: Read) -> Found:
        cells, reads = self.cells(expr.variable, expr.index)
        values = _union(self.values(cell) for cell in cells)
        for cell in cells:
            reads |= 0 if cell in self.case else 1 << cell
        return found(values, reads)

    def _apply(self, given: Any, argument: Found) -> Found:
        if given is None:
            return Found(None, argument.reads)
        chosen = range(len(given)) if argument.values is None else argument.values
        return found(frozenset(given[place] for place in chosen), argument.reads)

    def _operator(self, expr: Op) -> Found:
        args = expr.args
        match expr.op:
            case "not":
                return self._not(self.find(args[0]))
            case "and":
                return self._all(self.find(arg) for arg in args)
            case "or":
                return self._any(self.find(arg) for arg in args)
            case "implies":
                left = self._not(self.find(args[0]))
                return self._any((left, self.find(args[1])))
            case "ite":
                return self._choose(expr)
            case "some":
                return self.find(args[0])
            case "the":
                inner = self.find(args[0])
                if inner.values is None:
                    return inner
                return found(frozenset(value or 0 for value in inner.values), inner.reads)
        one, two = self.find(args[0]), self.find(args[1])
        reads = one.reads | two.reads
        if one.values is None or two.values is None:
            return Found(None if expr.op in _SUMS else _EITHER, reads)
        return found(self._combine(expr.op, one.values, two.values), reads)

    def _combine(self, op: str, one: frozenset[Any], two: frozenset[Any]) -> Values:
        if op == "eq":
            same = {True} if one & two else set()
            return frozenset(same | ({False} if len(one | two) > 1 else set()))
        if op in _SUMS:
            if len(one) * len(two) > MOST_SUMS:
                return None
            return frozenset(_SUMS[op](a, b) for a in one for b in two)
        holds = operator.lt if op == "lt" else operator.le
        return frozenset(holds(a, b) for a in one for b in two)

    def condition(self, expr: Expr) -> Found:
        """A condition, which may be assumed."""
        taken = self.assumed.get(key(expr)) if self.assumed else None
        return (
            self.find(expr) if taken is None else Found(frozenset((taken,)), self.find(expr).reads)
        )

    def _choose(self, expr: Op) -> Found:
        condition = self.condition(expr.args[0])
        if condition.is_only(True):
            return self._after(self.find(expr.args[1]), condition)
        if condition.is_only(False):
            return self._after(self.find(expr.args[2]), condition)
        one, two = self.find(expr.args[1]), self.find(expr.args[2])
        return found(_union((one.values, two.values)), condition.reads | one.reads | two.reads)

    @staticmethod
    def _after(chosen: Found, condition: Found) -> Found:
        return Found(chosen.values, chosen.reads | condition.reads)

    @staticmethod
    def _not(one: Found) -> Found:
        return Found(one.values and frozenset(not value for value in one.values), one.reads)

    @staticmethod
    def _all(parts: Iterable[Found]) -> Found:
        reads, is_open = 0, False
        for part in parts:
            if part.is_only(False):
                return Found(frozenset((False,)))
            if not part.is_only(True):
                is_open = True
                reads |= part.reads
        return Found(_EITHER if is_open else frozenset((True,)), reads)

    def _any(self, parts: Iterable[Found]) -> Found:
        return self._not(self._all(self._not(part) for part in parts))


class _Unknown:
    """No value is known."""


_unknown: Final = _Unknown()


def _union(parts: Iterable[Values]) -> Values:
    whole: set[Any] = set()
    for part in parts:
        if part is None:
            return None
        whole |= part
    return frozenset(whole)
