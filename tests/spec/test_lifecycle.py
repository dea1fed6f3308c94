"""The life of a request: cancel against publish, finish, release, fork, truncate (A1, A6, A7, A8)."""

import pytest
from scenario import Cache, ready


def test_publication_first_then_cancel():
    """A cancel after a publication acts on the new snapshot: its rows stay until release (A7)."""
    cache = ready().prepared().do("publish", x=0).do("cancel_request", h=0)
    assert (cache["phase", 0], cache["length", 0], cache["version", 0]) == ("CANCELLED", 1, 1)
    assert cache["state", 0] == "PUBLISHED"
    assert cache.shows(0) == [(1, 1)] * 2


def test_cancel_first_then_publication():
    """A cancel aborts what is open, and the late completion is no permission to publish (A7)."""
    cache = ready().prepared().do("cancel_request", h=0)
    assert (cache["state", 0], cache["target", 0], cache["k_end", 0, 0]) == ("ABORTED", None, 0)
    cache.refuse("publish", "NOT_PREPARED", x=0)
    assert cache.shows(0) == [(0, 0)] * 2
    assert (cache["length", 0], cache["version", 0]) == (0, 0)


def test_a_cancel_aborts_every_open_append_of_the_request_and_no_other():
    """Appends of another request go on (A7)."""
    cache = ready().do("allocate", h=1, b=1, a=0)
    cache.begin(txn=0).begin(txn=1, handle=1).do("cancel_request", h=0)
    assert [cache["state", x] for x in (0, 1)] == ["ABORTED", "OPEN"]
    cache.stage(1).do("prepare", x=1).do("publish", x=1)
    assert cache["length", 1] == 1


def test_a_cancel_keeps_what_was_published():
    """The record of a published append survives the cancel, and its receipt is returned (A5, A7)."""
    cache = ready().appended(key=1).do("cancel_request", h=0)
    cache.do("retry", x=0, h=0, k=1, v=0, n=1)
    assert cache["ack_receipt", 0] == 1


def test_cancelling_one_append_keeps_the_request():
    """cancel_txn throws away one append; the request is ready for another (A7)."""
    cache = ready().begin(rows=2).do("stage_k", x=0, l=0, p=0).do("cancel_txn", x=0)
    assert (cache["phase", 0], cache["state", 0]) == ("DECODE_READY", "ABORTED")
    assert cache["k_end", 0, 0] == 0
    cache.refuse("cancel_txn", "TXN_CLOSED", x=0)
    cache.refuse("stage_k", "TXN_CLOSED", x=0, l=0, p=0)
    cache.appended(txn=1)


@pytest.mark.parametrize("first", ["finish", "cancel_request"])
@pytest.mark.parametrize("second", ["finish", "cancel_request"])
def test_a_second_reason_to_end_never_overwrites_the_first(first, second):
    """Finish and cancel refuse an ended request, whichever came first (A7)."""
    cache = ready().do(first, h=0)
    ended = cache["phase", 0]
    assert ended == {"finish": "FINISHED", "cancel_request": "CANCELLED"}[first]
    cache.refuse(second, "HANDLE_TERMINAL", h=0)
    assert cache["phase", 0] == ended


@pytest.mark.parametrize("end", ["finish", "cancel_request"])
def test_an_ended_request_admits_nothing_new(end):
    """Begin, fork, truncate and enter refuse a request that has ended (A1, A7)."""
    cache = ready().appended().do(end, h=0)
    code = "HANDLE_TERMINAL"
    cache.refuse("begin", code, x=1, h=0, k=0, a=0, p=1, n=1)
    cache.refuse("truncate", code, h=0, n=0)
    cache.refuse("enter", code, r=0, h=0)
    refusal = cache.refuse("fork", code, p=0, children=(False, True, False), n=1)
    assert refusal.expected == "phase[p] = DECODE_READY"


def test_a_finish_rejects_what_was_prepared():
    """An append that was prepared before the finish is rejected when it comes back, with its rows (A7)."""
    cache = ready().prepared().do("finish", h=0)
    cache.refuse("publish", "HANDLE_TERMINAL", x=0, changes=True)
    assert (cache["state", 0], cache["length", 0]) == ("REJECTED", 0)


def test_a_finished_request_still_shows_its_rows():
    """Finish changes the phase alone (A1, A8)."""
    cache = ready().appended(rows=2).do("finish", h=0)
    assert cache.shows(0) == [(2, 2)] * 2
    assert (cache["generation", 0], cache["version", 0]) == (0, 1)


def test_a_tombstone_keeps_its_record_and_shows_nothing():
    """Released: length, snapshot and parent on record, no readable row, generation moved on (A1, A2)."""
    cache = ready().appended(rows=2).do("fork", p=0, children=(False, True, False), n=1)
    cache.do("finish", h=1).do("release", h=1)
    assert cache["phase", 1] == "RELEASED"
    assert (cache["length", 1], cache["parent", 1], cache["abi", 1]) == (1, 0, 0)
    assert cache.shows(1) == [(0, 0)] * 2
    assert cache["generation", 1] == 1
    for action in ("finish", "cancel_request"):
        cache.refuse(action, "HANDLE_TERMINAL", h=1)
    cache.refuse("release", "NOT_TERMINAL", h=1)


def test_release_needs_an_end_and_no_batch_row():
    """A ready request cannot be released, nor one that a batch row still carries (A8)."""
    cache = ready().do("enter", r=2, h=0)
    refusal = cache.refuse("release", "NOT_TERMINAL", h=0)
    assert "phase[handle0] = DECODE_READY" in refusal.found
    refusal = cache.do("finish", h=0).refuse("release", "ROW_HOLDS_HANDLE", h=0)
    assert refusal.found == "row_cache[row2] = handle0, h = handle0"
    cache.do("leave", h=0).do("release", h=0)


def test_allocation_takes_a_free_handle_and_an_empty_block():
    """A live handle and a filled block are refused, the first before the second (A8, A12)."""
    cache = ready()
    cache.refuse("allocate", "HANDLE_LIVE", h=0, b=0, a=0)
    cache.refuse("allocate", "BLOCK_IN_USE", h=1, b=0, a=0)
    cache.do("allocate", h=1, b=1, a=1)
    assert (cache["abi", 1], cache.owners(1)) == (1, {1})


def test_a_fork_gives_a_prefix_and_leaves_the_parent():
    """A child has the first n rows, generation 0 and snapshot 0; the parent is as it was (A6)."""
    cache = ready().appended(rows=3)
    before = [cache[name, 0] for name in ("phase", "length", "version", "parent", "generation")]
    cache.do("fork", p=0, children=(False, False, True), n=2)
    assert cache.shows(2) == [(2, 2)] * 2
    names = ("phase", "length", "version", "parent", "generation", "abi")
    assert [cache[name, 2] for name in names] == ["DECODE_READY", 2, 0, 0, 0, 0]
    assert [cache[name, 0] for name in names[:5]] == before
    assert cache.shows(0) == [(3, 3)] * 2
    assert cache["phase", 1] == "VACANT"


@pytest.mark.parametrize("rows", [0, 1, 2, 3])
def test_a_fork_is_at_any_committed_length(rows):
    """Any n from 0 to T, and not one more (A6)."""
    cache = ready().appended(rows=rows) if rows else ready()
    for n in range(rows + 1):
        assert cache.outcome("fork", p=0, children=(False, True, False), n=n).kind == "accepted"
    refusal = cache.refuse(
        "fork", "BEYOND_COMMITTED", p=0, children=(False, True, False), n=rows + 1
    )
    assert refusal.found == f"n = {rows + 1}, length[handle0] = {rows}, p = handle0"


def test_a_fan_out_is_all_or_none():
    """With one child in use no child is made; with all free, all in one step (A6)."""
    cache = ready().appended().do("allocate", h=1, b=1, a=0)
    refusal = cache.refuse("fork", "CHILD_IN_USE", p=0, children=(False, True, True), n=1)
    assert "children[handle1] = true" in refusal.found
    assert "phase[handle1] = DECODE_READY" in refusal.found
    assert cache["phase", 2] == "VACANT"
    cache.do("finish", h=1).do("release", h=1)
    cache.do("fork", p=0, children=(False, True, True), n=1)
    assert [cache["parent", c] for c in (1, 2)] == [0, 0]
    assert [cache["generation", c] for c in (1, 2)] == [1, 0]


def test_a_fork_names_a_child_and_not_its_parent():
    """No child is no fork, and the parent cannot be its own child (A6)."""
    cache = ready().appended()
    refusal = cache.refuse("fork", "NO_CHILD", p=0, children=(False, False, False), n=1)
    assert "children[handle0] = false" in refusal.found
    cache.refuse("fork", "CHILD_IN_USE", p=0, children=(True, True, False), n=1)


def test_a_child_goes_its_own_way():
    """Appends to a child show in the child alone, and the parent's in the parent (A6)."""
    cache = ready().appended().do("fork", p=0, children=(False, True, False), n=1)
    cache.do("forget", x=0).appended(txn=0, handle=1, rows=2).appended(txn=1, handle=0)
    assert [cache["length", h] for h in (0, 1)] == [2, 3]
    assert cache.shows(0) == [(2, 2)] * 2
    assert cache.shows(1) == [(3, 3)] * 2


def test_an_append_of_the_parent_is_no_append_of_the_child():
    """What was begun on the parent before the fork is published there, and only there (A6)."""
    cache = ready().prepared().do("fork", p=0, children=(False, True, False), n=0)
    cache.do("publish", x=0)
    assert [cache["length", h] for h in (0, 1)] == [1, 0]


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_a_truncate_makes_a_snapshot_of_all_layers(kept):
    """A new version and the same rows in every layer, from what can be taken back up to T (A6)."""
    cache = ready().do("enter", r=0, h=0).appended(rows=3).do("truncate", h=0, n=kept)
    assert (cache["length", 0], cache["version", 0]) == (kept, 2)
    assert cache.shows(0) == [(kept, kept)] * 2
    assert cache.row(0)[-1] == kept


def test_a_truncate_that_cannot_be_refuses_and_says_so():
    """More rows than the cache can take back, or beyond the committed ones: nothing changes (A6)."""
    cache = ready().appended(rows=3)
    refusal = cache.refuse("truncate", "CANNOT_REWIND", h=0, n=0)
    assert str(refusal) == (
        "CANNOT_REWIND: expected length[h] <= n + rewind; "
        "found length[handle0] = 3, h = handle0, n = 0"
    )
    cache.refuse("truncate", "BEYOND_COMMITTED", h=0, n=4)
    assert cache.shows(0) == [(3, 3)] * 2


def test_a_cache_that_cannot_go_back_truncates_to_its_own_length_alone():
    """With nothing to take back every shorter truncate is refused (A6)."""
    cache = ready(rewinds=0).appended(rows=2)
    for kept in (0, 1):
        cache.refuse("truncate", "CANNOT_REWIND", h=0, n=kept)
    cache.do("truncate", h=0, n=2)


def test_a_request_without_layers_or_rows_lives_as_well():
    """The life of a request does not hang on layers, batch rows or appends (totality)."""
    cache = Cache(layers=0, txns=0, rows=0).do("allocate", h=0, b=0, a=0)
    cache.do("finish", h=0).do("release", h=0)
    assert cache["generation", 0] == 1
