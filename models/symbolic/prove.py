"""Proofs of a system for any number of members and all naturals."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import attrs

from kvspec.models.symbolic.counterexample import (
    NOT_REACHED,
    Counterexample,
    Reach,
    counterexample,
    replay,
)
from kvspec.models.symbolic.obligations import WITNESS, Obligation, enabled, obligations
from kvspec.models.symbolic.pool import Answer, SolverPool
from kvspec.models.symbolic.refine import refinement_obligations
from kvspec.models.symbolic.small import SmallModel, SmallModels
from kvspec.models.symbolic.smtlib import Texts, write_obligations
from kvspec.models.symbolic.verdicts import (
    FAILED,
    PROVED,
    UNKNOWN,
    Item,
    Progress,
    ProofReport,
    matches,
)
from kvspec.models.symbolic.world import Outcome
from kvspec.spec.language import Properties, Property, System
from kvspec.spec.language.refinement import Refinement

FIRST_TRY = 1.0
"""Seconds that a solver has for a proof before a small counterexample is looked for."""


def prove(
    system: System,
    properties: Properties,
    refinements: Sequence[Refinement] = (),
    *,
    seconds_per_obligation: float = 10.0,
    solver: str = "z3",
    workers: int = 2,
    only: Sequence[str] | None = None,
    progress: Progress | None = None,
    reach: Reach | None = None,
) -> ProofReport:
    """The verdict on every obligation of a system, for at least one member of every open sort.

    only: names of obligations, with `*` for anything. workers: solver processes; 0 solves in this
    one. reach: says whether a search reached a counterexample's first state. Same input, same
    verdicts, as long as no time limit is hit.
    """
    prover = Prover(system, properties, refinements, seconds_per_obligation, solver, reach)
    chosen = [each for each in prover.obligations() if matches(each.name, only)]
    return prover.run(chosen, workers, progress)


def export_obligations(
    system: System,
    properties: Properties,
    directory: Path,
    refinements: Sequence[Refinement] = (),
    *,
    only: Sequence[str] | None = None,
) -> list[Path]:
    """Write every obligation that needs a solver to a file of SMT-LIB 2."""
    prover = Prover(system, properties, refinements)
    chosen = (o for o in prover.obligations() if o.settled is None and matches(o.name, only))
    return write_obligations(((each, prover.texts.text(each)) for each in chosen), directory)


class Prover:
    """A system, its properties, and the solvers that are kept for them."""

    def __init__(
        self,
        system: System,
        properties: Properties,
        refinements: Sequence[Refinement] = (),
        seconds: float = 10.0,
        solver: str = "z3",
        reach: Reach | None = None,
        first_try: float = FIRST_TRY,
    ) -> None:
        self.system = system
        self.properties = properties
        self.refinements = refinements
        self.seconds = seconds
        self.first_try = min(first_try, seconds)
        self.solver = solver
        self.reach = reach
        self.known: list[Property] = [
            *properties.inherited(),
            *properties.of_kind("invariant", "lemma"),
        ]
        self.texts = Texts(system, self.known)
        claims = [claim.body for claim in properties.by_name.values()]
        self.small = SmallModels(system, self.known, claims, refinements, seconds)

    def obligations(self) -> Iterator[Obligation]:
        """Every obligation of the system."""
        yield from obligations(self.system, self.properties)
        for refinement in self.refinements:
            yield from refinement_obligations(refinement)

    def run(
        self,
        chosen: Sequence[Obligation],
        workers: int,
        progress: Progress | None,
        *,
        until_failed: bool = False,
    ) -> ProofReport:
        """Settle the obligations; small models are looked for while solvers prove.

        until_failed: what comes after the first failure is left out of the report.
        """
        start = time.perf_counter()
        with SolverPool(workers) as pool:
            asked: dict[str, Future[Answer]] = {}
            answered: list[Future[Answer]] = []
            for each in chosen if workers else ():
                if each.settled is None and each.expect != WITNESS:
                    asked[each.name] = self._ask(pool, each, self.first_try)
                    asked[each.name].add_done_callback(answered.append)
                    if progress is not None:
                        progress(len(answered), len(chosen), each.name)
            items: list[Item] = []
            for each in chosen:
                if each.settled is not None:
                    items.append(Item(each.name, each.kind, PROVED, each.settled, 0.0))
                elif each.expect == WITNESS:
                    items.append(self._witness(pool, each))
                else:
                    first = asked.get(each.name) or self._ask(pool, each, self.first_try)
                    items.append(self._proof(pool, each, first.result()))
                if progress is not None:
                    progress(max(len(items), len(answered)), len(chosen), each.name)
                if until_failed and items[-1].verdict == FAILED:
                    break
        seconds = time.perf_counter() - start
        return ProofReport(self.system.name, self.solver, seconds, tuple(items))

    def _ask(
        self, pool: SolverPool, each: Obligation, seconds: float | None = None
    ) -> Future[Answer]:
        text = self.texts.text(each)
        return pool.submit(text, seconds or self.seconds, solver=self.solver, expect=each.expect)

    def _proof(self, pool: SolverPool, each: Obligation, answer: Answer) -> Item:
        """A proof is a proof; anything else is looked into on small models."""
        start = time.perf_counter()
        model = None
        if answer.result != "unsat":
            model = self.small.find(each)
        if model is None and answer.result == "unknown" and self.first_try < self.seconds:
            answer = self._ask(pool, each).result()
        seconds = answer.seconds + time.perf_counter() - start
        if answer.result == "unsat":
            return Item(each.name, each.kind, PROVED, "solver", seconds)
        if model is not None:
            found = self._label(self._counterexample(each, model))
            return Item(each.name, each.kind, FAILED, "solver", seconds, counterexample=found)
        found_none = "the solver has a counterexample, but no small one was found"
        reason = answer.reason or (found_none + self._in_time())
        return Item(each.name, each.kind, UNKNOWN, "solver", seconds, reason)

    def _in_time(self) -> str:
        """What to do if the search for a small model ran out of time."""
        if not self.small.timed_out:
            return " that could be replayed"
        return f" within {self.seconds:g} s: give more seconds"

    def _counterexample(self, each: Obligation, model: SmallModel) -> Counterexample:
        return counterexample(self.system, self.known, each, model, self._reach(model))

    def _reach(self, model: SmallModel) -> int:
        largest = (max(model.largest, self.small.literal) + 1) * self.small.depth
        return int(largest**self.small.degree)

    def _label(self, found: Counterexample) -> Counterexample:
        if self.reach is None or found.event is None:
            return found
        reached = self.reach(found)
        if reached is None:
            return found
        label = "reachable" if reached else f"{NOT_REACHED} on {found.instance!r}"
        return attrs.evolve(found, label=label)

    def _witness(self, pool: SolverPool, each: Obligation) -> Item:
        """A small model shows that something is possible; a solver, that it is not."""
        start = time.perf_counter()
        model = self.small.find(each)
        if model is not None:
            if each.outcome is not None:
                replay(self.system, self.known, each, model, self._reach(model))
            return Item(each.name, each.kind, PROVED, "model", time.perf_counter() - start)
        answer = self._ask(pool, each).result()
        seconds = time.perf_counter() - start
        if answer.result == "sat":
            return Item(each.name, each.kind, PROVED, "solver", seconds)
        if answer.result == "unsat":
            return Item(
                each.name, each.kind, FAILED, "solver", seconds, self._in_the_way(pool, each)
            )
        reason = answer.reason or f"the solver gave no answer within {self.seconds:g} s"
        return Item(each.name, each.kind, UNKNOWN, "solver", seconds, reason)

    def _in_the_way(self, pool: SolverPool, each: Obligation) -> str:
        """Why something is impossible: the first guard that, after those before it, cannot hold."""
        if each.kind == "antecedent" and each.claim is not None:
            return f"{each.claim.name} says nothing: its antecedent never holds"
        if each.outcome is None:
            return "it has no model"
        guards = each.outcome.action.guards[: each.outcome.refused_by]
        for place in range(len(guards)):
            cut = attrs.evolve(each.outcome.action, guards=guards[: place + 1])
            shorter = enabled(Outcome(cut))
            if self._ask(pool, shorter).result().result == "unsat":
                return (
                    f"{each.outcome.name} never happens: the guard {guards[place].code.name} "
                    f"`{guards[place].condition!r}` cannot hold together with "
                    "those before it and the invariants"
                )
        if each.outcome.refused_by is None:
            return f"{each.outcome.name} never happens: its guards cannot hold with the invariants"
        guard = each.outcome.action.guards[each.outcome.refused_by]
        return (
            f"the guard {guard.code.name} `{guard.condition!r}` never refuses: it follows "
            "from those before it and the invariants"
        )
