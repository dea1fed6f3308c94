"""Small models: the states and calls that satisfy a query in a system with few members.

A finite model is a model: one that satisfies a query shows that the unbounded query is satisfiable.
That none is found says nothing. Sizes grow until a model is found, and are then made smaller again,
one sort after another, so that what a reader sees is as small as it can be.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from math import prod
from typing import Any

import attrs
import z3

from kvspec.models.symbolic.domain import Ground, Table, Term
from kvspec.models.symbolic.evaluate import Tables
from kvspec.models.symbolic.obligations import Obligation, Query
from kvspec.models.symbolic.refine import expressions as refined_expressions
from kvspec.models.symbolic.world import (
    Call,
    World,
    all_expressions,
    largest_literal,
    members_at_most,
    summands,
)
from kvspec.spec.language import Expr, MapSymbol, Property, System, Type
from kvspec.spec.language.refinement import Refinement

LADDER = ((1, 3), (2, 3), (3, 3), (2, 15), (3, 15))
"""Members of every open sort and largest natural, in the order in which they are tried."""

WITNESS_LADDER = ((2, 3), (3, 3), (3, 15), (1, 3))
"""The same for queries that are expected to have a model."""


@attrs.frozen
class SmallModel:
    """A model as plain values.

    tables: by variable, a flat table as in a concrete state. values: parameters by name; a map is
    the tuple of its values.
    """

    sizes: dict[str, int]
    constants: dict[str, int]
    tables: dict[str, tuple[Any, ...]]
    values: dict[str, Any]

    @property
    def largest(self) -> int:
        """The largest natural in the model."""
        numbers = [*self.constants.values(), *self.values.values()]
        for table in self.tables.values():
            numbers.extend(table)
        return max((n for n in numbers if type(n) is int), default=0)


class SmallModels:
    """Finds small models of obligations of one system; solvers are kept for each size."""

    def __init__(
        self,
        system: System,
        known: Iterable[Property],
        claims: Iterable[Expr],
        refinements: Sequence[Refinement],
        seconds: float,
    ) -> None:
        self.system = system
        self.known = tuple(known)
        self.seconds = seconds
        exprs, claims = list(all_expressions(system)), list(claims)
        images = [expr for each in refinements for expr in refined_expressions(each)]
        abstract = [expr for each in refinements for expr in all_expressions(each.abstract)]
        # Terms are put into terms: an assigned value into a claim, or into a mapping and that into a guard.
        layers = (exprs, claims, images, abstract, abstract)
        self.depth = prod(summands(layer) for layer in layers) * summands(exprs)
        self.literal = largest_literal([*exprs, *claims, *images, *abstract])
        self.sorts = members_at_most(system)
        self._solvers: dict[tuple[tuple[int, ...], int], tuple[World, Term]] = {}
        self._exhausted = True

    def find(self, obligation: Obligation) -> SmallModel | None:
        """A model of the obligation's query with few members and small numbers, if there is one."""
        ladder = LADDER if obligation.expect == "unsat" else WITNESS_LADDER
        for count, bound in ladder:
            sizes = dict.fromkeys(self.sorts, count)
            if self.satisfiable(obligation, sizes, bound):
                if obligation.expect == "sat":
                    return self.model(obligation, sizes, bound)
                return self._shrink(obligation, sizes, bound)
        return None

    def satisfiable(self, obligation: Obligation, sizes: Mapping[str, int], bound: int) -> bool:
        """Whether there is a model with exactly these sizes and naturals up to the bound."""
        return self.model(obligation, sizes, bound) is not None

    def model(
        self, obligation: Obligation, sizes: Mapping[str, int], bound: int
    ) -> SmallModel | None:
        """A model with exactly these sizes and naturals up to the bound."""
        world, solver = self._solver(sizes, bound)
        query = obligation.build(world)
        if (
            not query.known
        ):  # such a query speaks of initial states, which need not satisfy what is known
            solver = z3.SolverFor("QF_BV", ctx=world.domain.context)
            solver.set("random_seed", 0)
        solver.push()
        solver.set("timeout", max(1, int(self.seconds * 1000)))
        solver.add(query.terms)
        try:
            if solver.check() == z3.sat:
                return decode(world, query, solver.model())
        finally:
            solver.pop()
        return None

    def _solver(self, sizes: Mapping[str, int], bound: int) -> tuple[World, Term]:
        key = (tuple(sizes.values()), bound)
        if key not in self._solvers:
            scale = self.depth * (1 + self.literal // max(bound, 1))
            world = World(self.system, Ground(sizes, bound, scale), self.known)
            solver = z3.SolverFor("QF_BV", ctx=world.domain.context)
            solver.set("random_seed", 0)
            solver.add(world.given)
            self._solvers[key] = (world, solver)
        return self._solvers[key]

    def _shrink(self, obligation: Obligation, sizes: dict[str, int], bound: int) -> SmallModel:
        for name in self.sorts:
            while sizes[name] > 1 and self.satisfiable(
                obligation, {**sizes, name: sizes[name] - 1}, bound
            ):
                sizes[name] -= 1
        for smaller in range(bound):
            found = self.model(obligation, sizes, smaller)
            if found is not None:
                return found
        found = self.model(obligation, sizes, bound)
        if found is None:
            raise RuntimeError(
                f"{obligation.name} had a model of sizes {sizes} and has none now: the solver's "
                "time limit is too near to what it needs; give more seconds"
            )
        return found


def decode(world: World, query: Query, model: Term) -> SmallModel:
    """A Z3 model of a ground world as plain values."""
    domain = world.domain
    if not isinstance(domain, Ground):
        raise TypeError(f"expected a ground domain, found {type(domain).__name__}")

    values = {} if query.call is None else read_call(domain, query.call, model)
    constants = {
        name: domain.decode(world.system.constants[name].type, term, model)
        for name, term in world.constants.items()
    }
    tables = read_tables(world.system, domain, world.before, model)
    return SmallModel(dict(domain.sizes), constants, tables, values)


def read_tables(
    system: System, domain: Ground, state: Tables, model: Term
) -> dict[str, tuple[Any, ...]]:
    """A state in a model, one flat table for each variable."""
    return {
        name: _listed(domain, state.tables[name], variable.domain, variable.type, model)
        for name, variable in system.variables.items()
    }


def read_call(domain: Ground, call: Call, model: Term) -> dict[str, Any]:
    """The parameters of a call in a model, by name."""
    values: dict[str, Any] = {}
    for parameter in call.action.parameters:
        if isinstance(parameter, MapSymbol):
            table, kinds = call.maps[parameter.name], (parameter.domain,)
            values[parameter.name] = _listed(domain, table, kinds, parameter.codomain, model)
        else:
            term = call.names[parameter.name]
            values[parameter.name] = domain.decode(parameter.type, term, model)
    return values


def _listed(
    domain: Ground, read: Table, kinds: tuple[Type, ...], to: Type, model: Term
) -> tuple[Any, ...]:
    ranges = [domain.members(kind) or [] for kind in kinds]
    return tuple(domain.decode(to, read(index), model) for index in product(*ranges))
