"""Blocks between release and reuse: fences, holds with one lifter, and copies on write."""

import pytest
from observed import Observed

from kvspec.spec import ownership


def cache(**sizes):
    """Two handles, two blocks, room for passes and a load; a ready request on handle 0 and block 0."""
    sizes = {"blocks": 2, "passes": 2, "loads": 2, "generations": 2, **sizes}
    seen = Observed(ownership.make_instance("SCENARIO", "", **sizes))
    return seen.do("allocate", h=0, b=0, a=0)


def ended(seen, handle=0):
    """The request of the handle is cancelled and released."""
    return seen.do("cancel_request", h=handle).do("release", h=handle)


def test_a_block_is_reusable_behind_its_fence():
    """A block released with two passes in flight waits for the second, not for the first."""
    seen = cache().do("dispatch", p=0, h=0, b=0).do("dispatch", p=1, h=0, b=0)
    ended(seen)
    assert (seen["fence", 0], seen["unsettled"]) == (2, 2)
    seen.refuse("evict", "BEHIND_FENCE", b=0)
    seen.refuse("settle", "PASS_NOT_NEXT", p=1)
    seen.do("settle", p=0).refuse("evict", "BEHIND_FENCE", b=0)
    seen.do("settle", p=1).do("evict", b=0).do("allocate", h=1, b=0, a=0)


def test_a_release_without_a_pass_waits_for_nothing():
    """A fence that has passed by the time of the release holds nobody up."""
    seen = cache().do("dispatch", p=0, h=0, b=0).do("settle", p=0)
    ended(seen).do("evict", b=0)


@pytest.mark.parametrize(
    ("last", "lifter"),
    [("landed", "complete"), ("loading", "acknowledge"), ("landed", "acknowledge")],
)
def test_a_living_peer_lifts_a_hold(last, lifter):
    """A hold ends with the completion or with the acknowledgement, and neither comes a second time."""
    seen = ended(cache().do("load", x=0, h=0, b=0))
    assert seen["hold", 0]
    if last == "landed":
        seen.do("land", x=0)
    seen.refuse("evict", "HELD_FOR_WRITER", b=0).do(lifter, x=0)
    assert not seen["hold", 0]
    seen.refuse("complete", "NOT_LANDED", x=0).refuse("acknowledge", "NOT_HELD", x=0)
    seen.refuse("expire", "NOT_OUTSTANDING", x=0).refuse("land", "NOT_LOADING", x=0)
    seen.do("evict", b=0)


def test_the_lease_lifts_the_hold_of_a_lost_peer():
    """When the peer is gone, a hold ends with the lease, and nothing lands afterwards."""
    seen = ended(cache().do("load", x=0, h=0, b=0)).do("lose_peer")
    for action in ("land", "complete", "acknowledge"):
        seen.refuse(action, "PEER_GONE", x=0)
    seen.refuse("evict", "HELD_FOR_WRITER", b=0).do("expire", x=0).do("evict", b=0)


def test_a_completion_before_the_cancel_leaves_nothing_to_lift():
    """A request that knows of its rows is released without a hold; a second completion is refused."""
    seen = cache().do("load", x=0, h=0, b=0).do("land", x=0).do("complete", x=0)
    seen.refuse("complete", "NOT_LANDED", x=0)
    ended(seen)
    assert (seen["hold", 0], seen["load_state", 0]) == (False, "IDLE")
    seen.do("evict", b=0)


def test_a_block_has_one_kind_of_writer():
    """No pass uses rows that are still to arrive, and no peer writes under a pass."""
    seen = cache().do("load", x=0, h=0, b=0)
    seen.refuse("dispatch", "WRITE_OUTSTANDING", p=0, h=0, b=0)
    seen.refuse("load", "WRITE_OUTSTANDING", x=1, h=0, b=0)
    seen.do("land", x=0).do("complete", x=0).do("dispatch", p=0, h=0, b=0)
    seen.refuse("load", "WRITE_OUTSTANDING", x=1, h=0, b=0)


def test_a_shared_tail_is_copied_before_it_is_written():
    """Of two branches one takes a copy; the other writes when the copy is made."""
    seen = cache().do("fork", p=0, children=(False, True), n=0)
    for h in (0, 1):
        seen.refuse("dispatch", "TAIL_SHARED", p=0, h=h, b=0)
    seen.refuse("load", "TAIL_SHARED", x=0, h=1, b=0)
    seen.do("copy", h=1, b=0, c=1)
    seen.refuse("dispatch", "TAIL_SHARED", p=0, h=0, b=0)
    seen.refuse("copy", "TAIL_NOT_SHARED", h=1, b=1, c=1)
    seen.do("dispatch", p=0, h=1, b=1)
    assert (seen["source", 1], seen["pass_source", 0]) == (None, 0)
    seen.refuse("load", "COPIED_FROM", x=0, h=0, b=0)
    seen.do("dispatch", p=1, h=0, b=0).refuse("settle", "PASS_NOT_NEXT", p=1).do("settle", p=0)
    assert seen["pass_source", 0] is None


def test_a_block_waits_for_who_copies_from_it():
    """A released block is kept for a branch that has still to copy it; a new request copies nothing."""
    seen = cache().do("fork", p=0, children=(False, True), n=0).do("copy", h=1, b=0, c=1)
    ended(seen, 0).refuse("evict", "COPIED_FROM", b=0)
    ended(seen, 1)
    assert seen["source", 1] is None
    seen.do("evict", b=0).do("evict", b=1).do("allocate", h=1, b=1, a=0)


def test_a_block_waits_for_the_pass_that_copies_from_it():
    """A pass dispatched with a copy makes it, also when both requests are gone: its source waits for it."""
    seen = cache().do("fork", p=0, children=(False, True), n=0).do("copy", h=1, b=0, c=1)
    ended(seen, 0).do("dispatch", p=0, h=1, b=1)
    ended(seen, 1)
    assert (seen["source", 1], seen["pass_source", 0]) == (None, 0)
    seen.refuse("evict", "BEHIND_FENCE", b=0).refuse("evict", "BEHIND_FENCE", b=1)
    seen.do("settle", p=0).do("evict", b=0).do("allocate", h=0, b=0, a=0)


def test_a_fork_waits_for_writes_and_copies():
    """What a parent is still to write or to copy is not shared."""
    busy = cache().do("dispatch", p=0, h=0, b=0)
    busy.refuse("fork", "WRITE_OUTSTANDING", p=0, children=(False, True), n=0)
    seen = cache(handles=3).do("fork", p=0, children=(False, True, False), n=0)
    seen.do("copy", h=1, b=0, c=1)
    seen.refuse("fork", "COPY_PENDING", p=1, children=(False, False, True), n=0)
