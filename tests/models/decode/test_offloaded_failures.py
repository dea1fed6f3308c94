"""Tests of an offloaded store whose appends are lost or whose transfers fail: others go on."""

import gc
import threading

import pytest
import torch

from kvspec.models.decode import (
    CacheShape,
    DecodeError,
    Deferral,
    DeviceRoom,
    OffloadedLayout,
    WorkerStream,
)
from kvspec.models.decode.workers import WorkerMark

LAYERS = 3


@pytest.fixture
def shape(cpu):
    """Three layers, so that one more than the device has room for is read."""
    return CacheShape(LAYERS, 1, 2, torch.float64, cpu)


def add(layout, value, constant):
    """Publish two rows that all hold ``value``."""
    staging = layout.begin(2)
    constant.stage(staging, value)
    layout.install(staging)


def open_append(layout, submit, constant):
    """An append with rows of its first two layers, which are all that the device has room for."""
    staging = layout.begin(1, submit)
    for layer, part in list(layout.shape.cells())[:4]:
        staging.stage(layer, part, constant.rows(9, layout.shape, 1))
    return staging


def within(seconds, act):
    """What ``act`` gives on another thread; an error when it does not end in time."""
    found = []
    thread = threading.Thread(target=lambda: found.append(act()), daemon=True)
    thread.start()
    thread.join(timeout=seconds)
    assert found, f"no end within {seconds} s"
    return found[0]


def shown(layout):
    """The K rows of each layer as one number each."""
    return [layout.read(layer)[0][0, 0, :, 0].tolist() for layer in range(layout.shape.layers)]


@pytest.mark.parametrize("also", ["", "its layout", "its snapshots, in a cycle"])
def test_an_append_that_was_dropped_gives_the_room_up(shape, constant, also):
    """Its transfers never end, and nobody discards it; another handle of the store reads all layers."""
    room = DeviceRoom(shape)
    layout, other = OffloadedLayout(room), OffloadedLayout(room)
    add(other, 5, constant)
    hold = Deferral()
    staging = open_append(layout, hold, constant)
    assert room.layers == 2
    if "cycle" in also:
        staging.itself = staging
    del staging, hold
    if also:
        layout.release()
        del layout
    gc.collect()
    assert within(10, lambda: shown(other)) == [[5, 5]] * LAYERS


def test_an_open_append_keeps_the_room_until_the_host_has_its_rows(shape, constant):
    """A reader of another handle waits while the append is held, and goes on when its transfers end."""
    room = DeviceRoom(shape)
    layout, other = OffloadedLayout(room), OffloadedLayout(room)
    add(other, 5, constant)
    hold = Deferral()
    staging = open_append(layout, hold, constant)
    found = []
    reader = threading.Thread(target=lambda: found.extend(shown(other)))
    reader.start()
    reader.join(timeout=0.1)
    assert reader.is_alive()
    hold.fire_all()
    reader.join(timeout=10)
    assert found == [[5, 5]] * LAYERS
    assert staging.view(0).keys[0, 0, :, 0].tolist() == [9]


def test_rows_that_the_host_never_got_are_not_shown_to_their_own_call(shape, constant):
    """Displaced by another handle's layers, they are refused, where the host's memory still reads zero."""
    room = DeviceRoom(shape)
    layout, other = OffloadedLayout(room), OffloadedLayout(room)
    add(other, 5, constant)

    def lost():
        raise RuntimeError("no host memory")

    with WorkerStream("stores") as stream:
        stream.launch(lost)
        staging = open_append(layout, lambda write, _: WorkerMark(stream, 2), constant)
        assert staging.view(0).keys[0, 0, :, 0].tolist() == [9]
        assert shown(other) == [[5, 5]] * LAYERS
        with pytest.raises(DecodeError, match="no host memory") as refusal:
            staging.view(0)
        assert refusal.value.code == "STREAM_FAILED"
        stream.close()
