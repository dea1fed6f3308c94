"""Loads in parts on real rows: the atlas replayed, damage in numbers, all that a small instance allows."""

import attrs
import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.coverage import FAULTS, Cache, fault_for
from kvspec.properties.atlas.coverage import GROUPS, TWO_VOTERS
from kvspec.properties.atlas.run import run_case
from kvspec.properties.coverage import coverage as claims
from kvspec.properties.stateful import make_plan, run
from kvspec.spec import coverage

ALL = {f"{g.name}-{n}": case for g in GROUPS for n, case in enumerate(g.cases, 1)}
SHOWN = {
    "A-B21-1": {"rows"},
    "A-B21-2": {"rows", "logits"},
    "A-B22-1": {"layers"},
    "A-B22-3": {"rows", "logits"},
    "A-B22-4": {"layers"},
    "A-B22-5": {"layers"},
    "A-B23-1": {"rows"},
    "A-B23-2": {"rows", "logits"},
    "A-B23-3": {"rows"},
}
"""What is measured at the end of each case: before a publication in the load, after it in the handle."""


@pytest.fixture(scope="module")
def traces():
    """The trace of every case that harms rows."""
    return {name: trace_of_case(run_case(ALL[name])) for name in SHOWN}


def test_every_fault_belongs_to_a_case():
    """All cases harm rows but those in which ranks wait for ever."""
    assert {ALL[name].fault.name for name in SHOWN} == FAULTS.keys()
    waiting = ALL.keys() - SHOWN.keys()
    assert waiting == {"A-B22-2", "A-B22-6"}
    assert not any(fault_for(ALL[name].fault.name) for name in waiting)


@pytest.mark.parametrize("name", SHOWN)
def test_the_sound_cache_does_as_specified(traces, name):
    """It takes the steps up to the departing one, and there does what the sound rule does, without damage."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize(("name", "kinds"), SHOWN.items())
def test_the_faulty_cache_shows_damage(traces, name, kinds):
    """With the fault it takes all steps of the trace, and what goes wrong is measured at the end."""
    fault = ALL[name].fault
    found = replay(
        traces[name], Cache(faults=(fault.name,)), faulty=True, faulty_system=fault.changed
    )
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds
    assert all(harm.amount > 0 for harm in found.steps[-1].damage)


def driven(instance, walks, examples):
    """The report of walks over the state graph of an instance, each step compared and without damage."""
    listed = list(claims.by_name.values())
    plan = make_plan(instance, listed, most=walks)
    return run(instance, listed, Cache, max_examples=examples, profile="ci", plan=plan)


ONE_PART = coverage.make_instance("ONE", "one part")


def test_the_sound_cache_does_what_a_load_of_one_part_allows():
    """Random walks with loads of one part go as specified, without damage."""
    report = driven(ONE_PART, 500, 4)
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
    report = driven(instance, 40_000, examples)
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


def test_an_unknown_fault_is_refused():
    """A fault that the cache does not have is named with those that it has."""
    with pytest.raises(ValueError, match="found the faults forgets-all, expected names out of"):
        Cache(faults=("forgets-all",))
