"""A system in a domain: its constants, the state before a step, the calls of its actions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cached_property

import attrs
import z3

from kvspec.models.symbolic.domain import Domain, Table, Term
from kvspec.models.symbolic.evaluate import After, Scope, Store, Tables
from kvspec.spec.language import (
    Action,
    Assignment,
    Const,
    Expr,
    MapSymbol,
    Op,
    Property,
    Read,
    System,
    Type,
    walk,
)
from kvspec.spec.language.actions import expressions


@attrs.frozen(eq=False)
class Outcome:
    """What can come of an action: accepted, or refused by the guard at place `refused_by`."""

    action: Action
    refused_by: int | None = None

    @property
    def code(self) -> str | None:
        """The code of the refusal."""
        return None if self.refused_by is None else self.action.guards[self.refused_by].code.name

    @property
    def name(self) -> str:
        """The action, and the code of the refusal: `publish`, `publish!STALE_BASE`."""
        return self.action.name if self.code is None else f"{self.action.name}!{self.code}"

    @property
    def assignments(self) -> tuple[Assignment, ...]:
        """What the outcome assigns."""
        if self.refused_by is None:
            return self.action.assignments
        return self.action.guards[self.refused_by].refusal

    @property
    def writes(self) -> frozenset[str]:
        """The variables that it assigns."""
        return frozenset(done.variable.name for done in self.assignments)


def outcomes(action: Action) -> Iterator[Outcome]:
    """The transitions of an action: accepted, and each refusal that assigns something."""
    yield Outcome(action)
    for place, guard in enumerate(action.guards):
        if guard.refusal:
            yield Outcome(action, place)


def reads(*exprs: Expr) -> frozenset[str]:
    """The variables that expressions read."""
    return frozenset(n.variable.name for e in exprs for n in walk(e) if isinstance(n, Read))


@attrs.frozen(eq=False)
class Call:
    """An action with symbolic parameters; `inside` says that they have their types."""

    action: Action
    names: Mapping[str, Term]
    maps: Mapping[str, Table]
    inside: tuple[Term, ...]


@attrs.frozen(eq=False)
class Taken:
    """An outcome from a state: when it comes about, and the state it leads to."""

    outcome: Outcome
    call: Call
    scope: Scope
    after: After
    enabled: tuple[Term, ...]

    def claim(self, body: Expr) -> Term:
        """A formula of the step."""
        fired = {(self.outcome.action.name, self.outcome.code): self.scope.domain.truth(True)}
        return attrs.evolve(self.scope, after=self.after, fired=fired).value(body)

    def later(self, body: Expr) -> Term:
        """A formula of one state, in the state that the step leads to."""
        return attrs.evolve(self.scope, before=self.after).value(body)


class World:
    """A system over a domain.

    constants: values that an instance fixes; without them they are any naturals. known: what is
    taken for granted of the state before a step.
    """

    def __init__(
        self,
        system: System,
        domain: Domain,
        known: Iterable[Property] = (),
        constants: Mapping[str, int] | None = None,
        variant: int = 0,
    ) -> None:
        self.system = system
        self.domain = domain
        self.known = tuple(known)
        self.variant = variant
        self.constants: dict[str, Term] = {}
        self.typing: list[Term] = []
        for name, symbol in system.constants.items():
            if constants is not None:
                self.constants[name] = domain.literal(symbol.type, constants[name])
                continue
            table, inside = domain.table(f"const.{name}", (), symbol.type)
            self.constants[name] = table(())
            self.typing.extend(inside)
        self.before = Tables(system.variables, domain, "pre")
        self._calls: dict[str, Call] = {}

    def scope(self, before: Store | None = None) -> Scope:
        """The scope of formulas of one state."""
        return Scope(self.domain, before or self.before, names=self.constants, variant=self.variant)

    @cached_property
    def given(self) -> list[Term]:
        """Typing of the state and constants, and all that is known of reachable states."""
        scope = self.scope()
        return [
            *self.typing,
            *self.before.inside,
            *(scope.value(claim.body) for claim in self.known),
        ]

    def call(self, action: Action, prefix: str = "par") -> Call:
        """The action with free parameters."""
        key = f"{prefix}.{action.name}"
        if key not in self._calls:
            names: dict[str, Term] = {}
            maps: dict[str, Table] = {}
            inside: list[Term] = []
            for parameter in action.parameters:
                name = f"{key}.{parameter.name}"
                if isinstance(parameter, MapSymbol):
                    maps[parameter.name], more = self.domain.table(
                        name, (parameter.domain,), parameter.codomain
                    )
                else:
                    table, more = self.domain.table(name, (), parameter.type)
                    names[parameter.name] = table(())
                inside.extend(more)
            self._calls[key] = Call(action, names, maps, tuple(inside))
        return self._calls[key]

    def take(
        self, outcome: Outcome, before: Store | None = None, call: Call | None = None
    ) -> Taken:
        """An outcome from a state (by default the state `pre`)."""
        call = call or self.call(outcome.action)
        scope = self.scope(before)
        scope = attrs.evolve(scope, names={**scope.names, **call.names}, maps=call.maps)
        enabled = list(call.inside)
        guards = outcome.action.guards[: outcome.refused_by]
        enabled.extend(scope.value(guard.condition) for guard in guards)
        if outcome.refused_by is not None:
            failed = outcome.action.guards[outcome.refused_by]
            enabled.append(z3.Not(scope.value(failed.condition)))
        return Taken(outcome, call, scope, After(scope, outcome.assignments), tuple(enabled))


def members_at_most(system: System) -> dict[str, Type]:
    """The open sorts of a system, by name."""
    return {name: kind for name, kind in system.sorts().items() if kind.kind == "open"}


def summands(exprs: Iterable[Expr]) -> int:
    """The most leaves that an arithmetic term of the expressions has."""
    return max((_leaves(node) for expr in exprs for node in walk(expr)), default=1)


def _leaves(expr: Expr) -> int:
    if isinstance(expr, Op) and expr.op in ("add", "sub", "div"):
        return sum(_leaves(arg) for arg in expr.args)
    if isinstance(expr, Op) and expr.op in ("ite", "mul"):
        return max(_leaves(arg) for arg in expr.args[expr.op == "ite" :])
    return 1


def factors(exprs: Iterable[Expr]) -> int:
    """The most leaves that are multiplied with one another in an arithmetic term of the expressions."""
    return max((_degree(node) for expr in exprs for node in walk(expr)), default=1)


def _degree(expr: Expr) -> int:
    if isinstance(expr, Op) and expr.op == "mul":
        return sum(_degree(arg) for arg in expr.args)
    if isinstance(expr, Op) and expr.op in ("add", "sub", "ite", "div"):
        return max(_degree(arg) for arg in expr.args)
    return 1


def largest_literal(exprs: Iterable[Expr]) -> int:
    """The largest number written in the expressions."""
    found = (n.value for expr in exprs for n in walk(expr) if isinstance(n, Const))
    return max((value for value in found if type(value) is int), default=0)


def all_expressions(system: System) -> Iterator[Expr]:
    """Every expression of a system's actions and initial state."""
    for action in system.actions.values():
        yield from expressions(action)
    for variable in system.variables.values():
        if isinstance(variable.initial, Expr):
            yield variable.initial
