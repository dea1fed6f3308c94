"""Tests of what only the static layout does: capacity, landing in place, and who holds the room."""

import math

import pytest
from filled_rows import filled, shown

from kvspec.models.decode import (
    DecodeError,
    Deferral,
    LayoutFaults,
    StaticLayout,
    agrees,
    append,
    uncached_logits,
)
from kvspec.models.decode.hooks import Part


@pytest.fixture
def layout(shape):
    """An empty layout of six rows."""
    return StaticLayout(shape, capacity=6)


def held(layout):
    """The whole buffer's K rows of layer 0 as one number each."""
    return layout.snapshot().buffer.cell((0, Part.KEY))[0, 0, :, 0].tolist()


def test_capacity_is_held_and_is_not_length(layout):
    """Six rows are reserved from the start; the valid length is a number beside them."""
    assert (layout.length, layout.reserved_rows, layout.capacity) == (0, 6, 6)
    layout.install(filled(layout, 1, 2))
    assert (layout.length, layout.reserved_rows) == (2, 6)
    assert held(layout) == [1, 1, 0, 0, 0, 0]


def test_an_append_past_the_capacity_is_refused(layout):
    """The refusal says found, expected, where and what to do; a full buffer still reads."""
    layout.install(filled(layout, 1, 5))
    with pytest.raises(DecodeError) as refusal:
        layout.begin(2)
    assert refusal.value.code == "CAPACITY_EXCEEDED"
    assert str(refusal.value) == (
        "CAPACITY_EXCEEDED in begin on a static layout: found rows [5, 7), but expected rows within"
        " [0, 6), the capacity: append fewer rows, truncate, or allocate a larger layout"
    )
    layout.install(filled(layout, 2, 1))
    assert shown(layout) == [1, 1, 1, 1, 1, 2]


def test_a_buffer_has_at_least_one_row(shape):
    """A capacity of zero is refused."""
    with pytest.raises(DecodeError, match="capacity = 0") as refusal:
        StaticLayout(shape, capacity=0)
    assert refusal.value.code == "BAD_CONFIG"


def test_rows_land_in_the_buffer_before_they_are_visible(layout):
    """Staged rows are in the buffer behind the visible length, and installing moves no memory."""
    layout.install(filled(layout, 1, 2))
    buffer = layout.snapshot().buffer
    staging = filled(layout, 2, 2)
    assert held(layout) == [1, 1, 2, 2, 0, 0]
    assert shown(layout) == [1, 1]
    view = staging.view(0)
    assert view.keys.data_ptr() == buffer.cell((0, Part.KEY)).data_ptr()
    layout.install(staging)
    assert layout.snapshot().buffer is buffer
    assert shown(layout) == [1, 1, 2, 2]


def test_a_second_open_append_stays_out_of_the_buffer(layout):
    """The room has one tenant; the other's publication moves to a fresh buffer, the tenant's rows stay."""
    tenant, other = filled(layout, 1, 2), filled(layout, 2, 1)
    assert held(layout)[:2] == [1, 1]
    before = layout.snapshot().buffer
    layout.install(other)
    assert shown(layout) == [2]
    assert layout.snapshot().buffer is not before
    assert tenant.view(0).keys[0, 0, :, 0].tolist() == [1, 1]


def test_rows_once_visible_are_not_written_over(layout):
    """After a truncation the next rows go to a fresh buffer, and the older snapshot keeps its own."""
    layout.install(filled(layout, 1, 3))
    older = layout.snapshot()
    layout.truncate(1)
    assert layout.snapshot().buffer is older.buffer
    layout.install(filled(layout, 2, 1))
    assert shown(layout) == [1, 2]
    assert older.read(0)[0][0, 0, :, 0].tolist() == [1, 1, 1]


def test_room_is_let_again_only_after_its_writes_have_landed(layout):
    """A late write of a discarded append meets nobody's rows."""
    hold = Deferral()
    filled(layout, 9, 2, hold).discard()
    layout.install(filled(layout, 1, 2))
    hold.fire_all()
    assert shown(layout) == [1, 1]


def test_room_whose_writes_have_landed_is_used_again(layout):
    """After a discard on the CPU the next append lands in place."""
    filled(layout, 9, 3).discard()
    buffer = layout.snapshot().buffer
    layout.install(filled(layout, 1, 2))
    assert layout.snapshot().buffer is buffer
    assert held(layout) == [1, 1, 9, 0, 0, 0]


def test_careless_letting_lets_a_late_write_damage_another_append(shape):
    """With ``overwrite`` the late write of a discarded append lands on published rows."""
    layout = StaticLayout(shape, capacity=6, faults=LayoutFaults(overwrite=True))
    hold = Deferral()
    filled(layout, 9, 2, hold).discard()
    layout.install(filled(layout, 1, 2))
    hold.fire_all()
    assert shown(layout) == [9, 9]


def test_a_nan_behind_the_valid_rows_does_not_reach_the_logits(decoder, layout, tokens):
    """Leftovers of a discarded append are not read, not even under a mask."""
    append(decoder, layout, tokens[:, :3])
    filled(layout, math.nan, 3).discard()
    assert math.isnan(held(layout)[5])
    found = append(decoder, layout, tokens[:, 3:5])
    assert agrees(found, uncached_logits(decoder, tokens)[:, 3:5])
