"""Samples in seats of a batch of real rows: a seat for two, parts of groups, all that they can do."""

from importlib.resources import files
from pathlib import Path

import pytest
from graph_walks import sample

from kvspec.counterexamples import library
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import file_name
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.fan_out import Cache
from kvspec.properties.fan_out import fan_out as claims
from kvspec.spec import fan_out as spec

LIBRARY = Path(str(files(library))) / "fan_out"
SEAT_FOR_TWO = "allocate.drop-guard.SEAT_TAKEN"
BOTH = (False, True, True, False)
LARGE = spec.make_instance("LARGE", "", handles=4, seats=4, blocks=2)


def does(cache, action, **names):
    """The answer to an event."""
    return cache.perform(Event(action, tuple(names.items())))


def waiting(*faults):
    """A prompt on handle 0 that waits for two samples."""
    cache = Cache(faults)
    cache.reset(LARGE)
    assert does(cache, "allocate", h=0, b=0, a=0, s=0).accepted
    assert does(cache, "ask", p=0, samples=BOTH).accepted
    return cache


def test_a_seat_for_two_gives_one_the_rows_of_the_other():
    """On the mutant's trace the request that had the seat reads the prompt of the one that came."""
    trace = read_trace(LIBRARY / file_name(SEAT_FOR_TWO))
    assert replay(trace, sound_backend("fan_out")).passed
    found = replay(trace, faulty_backend("fan_out", SEAT_FOR_TWO), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == {"logits"}


def test_a_part_of_a_group_harms_until_the_rest_is_there():
    """With room left the second sample follows the first; a rival that has it makes the harm stay."""
    first, second = (False, True, False, False), (False, False, True, False)
    for rival in (False, True):
        cache = waiting("fork.one-by-one")
        assert does(cache, "fork", p=0, children=first, n=0, seats=(0, 1, 2, 0)).accepted
        assert [harm.kind for harm in cache.damage()] == ["owner"]
        if rival:
            assert does(cache, "allocate", h=2, b=1, a=0, s=2).accepted
            assert [harm.kind for harm in cache.damage()] == ["owner"]
        answer = does(cache, "fork", p=0, children=second, n=0, seats=(0, 0, 3, 0))
        assert (answer.accepted, answer.code) == (not rival, "CHILD_IN_USE" if rival else None)
        assert bool(cache.damage()) == rival


def test_samples_read_the_rows_of_their_prompt_in_their_own_seats():
    """All samples have the prompt's rows, wherever they sit, and one that ends gives its seat to another."""
    cache = waiting()
    assert does(cache, "fork", p=0, children=BOTH, n=0, seats=(0, 1, 2, 0)).accepted
    assert does(cache, "cancel_request", h=1).accepted
    assert does(cache, "allocate", h=3, b=1, a=0, s=1).code == "SEAT_TAKEN"
    assert does(cache, "release", h=1).accepted
    assert does(cache, "allocate", h=3, b=1, a=0, s=1).accepted
    assert cache.damage() == []
    assert cache.seats == [0, None, 2, 1]


@pytest.mark.parametrize(
    ("instance", "walks", "share"),
    [
        (spec.IN_A_BATCH, 200, 0.7),
        pytest.param(spec.ROOM, 1_500, 0.5, marks=pytest.mark.slow),
        pytest.param(spec.PAIR, 1_500, 0.08, marks=pytest.mark.slow),
        pytest.param(spec.RIVAL, 600, 0.1, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_sound_cache_does_as_specified(instance, walks, share):
    """Many transitions of an instance go as specified, and refusals as well, without damage."""
    report = sample(Cache(), instance, claims, walks=walks, examples=20)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions
