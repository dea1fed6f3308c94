"""Blocks of real rows: the groups replayed on them, their damage, and all that they can do."""

from copy import deepcopy

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event, Machine
from kvspec.models.decode.mechanisms.ownership import BLOCK, FAULTS, Cache, fault_for, shared_model
from kvspec.properties.atlas.ownership import GROUPS
from kvspec.properties.atlas.run import run_case
from kvspec.spec import ownership

CASES = {
    case.fault.name: case
    for group in GROUPS
    for case in group.cases
    if case.fault.system is ownership.system
}
SHOWN = {
    "evict.drop-guard.HELD_FOR_WRITER": {"rows", "logits"},
    "release.hold-what-was-completed": {"owner"},
    "expire.no-lease": {"owner"},
    "release.fence-at-the-running-step": {"rows", "logits"},
    "evict.drop-guard.BEHIND_FENCE": {"rows", "logits"},
    "dispatch.drop-guard.TAIL_SHARED": {"rows", "logits"},
    "release.drop-assignment.source": {"rows", "logits"},
}


@pytest.fixture(scope="module")
def traces():
    """The trace of every case."""
    return {name: trace_of_case(run_case(case)) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_sound_cache_does_as_specified(traces, name):
    """At the departing step it refuses with the same code, or does what the sound rule does, undamaged."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize(("name", "kinds"), SHOWN.items())
def test_the_faulty_cache_shows_damage(traces, name, kinds):
    """With the fault it takes every step of the trace, and the harm is measured at the end."""
    cache = Cache(faults=(fault_for(name),))
    found = replay(traces[name], cache, faulty=True, faulty_system=CASES[name].fault.changed)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds
    assert all(harm.amount > 0 for harm in found.steps[-1].damage)


@pytest.mark.parametrize(
    ("name", "harmed"),
    [
        ("release.fence-at-the-running-step", {"handle1"}),
        ("evict.drop-guard.BEHIND_FENCE", {"handle1"}),
        ("dispatch.drop-guard.TAIL_SHARED", {"handle0", "handle1"}),
    ],
)
def test_the_harm_is_read_by_the_other_request(traces, name, harmed):
    """The next logits of the block's later owner, or of a beam beside the other, are wrong."""
    found = replay(
        traces[name], Cache((name,)), faulty=True, faulty_system=CASES[name].fault.changed
    )
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


def test_every_fault_is_one_of_the_groups():
    """Each switch belongs to a case, and each case has its switch."""
    assert set(FAULTS) == set(CASES) == set(SHOWN)
    assert fault_for("settle.drop-guard.PASS_NOT_NEXT") is None


def test_an_unknown_fault_and_appends_are_refused():
    """The messages list the faults there are, and say what an instance may not have."""
    with pytest.raises(ValueError, match=r"expected names out of evict\.drop-guard"):
        Cache(faults=("nothing",))
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
    machine, cache, shared = Machine(instance), Cache(), shared_model()
    cache.reset(instance)
    (start,) = machine.initial_states()
    assert cache.observe() == start
    reached, waiting = {start: cache}, [start]
    for state in waiting:
        for event in machine.events():
            if not machine.within_limits(state, event):
                continue
            wanted, after = machine.step(state, event), reached[state]
            if wanted.kind == "accepted":
                after = deepcopy(after, {id(shared): shared})
            reply = after.perform(event)
            assert (reply.accepted, reply.code) == (wanted.kind == "accepted", wanted.code), event
            assert after.observe() == wanted.state, event
            if wanted.state not in reached:
                assert after.damage() == [], event
                reached[wanted.state] = after
                waiting.append(wanted.state)
    assert len(reached) == states
