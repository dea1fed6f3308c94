"""The batch: companions enter, move and leave together (A6)."""

from itertools import product

import pytest
from scenario import ready


def two():
    """Two requests of different length in rows 0 and 2, the second a child of the first."""
    cache = ready().appended(rows=2).do("fork", p=0, children=(False, True, False), n=1)
    return cache.do("enter", r=0, h=0).do("enter", r=2, h=1)


def test_companions_enter_together():
    """A row gets cache, tokens, sampler, ancestry and position of the request in one step (A6)."""
    cache = two()
    assert cache.row(0) == (0, 0, 0, None, 2)
    assert cache.row(1) == (None, None, None, None, 0)
    assert cache.row(2) == (1, 1, 1, 0, 1)


def test_reorder_moves_every_companion():
    """Each row of the image has all five companions of the row it came from (A6)."""
    cache = two()
    before = [cache.row(r) for r in range(3)]
    cache.do("reorder", source=(2, 0, 1))
    assert [cache.row(r) for r in range(3)] == [before[2], before[0], before[1]]


@pytest.mark.parametrize("source", list(product(range(3), repeat=3)))
def test_reorder_takes_permutations_alone(source):
    """All 27 maps of three rows: the six bijections are reorders, the others are select and fork (A6)."""
    cache = two()
    before = [cache.row(r) for r in range(3)]
    if sorted(source) == [0, 1, 2]:
        cache.do("reorder", source=source)
        assert [cache.row(r) for r in range(3)] == [before[s] for s in source]
    else:
        refusal = cache.refuse("reorder", "NOT_A_PERMUTATION", source=source)
        assert refusal.expected == "source is a bijection"
        assert f"source[row0] = row{source[0]}" in refusal.found
        assert [cache.row(r) for r in range(3)] == before


def test_a_row_and_a_request_are_taken_once():
    """A row that carries a request, and a request in a row, are refused with codes of their own (A6)."""
    cache = two()
    cache.refuse("enter", "ROW_TAKEN", r=0, h=1)
    refusal = cache.refuse("enter", "IN_BATCH", r=1, h=1)
    assert "row_cache[row2] = handle1" in refusal.found


def test_a_request_leaves_with_all_its_companions():
    """Leave clears the request's row, wherever it moved, and no other (A6)."""
    cache = two().do("reorder", source=(2, 0, 1)).do("leave", h=1)
    assert cache.row(0) == (None, None, None, None, 0)
    assert cache.row(1) == (0, 0, 0, None, 2)
    refusal = cache.refuse("leave", "NOT_IN_BATCH", h=1)
    for row, carried in enumerate(("none", "handle0", "none")):
        assert f"row_cache[row{row}] = {carried}" in refusal.found


def test_a_reordered_request_goes_on_where_it_is():
    """Positions after a reorder belong to the request: an append and a truncate move its own row (A6)."""
    cache = two().do("reorder", source=(2, 0, 1)).do("forget", x=0)
    cache.appended(txn=0, handle=1, rows=2)
    assert cache.row(0) == (1, 1, 1, 0, 3)
    assert cache.row(1) == (0, 0, 0, None, 2)
    cache.do("truncate", h=1, n=2)
    assert cache.row(0)[-1] == 2
    assert cache.row(1)[-1] == 2
