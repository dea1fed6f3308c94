"""A consumer of a log of real blocks: what it costs to be wrong, when it is not, and all that it can do."""

import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.mechanisms.replica import Cache
from kvspec.properties.atlas.observation import ONE_COPY, TWO_STARTS
from kvspec.properties.replica import replica as claims
from kvspec.spec import replica as spec


def driven(instance, steps, *faults):
    """A cache that took these steps."""
    cache = Cache(faults)
    cache.reset(instance)
    for action, *values in steps:
        names = [parameter.name for parameter in spec.system.action(action).parameters]
        reply = cache.perform(Event(action, tuple(zip(names, values, strict=True))))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


STORED_TWICE = [
    ("allocate", 0, 0, 0, 0),
    ("deliver",),
    ("cancel_request", 0),
    ("release", 0),
    ("allocate", 0, 1, 0, 0),
    ("deliver",),
]


def test_what_a_consumer_does_not_know_yet_is_no_damage():
    """An event that is on its way, or lost before the heartbeat, is found out in time."""
    for steps in (
        [("allocate", 0, 0, 0, 0)],
        [("allocate", 0, 0, 0, 0), ("lose",)],
        [*STORED_TWICE, ("cancel_request", 0), ("release", 0), ("restart_engine",)],
    ):
        assert driven(spec.COPIES, steps).damage() == []


def test_one_copy_is_removed_and_the_other_is_still_found():
    """The table names the copy, so that its removal leaves the other one; by prefix both are gone."""
    steps = [*STORED_TWICE, ("evict", 0), ("deliver",)]
    sound = driven(spec.COPIES, steps)
    assert (sound.consumer.table, sound.damage()) == ([None, 0], [])
    faulty = driven(spec.COPIES, steps, "deliver.removes-every-copy")
    (harm,) = faulty.damage()
    assert (faulty.consumer.table, harm.kind, harm.amount) == ([None, None], "rows", PREFIX_ROWS)
    assert "block1" in harm.text


def test_two_requests_of_one_prefix_have_the_same_rows():
    """Blocks are compared by their bytes: both copies are of the prefix asked for, and of no other."""
    made = spec.make_instance("SCENARIO", "", hashes=2)
    cache = driven(made, STORED_TWICE)
    found = [[cache._has_rows_of(b, k) for k in (0, 1)] for b in (0, 1)]
    assert found == [[True, False], [True, False]]


def test_the_copy_that_catches_up_is_another_consumer():
    """What is tried to find damage leaves the consumer, the channel and the log as they are."""
    cache = driven(spec.COPIES, [("allocate", 0, 0, 0, 0)], "heartbeat.drop-assignment.gap")
    before = cache.observe()
    assert cache.damage() == []
    assert cache.observe() == before


@pytest.mark.parametrize(
    ("instance", "walks", "examples", "share"),
    [
        (ONE_COPY, 500, 20, 1.0),
        pytest.param(TWO_STARTS, 10_000, 100, 0.9, marks=pytest.mark.slow),
        pytest.param(spec.STARTS, 10_000, 100, 0.8, marks=pytest.mark.slow),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_sound_consumer_does_as_specified(instance, walks, examples, share):
    """Nearly all transitions of an instance go as specified, every refusal as well, without damage."""
    report = sample(Cache(), instance, claims, walks=walks, examples=examples)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions
