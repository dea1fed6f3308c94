"""Resident rows: what windowed layers let go of and when, how far back one can go, and what a mask covers."""

import attrs
import pytest
from observed import Observed

from kvspec.spec import residency
from kvspec.spec.language import FALSE, TRUE


def request(window=2, rewinds=0, longest=6, *, windowed=True, **sizes):
    """A request of two layers, both windowed or both full."""
    sizes = {"layers": 2, "versions": 6, **sizes}
    made = residency.make_instance(
        "SCENARIO", "", windows=window, longest=longest, rewinds=rewinds, **sizes
    )
    pinned = attrs.evolve(made, initial={"windowed": TRUE if windowed else FALSE})
    return Observed(pinned).do("allocate", h=0, b=0, a=0)


def begun(seen, rows, h=0):
    """An append of so many rows."""
    return seen.do("begin", x=0, h=h, k=0, a=0, p=seen["length", h], n=rows)


def appended(seen, rows, h=0):
    """So many rows, published at once."""
    begun(seen, rows, h).stage(0)
    return seen.do("prepare", x=0).do("publish", x=0).do("forget", x=0)


@pytest.mark.parametrize(
    ("window", "rewinds", "first"), [(1, 0, 5), (2, 0, 4), (3, 0, 3), (3, 2, 1), (5, 2, 0)]
)
def test_what_a_window_keeps(window, rewinds, first):
    """Of five rows those stay that the next query sees, or one after a truncate by the rows to go back."""
    assert appended(request(window, rewinds), 5)["first", 0, 0] == first


def test_a_full_layer_keeps_all():
    """Whatever the window of others, and however far back, the first row is there."""
    seen = appended(request(1, 5, windowed=False), 5)
    assert seen["first", 0, 0] == 0
    assert seen.do("truncate", h=0, n=1)["first", 0, 1] == 0


def test_a_mask_is_as_wide_as_what_is_shown():
    """In a burst of three behind a window of two, masks have two, three and four columns (A-B46)."""
    seen = begun(appended(request(), 3), 3)
    assert seen["first", 0, 0] == 2
    found = [seen.do("stage_k", x=0, l=1, p=p)["columns", 0, 1] for p in (3, 4, 5)]
    assert found == [2, 3, 4]
    assert seen["columns", 0, 0] == 0, "the other layer has had no query"


def test_a_burst_taken_back_leaves_the_window_whole():
    """Nothing is let go before publication: the next append is given the rows as before (A-B46)."""
    seen = begun(appended(request(), 3), 3).stage(0).do("cancel_txn", x=0).do("forget", x=0)
    assert seen["first", 0, 0] == 2
    seen = begun(seen, 1)
    assert seen["columns", 0, 0] == 0
    assert seen.do("stage_k", x=0, l=0, p=3)["columns", 0, 0] == 2


def test_one_truncate_is_allowed_for_and_a_second_one_is_not():
    """What was kept to go back by is used up, although the core would cut once more."""
    seen = appended(request(rewinds=1), 4).do("truncate", h=0, n=3)
    seen.refuse("truncate", "WINDOW_GONE", h=0, n=2)
    seen.refuse("truncate", "CANNOT_REWIND", h=0, n=1)
    assert appended(seen, 2)["first", 0, 0] == 3


def test_a_window_of_one_row_needs_none_to_go_on():
    """Each query sees its own row alone, so that any earlier length can be gone back to."""
    seen = appended(request(1, 1), 3).do("truncate", h=0, n=2).do("truncate", h=0, n=1)
    assert seen["first", 0, 0] == 1


def test_a_fork_has_its_whole_window_or_is_refused():
    """A child at the parent's length has what the parent has; one before is missing a row."""
    seen = appended(request(handles=2), 4)
    child = {"p": 0, "children": (False, True)}
    seen.refuse("fork", "WINDOW_GONE", **child, n=3)
    seen.do("fork", **child, n=4)
    assert seen["first", 1, 0] == seen["first", 0, 0] == 3
    assert appended(seen, 1, h=1)["first", 1, 1] == 4
