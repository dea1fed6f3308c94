"""Pins and releases on real blocks: the atlas replayed, damage in numbers, all that an instance allows."""

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.completion import FAULTS, Cache, fault_for
from kvspec.properties.atlas.completion import GROUPS
from kvspec.properties.atlas.run import run_case
from kvspec.properties.completion import completion as claims
from kvspec.properties.stateful import make_plan, run
from kvspec.spec import completion

ALL = {f"{g.name}-{n}": case for g in GROUPS for n, case in enumerate(g.cases, 1)}
SHOWN = {name: case for name, case in ALL.items() if fault_for(case.fault.name) is not None}


@pytest.fixture(scope="module")
def traces():
    """The trace of every case that harms rows, or holds them for nobody."""
    return {name: trace_of_case(run_case(case)) for name, case in SHOWN.items()}


def test_every_fault_belongs_to_a_case():
    """All cases are shown on blocks but the one that is about the word for an end."""
    assert {case.fault.name for case in SHOWN.values()} == FAULTS.keys()
    assert ALL.keys() - SHOWN.keys() == {"A-B15-3"}


@pytest.mark.parametrize("name", SHOWN)
def test_the_sound_cache_does_as_specified(traces, name):
    """It takes the steps up to the departing one, and there does what the sound rule does, without damage."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize("name", SHOWN)
def test_the_faulty_cache_shows_damage(traces, name):
    """With the fault it takes all steps of the trace, and what goes wrong is measured at the end."""
    fault = SHOWN[name].fault
    found = replay(
        traces[name], Cache(faults=(fault.name,)), faulty=True, faulty_system=fault.changed
    )
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == {"owner"}
    assert all(harm.amount > 0 for harm in found.steps[-1].damage)


def driven(instance, walks, examples):
    """The report of walks over the state graph of an instance, each step compared and without damage."""
    listed = list(claims.by_name.values())
    plan = make_plan(instance, listed, most=walks)
    return run(instance, listed, Cache, max_examples=examples, profile="ci", plan=plan)


def test_the_sound_cache_does_what_two_requests_allow():
    """Random walks over two requests of one handle go as specified, without damage."""
    report = driven(completion.NEXT_REQUEST, 1_000, 5)
    assert report.failure is None, report.text()
    assert report.touched > 100


@pytest.mark.slow
def test_the_sound_cache_does_all_that_two_requests_allow():
    """Every transition of two requests of one handle goes as specified."""
    report = driven(completion.NEXT_REQUEST, 40_000, 80)
    assert report.holds, report.text()
    assert report.touched == report.transitions


def test_a_peer_reads_poison_after_a_release_that_came_too_early():
    """The block is evicted under the peer, and every byte that it reads is another's."""
    cache = Cache(faults=("cancel_request.the-cancel-releases",))
    cache.reset(completion.make_instance("SCENARIO", ""))
    for action, values in (
        ("allocate", {"h": 0, "b": 0, "a": 0}),
        ("hold", {"h": 0, "p": 0}),
        ("cancel_request", {"h": 0}),
        ("release", {"h": 0}),
    ):
        assert cache.perform(Event(action, tuple(values.items()))).accepted
    (harm,) = cache.damage()
    assert harm.amount == 2 * cache._held().pool.keys[:, 0].nbytes
    before = cache._held().pool.keys[:, 0].clone()
    assert cache.perform(Event("evict", (("b", 0),))).accepted
    assert bool((cache._held().pool.keys[:, 0] != before).all())


def test_an_unknown_fault_is_refused():
    """A fault that the cache does not have is named with those that it has."""
    with pytest.raises(ValueError, match="found the faults forgets-all, expected names out of"):
        Cache(faults=("forgets-all",))
