"""What the traces of A-B39, A-B40 and A-B46 show, and what the sound rule says there."""

from kvspec.models.concrete import Machine
from kvspec.properties.atlas.residency import MASK_TOO_NARROW, REMOVED_TWICE, ROTATED_ONCE
from kvspec.properties.atlas.run import search_faulty


def traced(case):
    """The violation of a case, and the faulty machine."""
    (found,) = search_faulty(case).violations
    return found, Machine(case.fault.on(case.instance))


def events(found):
    """Actions of a trace, with the values of their parameters."""
    return [(step.event.action, *(v for _, v in step.event.values)) for step in found.trace[1:]]


def test_the_second_run_is_looked_for_where_the_rows_were():
    """Two runs of one token leave; the row of the third is gone, and that of the second is there (A-B39)."""
    found, faulty = traced(REMOVED_TWICE.cases[0])
    assert events(found)[-2:] == [("drop", 1), ("drop", 1)]
    end = found.trace[-1].state
    stays = next(c for c in range(3) if faulty.value(end, "fate", c) != "ABSENT")
    assert not faulty.value(end, "held", stays)
    assert sum(faulty.value(end, "held", c) for c in range(3)) == 1


def test_the_row_is_read_as_it_stood_in_between():
    """Shifted from 2 to 0, the row is turned for 1 when a decode step reads it (A-B40)."""
    found, faulty = traced(ROTATED_ONCE.cases[0])
    assert [name for name, *_ in events(found)].count("drop") == 2
    before = found.trace[-2].state
    assert events(found)[-1][0] == "add"
    read = next(c for c in range(3) if faulty.value(before, "held", c))
    assert faulty.value(before, "position", read) == 0
    assert faulty.value(before, "rotated", read) == 1
    assert faulty.value(before, "pending", read) == 0


def test_a_shift_that_waits_for_all_rows_is_never_applied():
    """A row before the run is not shifted, and the loop has a pending row in every state (A-B40)."""
    found, faulty = traced(ROTATED_ONCE.cases[2])
    assert found.loop is not None
    for step in found.trace[found.loop :]:
        assert any(faulty.value(step.state, "pending", c) for c in range(3))


def test_a_burst_has_a_query_with_too_few_columns():
    """The second row of one append is given two rows, and a mask of one column (A-B46)."""
    found, faulty = traced(MASK_TOO_NARROW.cases[0])
    end = found.trace[-1].state
    assert faulty.value(end, "k_end", 0, 0) - faulty.value(end, "first", 0, 0) == 2
    assert faulty.value(end, "columns", 0, 0) == 1


def test_rows_are_lost_with_a_burst_that_is_taken_back():
    """After the cancelled burst a request of one row has let go of it already (A-B46)."""
    found, faulty = traced(MASK_TOO_NARROW.cases[1])
    assert "cancel_txn" in [name for name, *_ in events(found)]
    end = found.trace[-1].state
    assert faulty.value(end, "length", 0) < faulty.value(end, "first", 0, 0)
