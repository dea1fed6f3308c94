"""What is particular to the groups of slots, tables and a pool under pressure."""

import attrs
import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import compile_instance
from kvspec.properties.atlas import ownership as groups
from kvspec.properties.atlas.run import search_faulty
from kvspec.properties.ownership import ownership
from kvspec.spec.ownership import lose_peer

CASES = {
    f"{group.name}-{number}": case
    for group in groups.GROUPS
    for number, case in enumerate(group.cases, 1)
}


def broken(name):
    """The shortest break of a case's claim: its events, the states, and where a lasso leads back."""
    case = CASES[name]
    found = search_faulty(case).violations[0]
    machine = Machine(case.fault.on(case.instance))
    return machine, [step.event.action for step in found.trace[1:]], found


def test_the_late_write_comes_behind_the_second_request():
    """The block of A-B01 is given away before the bytes land in it."""
    _, events, _ = broken("A-B01-1")
    assert events[-3:] == ["evict", "allocate", "land"]
    assert events.index("load") < events.index("cancel_request")


def test_the_completion_comes_before_the_release_that_holds():
    """In the leak of A-B01 the completion is seen before the release, and no event is left to lift."""
    machine, events, found = broken("A-B01-2")
    assert events.index("complete") < events.index("release")
    state = found.trace[-1].state
    assert machine.value(state, "hold", 0)
    assert machine.value(state, "load_state", 0) == "IDLE"


def test_without_the_loss_of_the_peer_no_lease_is_needed():
    """The third case of A-B01 leaks since the peer may be gone: a peer that answers lifts every hold."""
    case = CASES["A-B01-3"]
    faulty = case.fault.on(case.instance)
    kept = {n: a for n, a in faulty.system.actions.items() if n != lose_peer.name}
    steady = attrs.evolve(faulty, system=attrs.evolve(faulty.system, actions=kept))
    claim = [ownership["every_hold_is_lifted"]]
    assert compile_instance(steady, claim).explore(coverage=False).verdict == "holds"
    assert broken("A-B01-3")[1][-1] == "lose_peer"


def test_the_step_that_writes_was_dispatched_ahead():
    """In A-B02 the first step has settled when the block is given away, and the second writes into it."""
    _, events, _ = broken("A-B02-1")
    assert events.count("dispatch") == 2
    assert events[-4:] == ["settle", "evict", "allocate", "settle"]


@pytest.mark.parametrize("name", ["A-B08-1", "A-B73-1"])
def test_what_is_read_late_was_written_before(name):
    """Row and buffer are written between the dispatch and the reading of the step that they are for."""
    _, events, _ = broken(name)
    written = "take_row" if name == "A-B08-1" else "dispatch"
    again = events.index(written, events.index("dispatch") + 1)
    assert again < events.index("upload") < events.index("settle")


def test_everybody_is_preempted_over_and_over():
    """In A-B75 no request has a slot at some moment of the loop, and all its steps come round again."""
    machine, events, found = broken("A-B75-1")
    assert set(events[found.loop :]) == {"preempt", "settle_slot", "take"}
    states = [step.state for step in found.trace[found.loop :]]
    slots = range(machine.instance.sizes["Slot"])
    requests = range(machine.instance.sizes["Request"])
    held = [any(machine.value(s, "holds", t, q) for t in slots for q in requests) for s in states]
    assert not all(held)
    assert all(machine.value(s, "life", q) == "ACTIVE" for s in states for q in requests)
