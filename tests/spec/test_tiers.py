"""Two tiers: who holds a copy keeps it from eviction, and what holds it ends once."""

import pytest
from observed import Observed

from kvspec.spec import tiers
from kvspec.spec.tiers_state import LookupState, Receiver, SendState


def ready(**sizes):
    """One or more handles, of which the first has a ready request."""
    sizes = {"nodes": 2, "slots": 2, "lookups": 2, "sends": 2, **sizes}
    return Observed(tiers.make_instance("SCENARIO", "", **sizes)).do("allocate", h=0, b=0, a=0)


def cached(**sizes):
    """A ready request that has cached node 0 and reads it."""
    return ready(**sizes).do("insert", h=0, n=0)


def on_host(**sizes):
    """Node 0 has rows on the device and a whole copy in host slot 0."""
    return cached(**sizes).do("store", n=0, s=0).do("end_store", s=0)


def released(seen):
    """The first request is cancelled and released."""
    return seen.do("cancel_request", h=0).do("release", h=0)


def looked_up(**sizes):
    """Lookup 0 pins host slot 0, which has a copy of node 0."""
    return on_host(**sizes).do("look_up", q=0, s=0)


def queued(**sizes):
    """Send 0 of node 0 is queued, and the request that computed it is released."""
    return released(cached(**sizes).do("queue_send", x=0, h=0, n=0))


def test_a_request_holds_every_node_of_its_path():
    """Node 1 lies behind node 0, and neither is evicted before the request is released."""
    seen = cached().do("insert", h=0, n=1)
    assert seen["above", 0, 1]
    assert not seen["above", 1, 0]
    for n in (0, 1):
        seen.refuse("evict_from_device", "REFERENCED", n=n)
    released(seen).do("evict_from_device", n=0).do("evict_from_device", n=1)


def test_a_path_with_a_hole_is_not_matched():
    """Without the rows of the shorter prefix the longer one is of no use, and can be evicted."""
    seen = released(cached(handles=2).do("insert", h=0, n=1)).do("evict_from_device", n=0)
    seen.do("evict", b=0).do("allocate", h=1, b=0, a=0)
    seen.refuse("match", "NOT_ON_DEVICE", h=1, n=1)
    seen.refuse("insert", "LONGER_CACHED", h=1, n=0)
    seen.do("evict_from_device", n=1).do("insert", h=1, n=0)


def test_a_child_holds_the_prefix_itself():
    """What a child reads from its parent stays when the parent is released."""
    seen = cached(handles=2).do("fork", p=0, children=(False, True), n=0)
    assert seen["matched", 1] == 0
    released(seen).refuse("evict_from_device", "REFERENCED", n=0)


def test_a_store_holds_both_ends():
    """Neither the rows that a store reads nor the slot that it fills are evicted before it ends."""
    seen = released(cached()).do("store", n=0, s=0)
    seen.refuse("evict_from_device", "COPY_IN_FLIGHT", n=0)
    seen.refuse("evict_from_host", "COPY_IN_FLIGHT", s=0)
    seen.refuse("load", "NOT_ON_HOST", n=0, s=0)
    seen.do("end_store", s=0).do("evict_from_device", n=0).do("evict_from_host", s=0)


def test_an_eviction_in_the_middle_of_another_spares_what_is_read():
    """The device needs room on the host while a load reads the only slot: that has to wait."""
    seen = released(on_host(slots=1).do("insert", h=0, n=1)).do("evict_from_device", n=0)
    seen.do("load", n=0, s=0)
    seen.refuse("store", "SLOT_TAKEN", n=1, s=0)
    seen.refuse("evict_from_host", "COPY_IN_FLIGHT", s=0)
    seen.do("end_load", n=0).do("evict_from_host", s=0).do("store", n=1, s=0)
    assert seen["device_rows", 0] == 0


def test_what_is_being_loaded_is_not_matched_yet():
    """A prefix whose load is in flight can be matched when the load has ended."""
    seen = released(on_host(handles=2)).do("evict_from_device", n=0).do("evict", b=0)
    seen.do("allocate", h=1, b=0, a=0).do("load", n=0, s=0)
    seen.refuse("match", "NOT_ON_DEVICE", h=1, n=0)
    seen.do("end_load", n=0).do("match", h=1, n=0)


def test_a_queued_send_is_an_owner():
    """Rows that a released request left in the queue stay until they are sent."""
    seen = queued().refuse("evict_from_device", "SEND_QUEUED", n=0)
    seen.do("send", x=0).do("evict_from_device", n=0)
    assert seen["receiver", 0] == Receiver.HAS_ROWS.value
    assert seen["received", 0] == 0
    seen.refuse("fail_send", "SEND_NOT_QUEUED", x=0)


def test_a_failed_send_is_told_until_the_receiver_knows():
    """A notice that is lost is given again, and the rows are free from the failure on."""
    seen = queued().do("fail_send", x=0).do("evict_from_device", n=0)
    assert seen["receiver", 0] == Receiver.WAITING.value
    seen.do("give_notice", x=0).do("lose_notice", x=0).refuse("take_notice", "NO_NOTICE", x=0)
    seen.do("give_notice", x=0).do("take_notice", x=0)
    assert seen["receiver", 0] == Receiver.HAS_FAILURE.value
    seen.refuse("give_notice", "NO_RECEIVER_WAITS", x=0)


def test_a_receiver_that_crashed_holds_nothing():
    """The sender is done with a send whose receiver is gone, and its rows are free."""
    seen = queued().do("receiver_crashes", x=0).do("send", x=0).do("evict_from_device", n=0)
    assert seen["send_state", 0] == SendState.SENT.value
    assert seen["receiver", 0] == Receiver.CRASHED.value
    assert seen["received", 0] is None


@pytest.mark.parametrize(
    "end", [("begin_read", "end_read", "retrieve"), ("decline",), ("time_out",)]
)
def test_a_pin_is_dropped_once(end):
    """A lookup ends by retrieve, decline or timeout, once, and another one keeps its pin of the slot."""
    seen = looked_up().do("look_up", q=1, s=0)
    assert seen["pins", 0] == 2
    for action in end:
        seen.do(action, q=0)
    assert seen["pins", 0] == 1
    for action in ("retrieve", "decline", "time_out", "begin_read"):
        seen.refuse(action, "LOOKUP_NOT_OPEN", q=0)
    seen.refuse("look_up", "LOOKUP_IN_USE", q=0, s=0).refuse("evict_from_host", "PINNED", s=0)
    seen.do("decline", q=1).do("evict_from_host", s=0)


def test_a_timeout_spares_a_read_in_flight():
    """The rows stay until they are read; then a client that is not heard of has its pin taken."""
    seen = looked_up().refuse("end_read", "NO_READ", q=0).refuse("retrieve", "NOTHING_READ", q=0)
    seen.do("begin_read", q=0).refuse("begin_read", "READ_BEGUN", q=0)
    seen.refuse("time_out", "READ_IN_FLIGHT", q=0).refuse("decline", "READ_BEGUN", q=0)
    seen.refuse("evict_from_host", "PINNED", s=0).refuse("retrieve", "NOTHING_READ", q=0)
    seen.do("end_read", q=0).do("time_out", q=0).do("evict_from_host", s=0)
    assert seen["got", 0] == seen["sought", 0] == 0


def test_a_client_that_comes_too_late_reads_nothing():
    """Its pin was taken by the timeout, and its receipt is for nothing when it wants to read."""
    seen = looked_up().do("time_out", q=0).do("evict_from_host", s=0)
    seen.refuse("begin_read", "LOOKUP_NOT_OPEN", q=0)
    assert seen["lookup_state", 0] == LookupState.ENDED.value
    assert seen["got", 0] is None


def test_a_retracted_request_has_its_rows_on_the_host_alone():
    """It lets go of its prefix, and nothing is computed, read or forked of it until it is resumed."""
    seen = cached(txns=1, rows=1, handles=2, versions=1).do("retract", h=0, s=0)
    seen.do("evict_from_device", n=0)
    seen.refuse("begin", "RETRACTED", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.refuse("enter", "RETRACTED", r=0, h=0)
    seen.refuse("fork", "RETRACTED", p=0, children=(False, True), n=0)
    seen.refuse("insert", "RETRACTED", h=0, n=1).refuse("match", "RETRACTED", h=0, n=0)
    seen.refuse("evict_from_host", "NOT_ON_HOST", s=0)
    seen.refuse("truncate", "RETRACTED", h=0, n=0)
    seen.do("resume", h=0, s=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.refuse("retract", "APPEND_IN_FLIGHT", h=0, s=0)


def test_a_retracted_request_keeps_its_block():
    """It reads nothing on the device, and its block is still its own when it is resumed."""
    seen = cached().do("retract", h=0, s=0)
    assert seen["owner", 0, 0]
    assert seen["matched", 0] is None
    seen.do("cancel_request", h=0).refuse("evict", "STILL_OWNED", b=0)


def test_a_request_aborted_on_the_host_leaves_nothing_there():
    """Release gives up both tiers, and an ended request is not moved back before it."""
    seen = ready().do("retract", h=0, s=0).do("cancel_request", h=0)
    seen.refuse("resume", "HANDLE_TERMINAL", h=0, s=0)
    assert seen["kept_for", 0] == 0
    seen.do("release", h=0)
    assert seen["kept_for", 0] is None
