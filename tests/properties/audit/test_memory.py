"""Bounded memory: what is remembered, what is not, and outputs that are known in part."""

import pytest

from kvspec.properties.audit.memory import Outputs, Recent


@pytest.mark.parametrize("size", [1, 2, 7])
def test_the_last_entries_are_remembered_and_few_others(size):
    """At least the last `size` entries are there, never more than twice as many."""
    recent = Recent(size)
    for number in range(100):
        recent.put(number, f"n{number}")
        assert len(recent) <= 2 * size
        known = range(max(0, number - size + 1), number + 1)
        assert [recent.get(each) for each in known] == [f"n{each}" for each in known]
    assert recent.forgot
    assert recent.get(0) is None


def test_nothing_is_forgotten_of_a_few():
    """As long as all fits, nothing was dropped, and `put` says so."""
    recent = Recent(4)
    assert [recent.put(n, n) for n in range(7)] == [False] * 7
    assert not recent.forgot
    assert recent.put(7, 7)
    assert recent.forgot


def test_an_entry_can_be_taken_out():
    """What was taken out is gone, from wherever it was."""
    recent = Recent(2)
    for number in range(3):
        recent.put(number, str(number))
    assert [recent.pop(0), recent.pop(2), recent.pop(9)] == ["0", "2", None]
    assert recent.get(0) is None


def test_no_memory_at_all_is_refused():
    """A table of no entries would forget what it was just told."""
    with pytest.raises(ValueError, match="at least one"):
        Recent(0)


def test_outputs_are_counted():
    """Each output has the next index; another is told with what was expected."""
    outputs = Outputs()
    assert [outputs.emit(0), outputs.emit(1), outputs.emit(1)] == [None, None, "2"]


def test_after_a_cut_no_output_is_added():
    """A prefix has any number of the outputs, and the next output settles it."""
    outputs = Outputs(5, 5).cut()
    assert outputs.emit(6) == "0 to 5"
    assert outputs.emit(3) is None
    assert outputs.emit(3) == "4"
