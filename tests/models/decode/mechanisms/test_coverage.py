"""Loads in parts on real rows: damage in numbers, and all that a small instance allows."""

import attrs
import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.coverage import Cache
from kvspec.properties.atlas.coverage import TWO_VOTERS
from kvspec.properties.coverage import coverage as claims
from kvspec.spec import coverage

ONE_PART = coverage.make_instance("ONE", "one part")


def test_the_sound_cache_does_what_a_load_of_one_part_allows():
    """Random walks with loads of one part go as specified, without damage."""
    report = sample(Cache(), ONE_PART, claims, walks=500, examples=4)
    assert report.failure is None, report.text()
    assert report.touched > 200


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance", "examples", "share"),
    [(TWO_VOTERS, 80, 0.99), (ONE_PART, 80, 0.65)],
    ids=["TWO_VOTERS", "ONE"],
)
def test_the_sound_cache_does_what_an_instance_allows(instance, examples, share):
    """Almost every transition of the votes of two ranks, and most of loads of one part, go as specified."""
    report = sample(Cache(), instance, claims, walks=40_000, examples=examples)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions


def loaded(*told, faults=(), layers=1, **sizes):
    """A cache with one load of one row, told of some parts and then published."""
    cache = Cache(faults=faults)
    made = coverage.make_instance("SCENARIO", "", **sizes)
    cache.reset(attrs.evolve(made, sizes={**made.sizes, "Layer": layers}))
    steps = [("allocate", {"h": 0, "b": 0, "a": 0})]
    steps += [("begin", {"x": 0, "h": 0, "k": 0, "a": 0, "p": 0, "n": 1}), *told]
    steps += [(f"stage_{part}", {"x": 0, "l": n, "p": 0}) for part in "kv" for n in range(layers)]
    for action, values in [*steps, ("prepare", {"x": 0}), ("publish", {"x": 0})]:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


def part(action, r):
    """A part of rank r is told of."""
    return action, {"x": 0, "r": r, "s": 0, "c": 0}


def votes(*said):
    """Each rank votes, and then each does what the votes say."""
    cast = [(f"vote_{vote}", {"x": 0, "r": r}) for r, vote in enumerate(said)]
    return [*cast, *(("apply_votes", {"x": 0, "r": r}) for r in range(len(said)))]


def test_rows_that_landed_give_the_logits_of_an_uncached_run():
    """Two shards of heads that were loaded apart are read as if they had been computed."""
    cache = loaded(part("arrive", 0), part("arrive", 1), *votes("for", "for"), ranks=2)
    assert not cache.damage()
    assert (cache.logits(0) - cache.uncached_logits(0)).abs().max() < 1e-5


def test_a_rank_that_computes_alone_lacks_what_others_add():
    """One rank uses its heads; the other computes without it, and rows behind the first layer are off."""
    told = (part("arrive", 0), part("fail", 1), *votes("for", "against"))
    cache = loaded(*told, ranks=2, faults=("apply_votes.each-rank-alone",), layers=2)
    kinds = {harm.kind: harm.amount for harm in cache.damage()}
    assert kinds.keys() == {"rows", "logits"}
    assert (cache.logits(0) - cache.uncached_logits(0)).abs().max() == pytest.approx(
        kinds["logits"]
    )
    assert not loaded(*told, ranks=2, layers=2).damage()


def test_what_was_computed_by_all_is_what_is_shown():
    """After a failure every shard takes part, and the rows are those of an uncached run."""
    told = (part("arrive", 0), *votes("for", "against"))
    cache = loaded(*told, ranks=2, layers=2)
    computed, sent = cache.loads[0].computed, cache.loads[0].sent
    assert all((computed[kind] - sent[kind]).abs().max() < 1e-5 for kind in sent)
    assert (cache.logits(0) - cache.uncached_logits(0)).abs().max() < 1e-5
