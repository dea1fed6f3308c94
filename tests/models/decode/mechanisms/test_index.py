"""The prefix index over real pages: the atlas replayed on it, its damage in numbers, all it can do."""

from importlib.resources import files
from pathlib import Path

import pytest
import torch
from graph_walks import answer_everything, sample

from kvspec.counterexamples import library
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import file_name
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms.index import Cache
from kvspec.models.decode.mechanisms.index_pages import (
    LOADED,
    ROWS,
    Kind,
    Pages,
    uncached_logits,
)
from kvspec.properties.index import index as claims
from kvspec.spec import index

LIBRARY = Path(str(files(library))) / "index"
ON_MUTANTS = {
    "match.drop-guard.NOT_COMPLETE": {"rows", "logits"},
    "match.drop-guard.OTHER_CONTENT": {"rows", "logits"},
    "fork.drop-guard.READS_CORRUPT": {"rows", "logits"},
    "sleep.drop-guard.LOADS_UNDER_WAY": {"rows"},
}


@pytest.mark.parametrize(("name", "kinds"), ON_MUTANTS.items())
def test_faults_without_a_case_show_damage_on_their_mutant(name, kinds):
    """A fault that no case of the atlas has goes the way of the mutant of its name, and does harm."""
    trace = read_trace(LIBRARY / file_name(name))
    assert replay(trace, sound_backend("index")).passed
    found = replay(trace, faulty_backend("index", name), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds


def test_a_tier_of_old_weights_brings_rows_that_no_new_request_can_use():
    """A load from a tier that an update left behind is matched as if new, and its rows are not."""
    cache = Cache(faults=("reserve.drop-guard.STALE_TIER",))
    cache.reset(index.make_instance("SCENARIO", "", blocks=2, epochs=1))
    for action, values in (
        ("update_weights", ()),
        ("reserve", (("b", 0), ("c", 0), ("a", 0))),
        ("complete", (("b", 0),)),
        ("allocate", (("h", 0), ("b", 1), ("a", 0), ("c", 0))),
        ("match", (("h", 0), ("b", 0))),
    ):
        assert cache.damage() == []
        assert cache.perform(Event(action, values)).accepted
    assert {harm.kind for harm in cache.damage()} == {"rows", "logits"}


SMALL = index.make_instance("SMALL", "one request, one block, one sleep", epochs=1)
PAIR = index.make_instance("PAIR", "two requests and one block", handles=2)


@pytest.mark.parametrize(
    ("instance", "states", "transitions"),
    [(SMALL, 311, 1_068), (PAIR, 223, 768)],
    ids=("SMALL", "PAIR"),
)
def test_the_sound_index_does_all_that_a_small_instance_allows(instance, states, transitions):
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    assert answer_everything(Cache(), instance) == (states, transitions)


@pytest.mark.slow
@pytest.mark.parametrize("instance", index.INSTANCES[:4], ids=lambda made: made.name)
def test_the_sound_index_does_a_part_of_what_larger_instances_allow(instance):
    """Every action and refusal that each instance without appends allows."""
    report = sample(Cache(), instance, claims, walks=60, examples=20)
    assert report.holds, report.text()


def test_an_instance_with_appends_is_refused():
    """The message says what the instance may not have."""
    with pytest.raises(ValueError, match="APPENDED has 1 members of Txn"):
        Cache().reset(index.APPENDED)


def test_a_page_tells_its_content_by_its_bytes():
    """Rows of one content are none of another; half of them, zeros, or spoilt rows are rows of nothing."""
    pages, kind = Pages(1), Kind(0, 0, 0)
    assert pages.content(0, 2) is None
    pages.write(0, kind)
    assert pages.content(0, 2) == 0
    assert pages.wrong_rows(0, Kind(1, 0, 0)) == ROWS
    pages.begin_load(0, kind)
    assert (pages.content(0, 2), pages.wrong_rows(0, kind)) == (None, ROWS - LOADED)
    pages.spoil(0)
    assert pages.wrong_rows(0, kind) == ROWS
    pages.write(0, kind)
    pages.drop()
    assert pages.wrong_rows(0, kind) == ROWS


@pytest.mark.parametrize("other", [Kind(1, 0, 0), Kind(0, 1, 0), Kind(0, 0, 1)])
def test_rows_of_another_kind_change_the_logits(other):
    """A page of a request's own kind gives the logits of an uncached run, and no other page does."""
    cache = Cache()
    cache.reset(index.make_instance("SCENARIO", "", contents=2, abis=2, epochs=1))
    assert cache.perform(Event("allocate", (("h", 0), ("b", 0), ("a", 0), ("c", 0)))).accepted
    own = Kind(0, 0, 0)
    assert (
        disagreement(cache._pages.logits(0, own), uncached_logits(own)) <= TOLERANCES[torch.float32]
    )
    assert cache.damage() == []
    cache._pages.write(0, other)
    rows, logits = cache.damage()
    assert (rows.kind, rows.amount, logits.kind) == ("rows", ROWS, "logits")
    assert logits.amount > 0.01
