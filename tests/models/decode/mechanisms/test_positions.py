"""Shifted rows on real K: damage in numbers, and all that a small instance allows."""

import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.positions import Cache
from kvspec.properties.positions import positions as claims
from kvspec.spec import positions


@pytest.mark.slow
def test_the_sound_cache_does_what_three_rows_allow():
    """Every transition of three rows goes as specified, without damage."""
    report = sample(Cache(), positions.TRIPLE, claims, walks=4_000, examples=60)
    assert report.holds, report.text()
    assert report.touched == report.transitions


def edited(*told, rows=4, faults=()):
    """A cache of so many rows, told of more."""
    cache = Cache(faults=faults)
    cache.reset(positions.make_instance("SCENARIO", "", 6))
    for action, values in [*(("add", {"c": c}) for c in range(rows)), *told]:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


TWICE = (
    ("open_edit", {}),
    ("drop", {"n": 1}),
    ("keep", {"c": 1}),
    ("drop", {"n": 1}),
    ("keep", {"c": 3}),
    ("close_edit", {}),
    ("flush", {}),
)


def test_rows_turned_twice_read_as_if_turned_once():
    """Behind two shifts and a flush the logits to come are those of K turned to its place at once."""
    assert not edited(*TWICE).damage()
    parts = (*TWICE[:2], ("flush", {}), *TWICE[2:])
    assert not edited(*parts).damage()


def test_a_rotation_for_one_of_two_shifts_is_seen_in_logits():
    """The row stands at 1 and is turned for 2: logits of every step that reads it are off."""
    cache = edited(*TWICE, faults=("drop.the-last-shift-alone",))
    (harm,) = cache.damage()
    assert harm.kind == "logits"
    assert harm.amount > 1e-4


def test_a_removal_in_old_coordinates_takes_and_leaves_a_row():
    """One row of K and V is gone that should be there, and one is there that should be gone."""
    cache = edited(*TWICE[:4], faults=("drop.removes-in-old-coordinates",))
    rows = [harm for harm in cache.damage() if harm.kind == "rows"]
    assert [harm.where for harm in rows] == ["cell2", "cell3"]
    assert {harm.amount for harm in rows} == {2 * 2 * 2 * 4 * 8}, (
        "K and V, layers, heads, width, bytes"
    )
