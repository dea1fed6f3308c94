"""Running the mutants: each must break a claim, with its shortest trace, or be proved equivalent.

Every instance is compiled once with all mutants inside. A mutant is explored on each instance in turn, on
later ones only as deep as would give a shorter trace; what is kept is the shortest over all of them, since
the search is breadth first. What keeps every invariant and step claim is looked at again for what must
happen: a leads_to claim may fail, with a lasso, or a state that is no proper end may have no step. What no
instance kills is given to the symbolic engine: if it has the same steps as the specification wherever the
invariants hold, it is equivalent. What is left has survived, and the claims lack something.
Where the claims of a system are given, its own mutants are tried there, and its invariants are claims here
as well.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import attrs

from kvspec.models.explicit import Exploration, TraceStep, compile_instance
from kvspec.properties.mutation import Mutant, Mutated, mutate
from kvspec.spec.language import Instance, Properties

MOST_STATES = 3_000_000


@attrs.frozen
class MutantResult:
    """What became of a mutant.

    verdict: "killed", "equivalent", "survived", or "unknown" where a limit cut a search or a proof.
    claim, kind: the claim that broke, or `deadlock`. instance: where. trace: from an initial state to the
    break; of a lasso, `loop` is the state to which the last step leads back.
    """

    mutant: Mutant
    verdict: str
    claim: str | None = None
    kind: str | None = None
    instance: Instance | None = None
    trace: tuple[TraceStep, ...] = ()
    loop: int | None = None
    reason: str = ""

    @property
    def steps(self) -> int:
        """How many steps the trace has."""
        return max(0, len(self.trace) - 1)


@attrs.frozen
class MutationReport:
    """All results of a system, in the order of its text."""

    system: str
    results: tuple[MutantResult, ...]
    seconds: float

    def count(self, verdict: str) -> int:
        """How many mutants have the verdict."""
        return sum(result.verdict == verdict for result in self.results)

    @property
    def verdict(self) -> str:
        """Holds if every mutant is killed or proved equivalent."""
        if self.count("survived"):
            return "violated"
        return "unknown" if self.count("unknown") else "holds"

    @property
    def score(self) -> float:
        """Killed mutants among those that are not equivalent."""
        counted = len(self.results) - self.count("equivalent")
        return self.count("killed") / counted if counted else 1.0


def run_mutants(
    properties: Properties,
    instances: Iterable[Instance],
    *,
    only: Callable[[Mutant], bool] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> MutationReport:
    """Explore every mutant of a system on the instances, and prove what none of them kills.

    progress is told how many explorations are done, and of how many.
    """
    began = time.perf_counter()
    mutated = mutate(properties.system)
    elsewhere = _names_of_given(properties)
    chosen = [
        mutant
        for mutant in mutated.mutants
        if mutant.name not in elsewhere and (only is None or only(mutant))
    ]
    claims = [*properties.of_kind("invariant", "lemma", "step"), *properties.inherited()]
    listed = list(instances)
    best: dict[int, MutantResult] = {}
    doubtful: dict[int, str] = {}
    done, total = 0, len(listed) * len(chosen)
    for instance in listed:
        program = compile_instance(mutated.on(instance), claims)
        for mutant in chosen:
            known = best.get(mutant.number)
            run = program.explore(
                variant=mutant.number,
                coverage=False,
                threads=1,
                max_states=MOST_STATES,
                max_depth=known.steps - 1 if known else None,
            )
            _note(mutant, instance, run, best, doubtful)
            done += 1
            if progress is not None:
                progress(done, total)
    _look_for_what_must_happen(properties, mutated, listed, chosen, best, doubtful)
    results = [
        best.get(mutant.number) or _prove(mutant, mutated, properties, doubtful)
        for mutant in chosen
    ]
    return MutationReport(properties.system.name, tuple(results), time.perf_counter() - began)


def _look_for_what_must_happen(
    properties: Properties,
    mutated: Mutated,
    instances: list[Instance],
    chosen: list[Mutant],
    best: dict[int, MutantResult],
    doubtful: dict[int, str],
) -> None:
    """Explore the mutants that no search for safety has killed for a lasso or a deadlock."""
    left = [mutant for mutant in chosen if mutant.number not in best]
    claims = properties.of_kind("leads_to", "end")
    if not left or not claims:
        return
    for instance in instances:
        program = compile_instance(mutated.on(instance), claims)
        for mutant in left:
            run = program.explore(
                variant=mutant.number, coverage=False, threads=1, max_states=MOST_STATES
            )
            _note(mutant, instance, run, best, doubtful)


def _names_of_given(properties: Properties) -> set[str]:
    """The mutants of the system whose claims are given: they are tried there, with all its claims."""
    if properties.given is None:
        return set()
    return {mutant.name for mutant in mutate(properties.given.system).mutants}


def _note(
    mutant: Mutant,
    instance: Instance,
    run: Exploration,
    best: dict[int, MutantResult],
    doubtful: dict[int, str],
) -> None:
    """Keep the shortest violation of a mutant, or why its search says nothing."""
    if run.violations:
        broken = run.violations[0]
        known = best.get(mutant.number)
        if known is None or len(broken.trace) < len(known.trace):
            best[mutant.number] = MutantResult(
                mutant,
                "killed",
                broken.property,
                broken.kind,
                instance,
                broken.trace,
                broken.loop,
            )
    elif not run.complete and not run.cut:
        doubtful[mutant.number] = f"{instance.name}: {run.reason}"


def _prove(
    mutant: Mutant, mutated: Mutated, properties: Properties, doubtful: dict[int, str]
) -> MutantResult:
    """The verdict on a mutant that no instance kills."""
    from kvspec.models.symbolic import prove_same_transitions

    original = properties.system.action(mutant.action)
    changed = mutated.select(mutant).action(mutant.action)
    found = prove_same_transitions(properties.system, original, changed, properties)
    if found.verdict == "holds":
        return MutantResult(mutant, "equivalent", reason="same steps wherever the invariants hold")
    if mutant.number in doubtful:
        return MutantResult(mutant, "unknown", reason=doubtful[mutant.number])
    if found.verdict == "unknown":
        return MutantResult(mutant, "unknown", reason="the proof of equivalence came to no end")
    return MutantResult(
        mutant, "survived", reason="no claim breaks on any instance, and its steps differ"
    )
