"""A table on the device: its groups replayed on it, their damage, and all that it can do."""

from copy import deepcopy

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Machine
from kvspec.models.decode.mechanisms.tables import FAULTS, Cache, fault_for, shared_model
from kvspec.properties.atlas.ownership import GROUPS
from kvspec.properties.atlas.run import run_case
from kvspec.spec import tables

CASES = {
    case.fault.name: case
    for group in GROUPS
    for case in group.cases
    if case.fault.system is tables.system and fault_for(case.fault.name)
}


@pytest.mark.parametrize("name", CASES)
def test_the_fault_shows_in_logits_and_the_sound_table_refuses(name):
    """The sound table refuses the step; the faulty one takes it, and a pass computes something else."""
    case = CASES[name]
    trace = trace_of_case(run_case(case))
    sound = replay(trace, Cache())
    assert sound.passed, sound.message
    assert not any(step.damage for step in sound.steps)
    cache = Cache(faults=(fault_for(name),))
    found = replay(trace, cache, faulty=True, faulty_system=case.fault.changed)
    assert found.outcome == "damage_shown", found.message
    (harm,) = found.steps[-1].damage
    assert harm.kind == "logits"
    assert harm.amount > 0


def test_every_fault_is_one_of_the_groups():
    """Each switch belongs to a case, and others have none."""
    assert set(FAULTS) == set(CASES)
    assert fault_for("dispatch.drop-guard.ROW_OUTDATED") is None
    assert fault_for("settle.drop-guard.NOT_UPLOADED") is None
    with pytest.raises(ValueError, match=r"expected names out of take_row\.drop-guard"):
        Cache(faults=("nothing",))


def test_the_sound_table_does_all_that_a_small_instance_allows():
    """In every state every event has the specified answer, the specified state after it, and no damage."""
    instance = tables.ONE_BUFFER
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
            assert after.damage() == [], event
            if wanted.state not in reached:
                reached[wanted.state] = after
                waiting.append(wanted.state)
    assert len(reached) == instance.expected.states
