"""Numbers beside real rows: what is told is held against the tensors, and all that an instance allows."""

import attrs
import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.observation import Cache
from kvspec.properties.observation import observation as claims
from kvspec.spec.observation import HITS, NAMES, REQUESTS, SHARED

FOUND = (
    ("allocate", {"h": 0, "b": 0, "a": 0, "m": 0, "q": 1}),
    ("begin", {"x": 0, "h": 0, "k": 0, "a": 0, "p": 0, "n": 1}),
    ("find", {"x": 0}),
    ("prepare", {"x": 0}),
    ("publish", {"x": 0}),
)
LAYERLESS = attrs.evolve(HITS, sizes={**HITS.sizes, "Layer": 0})


def driven_by(cache, *steps):
    """The cache after these events, each of them accepted."""
    cache.reset(LAYERLESS)
    for action, values in steps:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


def told(cache):
    """Kind, place and amount of each damage."""
    return [(harm.kind, harm.where, harm.amount) for harm in cache.damage()]


def test_rows_are_measured_in_the_tensors():
    """Numbers that are right are no damage, and rows that go behind their back are."""
    cache = driven_by(Cache(), *FOUND)
    assert told(cache) == []
    assert cache._rows(0) == 1
    before = cache.observe()
    cache.numbers[0].written = 0
    assert cache.observe() == before
    assert told(cache) == [("gauge", "handle0", 1.0)]


def test_a_number_that_is_told_wrongly_is_damage():
    """A gauge of rows in use that is one too high differs from the tensors by one."""
    cache = driven_by(Cache(), *FOUND)
    cache.numbers[0].held_rows += 1
    assert told(cache) == [("gauge", "handle0", 1.0)]


def test_a_load_that_fails_leaves_a_hit_behind():
    """With the fault a fetch that is aborted counts for ever; without it nothing is told."""
    lost = (*FOUND[:2], ("fetch", {"x": 0}), ("cancel_txn", {"x": 0}))
    assert told(driven_by(Cache(), *lost)) == []
    faulty = driven_by(Cache(faults=("fetch.counted-before-it-came",)), *lost)
    assert told(faulty) == [("gauge", "handle0", 1.0)]


def test_the_sound_cache_does_what_names_allow():
    """Walks over requests that have a handle or are turned away go as specified, without damage."""
    report = sample(Cache(), NAMES, claims, walks=1_000, examples=5)
    assert report.failure is None, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("made", [REQUESTS, SHARED, HITS], ids=lambda made: made.name)
def test_the_sound_cache_does_what_an_instance_allows(made):
    """Walks over requests, forks, hits and failed loads go as specified, without damage."""
    report = sample(Cache(), made, claims, walks=2_000, examples=10)
    assert report.failure is None, report.text()
