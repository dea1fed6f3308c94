"""What the traces about two tiers show, and where the sound rule stops them."""

import pytest

from kvspec.models.concrete import Event, Machine
from kvspec.properties.atlas.run import search_faulty
from kvspec.properties.atlas.tiers import B09, B54, B59, B62, B63
from kvspec.spec.tiers import make_instance


def traced(case):
    """The violation of a case, with machines of the faulty and of the sound rule."""
    (found,) = search_faulty(case).violations
    return found, Machine(case.fault.on(case.instance)), Machine(case.instance)


def refusal(found, sound):
    """The first event of a trace that the sound rule refuses, and its code."""
    state = found.trace[0].state
    for step in found.trace[1:]:
        outcome = sound.step(state, step.event)
        if outcome.code is not None:
            return step.event.action, outcome.code
        state = outcome.state
    return None


def end(found, machine, name, *index):
    """The value of a variable at the end of a trace."""
    return machine.value(found.trace[-1].state, name, *index)


def test_another_prefix_took_the_slot_under_the_load():
    """The request reads node 1's rows as node 0, since their copy took the slot under the load (A-B09)."""
    found, faulty, sound = traced(B09.cases[0])
    assert end(found, faulty, "matched", 0) == 0
    assert end(found, faulty, "device_rows", 0) == 1
    assert end(found, faulty, "copy_of", 0) == 1
    told = iter(step.event.action for step in found.trace[1:])
    assert all(
        name in told
        for name in ("load", "evict_from_host", "store", "end_store", "end_load", "match")
    )
    assert refusal(found, sound) == ("evict_from_host", "COPY_IN_FLIGHT")


def test_only_the_matched_node_itself_is_evicted():
    """Request 1 reads a node that was not held, and the sound rule has a reference to it (A-B54)."""
    found, faulty, sound = traced(B54.cases[0])
    assert end(found, faulty, "matched", 1) == 0
    assert not end(found, faulty, "reference", 0, 1)
    assert end(found, faulty, "device_rows", 0) is None
    assert refusal(found, sound) == ("evict_from_device", "REFERENCED")


def test_the_first_node_of_a_path_is_evicted():
    """Request 1 has matched the longer prefix, and the shorter one is gone (A-B54)."""
    found, faulty, sound = traced(B54.cases[1])
    assert end(found, faulty, "above", 0, 1)
    assert end(found, faulty, "matched", 1) == 1
    assert end(found, faulty, "device_rows", 1) == 1
    assert end(found, faulty, "device_rows", 0) is None
    assert refusal(found, sound) == ("evict_from_device", "REFERENCED")


def test_the_rows_of_a_queued_send_are_evicted():
    """Only the queue could have held the rows of a released request; its receiver got none (A-B59)."""
    found, faulty, sound = traced(B59.cases[0])
    assert end(found, faulty, "phase", 0) == "RELEASED"
    assert end(found, faulty, "receiver", 0) == "HAS_ROWS"
    assert end(found, faulty, "received", 0) is None
    assert refusal(found, sound) == ("evict_from_device", "SEND_QUEUED")


@pytest.mark.parametrize("case", B59.cases[1:3], ids=lambda case: case.fault.name)
def test_the_receiver_waits_in_the_whole_loop(case):
    """From the loop's state on the receiver waits, nothing is on its way, and nothing will be (A-B59)."""
    found, faulty, _ = traced(case)
    assert found.kind == "leads_to"
    assert found.loop is not None
    for step in found.trace[found.loop :]:
        assert faulty.value(step.state, "receiver", 0) == "WAITING"
        assert not faulty.value(step.state, "notice", 0)


def test_a_declined_lookup_leaves_a_pin_without_a_receipt():
    """The slot has a pin, no lookup has one, and eviction is refused from then on (A-B62)."""
    found, faulty, _ = traced(B62.cases[0])
    assert end(found, faulty, "lookup_state", 0) == "ENDED"
    assert end(found, faulty, "pins", 0) == 1
    evicted = faulty.step(found.trace[-1].state, Event("evict_from_host", (("s", 0),)))
    assert evicted.code == "PINNED"


def test_the_pin_lasts_where_the_client_never_reads():
    """The client does nothing any more, and the timeout waits for it to have read (A-B62)."""
    found, faulty, sound = traced(B62.cases[1])
    state = found.trace[-1].state
    timed_out = Event("time_out", (("q", 0),))
    assert faulty.value(state, "read", 0) == "NONE"
    assert faulty.step(state, timed_out).code == "LOOKUP_NOT_OPEN"
    assert sound.step(state, timed_out).kind == "accepted"


@pytest.mark.parametrize(
    ("number", "reader", "refused"),
    [
        (2, 1, ("decline", "LOOKUP_NOT_OPEN")),
        (3, 0, ("evict_from_host", "PINNED")),
        (4, 0, ("time_out", "READ_IN_FLIGHT")),
        (5, 0, ("begin_read", "LOOKUP_NOT_OPEN")),
    ],
)
def test_a_client_has_read_another_prefix(number, reader, refused):
    """It has node 1 for node 0, whose slot that took; the sound rule stops it in another place each time."""
    found, faulty, sound = traced(B62.cases[number])
    assert end(found, faulty, "read", reader) == "DONE"
    assert (end(found, faulty, "got", reader), end(found, faulty, "sought", reader)) == (1, 0)
    assert refusal(found, sound) == refused


def test_a_pin_that_is_dropped_twice_was_another_lookups():
    """One lookup was timed out and declined, and the other one that has read is still open (A-B62)."""
    found, faulty, _ = traced(B62.cases[2])
    assert [end(found, faulty, "lookup_state", q) for q in (0, 1)] == ["ENDED", "OPEN"]
    assert end(found, faulty, "pins", 0) == 0


def test_every_abort_of_a_retracted_request_takes_a_slot():
    """After two of them the host is full, and the sound rule has it empty (A-B63)."""
    case = B63.cases[0]
    made = make_instance("TWICE", "", handles=2, nodes=1, slots=2)
    taken = []
    for machine in (Machine(case.fault.on(made)), Machine(made)):
        (state,) = machine.initial_states()
        for h in (0, 1):
            for action, values in (
                ("allocate", (("h", h), ("b", 0), ("a", 0))),
                ("retract", (("h", h), ("s", h))),
                ("cancel_request", (("h", h),)),
                ("release", (("h", h),)),
                ("evict", (("b", 0),)),
            ):
                outcome = machine.step(state, Event(action, values))
                assert outcome.kind == "accepted"
                state = outcome.state
        taken.append([machine.value(state, "kept_for", s) for s in (0, 1)])
    assert taken == [[0, 1], [None, None]]
