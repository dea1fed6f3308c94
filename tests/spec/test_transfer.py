"""Transfers as short runs: cancel, abort, reports early, late or twice, and rows that are not there yet."""

import pytest
from observed import Observed

from kvspec.spec import transfer

SIZES = {"generations": 2, "blocks": 2, "entries": 2, "notices": 2, "attempts": 3, "layers": 2}


def request(**sizes):
    """A ready request on handle 0 with block 0, and an entry 0 that another worker filled."""
    seen = Observed(transfer.make_instance("SCENARIO", "", **{**SIZES, **sizes}))
    return seen.do("allocate", h=0, b=0, a=0).do("place", e=0)


def loading(**sizes):
    """A load of entry 0 into block 0 whose sender writes."""
    return request(**sizes).do("queue_load", t=0, h=0, b=0, e=0).do("push", t=0)


def storing():
    """A store of block 0 into entry 1 whose sender writes."""
    return request().do("queue_store", t=0, h=0, b=0, e=1).do("push", t=0)


def write(seen, t=0):
    """Both layers arrive."""
    return seen.do("land", t=t, l=0).do("land", t=t, l=1)


def test_a_load_makes_rows_readable_when_all_is_written_and_reported():
    """A report needs every layer, and the rows are flagged until they are admitted."""
    seen = loading().do("register", t=0).do("land", t=0, l=1)
    seen.refuse("report", "CHUNKS_MISSING", t=0, n=0)
    seen.do("land", t=0, l=0).do("report", t=0, n=0)
    seen.refuse("admit_rows", "NOT_WRITTEN", t=0)
    assert seen["arriving", 0]
    seen.do("deliver", n=0).do("admit_rows", t=0)
    assert (seen["stage", 0], seen["arriving", 0]) == ("VISIBLE", False)
    assert [seen["content", 0, layer] for layer in range(2)] == ["ROWS", "ROWS"]


def test_a_queued_transfer_is_cancelled_at_once():
    """Before bytes move a cancel drops both pins and gives a reserved entry back."""
    seen = request().do("queue_store", t=0, h=0, b=0, e=1)
    assert seen["entry_state", 1] == "RESERVED"
    seen.do("cancel", t=0)
    assert (seen["stage", 0], seen["block_pin", 0], seen["entry_pin", 0]) == (
        "DRAINED",
        False,
        False,
    )
    assert (seen["entry_state", 1], seen["waiter", 0]) == ("ABSENT", "CLOSED")


def test_a_running_transfer_is_given_up_and_then_drained():
    """A cancel while bytes move waits for the sender, and so does whoever wants the block."""
    seen = loading().do("register", t=0).refuse("cancel", "CANCEL_UNSAFE", t=0).do("give_up", t=0)
    seen.do("cancel_request", h=0).do("release", h=0)
    seen.refuse("drain", "STILL_PUSHING", t=0).refuse("evict", "BLOCK_PINNED", b=0)
    seen.do("land", t=0, l=0)
    seen.do("acknowledge_abort", t=0, n=0).refuse("land", "NOT_PUSHING", t=0, l=1)
    seen.refuse("drain", "STILL_PUSHING", t=0).do("deliver", n=0)
    assert (seen["stage", 0], seen["lease", 0]) == ("FAILED", "RETURNED")
    seen.do("drain", t=0).do("evict", b=0)


def test_nobody_can_tell_a_dead_sender_from_a_slow_one():
    """After a crash the pins are held until the lease has ended, as they would be for a sender that lives."""
    for harm in ("crash",), ():
        seen = loading().do("register", t=0)
        seen.refuse("end_lease", "TRANSFER_NOT_GIVEN_UP", t=0)
        for action in harm:
            seen.do(action, t=0)
        seen.do("give_up", t=0).refuse("drain", "STILL_PUSHING", t=0)
        seen.do("end_lease", t=0).refuse("end_lease", "NO_LEASE", t=0).do("drain", t=0)
        assert seen["arriving", 0], "the rows have not come, and nobody may read them"


def test_a_target_takes_nothing_after_the_lease():
    """A sender that goes on writes in vain, also when rows were computed and the next attempt is queued."""
    seen = loading().do("register", t=0).do("give_up", t=0).do("end_lease", t=0)
    seen.refuse("land", "LEASE_ENDED", t=0, l=0).do("drain", t=0).do("recompute", h=0, b=0)
    seen.refuse("land", "LEASE_ENDED", t=0, l=0)
    seen.do("queue_load", t=0, h=0, b=0, e=0).refuse("land", "NOT_PUSHING", t=0, l=0)
    seen.do("push", t=0).do("land", t=0, l=0)


def test_the_answer_to_an_earlier_abort_returns_no_lease():
    """It comes when the next attempt is given up as well, and the ends of that one stay pinned."""
    seen = loading().do("register", t=0).do("give_up", t=0).do("acknowledge_abort", t=0, n=0)
    seen.do("end_lease", t=0).do("drain", t=0).do("queue_load", t=0, h=0, b=0, e=0)
    seen.do("push", t=0).do("register", t=0).do("give_up", t=0)
    seen.refuse("deliver", "LATE_NOTICE", changes=True, n=0).refuse("drain", "STILL_PUSHING", t=0)
    seen.do("acknowledge_abort", t=0, n=1).do("deliver", n=1).do("drain", t=0)


def test_an_early_report_is_found_by_who_registers():
    """A report that arrives before anybody waits completes the transfer when somebody does."""
    seen = write(loading()).do("report", t=0, n=0)
    seen.refuse("deliver", "EARLY_NOTICE", changes=True, n=0)
    assert (seen["stage", 0], seen["remembered", 0]) == ("RUNNING", True)
    seen.do("register", t=0)
    assert seen["stage", 0] == "WRITTEN"


def test_a_late_report_is_taken_and_does_nothing():
    """A report of an attempt that timed out leaves the next attempt of the same store alone."""
    seen = write(storing()).do("report", t=0, n=0).do("register", t=0).do("give_up", t=0)
    seen.do("end_lease", t=0).do("drain", t=0).do("queue_store", t=0, h=0, b=0, e=1)
    seen.do("push", t=0).do("register", t=0)
    before = seen["stage", 0], seen["attempt", 0]
    seen.refuse("deliver", "LATE_NOTICE", changes=True, n=0)
    assert (seen["stage", 0], seen["attempt", 0]) == before == ("RUNNING", 2)
    assert seen["notice_state", 0] == "TAKEN"


def test_a_report_twice_does_nothing():
    """A notice that arrives again finds its attempt over."""
    seen = write(storing()).do("report", t=0, n=0).do("register", t=0).do("deliver", n=0)
    seen.do("list_entry", t=0).do("repeat", n=0)
    seen.refuse("deliver", "REPEATED_NOTICE", changes=True, n=0)
    assert (seen["stage", 0], seen["entry_state", 1]) == ("VISIBLE", "VISIBLE")


def test_a_lost_report_ends_in_a_timeout():
    """Without its report a transfer that wrote all is given up, and its entry is not listed."""
    seen = write(storing()).do("report", t=0, n=0).do("lose", n=0).do("register", t=0)
    seen.refuse("deliver", "NOTICE_NOT_IN_FLIGHT", n=0).do("give_up", t=0)
    seen.do("end_lease", t=0).do("drain", t=0)
    assert (seen["entry_state", 1], seen["kept", 1, 0]) == ("ABSENT", False)


def test_blocks_whose_rows_are_still_coming_are_read_by_nobody():
    """Neither a store nor an append reads a block before its load is admitted."""
    seen = loading(txns=1)
    seen.refuse("queue_store", "TRANSFER_IN_USE", t=0, h=0, b=0, e=1)
    seen.refuse("begin", "ROWS_ARRIVING", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.do("register", t=0).do("crash", t=0).do("give_up", t=0).do("end_lease", t=0).do(
        "drain", t=0
    )
    seen.refuse("queue_store", "ROWS_ARRIVING", t=0, h=0, b=0, e=1)
    seen.do("recompute", h=0, b=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)


def test_an_open_append_keeps_loads_away():
    """A block is not loaded under an append that reads it."""
    seen = request(txns=1).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.refuse("queue_load", "BLOCK_READ", t=0, h=0, b=0, e=0)


def test_rows_are_not_admitted_for_the_next_request_of_the_handle():
    """A load serves one incarnation: after release and a new request it ends without being seen."""
    seen = write(loading()).do("report", t=0, n=0).do("register", t=0).do("deliver", n=0)
    seen.do("cancel_request", h=0).do("release", h=0).do("allocate", h=0, b=1, a=0)
    seen.refuse("admit_rows", "REQUEST_GONE", changes=True, t=0)
    assert (seen["stage", 0], seen["block_pin", 0]) == ("DRAINED", False)


def test_a_store_outlives_its_request():
    """The block of a released request stays pinned until its store is listed, and the entry is found."""
    seen = storing().do("cancel_request", h=0).do("release", h=0)
    seen.refuse("evict", "BLOCK_PINNED", b=0)
    write(seen).do("report", t=0, n=0).do("register", t=0).do("deliver", n=0).do("list_entry", t=0)
    seen.do("evict", b=0)
    assert [seen["kept", 1, layer] for layer in range(2)] == [True, True]


def test_a_lookup_finds_no_reserved_entry():
    """A key that is reserved for a store is neither loaded nor stored again."""
    seen = storing().do("cancel_request", h=0).do("release", h=0).do("allocate", h=0, b=1, a=0)
    seen = seen.refuse("drop", "ENTRY_NOT_VISIBLE", e=1)
    assert seen["entry_state", 1] == "RESERVED"


def test_a_source_is_not_dropped_under_a_load():
    """The tier keeps an entry as long as a load reads it."""
    seen = loading().refuse("drop", "ENTRY_PINNED", e=0)
    seen.do("register", t=0).do("give_up", t=0).do("end_lease", t=0).do("drain", t=0)
    seen.do("drop", e=0)


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_late_layer_changes_only_a_block_that_is_pinned(blocks):
    """What is still written after an abort goes into the block of the attempt, which nobody else has."""
    seen = loading(blocks=blocks).do("register", t=0).do("give_up", t=0)
    seen.do("cancel_request", h=0).do("release", h=0)
    for block in range(blocks):
        if block:
            seen.do("allocate", h=0, b=block, a=0)
        else:
            seen.refuse("allocate", "BLOCK_IN_USE", h=0, b=0, a=0)
    write(seen)
    assert [seen["content", 0, layer] for layer in range(2)] == ["ROWS", "ROWS"]
    if blocks == 2:
        assert [seen["content", 1, layer] for layer in range(2)] == ["ROWS", "ROWS"]


def test_committed_rows_are_not_loaded_over():
    """A load is refused where its request has committed rows, and they stay in their block."""
    seen = request(txns=1, layers=1).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.do("stage_k", x=0, l=0, p=0).do("stage_v", x=0, l=0, p=0).do("prepare", x=0).do(
        "publish", x=0
    )
    seen.refuse("queue_load", "ROWS_COMMITTED", t=0, h=0, b=0, e=0)
    assert seen["content", 0, 0] == "ROWS"


def test_a_block_of_two_requests_is_not_loaded():
    """A load for one request would take the rows of its fork."""
    seen = request(handles=2).do("fork", p=0, children=(False, True), n=0)
    seen.refuse("queue_load", "BLOCK_SHARED", t=0, h=1, b=0, e=0)
    seen.do("cancel_request", h=1).do("release", h=1).do("queue_load", t=0, h=0, b=0, e=0)


def test_a_request_whose_load_was_cancelled_computes_its_rows():
    """Nothing is computed under a pin or where rows are there; after the cancel the request goes on."""
    seen = request(txns=1).refuse("recompute", "ROWS_NOT_MISSING", h=0, b=0)
    seen.do("queue_load", t=0, h=0, b=0, e=0).refuse("recompute", "BLOCK_PINNED", h=0, b=0)
    seen.do("cancel", t=0).refuse("begin", "ROWS_ARRIVING", x=0, h=0, k=0, a=0, p=0, n=1)
    seen.do("recompute", h=0, b=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    assert [seen["content", 0, layer] for layer in range(2)] == ["ROWS", "ROWS"]
