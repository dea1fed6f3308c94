"""Transfers of real rows: the atlas replayed, damage in numbers, and all that an instance allows."""

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.transfer import FAULTS, Cache, fault_for
from kvspec.properties.atlas.run import run_case
from kvspec.properties.atlas.transfer import GROUPS, NEXT_REQUEST, TWO_ATTEMPTS
from kvspec.properties.stateful import make_plan, run
from kvspec.properties.transfer import transfer as claims
from kvspec.spec.transfer import APPENDS

ALL = {f"{g.name}-{n}": case for g in GROUPS for n, case in enumerate(g.cases, 1)}
SHOWN = {name: case for name, case in ALL.items() if fault_for(case.fault.name) is not None}
HARM = {
    "A-B07-1": "logits",
    "A-B07-2": "logits",
    "A-B10-1": "rows",
    "A-B10-2": "logits",
    "A-B14-1": "owner",
    "A-B14-2": "owner",
    "A-B24-1": "rows",
    "A-B24-2": "logits",
    "A-B26-1": "rows",
    "A-B26-2": "logits",
}


@pytest.fixture(scope="module")
def traces():
    """The trace of every case that harms rows."""
    return {name: trace_of_case(run_case(case)) for name, case in SHOWN.items()}


def test_every_fault_belongs_to_a_case():
    """All cases are shown but the one whose block waits for the answer of a dead sender."""
    assert {case.fault.name for case in SHOWN.values()} == FAULTS.keys()
    assert ALL.keys() - SHOWN.keys() == {"A-B07-3"}
    assert SHOWN.keys() == HARM.keys()


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
    harms = found.steps[-1].damage
    assert HARM[name] in {harm.kind for harm in harms}
    assert all(harm.amount > 0 for harm in harms)


def driven(instance, walks, examples):
    """The report of walks over the state graph of an instance, each step compared and without damage."""
    listed = list(claims.by_name.values())
    plan = make_plan(instance, listed, most=walks)
    return run(instance, listed, Cache, max_examples=examples, profile="ci", plan=plan)


@pytest.mark.slow
@pytest.mark.parametrize("made", [NEXT_REQUEST, TWO_ATTEMPTS, APPENDS], ids=lambda made: made.name)
def test_the_sound_cache_does_what_an_instance_allows(made):
    """Walks over two requests of a block, two attempts, and an append go as specified, without damage."""
    report = driven(made, 4_000, 20)
    assert report.holds, report.text()


def test_an_append_to_rows_that_are_still_coming_leaves_nothing():
    """An append is refused while a load of its block is queued, and the state stays as it was."""
    cache = Cache()
    cache.reset(APPENDS)
    for action, values in (
        ("allocate", {"h": 0, "b": 0, "a": 0}),
        ("place", {"e": 0}),
        ("queue_load", {"t": 0, "h": 0, "b": 0, "e": 0}),
    ):
        assert cache.perform(Event(action, tuple(values.items()))).accepted
    before = cache.observe()
    call = {"x": 0, "h": 0, "k": 0, "a": 0, "p": 0, "n": 1}
    assert cache.perform(Event("begin", tuple(call.items()))).code == "ROWS_ARRIVING"
    assert cache.observe() == before


def test_an_unknown_fault_is_refused():
    """A fault that the cache does not have is named with those that it has."""
    with pytest.raises(ValueError, match="found the faults forgets-all, expected names out of"):
        Cache(faults=("forgets-all",))
