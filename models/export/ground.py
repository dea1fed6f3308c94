"""An instance unrolled: its cells, its initial values, and one ground step for each event.

The steps are what `models/concrete` takes, one by one: an accepted step for each event, and a refusal
for each guard that assigns something. What a limit or a bound keeps from being taken is part of a
step's guard, so that a checker which knows neither counts the same states.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product

import attrs

from kvspec.models.concrete import Event, Machine, show_event
from kvspec.models.concrete.state import Value, indices, values_of
from kvspec.models.export import terms
from kvspec.models.export.terms import Cell, Num, Term
from kvspec.spec.language import (
    Action,
    Apply,
    Assignment,
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
    Type,
    Variable,
    Variant,
)

Bound = Value | tuple[Value, ...]


@attrs.frozen
class Write:
    """`table[place] := value`, value and place taken from the state before the step."""

    table: str
    place: Term
    value: Term


@attrs.frozen
class Step:
    """One event taken: it is possible where `guard` holds, and does all writes at once.

    code: the refusal that it is, if it is one. The guard is `meant`, what the specification asks,
    and `allowed`, what limits and bounds of the instance let through.
    """

    event: Event
    label: str
    code: str | None
    guard: Term
    meant: Term
    allowed: Term
    writes: tuple[Write, ...]


@attrs.frozen
class Table:
    """A variable laid out flat. starts: for each cell the values that it may have at first."""

    variable: Variable
    top: int
    starts: tuple[tuple[Num, ...], ...]


def number(kind: Type, value: Value) -> Num:
    """A value of the language as the integer that stands for it."""
    match kind.kind:
        case "bool":
            return terms.truth(bool(value))
        case "enum":
            return Num(kind.members.index(str(value)), f"{kind.name}_{value}")
        case "option":
            return Num(0, "NONE") if value is None else Num(int(value) + 1, f"SOME({value})")
    return Num(int(value or 0))


class Ground:
    """An instance without quantifiers, parameters and sorts."""

    def __init__(self, instance: Instance, variant: int = 0) -> None:
        self.machine = Machine(instance, variant)
        self.instance = instance
        self.variant = variant
        self.tables = {v.name: self._table(v) for v in instance.system.variables.values()}

    def steps(self) -> list[Step]:
        """Every step that some state may allow, in the order of `Machine.events`."""
        found: list[Step] = []
        for event in self.machine.events():
            found.extend(self._steps_of(self.machine.system.action(event.action), event))
        return found

    def term(
        self,
        expr: Expr,
        names: dict[str, Bound] | None = None,
        fired: tuple[str, str | None] | None = None,
        writes: Iterable[Write] = (),
    ) -> Term:
        """The expression as a ground term; primed reads are taken from what the step writes."""
        return _Reader(self, fired, tuple(writes)).term(expr, names or {})

    def _table(self, variable: Variable) -> Table:
        starts = tuple(self._starts(variable, index) for index in indices(variable, self.instance))
        return Table(variable, self.instance.members(variable.type) - 1, starts)

    def _starts(self, variable: Variable, index: tuple[Value, ...]) -> tuple[Num, ...]:
        """The values with which one cell may start."""
        values = [number(variable.type, v) for v in values_of(variable.type, self.instance)]
        start = self.instance.initial.get(variable.name, variable.initial)
        if not isinstance(start, Expr):
            return tuple(values)
        names = {b.name: member for b, member in zip(variable.binders, index, strict=True)}
        found = self.term(start, dict(names))
        if not isinstance(found, Num) or found not in values:
            raise ValueError(
                f"{variable.name} starts at {start!r}, which is no value of {variable.type} in "
                f"{self.instance!r}: raise the bound or change the initial value"
            )
        return (found,)

    def _steps_of(self, action: Action, event: Event) -> list[Step]:
        names = event.names
        label = show_event(self.machine, event)
        limit = terms.conjunction(*(self.term(e, names) for e in self.instance.limits_on(action)))
        passed: list[Term] = []
        found: list[Step] = []
        for guard in action.guards:
            holds = self.term(guard.condition, names)
            if guard.refusal:
                meant = terms.conjunction(*passed, terms.negation(holds))
                text = f"{label} refused {guard.code.name}"
                found.append(self._step(event, text, guard.code.name, limit, meant, guard.refusal))
            passed.append(holds)
        meant = terms.conjunction(*passed)
        found.append(self._step(event, label, None, limit, meant, action.assignments))
        return [step for step in found if step.meant != terms.NO]

    def _step(
        self,
        event: Event,
        label: str,
        code: str | None,
        limit: Term,
        meant: Term,
        assignments: tuple[Assignment, ...],
    ) -> Step:
        writes: list[Write] = []
        bounds: list[Term] = []
        for done in assignments:
            ranges = [values_of(binder.type, self.instance) for binder in done.binders]
            for members in product(*ranges):
                inner: dict[str, Bound] = dict(event.names)
                inner.update({b.name: m for b, m in zip(done.binders, members, strict=True)})
                value = self.term(done.value, inner)
                if done.variable.type.kind == "natural":
                    top = self.instance.bounds[done.variable.type.name]
                    bounds.append(terms.within(value, top))
                place = self.place(done.variable, [self.term(i, inner) for i in done.index])
                if self.tables[done.variable.name].starts:
                    writes.append(Write(done.variable.name, place, value))
        allowed = terms.conjunction(limit, *bounds)
        guard = terms.conjunction(meant, allowed)
        return Step(event, label, code, guard, meant, allowed, tuple(writes))

    def place(self, variable: Variable, index: list[Term]) -> Term:
        """Where the index stands in the variable's flat table, row by row."""
        found: Term = Num(0)
        for kind, part in zip(variable.domain, index, strict=True):
            found = terms.sum_of(terms.scaled(found, self.instance.members(kind)), part)
        return found


@attrs.frozen
class _Reader:
    """Turns expressions into terms, for one step."""

    ground: Ground
    fired: tuple[str, str | None] | None
    writes: tuple[Write, ...]

    def term(self, expr: Expr, names: dict[str, Bound]) -> Term:
        """The ground term of an expression; `names` has parameters and bound members."""
        match expr:
            case Const(type=kind, value=value):
                return number(kind, value)
            case Symbol():
                return self._symbol(expr, names)
            case Read(variable=variable, index=index, primed=primed):
                return self._read(variable, [self.term(part, names) for part in index], primed)
            case Op():
                return self._operator(expr, names)
            case Quantifier(kind=kind, bound=bound, body=body):
                return self._quantifier(kind, bound, body, names)
            case Apply(function=function, argument=argument):
                return self._apply(function, self.term(argument, names), names)
            case Bijective(function=function):
                values = _map(function, names)
                return terms.truth(len(set(values)) == len(values))
            case Fired(action=action, refusal=refusal):
                return terms.truth(self.fired == (action, refusal))
            case Variant(number=variant, plain=plain, altered=altered):
                return self.term(altered if variant == self.ground.variant else plain, names)
        raise TypeError(f"{type(expr).__name__} has no ground term: add it to {__name__}")

    def _symbol(self, symbol: Symbol, names: dict[str, Bound]) -> Term:
        instance = self.ground.instance
        if symbol.role == "constant":
            return Num(instance.constants[symbol.name])
        if symbol.role == "top":
            return Num(instance.bounds[symbol.type.name])
        value = names[symbol.name]
        if isinstance(value, tuple):
            raise TypeError(f"{symbol.name} is no map parameter, found the value {value!r}")
        return number(symbol.type, value)

    def _read(self, variable: Variable, index: list[Term], primed: bool) -> Term:
        table = self.ground.tables[variable.name]
        if not table.starts:
            return Num(0)
        place = self.ground.place(variable, index)
        found: Term = Cell(variable.name, place, table.top)
        for write in self.writes if primed else ():
            if write.table == variable.name:
                found = terms.choice(terms.equals(write.place, place), write.value, found)
        return found

    def _quantifier(
        self, kind: str, bound: tuple[Symbol, ...], body: Expr, names: dict[str, Bound]
    ) -> Term:
        ranges = [values_of(symbol.type, self.ground.instance) for symbol in bound]
        parts = [
            self.term(body, {**names, **{s.name: v for s, v in zip(bound, members, strict=True)}})
            for members in product(*ranges)
        ]
        return terms.conjunction(*parts) if kind == "forall" else terms.disjunction(*parts)

    def _apply(self, function: MapSymbol, argument: Term, names: dict[str, Bound]) -> Term:
        values = [number(function.codomain, value) for value in _map(function, names)] or [Num(0)]
        if isinstance(argument, Num):
            return values[argument.value]
        found: Term = values[-1]
        for place, value in reversed(list(enumerate(values[:-1]))):
            found = terms.choice(terms.equals(argument, Num(place)), value, found)
        return found

    def _operator(self, expr: Op, names: dict[str, Bound]) -> Term:
        args = [self.term(arg, names) for arg in expr.args]
        match expr.op:
            case "not":
                return terms.negation(args[0])
            case "and":
                return terms.conjunction(*args)
            case "or":
                return terms.disjunction(*args)
            case "implies":
                return terms.disjunction(terms.negation(args[0]), args[1])
            case "ite":
                return terms.choice(*args)
            case "some":
                return terms.some(args[0])
            case "the":
                return terms.member_of(args[0])
            case "eq":
                return terms.equals(*args)
            case "lt":
                return terms.less(*args)
            case "le":
                return terms.at_most(*args)
            case "add":
                return terms.sum_of(*args)
            case "sub":
                return terms.difference(*args)
            case "mul":
                return terms.product_of(*args)
            case "div":
                return terms.quotient(*args)
        raise TypeError(f"the operator {expr.op} has no ground term: add it to {__name__}")


def _map(function: MapSymbol, names: dict[str, Bound]) -> tuple[Value, ...]:
    values = names[function.name]
    if not isinstance(values, tuple):
        raise TypeError(f"{function.name} is a map parameter, found the value {values!r}")
    return values
