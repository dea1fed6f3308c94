"""Small models: the states and calls that satisfy a query in a system with few members.

A finite model is a model: one that satisfies a query shows that the unbounded query is satisfiable.
That none is found says nothing. Sizes grow until a model is found, and are then made smaller again,
one sort after another, so that what a reader sees is as small as it can be. When the solver runs out
of time there is no model of that size: what is found is then less small, or is not found.
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
    factors,
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
        self.degree = prod(factors(layer) for layer in layers) * factors(exprs)
        self.literal = largest_literal([*exprs, *claims, *images, *abstract])
        self.sorts = members_at_most(system)
        self.timed_out = False
        """Whether the solver ran out of time in the last search."""
        self._worlds: dict[tuple[tuple[int, ...], int], World] = {}
        self._solvers: dict[tuple[tuple[int, ...], int], Term] = {}

    def find(self, obligation: Obligation) -> SmallModel | None:
        """A model of the obligation's query with few members and small numbers, if there is one."""
        self.timed_out = False
        ladder = LADDER if obligation.expect == "unsat" else WITNESS_LADDER
        for count, bound in ladder:
            sizes = dict.fromkeys(self.sorts, count)
            found = self.model(obligation, sizes, bound)
            if found is not None:
                if obligation.expect == "sat":
                    return found
                return self._shrink(obligation, found, bound)
        return None

    def model(
        self, obligation: Obligation, sizes: Mapping[str, int], bound: int
    ) -> SmallModel | None:
        """A model with exactly these sizes and naturals up to the bound; none if time runs out."""
        key = (tuple(sizes.values()), bound)
        world = self._world(sizes, bound)
        query = obligation.build(world)
        # A query that is not of what is known speaks of initial states, which need not satisfy it.
        given = world.given if query.known else []
        solver = self._solvers.pop(key, None) if query.known else None
        if solver is None:
            solver = z3.SolverFor("QF_BV", ctx=world.domain.context)
            solver.set("random_seed", 0)
            solver.add(given)
        try:
            solver.push()
            solver.set("timeout", max(1, int(self.seconds * 1000)))
            solver.add(query.terms)
            answer = solver.check()
            model = solver.model() if answer == z3.sat else None
            solver.pop()
        except z3.Z3Exception as error:
            if not _interrupted(error):
                raise
            answer, model = z3.unknown, None
        # A solver that was interrupted may have lost a part of what it was given, and would answer
        # `sat` without it: it is not asked again, and no model is believed that it may have spoilt.
        if answer == z3.unknown or (model is not None and not _satisfies(model, given, query)):
            self.timed_out = True
            return None
        if query.known:
            self._solvers[key] = solver
        return None if model is None else decode(world, query, model)

    def _world(self, sizes: Mapping[str, int], bound: int) -> World:
        key = (tuple(sizes.values()), bound)
        if key not in self._worlds:
            scale = self.depth * (1 + self.literal // max(bound, 1))
            domain = Ground(sizes, bound, scale, self.degree)
            self._worlds[key] = World(self.system, domain, self.known)
        return self._worlds[key]

    def _shrink(self, obligation: Obligation, known: SmallModel, bound: int) -> SmallModel:
        """The smallest model on the way down from a known one, which is kept if there is no other."""
        for name in self.sorts:
            while known.sizes[name] > 1:
                sizes = {**known.sizes, name: known.sizes[name] - 1}
                found = self.model(obligation, sizes, bound)
                if found is None:
                    break
                known = found
        for smaller in range(bound):
            found = self.model(obligation, known.sizes, smaller)
            if found is not None:
                return found
        return known


def _interrupted(error: Exception) -> bool:
    """Whether Z3 says that it was stopped, and not that it was asked wrongly."""
    return any(word in str(error) for word in ("canceled", "timeout", "interrupted"))


def _satisfies(model: Term, given: Sequence[Term], query: Query) -> bool:
    """Whether a model makes true all that was asked for."""
    terms = [*given, *query.terms]
    return all(z3.is_true(model.eval(term, model_completion=True)) for term in terms)


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
