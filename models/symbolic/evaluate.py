"""Expressions and states as Z3 terms: one meaning for both domains.

A state is whatever gives a variable a value at an index. The state after a step is not made of
new symbols: it is the state before it with the assignments laid over, `v'[i] = (value if i =
target else v[i])`. So no frame condition is ever written, and a proof speaks of one state alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs
import z3

from kvspec.models.symbolic.domain import Domain, Table, Term
from kvspec.spec.language import (
    Apply,
    Assignment,
    Bijective,
    Const,
    Expr,
    Fired,
    MapSymbol,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variable,
    Variant,
)


class Store(Protocol):
    """A symbolic state."""

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """The value of a variable at an index."""


@attrs.frozen(eq=False)
class Scope:
    """What an expression may refer to.

    names: constants and parameters by name; bound: members of quantifiers and `every`, by identity;
    maps: function-valued parameters; fired: what `fired(action, refused=code)` stands for.
    """

    domain: Domain
    before: Store
    after: Store | None = None
    names: Mapping[str, Term] = {}
    maps: Mapping[str, Table] = {}
    bound: Mapping[int, Term] = {}
    fired: Mapping[tuple[str, str | None], Term] | None = None
    variant: int = 0

    def bind(self, symbols: tuple[Symbol, ...], values: tuple[Term, ...]) -> Scope:
        """This scope with more bound members."""
        more = {id(symbol): value for symbol, value in zip(symbols, values, strict=True)}
        return attrs.evolve(self, bound={**self.bound, **more})

    def value(self, expr: Expr) -> Term:
        """The term of an expression."""
        match expr:
            case Const(type=kind, value=value):
                return self.domain.literal(kind, value)
            case Symbol():
                return self._symbol(expr)
            case Read():
                store = self.after if expr.primed else self.before
                if store is None:
                    raise ValueError(
                        f"{expr!r} speaks of the state after a step, and there is none"
                    )
                return store.read(expr.variable, tuple(self.value(part) for part in expr.index))
            case Op():
                return self._operator(expr)
            case Quantifier(kind=kind, bound=bound, body=body):
                types = tuple(symbol.type for symbol in bound)
                names = " ".join(symbol.name for symbol in bound)
                return self.domain.quantify(
                    kind, types, lambda values: self.bind(bound, values).value(body), names
                )
            case Apply(function=function, argument=argument):
                return self.maps[function.name]((self.value(argument),))
            case Bijective(function=function):
                return self._bijective(function)
            case Fired(action=action, refusal=refusal):
                if self.fired is None:
                    raise ValueError(f"{expr!r} speaks of a step, and there is none")
                return self.fired.get((action, refusal), self.domain.truth(False))
            case Variant(number=number, plain=plain, altered=altered):
                return self.value(altered if number == self.variant else plain)
        raise TypeError(f"no meaning for a node of type {type(expr).__name__}")

    def _symbol(self, symbol: Symbol) -> Term:
        if id(symbol) in self.bound:
            return self.bound[id(symbol)]
        if symbol.role == "top":
            return self.domain.top(symbol.type)
        if symbol.role == "bound" or symbol.name not in self.names:
            raise ValueError(
                f"{symbol.role} {symbol.name} has no value here; there are {[*self.names]}"
            )
        return self.names[symbol.name]

    def _operator(self, expr: Op) -> Term:
        args = [self.value(arg) for arg in expr.args]
        match expr.op:
            case "not":
                return z3.Not(args[0])
            case "and":
                return z3.And(args)
            case "or":
                return z3.Or(args)
            case "implies":
                return z3.Implies(*args)
            case "ite":
                return z3.If(*args)
            case "eq":
                return args[0] == args[1]
            case "lt":
                return args[0] < args[1]
            case "le":
                return args[0] <= args[1]
            case "add":
                return args[0] + args[1]
            case "sub":
                return args[0] - args[1]
            case "mul":
                return args[0] * args[1]
            case "div":
                return self.domain.quotient(*args)
            case "some":
                return self.domain.some(expr.type, args[0])
            case "the":
                return self.domain.the(expr.args[0].type, args[0])
        raise TypeError(f"no meaning for the operator {expr.op}")

    def _bijective(self, function: MapSymbol) -> Term:
        """One-to-one and onto; the second follows on finite sorts alone."""
        table, domain, kind = self.maps[function.name], self.domain, function.domain
        one_to_one = domain.quantify(
            "forall",
            (kind, kind),
            lambda pair: z3.Implies(table((pair[0],)) == table((pair[1],)), pair[0] == pair[1]),
        )
        onto = domain.quantify(
            "forall",
            (kind,),
            lambda to: domain.quantify("exists", (kind,), lambda at: table(at) == to[0]),
        )
        return z3.And(one_to_one, onto)


class Tables:
    """A state of free tables; `inside` says that its values have their types."""

    def __init__(self, variables: Mapping[str, Variable], domain: Domain, prefix: str) -> None:
        self.tables: dict[str, Table] = {}
        self.inside: list[Term] = []
        for name, variable in variables.items():
            self.tables[name], more = domain.table(
                f"{prefix}.{name}", variable.domain, variable.type
            )
            self.inside.extend(more)

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """The value of the table."""
        return self.tables[variable.name](index)


class Initial:
    """The initial state: what a variable starts with, or any value where it may start anywhere.

    free: the tables of those. pinned: initial values that an instance fixes.
    """

    def __init__(self, scope: Scope, free: Store, pinned: Mapping[str, Expr] | None = None) -> None:
        self.scope = scope
        self.free = free
        self.pinned = pinned or {}

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """The initial value at an index."""
        start = self.pinned.get(variable.name, variable.initial)
        if isinstance(start, Expr):
            return self.scope.bind(variable.binders, index).value(start)
        return self.free.read(variable, index)


class After:
    """The state after simultaneous assignments, evaluated in `scope`, the one before them."""

    def __init__(self, scope: Scope, assignments: tuple[Assignment, ...]) -> None:
        self.scope = scope
        self.changes = {done.variable.name: done for done in assignments}
        self._once: dict[str, tuple[list[tuple[int, Term]], Term]] = {}

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """The assigned value where the index is a target, else the value before."""
        done = self.changes.get(variable.name)
        if done is None:
            return self.scope.before.read(variable, index)
        if done.binders:
            targets, value = self._for_all(done, index)
        else:
            targets, value = self._for_one(done)
        conditions: list[Any] = []
        for place, target in targets:
            if (
                z3.is_bv_value(target)
                and z3.is_bv_value(index[place])
                and not target.eq(index[place])
            ):
                return self.scope.before.read(variable, index)
            if not target.eq(index[place]):
                conditions.append(index[place] == target)
        if not conditions:
            return value
        here = self.scope.domain.conjunction(conditions)
        return z3.If(here, value, self.scope.before.read(variable, index))

    def _for_one(self, done: Assignment) -> tuple[list[tuple[int, Term]], Term]:
        name = done.variable.name
        if name not in self._once:
            targets = [(place, self.scope.value(part)) for place, part in enumerate(done.index)]
            self._once[name] = (targets, self.scope.value(done.value))
        return self._once[name]

    def _for_all(
        self, done: Assignment, index: tuple[Term, ...]
    ) -> tuple[list[tuple[int, Term]], Term]:
        """Each binder stands for the part of the index at which it occurs as itself."""
        bound: dict[int, tuple[Symbol, Term]] = {}
        others: list[int] = []
        for place, part in enumerate(done.index):
            binder = next((b for b in done.binders if b is part), None)
            if binder is None or id(binder) in bound:
                others.append(place)
            else:
                bound[id(binder)] = (binder, index[place])
        symbols, values = zip(*bound.values(), strict=True)
        inner = self.scope.bind(symbols, values)
        return [(place, inner.value(done.index[place])) for place in others], inner.value(
            done.value
        )
