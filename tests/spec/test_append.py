"""Appends: what is captured, staged, prepared and published, told as short runs (A3, A4)."""

import pytest
from scenario import ready

from kvspec.spec.append import append, begin, publish
from kvspec.spec.language import Read, walk


def test_an_append_captures_its_base():
    """Begin records handle, generation, snapshot, ABI, key and interval (A3)."""
    cache = ready().appended().begin(txn=1, key=1, rows=2)
    names = ("target", "base_generation", "base_version", "txn_abi", "key", "start", "count")
    assert [cache[name, 1] for name in names] == [0, 0, 1, 0, 1, 1, 2]
    assert cache["state", 1] == "OPEN"
    assert [cache["k_end", 1, l] for l in (0, 1)] == [1, 1]


@pytest.mark.parametrize(("first", "rows"), [(0, 1), (0, 3), (1, 1), (1, 2)])
def test_decode_prefill_and_continuation_are_one_action(first, rows):
    """n = 1 or more, from T = 0 or T > 0: all through begin, and published alike (A3)."""
    cache = ready()
    if first:
        cache.appended(rows=first).do("forget", x=0)
    cache.appended(rows=rows)
    assert cache["length", 0] == first + rows
    assert cache.shows(0) == [(first + rows, first + rows)] * 2


def test_an_interval_has_a_row_and_fits():
    """n = 0 and n past the context limit have codes of their own (A3, A12)."""
    cache = ready().appended(rows=2)
    where = {"x": 1, "h": 0, "k": 0, "a": 0}
    cache.refuse("begin", "EMPTY_APPEND", **where, p=2, n=0)
    refusal = cache.refuse("begin", "CONTEXT_FULL", **where, p=2, n=2)
    assert str(refusal) == "CONTEXT_FULL: expected p + n <= context; found p = 2, n = 2"


def test_an_interval_begins_where_rows_end():
    """A position before or past the committed length is refused (A12: position)."""
    cache = ready().appended()
    for position in (0, 2):
        refusal = cache.refuse("begin", "POSITION_MISMATCH", x=1, h=0, k=0, a=0, p=position, n=1)
        assert refusal.found == f"p = {position}, length[handle0] = 1, h = handle0"


def test_another_abi_is_refused_first():
    """Rows of another ABI are refused, also if the position is wrong as well (A12: ABI before position)."""
    refusal = ready().refuse("begin", "ABI_MISMATCH", x=0, h=0, k=0, a=1, p=2, n=0)
    assert "abi[handle0] = abi0" in refusal.found


def test_an_id_in_use_is_refused():
    """A transaction id is used again only after forget (A3)."""
    cache = ready().begin()
    cache.refuse("begin", "TXN_IN_USE", x=0, h=0, k=0, a=0, p=0, n=1)
    cache.do("cancel_txn", x=0)
    cache.refuse("begin", "TXN_IN_USE", x=0, h=0, k=0, a=0, p=0, n=1)
    cache.do("forget", x=0).begin()


def test_k_and_v_are_staged_apart_layer_by_layer():
    """K may be ahead of V and one layer ahead of another; each row comes once and in order (A3)."""
    cache = ready().begin(rows=2)
    cache.do("stage_k", x=0, l=0, p=0).do("stage_k", x=0, l=0, p=1).do("stage_v", x=0, l=1, p=0)
    assert [cache["k_end", 0, l] for l in (0, 1)] == [2, 0]
    assert [cache["v_end", 0, l] for l in (0, 1)] == [0, 1]
    cache.refuse("stage_k", "INTERVAL_FULL", x=0, l=0, p=2)
    cache.refuse("stage_v", "POSITION_MISMATCH", x=0, l=1, p=0)
    cache.refuse("stage_v", "POSITION_MISMATCH", x=0, l=1, p=2)
    assert cache["length", 0] == 0
    assert cache.shows(0) == [(0, 0)] * 2


def test_prepared_means_every_layer_has_k_and_v():
    """Any layer without its K rows, and then any without its V rows, is in the way (A3)."""
    cache = ready().begin()
    for layer in (0, 1):
        refusal = cache.refuse("prepare", "K_INCOMPLETE", x=0)
        assert f"k_end[txn0, layer{layer}] = 0" in refusal.found
        cache.do("stage_k", x=0, l=layer, p=0)
    for layer in (1, 0):
        cache.refuse("prepare", "V_INCOMPLETE", x=0)
        cache.do("stage_v", x=0, l=layer, p=0)
    cache.do("prepare", x=0)
    assert cache["state", 0] == "PREPARED"
    cache.refuse("prepare", "TXN_CLOSED", x=0)
    cache.refuse("stage_k", "TXN_CLOSED", x=0, l=0, p=1)


def test_publication_is_the_one_step_that_shows_rows():
    """Neither begin, nor a layer's write, nor prepare shows a row; publish shows all layers (A4)."""
    cache = ready().begin(rows=2)
    seen = [cache.shows(0)]
    seen.extend(cache.stage(0, layers=(layer,)).shows(0) for layer in (0, 1))
    seen.append(cache.do("prepare", x=0).shows(0))
    assert seen == [[(0, 0)] * 2] * 4
    cache.do("publish", x=0)
    assert cache.shows(0) == [(2, 2)] * 2
    assert (cache["length", 0], cache["version", 0], cache["receipt", 0]) == (2, 1, 1)
    assert cache["state", 0] == "PUBLISHED"


def test_a_publish_before_prepare_is_refused():
    """An open append cannot be published, nor a published one again (A3)."""
    cache = ready().begin()
    cache.refuse("publish", "NOT_PREPARED", x=0)
    cache.stage(0).do("prepare", x=0).do("publish", x=0)
    cache.refuse("publish", "NOT_PREPARED", x=0)


def test_the_second_of_two_appends_is_stale():
    """Two appends from one snapshot: one is published, the other rejected, and its rows are gone (A4)."""
    cache = ready().prepared(txn=0).prepared(txn=1, key=1, rows=2).do("publish", x=1)
    refusal = cache.refuse("publish", "STALE_SNAPSHOT", x=0, changes=True)
    assert refusal.found == (
        "version[handle0] = 1, target[txn0] = handle0, x = txn0, base_version[txn0] = 0"
    )
    assert cache["state", 0] == "REJECTED"
    assert (cache["target", 0], cache["key", 0], cache["k_end", 0, 0]) == (None, None, 0)
    assert cache.shows(0) == [(2, 2)] * 2
    assert cache["length", 0] == 2


def test_a_truncate_makes_an_append_stale():
    """A truncate to the same length is another snapshot: what was based on the old one is rejected (A4)."""
    cache = ready().appended().prepared(txn=1).do("truncate", h=0, n=1)
    cache.refuse("publish", "STALE_SNAPSHOT", x=1, changes=True)
    assert cache.shows(0) == [(1, 1)] * 2


def test_a_publish_moves_the_batch_row_along():
    """The next position of the row that carries the handle is the new length (A3, A6)."""
    cache = ready().do("enter", r=1, h=0).appended(rows=2)
    assert cache.row(1) == (0, 0, 0, None, 2)
    assert cache.row(0) == (None, None, None, None, 0)


def test_publish_compares_generation_snapshot_and_phase_in_this_order():
    """The guards of publish and begin stand in the order in which failures are told (A4, A12)."""
    codes = [guard.code.name for guard in publish.guards]
    assert codes == ["NOT_PREPARED", "STALE_GENERATION", "STALE_SNAPSHOT", "HANDLE_TERMINAL"]
    codes = [guard.code.name for guard in begin.guards]
    assert codes[2:] == ["ABI_MISMATCH", "POSITION_MISMATCH", "EMPTY_APPEND", "CONTEXT_FULL"]


def test_staged_rows_are_read_by_their_append_alone():
    """No guard or value outside of the append and its end reads k_end or v_end (A3)."""
    system = ready().machine.system
    readers = set()
    for action in system.actions.values():
        for done in action.assignments:
            reads = {n.variable.name for n in walk(done.value) if isinstance(n, Read)}
            if reads & {"k_end", "v_end"} and done.variable.name not in ("k_end", "v_end"):
                readers.add((action.name, done.variable.name))
    assert readers == {("publish", "k_rows"), ("publish", "v_rows")}
    assert set(append.actions) == {"begin", "stage_k", "stage_v", "prepare", "publish"}
