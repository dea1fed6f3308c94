"""Edits of a sequence: rows leave, the rest is shifted, and rotations follow before attention reads."""

from observed import Observed

from kvspec.spec import positions


def sequence(count, cells=6):
    """So many rows, in the order of their cells."""
    seen = Observed(positions.make_instance("SCENARIO", "", cells))
    for cell in range(count):
        seen.do("add", c=cell)
    return seen


def listed(seen, cells=6):
    """Cells of the rows, sorted by their positions."""
    found = [c for c in range(cells) if seen["held", c]]
    return sorted(found, key=lambda c: seen["position", c])


def edited(seen, plan):
    """An edit that keeps (a cell) and drops (a count) in turn, left open."""
    seen.do("open_edit")
    for kind, value in plan:
        seen.do("keep", c=value) if kind == "keep" else seen.do("drop", n=value)
    return seen


def test_a_second_run_is_found_where_the_first_one_left_it():
    """Runs at 1 and 3 leave: the second is removed at 2, and the list is the rows in order (A-B39)."""
    plan = [("keep", 0), ("drop", 1), ("keep", 2), ("drop", 1), ("keep", 4)]
    seen = edited(sequence(5), plan).do("close_edit")
    assert listed(seen) == [0, 2, 4]
    assert (
        [seen["position", c] for c in (0, 2, 4)]
        == [seen["index", c] for c in (0, 2, 4)]
        == [0, 1, 2]
    )


def test_shifts_add_up_until_they_are_applied():
    """Shifted by one and by two, a row is turned by three at once, and then by nothing (A-B40)."""
    seen = edited(sequence(4), [("drop", 1), ("drop", 2), ("keep", 3)])
    assert [seen[name, 3] for name in ("position", "rotated", "pending")] == [0, 3, 3]
    seen.do("close_edit").refuse("add", "SHIFT_PENDING", c=0)
    seen.do("flush").refuse("flush", "NOTHING_PENDING")
    assert [seen[name, 3] for name in ("position", "rotated", "pending")] == [0, 0, 0]
    seen.do("add", c=0)
    assert listed(seen) == [3, 0]


def test_a_flush_between_two_shifts_changes_nothing_of_the_end():
    """Applied in two parts or in one, the rotation is that of the position."""
    seen = edited(sequence(4), [("drop", 1)]).do("flush").do("drop", n=2)
    assert [seen[name, 3] for name in ("position", "rotated", "pending")] == [0, 2, 2]
    assert seen.do("flush")["rotated", 3] == 0


def test_an_edit_may_end_at_any_point():
    """What it has not come to leaves with its rows, shifted or not."""
    seen = edited(sequence(4), [("keep", 0), ("drop", 1)]).do("close_edit")
    assert listed(seen) == [0]
    assert seen["size"] == 1
    seen.do("add", c=3)
    assert seen["position", 3] == 1


def test_an_edit_goes_through_the_old_list():
    """Tokens are kept in their order, a run ends with the list, and nothing is read halfway."""
    seen = sequence(2).refuse("drop", "NO_EDIT", n=1).do("open_edit")
    seen.refuse("keep", "NOT_NEXT", c=1).refuse("drop", "EMPTY_RUN", n=0)
    seen.refuse("drop", "BEYOND_LIST", n=3).refuse("add", "EDIT_OPEN", c=2)
    seen.do("keep", c=0).refuse("keep", "NOT_NEXT", c=0)
