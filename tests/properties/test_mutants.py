"""Running mutants: killed by the shortest trace, proved equivalent, survived, or unknown (C3)."""

import attrs
import pytest

from kvspec.models.concrete import Machine
from kvspec.properties import mutants
from kvspec.properties.core import properties
from kvspec.properties.mutants import MutantResult, MutationReport, run_mutants
from kvspec.properties.mutation import mutate
from kvspec.spec import core
from kvspec.spec.language import (
    Bool,
    ErrorCode,
    Module,
    Natural,
    Open,
    Properties,
    Step,
    System,
    after,
    exists,
    forall,
    implies,
    instance,
    weak,
)

FULL = ErrorCode("FULL", "no more fit")
SPARE = ErrorCode("SPARE", "more than there can be")


class Bin(Open):
    """A bin."""


class Size(Natural):
    """How much."""


def bins():
    """Bins that are filled one by one up to two; the second guard follows from the first."""
    module = Module("bins", "Bins.")
    filled = module.variable("filled", Bin, to=Size, init=0, meaning="how much is in it")

    @module.action
    def fill(step: Step, b: Bin) -> None:
        """Put one more into a bin."""
        step.require(filled[b] < 2, FULL)
        step.require(filled[b] <= 4, SPARE)
        step.assign(filled[b], filled[b] + 1)

    return System.of("bins", "Bins.", module), filled


def claims_of(system, filled, *, weak):
    """What is claimed of the bins; a weak set does not say by how much a bin is filled."""
    claims = Properties(system)

    @claims.invariant
    def bins_do_not_overflow():
        """No bin has more than two."""
        return forall(Bin, lambda b: filled[b] <= 2)

    if not weak:

        @claims.step
        def a_bin_is_filled_by_one():
            """What changes is one more."""
            return forall(
                Bin,
                lambda b: implies(after(filled[b]) != filled[b], after(filled[b]) == filled[b] + 1),
            ) & ~forall(Bin, lambda b: after(filled[b]) == filled[b])

    return claims


def ran(*, weak, **options):
    """The report on the mutants of the bins."""
    system, filled = bins()
    two = instance("two", system, {Bin: 2, Size: 5})
    return run_mutants(claims_of(system, filled, weak=weak), [two], **options)


def by_name(report):
    """The results by the mutant's name."""
    return {result.mutant.name: result for result in report.results}


def test_strong_claims_kill_every_mutant_but_the_equivalent_one():
    """Each changed place is noticed; a guard that follows from another is proved to change nothing."""
    report = ran(weak=False)
    found = {name: result.verdict for name, result in by_name(report).items()}
    assert found == {
        "fill.drop-guard.FULL": "killed",
        "fill.drop-guard.SPARE": "equivalent",
        "fill.drop-assignment.filled": "killed",
        "fill.plus-one.filled": "killed",
        "fill.minus-one.filled": "killed",
    }
    assert report.verdict == "holds"
    assert report.score == 1.0
    assert (report.count("killed"), report.count("equivalent")) == (4, 1)
    assert by_name(report)["fill.drop-guard.SPARE"].reason.startswith("same steps wherever")


def test_weak_claims_let_mutants_survive():
    """With a claim less, changes go unnoticed: they survive, and the verdict is violated."""
    report = ran(weak=True)
    found = by_name(report)
    assert {name: result.verdict for name, result in found.items()} == {
        "fill.drop-guard.FULL": "killed",
        "fill.drop-guard.SPARE": "equivalent",
        "fill.drop-assignment.filled": "survived",
        "fill.plus-one.filled": "survived",
        "fill.minus-one.filled": "survived",
    }
    assert found["fill.minus-one.filled"].reason == (
        "no claim breaks on any instance, and its steps differ"
    )
    assert report.verdict == "violated"
    assert report.score == 0.25


def test_a_killed_mutant_has_its_shortest_trace():
    """The trace is the fewest steps to the break, on the instance that is named."""
    found = by_name(ran(weak=True))
    full = found["fill.drop-guard.FULL"]
    assert (full.claim, full.kind, full.instance.name) == (
        "bins_do_not_overflow",
        "invariant",
        "two",
    )
    assert full.steps == 3
    assert [step.event.action for step in full.trace[1:]] == ["fill"] * 3
    assert found["fill.minus-one.filled"].steps == 0
    assert by_name(ran(weak=False))["fill.plus-one.filled"].steps == 1


def test_the_shortest_of_all_instances_is_kept():
    """A later instance replaces the trace only by a shorter one."""
    system, filled = bins()
    claims = claims_of(system, filled, weak=True)
    begun = instance("begun", system, {Bin: 1, Size: 5}, initial={filled: 1})
    empty = instance("empty", system, {Bin: 1, Size: 5})
    for order in ([begun, empty], [empty, begun]):
        full = by_name(run_mutants(claims, order))["fill.drop-guard.FULL"]
        assert (full.instance.name, full.steps) == ("begun", 2)


def test_a_search_cut_short_is_unknown(monkeypatch):
    """A mutant that a limit kept from being explored is neither killed nor survived."""
    monkeypatch.setattr(mutants, "MOST_STATES", 1)
    report = ran(weak=True)
    found = by_name(report)["fill.drop-guard.FULL"]
    assert found.verdict == "unknown"
    assert found.reason == "two: more than 1 states: raise max_states"
    assert report.verdict == "unknown" if not report.count("survived") else "violated"
    assert by_name(report)["fill.drop-guard.SPARE"].verdict == "equivalent"


def test_a_choice_of_mutants_and_its_progress():
    """`only` chooses; progress is told each exploration and how many there are."""
    told = []
    report = ran(
        weak=False,
        only=lambda mutant: mutant.operator == "drop-guard",
        progress=lambda done, total: told.append((done, total)),
    )
    assert [result.mutant.operator for result in report.results] == ["drop-guard"] * 2
    assert told == [(1, 2), (2, 2)]


@pytest.mark.parametrize(
    ("verdicts", "verdict", "score"),
    [
        ([], "holds", 1.0),
        (["equivalent"], "holds", 1.0),
        (["killed", "equivalent"], "holds", 1.0),
        (["killed", "unknown"], "unknown", 0.5),
        (["killed", "survived", "unknown"], "violated", 1 / 3),
    ],
)
def test_a_report_adds_up(verdicts, verdict, score):
    """Any survivor violates, any doubt is unknown, and equivalent mutants do not count."""
    mutant = mutate(bins()[0]).mutants[0]
    results = tuple(MutantResult(mutant, each) for each in verdicts)
    report = MutationReport("bins", results, 0.0)
    assert (report.verdict, report.score) == (verdict, score)


# Checks that a cache cannot do without, and the claim that breaks where one is lost.
NOTICED = {
    "publish.drop-guard.STALE_GENERATION": "publication_is_of_the_captured_snapshot",
    "publish.drop-guard.STALE_SNAPSHOT": "publication_is_of_the_captured_snapshot",
    "publish.drop-guard.HANDLE_TERMINAL": "publication_is_of_the_captured_snapshot",
    "prepare.drop-guard.K_INCOMPLETE": "a_prepared_append_is_complete_in_k",
    "prepare.drop-guard.V_INCOMPLETE": "a_prepared_append_is_complete_in_v",
    "evict.drop-guard.STILL_OWNED": "owned_blocks_are_filled",
    "retry.drop-guard.KEY_CONFLICT": "a_receipt_goes_to_the_key_that_was_given",
    "release.drop-assignment.generation": "release_moves_the_generation_on",
    "fork.drop-guard.CHILD_IN_USE": "no_handle_is_its_own_parent",
    "cancel_request.drop-assignment.state": "an_append_knows_its_handle_key_and_abi",
}


@pytest.fixture(scope="module")
def noticed():
    """The results of those mutants on small instances."""
    report = run_mutants(
        properties, [core.TINY, core.RACE, core.LAYERS], only=lambda m: m.name in NOTICED
    )
    return by_name(report)


@pytest.mark.parametrize("name", NOTICED)
def test_a_lost_check_of_the_core_is_noticed(noticed, name):
    """Without the check the claim that speaks of it breaks, at the end of a run of the mutant (C3)."""
    result = noticed[name]
    assert result.verdict == "killed"
    mutated = mutate(core.system)
    machine = Machine(
        attrs.evolve(result.instance, system=mutated.select(result.mutant), expected=None)
    )
    assert result.trace[0].state in machine.initial_states()
    for before, step in zip(result.trace, result.trace[1:], strict=False):
        outcome = machine.step(before.state, step.event)
        assert (outcome.kind, outcome.code) == (step.outcome, step.code)
        assert outcome.state == step.state
    last, end = result.trace[-2:]
    outcome = machine.step(last.state, end.event)
    for claim in (properties[result.claim], properties[NOTICED[name]]):
        if claim.kind == "step":
            assert not machine.holds(claim, last.state, end.event, outcome)
        else:
            assert machine.holds(claim, last.state)
            assert not machine.holds(claim, end.state)


class Lamp(Open):
    """A lamp."""


BURNS = ErrorCode("BURNS", "the lamp burns")
DARK = ErrorCode("DARK", "the lamp is dark")


def lamps():
    """Lamps that are lit in the end; that a lamp is lit by lighting it is claimed of progress alone."""
    module = Module("lamps", "Lamps.")
    lit = module.variable("lit", Lamp, to=Bool, init=False, meaning="it burns")

    @module.action
    def light(step: Step, i: Lamp) -> None:
        """Light a lamp."""
        step.require(~lit[i], BURNS)
        step.assign(lit[i], True)

    system = System.of("lamps", "Lamps.", module)
    claims = Properties(system)

    @claims.leads_to(weak(light, "i"))
    def every_lamp_is_lit(i: Lamp):
        """A dark lamp is lit in the end."""
        return ~lit[i], lit[i]

    @claims.step
    def a_lamp_burns_once():
        """Lighting is of a dark lamp."""
        return exists(Lamp, lambda i: ~lit[i])

    return system, claims


def test_a_mutant_that_keeps_all_but_progress_is_killed_by_a_lasso() -> None:
    """A rule that does nothing breaks no invariant; what must happen does not, and a lasso shows it."""
    system, claims = lamps()
    report = run_mutants(claims, [instance("two", system, {Lamp: 2})])
    results = {result.mutant.name: result for result in report.results}
    for name in ("light.drop-assignment.lit", "light.negate.lit"):
        found = results[name]
        assert (found.verdict, found.claim, found.kind) == (
            "killed",
            "every_lamp_is_lit",
            "leads_to",
        )
        assert found.loop is not None
    assert report.verdict == "holds"


def test_a_mutant_that_ends_where_nothing_should_is_killed_by_the_deadlock() -> None:
    """A state without steps that is no proper end counts like a broken claim."""
    system, filled = bins()
    claims = Properties(system)

    @claims.end
    def all_bins_are_full():
        """Filling may stop where every bin has two."""
        return forall(Bin, lambda b: filled[b] == 2)

    one = instance("one", system, {Bin: 1, Size: 5})
    report = run_mutants(claims, [one], only=lambda m: m.name == "fill.drop-guard.FULL")
    (found,) = report.results
    assert (found.verdict, found.kind, found.steps) == ("killed", "deadlock", 5)
