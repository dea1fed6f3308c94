"""A pool of real rows that is too small: faults beyond the atlas, what is played on copies, all it can do."""

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
from kvspec.models.decode.mechanisms.pressure import FAULTS, ROWS, Cache
from kvspec.models.decode.mechanisms.slot_rows import small_model
from kvspec.spec import pressure as spec

LIBRARY = Path(str(files(library))) / "pressure"
ON_MUTANTS = {
    "arrive.drop-guard.SLOT_HELD": {"rows", "logits"},
    "arrive.drop-guard.SLOT_PARKED": {"rows"},
    "take.drop-guard.SLOT_HELD": {"rows", "logits"},
    "take.drop-guard.SLOT_PARKED": {"rows"},
    "end.drop-assignment.parked": {"rows"},
    "leave.drop-assignment.parked": {"rows"},
    "preempt.drop-assignment.parked": {"rows"},
    "end.drop-assignment.holds": {"owner"},
    "leave.drop-assignment.holds": {"owner"},
    "preempt.drop-guard.NOT_THE_YOUNGEST": {"waits"},
}
ON_CASES = {
    "leave.flush-finds-nothing",
    "preempt.nobody-gives-way",
    "preempt.parked-slots-do-not-count",
}


def driven(instance, steps, *faults):
    """A cache that took these steps, without damage before the last."""
    cache = Cache(faults)
    cache.reset(instance)
    for action, *names in steps:
        assert cache.damage() == []
        assert cache.perform(event(action, *names)).accepted
    return cache


def event(action, *values):
    """An event with its parameters in order."""
    names = [parameter.name for parameter in spec.system.action(action).parameters]
    return Event(action, tuple(zip(names, values, strict=True)))


@pytest.mark.parametrize(("fault", "kinds"), ON_MUTANTS.items())
def test_faults_without_a_case_show_damage_on_their_mutant(fault, kinds):
    """A fault that no case of the atlas has goes the way of the mutant of its name, and does harm."""
    trace = read_trace(LIBRARY / file_name(fault))
    assert replay(trace, sound_backend("pressure")).passed
    found = replay(trace, faulty_backend("pressure", fault), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds
    assert FAULTS.keys() == ON_MUTANTS.keys() | ON_CASES


def test_a_step_in_flight_writes_over_the_next_owner():
    """What is seen coming on a copy comes: when the parked slot settles, a row is another's."""
    cache = driven(
        spec.TIGHT,
        [("arrive", 0, 0), ("give_up", 0), ("leave", 0), ("arrive", 1, 0)],
        "arrive.drop-guard.SLOT_PARKED",
    )
    assert [(harm.kind, harm.where, harm.amount) for harm in cache.damage()] == [
        ("rows", "slot0", 1)
    ]
    assert cache.perform(event("settle_slot", 0)).accepted
    harms = cache.damage()
    assert [(harm.kind, harm.where) for harm in harms] == [
        ("rows", "request1"),
        ("logits", "request1"),
    ]
    assert harms[0].amount == 1
    assert harms[1].amount > 0.01


def test_a_preempted_request_computes_its_rows_anew():
    """Preemption loses rows and harms nobody: they are computed again in another order of slots."""
    cache = driven(
        spec.TIGHT,
        [
            ("arrive", 0, 0),
            ("arrive", 1, 1),
            ("preempt", 1, 0),
            ("settle_slot", 1),
            ("take", 0, 1),
            ("end", 0),
            ("settle_slot", 1),
            ("take", 1, 1),
            ("settle_slot", 0),
            ("take", 1, 0),
        ],
    )
    assert cache.damage() == []
    assert cache.perform(event("end", 1)).accepted


def test_what_is_played_on_a_copy_leaves_the_cache_as_it_is():
    """A scheduler that preempts for ever is found out without a step of the cache itself."""
    cache = driven(spec.TIGHT, [("arrive", 0, 0)], "preempt.parked-slots-do-not-count")
    assert cache.perform(event("arrive", 1, 1)).accepted
    before = cache.observe()
    (harm,) = cache.damage()
    assert (harm.kind, harm.amount) == ("waits", 2)
    assert cache.observe() == before


def test_a_request_for_which_no_pool_of_that_size_is_enough_is_refused():
    """One slot is nobody's, and is no leak."""
    cache = driven(spec.TOO_SMALL, [])
    assert cache.perform(event("arrive", 0, 0)).code == "NEVER_FITS"
    assert cache.damage() == []


@pytest.mark.parametrize(
    "instance",
    [
        spec.TIGHT,
        spec.ODD,
        pytest.param(spec.CROWD, marks=pytest.mark.slow),
    ],
    ids=lambda made: made.name,
)
def test_the_sound_pool_does_all_that_an_instance_allows(instance):
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    found = answer_everything(Cache(), instance, small_model())
    assert found == (instance.expected.states, instance.expected.transitions)


def test_rows_of_a_slot_are_those_of_its_tokens():
    """A request with two slots has the rows of an uncached run in both, whichever slot came first."""
    cache = driven(spec.TIGHT, [("arrive", 0, 1), ("take", 0, 0)])
    assert cache.damage() == []
    cache._rows.compute([0], ROWS - 1, list(range(ROWS)))
    rows, logits = cache.damage()
    assert (rows.kind, rows.amount, logits.kind) == ("rows", 1, "logits")
