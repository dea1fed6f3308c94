"""Locks with receipts over nodes of real rows: further faults, counts as numbers, all that they can do."""

from importlib.resources import files
from pathlib import Path

import pytest
from graph_walks import answer_everything

from kvspec.counterexamples import library
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import file_name
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.locks import FAULTS, ROWS, Cache, model_with
from kvspec.spec import locks as spec

LIBRARY = Path(str(files(library))) / "locks"
ON_MUTANTS = {
    "unlock.drop-guard.NOT_THE_RECEIPT": {"rows"},
    "unlock.drop-assignment.counted": {"owner"},
    "lock.drop-assignment.counted": {"rows"},
    "lock.drop-assignment.took": {"owner"},
    "drop.drop-guard.COMPONENT_LOCKED": {"rows", "logits"},
}
THREE = spec.make_instance("THREE", "three locks of one component", locks=3)


def made(instance, *faults):
    """A cache at the start of an instance."""
    cache = Cache(faults)
    cache.reset(instance)
    return cache


def does(cache, action, **names):
    """The answer to an event."""
    return cache.perform(Event(action, tuple(names.items())))


@pytest.mark.parametrize(("fault", "kinds"), ON_MUTANTS.items())
def test_faults_without_a_case_show_damage_on_their_mutant(fault, kinds):
    """A fault that no case of the atlas has goes the way of the mutant of its name, and does harm."""
    trace = read_trace(LIBRARY / file_name(fault))
    assert replay(trace, sound_backend("locks")).passed
    found = replay(trace, faulty_backend("locks", fault), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds
    assert ON_MUTANTS.keys() < FAULTS.keys()


def test_a_count_too_low_costs_the_lock_that_is_left():
    """Under two locks a count that is one too low holds, and under one of them the rows can be dropped."""
    cache = made(THREE, "unlock.by-what-is-present")
    assert does(cache, "lock", k=0, n=0).accepted
    assert does(cache, "load", n=0, c=0).accepted
    assert does(cache, "unlock", k=0, back=(True,)).accepted
    assert does(cache, "lock", k=1, n=0).accepted
    assert does(cache, "lock", k=2, n=0).accepted
    assert does(cache, "drop", n=0, c=0).code == "COMPONENT_LOCKED"
    assert cache.damage() == []
    assert does(cache, "unlock", k=1, back=(True,)).accepted
    (harm,) = cache.damage()
    assert (harm.kind, harm.where, harm.amount) == ("rows", "node0", ROWS)
    assert does(cache, "drop", n=0, c=0).accepted
    assert {(harm.kind, harm.where) for harm in cache.damage()} == {
        ("rows", "lock2"),
        ("logits", "lock2"),
    }


def test_what_was_absent_at_the_lock_is_its_holders_own():
    """A component that is loaded under a lock, or dropped, changes nothing of what its holder reads."""
    cache = made(spec.TWO_COMPONENTS)
    for action, names in (
        ("load", {"n": 0, "c": 0}),
        ("lock", {"k": 0, "n": 0}),
        ("load", {"n": 0, "c": 1}),
        ("drop", {"n": 0, "c": 1}),
    ):
        assert does(cache, action, **names).accepted
        assert cache.damage() == []
    assert does(cache, "drop", n=0, c=0).code == "COMPONENT_LOCKED"
    assert does(cache, "unlock", k=0, back=(True, True)).code == "NOT_THE_RECEIPT"


def test_the_trials_leave_the_cache_as_it_is():
    """What is tried to find out what a leak or a low count costs is tried on a copy."""
    cache = made(THREE, "unlock.at-most-the-receipt")
    assert does(cache, "load", n=0, c=0).accepted
    assert does(cache, "lock", k=0, n=0).accepted
    assert does(cache, "unlock", k=0, back=(False,)).accepted
    before = cache.observe()
    assert [harm.kind for harm in cache.damage()] == ["owner"]
    assert cache.observe() == before


@pytest.mark.parametrize("instance", spec.INSTANCES, ids=lambda made: made.name)
def test_the_sound_cache_does_all_that_an_instance_allows(instance):
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    model = model_with(instance.sizes["Component"])
    found = answer_everything(Cache(), instance, model)
    assert found == (instance.expected.states, instance.expected.transitions)


def test_bytes_stay_only_if_no_receipt_gives_them_back():
    """With the fault a lock can still be given back after a second load, and nothing is told before that."""
    cache = made(spec.TWO_COMPONENTS, "unlock.by-what-is-present")
    assert does(cache, "load", n=0, c=0).accepted
    assert does(cache, "lock", k=0, n=0).accepted
    assert does(cache, "load", n=0, c=1).accepted
    assert [harm for harm in cache.damage() if "stay for ever" in harm.text] == []
