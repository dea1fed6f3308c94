"""Runs on a sound backend: what is covered, what is said when it is not, and plain choice beside it."""

import attrs
import pytest

from kvspec.properties.stateful import Plan, SpecBackend, StatefulReport, plain_choice, run
from kvspec.spec import core
from kvspec.spec.language import Instance, Property


@pytest.fixture(scope="module")
def report(row: Instance, claims: list[Property], plan: Plan) -> StatefulReport:
    """One run of the default size."""
    backend = SpecBackend()
    return run(row, claims, lambda: backend, profile="ci", plan=plan)


def test_one_default_run_takes_every_action_and_nearly_every_transition(
    report: StatefulReport,
) -> None:
    """C4: every action, at least 99 % of 3,188 transitions, and every refusal, in 250 examples."""
    assert report.verdict == "holds", report.text()
    assert report.examples <= 250
    assert report.never_taken == report.never_probed == ()
    assert report.transitions == 3188
    assert report.coverage >= 0.99, report.text()


def test_plain_choice_touches_a_tenth(report: StatefulReport, row: Instance) -> None:
    """C4: in as many events, choice without a plan touches less than 15 % of the transitions."""
    plain = plain_choice(row, steps=report.steps)
    assert plain.found is None
    assert plain.steps == report.steps
    assert plain.touched < 0.15 * report.transitions < report.touched


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.slow
def test_coverage_does_not_hang_on_a_seed(
    seed: int, row: Instance, claims: list[Property], plan: Plan
) -> None:
    """Other seeds reach as much."""
    backend = SpecBackend()
    found = run(row, claims, lambda: backend, profile="dev", seed=seed, plan=plan)
    assert found.holds
    assert found.coverage >= 0.99


def test_a_run_is_a_function_of_its_seed(row: Instance, claims: list[Property], plan: Plan) -> None:
    """The same seed gives the same run, another seed another one."""
    backend = SpecBackend()
    first, again, other = (
        run(row, claims, lambda: backend, max_examples=14, seed=seed, plan=plan)
        for seed in (5, 5, 6)
    )
    assert attrs.evolve(first, seconds=0.0) == attrs.evolve(again, seconds=0.0)
    assert first.steps != other.steps


def test_what_was_never_reached_is_unknown_and_named(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """C7: a run that probes no stale publication does not pass, and says which guard it missed."""
    some = attrs.evolve(plan, walks=plan.walks[:1], goals=1)
    found = run(row, claims, SpecBackend, max_examples=2, seed=0, plan=some)
    assert found.verdict == "unknown"
    assert not found.holds
    assert ("publish", "STALE_GENERATION") in found.never_probed
    assert "publish refused with STALE_GENERATION" in found.reason
    assert "NEVER PROBED: publish refused with STALE_GENERATION" in found.text()


def test_an_action_never_taken_is_unknown_and_named(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """C7: without examples nothing is taken, and every action is named."""
    found = run(row, claims, SpecBackend, max_examples=0, seed=0, plan=plan)
    assert found.verdict == "unknown"
    assert list(found.never_taken) == plan.actions
    assert "NEVER TAKEN: publish" in found.text()


def test_what_an_instance_cannot_do_is_said_apart() -> None:
    """One handle cannot fork: that is out of reach of the instance, and no fault of the run."""
    backend = SpecBackend()
    found = run(core.TINY, [], lambda: backend, max_examples=40, profile="ci")
    assert found.holds, found.text()
    assert found.coverage == 1
    assert ("fork", None) in found.out_of_reach
    assert "out of reach in this instance: fork" in found.text()


def test_progress_is_told(row: Instance, claims: list[Property], plan: Plan) -> None:
    """Progress counts examples up to what the run was asked for."""
    told = []
    backend = SpecBackend()
    run(row, claims, lambda: backend, max_examples=5, seed=0, plan=plan, progress=told.append)
    assert [p.examples for p in told] == sorted(p.examples for p in told)
    assert told[-1].of == 5
    assert told[-1].transitions == 3188
    assert told[-1].touched > 0


def test_an_unknown_profile_is_refused(row: Instance) -> None:
    """The error lists the profiles that exist."""
    with pytest.raises(KeyError, match="no profile 'night'; there are dev, ci, deep"):
        run(row, [], SpecBackend, profile="night")


@pytest.mark.slow
def test_the_deep_profile_takes_every_transition(row: Instance, claims: list[Property]) -> None:
    """Many times the size, and nothing is left."""
    backend = SpecBackend()
    found = run(row, claims, lambda: backend, profile="deep", max_examples=1000, seed=0)
    assert found.holds
    assert found.touched == found.transitions
