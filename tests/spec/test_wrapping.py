"""A generation counter that wraps: how wide it must be for a given lifetime of stale work (A9)."""

from itertools import count

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import explore, gaps
from kvspec.models.symbolic import prove
from kvspec.properties.mutation import mutate
from kvspec.spec import wrapping
from kvspec.spec.wrapping import make_instance, properties, unconditional


def fresh(width, lifetime, **sizes):
    """The search for a stale publication with a counter of that width."""
    return explore(make_instance(width, lifetime, **sizes), [*unconditional.by_name.values()])


def least_safe_width(lifetime):
    """The first width whose search finds no stale publication."""
    return next(width for width in count(1) if fresh(width, lifetime).verdict == "holds")


def test_the_least_safe_width_is_one_more_than_the_lifetime():
    """Least safe width, and steps of the shortest stale publication one narrower, by lifetime (A9).

    lifetime  least width  steps
    0         1            -
    1         2            5
    2         3            7
    3         4            9
    4         5            11
    """
    rows = []
    for lifetime in range(5):
        width = least_safe_width(lifetime)
        assert all(fresh(wider, lifetime).holds for wider in range(width, width + 3))
        steps = "-"
        if width > 1:
            (broken,) = fresh(width - 1, lifetime).violations
            steps = str(len(broken.trace) - 1)
        rows.append([str(lifetime), str(width), steps])
    table = test_the_least_safe_width_is_one_more_than_the_lifetime.__doc__.splitlines()[3:-1]
    assert rows == [line.split() for line in table]
    assert [int(width) for _, width, _ in rows] == [int(lifetime) + 1 for lifetime, _, _ in rows]


@pytest.mark.parametrize("width", [1, 2, 3])
def test_a_narrow_counter_comes_round(width):
    """The shortest run: prepare, release and give away again until the counter is back, publish (A9)."""
    result = fresh(width, width)
    assert result.verdict == "violated"
    (broken,) = result.violations
    assert broken.property == "only_fresh_appends_are_published"
    actions = [step.event.action for step in broken.trace[1:]]
    assert actions == [
        "reuse",
        "prepare_late",
        *["release_reused", "reuse"] * width,
        "publish_late",
    ]
    machine = Machine(make_instance(width, width))
    last = broken.trace[-2].state
    assert machine.value(last, "reuses", 0) == width
    assert machine.value(last, "counter", 0) == machine.value(last, "late_base", 0)


def test_a_fresh_append_does_not_hide_a_stale_one():
    """With two appends the claim is of the one that is published, and not of some other."""
    result = fresh(1, 1, appends=2)
    assert result.verdict == "violated"
    assert len(result.violations[0].trace) - 1 == 5


def test_a_wide_counter_is_proved_safe_for_all_widths_and_lifetimes():
    """With lifetime < width: any number of handles and appends, any numbers, by induction (A9, C2)."""
    report = prove(wrapping.system, properties, workers=0)
    assert report.verdict == "holds", report.show()
    name = "step:a_wide_counter_lets_only_fresh_appends_through:publish_late"
    assert (report[name].verdict, report[name].how) == ("proved", "solver")


def test_without_the_assumption_there_is_a_counterexample():
    """The proof of the claim without lifetime < width fails, with a replayed step (A9)."""
    report = prove(wrapping.system, unconditional, workers=0, only=["step:*:publish_late"])
    assert report.verdict == "violated"
    found = report["step:only_fresh_appends_are_published:publish_late"].counterexample
    assert found.event.action == "publish_late"


@pytest.mark.parametrize("symmetry", [False, True])
def test_two_handles_and_two_appends_are_safe(symmetry):
    """The claims hold on the named instance with its counts, and nothing in it is void (C1, C7)."""
    result = explore(wrapping.SAFE, properties.by_name.values(), symmetry=symmetry)
    assert result.verdict == "holds", result.violations
    assert {w.property for w in result.witnesses} == {w.name for w in properties.of_kind("witness")}
    assert gaps(result, properties.by_name.values()) == ()


def test_every_claim_and_lemma_is_broken_by_some_mutant():
    """Each guard and assignment of the system matters to some claim, and each claim can fail (C3, C7)."""
    mutated = mutate(wrapping.system)
    claims = properties.of_kind("lemma", "step")
    broken = set()
    for mutant in mutated.mutants:
        inside = mutated.on(wrapping.SAFE)
        result = explore(inside, claims, variant=mutant.number, stop_at_first=False)
        broken |= {violation.property for violation in result.violations}
    assert broken == {claim.name for claim in claims}
