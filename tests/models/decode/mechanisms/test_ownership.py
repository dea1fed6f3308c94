"""Blocks of real rows: the groups replayed on them, their damage, and all that they can do."""

import pytest
from graph_walks import answer_everything

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.ownership import BLOCK, Cache, shared_model
from kvspec.properties.atlas.ownership import GROUPS
from kvspec.properties.atlas.run import run_case
from kvspec.spec import ownership

CASES = {case.fault.name: case for group in GROUPS for case in group.cases}


@pytest.mark.parametrize(
    ("name", "harmed"),
    [
        ("release.fence-at-the-running-step", {"handle1"}),
        ("evict.drop-guard.BEHIND_FENCE", {"handle1"}),
        ("dispatch.drop-guard.TAIL_SHARED", {"handle0", "handle1"}),
    ],
)
def test_the_harm_is_read_by_the_other_request(name, harmed):
    """The next logits of the block's later owner, or of a beam beside the other, are wrong."""
    trace = trace_of_case(run_case(CASES[name]))
    found = replay(trace, Cache((name,)), faulty=True, faulty_system=CASES[name].fault.changed)
    logits = {harm.where for harm in found.steps[-1].damage if harm.kind == "logits"}
    assert logits
    assert logits <= harmed


def test_who_lifts_a_hold_is_tried():
    """A hold whose peer is gone is harmless while the lease can end, and bytes are lost without one."""
    instance = ownership.make_instance("SCENARIO", "", handles=1, loads=1)
    lost = {}
    for faults in ((), ("expire.no-lease",)):
        cache = Cache(faults)
        cache.reset(instance)
        for action, names in (
            ("allocate", {"h": 0, "b": 0, "a": 0}),
            ("load", {"x": 0, "h": 0, "b": 0}),
            ("cancel_request", {"h": 0}),
            ("release", {"h": 0}),
            ("lose_peer", {}),
        ):
            assert cache.damage() == []
            assert cache.perform(Event(action, tuple(names.items()))).accepted
        before = cache.observe()
        lost[faults] = [harm.kind for harm in cache.damage()]
        assert cache.observe() == before
    assert lost == {(): [], ("expire.no-lease",): ["owner"]}


def test_a_full_block_has_its_last_row_written_anew():
    """A request that goes on for ever stays within its block, and its rows are its own."""
    cache = Cache()
    cache.reset(ownership.make_instance("SCENARIO", "", handles=1, passes=1))
    assert cache.perform(Event("allocate", (("h", 0), ("b", 0), ("a", 0)))).accepted
    for _ in range(BLOCK + 2):
        assert cache.perform(Event("dispatch", (("p", 0), ("h", 0), ("b", 0)))).accepted
        assert cache.perform(Event("settle", (("p", 0),))).accepted
    assert cache.damage() == []


def test_an_instance_with_appends_is_refused():
    """The message says what the instance may not have."""
    with pytest.raises(ValueError, match="1 members of Txn"):
        Cache().reset(ownership.LIFE)


@pytest.mark.parametrize(
    ("sizes", "states"),
    [
        pytest.param({"loads": 1}, 318, id="load", marks=pytest.mark.slow),
        pytest.param({"passes": 1}, 170, id="pass"),
        pytest.param({"passes": 2}, 362, id="two passes", marks=pytest.mark.slow),
        pytest.param({"passes": 1, "blocks": 2}, 1_442, id="copy", marks=pytest.mark.slow),
    ],
)
def test_the_sound_cache_does_all_that_a_small_instance_allows(sizes, states):
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    instance = ownership.make_instance("GRAPH", "", **sizes)
    assert answer_everything(Cache(), instance, shared_model())[0] == states
