import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.properties.documents.runs import Positions, core_run

named = st.lists(st.integers(-5, 5_000), max_size=12)


@given(named, st.data())
def test_shorter_positions_keep_order_and_neighbours(places, data):
    """Two positions compare as before, one row further is one row further, and the way back is exact."""
    at = Positions(places)
    for one in places:
        assert at.short(one) <= max(one, 0) or one < 0
        if one >= 0:
            assert at.true(at.short(one)) == one
        for other in places:
            assert (at.short(one) < at.short(other)) == (one < other)
            assert (at.short(one) + 1 == at.short(other)) == (one + 1 == other)


@given(st.lists(st.integers(0, 256), max_size=9))
def test_short_documents_keep_their_positions(places):
    """Where no stretch is long, nothing is shortened."""
    at = Positions(places)
    assert not at.are_shorter
    assert all(at.short(place) == place for place in places)


def test_a_long_stretch_is_shortened():
    """Of a stretch of a million rows 256 are kept, and what follows stays beside it."""
    at = Positions([1_000_000, 1_000_001])
    assert at.are_shorter
    assert [at.short(1_000_000), at.short(1_000_001)] == [256, 257]


def test_a_run_takes_hidden_steps_and_tells_the_first_refusal():
    """An append has all its steps; one beyond the limit is refused at its begin and changes nothing."""
    run = core_run(handles=1, longest=3, appends=2, layers=9)
    assert run.committed(0) is None
    assert run.append(0, 0, 1).code == "HANDLE_TERMINAL"
    assert run.step("allocate", h=0, b=0, a=0) is None
    assert run.append(0, 0, 2) is None
    assert run.committed(0) == 2
    before = run.state
    assert run.append(0, 2, 2).code == "CONTEXT_FULL"
    assert run.try_step("release", h=0).code == "NOT_TERMINAL"
    assert run.state == before


def test_a_run_without_room_says_so():
    """A step beyond the bounds of the run is a mistake of the caller, and no verdict."""
    run = core_run(handles=1, longest=3, appends=0)
    run.step("allocate", h=0, b=0, a=0)
    run.append(0, 0, 1)
    with pytest.raises(RuntimeError, match="more room"):
        run.append(0, 1, 1)
