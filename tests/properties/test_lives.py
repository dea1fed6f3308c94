"""The core, run-ahead and drafting have one life: proved, and seen to fail where something is wrong."""

import attrs
import pytest

from kvspec.counterexamples.systems import find_system
from kvspec.models.explicit import explore, gaps
from kvspec.models.symbolic import prove
from kvspec.properties.atlas import groups
from kvspec.properties.life import life as claims
from kvspec.properties.lives import (
    a_round_is_a_publication,
    a_settlement_is_a_publication,
    the_core_lives,
)
from kvspec.spec import drafting, life, run_ahead
from kvspec.spec.language.refinement import STUTTER, Image, Stutter, call

ALL = (the_core_lives, a_settlement_is_a_publication, a_round_is_a_publication)


def failed(refinement):
    """The steps of a system that are none of its abstract one, by the proof; none if it holds."""
    known = find_system(refinement.concrete.name)
    report = prove(
        refinement.concrete, known.properties(), [refinement], workers=0, only=["refines:*"]
    )
    assert report.obligations > 0
    assert report.unknown == 0
    return {item.name.split(":")[2] for item in report.items if item.verdict == "failed"}


@pytest.mark.parametrize("refinement", ALL, ids=lambda each: each.name)
def test_a_system_refines_the_life_of_a_request(refinement):
    """Each step is one of a life or changes nothing of it, for any number of everything."""
    assert failed(refinement) == set()


@pytest.mark.parametrize(
    ("refinement", "publications"),
    list(zip(ALL, ("publish", "settle", "close"), strict=True)),
    ids=lambda each: getattr(each, "name", each),
)
def test_rows_come_by_one_step_alone(refinement, publications):
    """One action of each system adds rows, and it adds them where those that are there end."""
    adds = {
        name
        for name, found in refinement.steps.items()
        if any(not isinstance(each, Stutter) and each.action is life.add_rows for each in found)
    }
    assert adds == {publications}


def test_the_life_has_its_counts_and_claims():
    """The instance has its figures, the claims hold on it and for all sizes, and nothing is void."""
    result = explore(life.LIVES, claims.by_name.values())
    assert result.verdict == "holds", result.violations
    assert gaps(result) == ()
    assert prove(life.system, claims, workers=0).verdict == "holds"


BREAKS = {
    ("A-B06", 1): "settle",
    ("A-B41", 1): "close",
    ("A-B41", 2): "truncate",
    ("A-B49", 3): "settle",
    ("A-B61", 3): "settle",
}
"""Cases of the atlas whose fault is a step of no life, and that step."""


@pytest.mark.parametrize(("group", "number"), BREAKS)
def test_a_faulty_rule_is_no_life(group, number):
    """Late rows, a wrong position and rows behind the stop come where those of the request do not end."""
    fault = groups()[group].cases[number - 1].fault
    (refinement,) = (each for each in ALL if each.concrete is fault.system)
    assert failed(attrs.evolve(refinement, concrete=fault.changed)) == {BREAKS[group, number]}


def with_rows(refinement, value):
    """The refinement with another mapping of the rows."""
    binders = life.rows.binders
    return attrs.evolve(
        refinement,
        mapping={**refinement.mapping, "rows": Image(binders, value(*binders))},
    )


def test_rows_that_are_dispatched_are_not_seen():
    """Where a reader sees rows of steps in flight, a dispatch is no step of a life."""
    wrong = with_rows(a_settlement_is_a_publication, lambda h: run_ahead.scheduled[h])
    assert {"dispatch", "settle", "lose"} <= failed(wrong)


def test_rows_of_open_drafts_are_not_seen():
    """Where a reader sees what a round has written, its beginning and its verdict are no steps of a life."""
    wrong = with_rows(a_round_is_a_publication, lambda h: drafting.written[h])
    assert {"draft", "verify", "lose"} <= failed(wrong)


def test_a_preemption_is_seen():
    """It takes rows away, so that it is not nothing."""
    steps = {**a_settlement_is_a_publication.steps, "preempt": (STUTTER,)}
    assert failed(attrs.evolve(a_settlement_is_a_publication, steps=steps)) == {"preempt"}


def test_a_round_is_not_published_before_its_end():
    """What was accepted is no row of the request before the client has its tokens."""
    h, accepted = drafting.verify.parameters
    added = call(life.add_rows, h, drafting.position[h], accepted)
    steps = {**a_round_is_a_publication.steps, "verify": (added,)}
    assert failed(attrs.evolve(a_round_is_a_publication, steps=steps)) == {"verify"}
