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
    residency,
    run_now,
    submit_on,
)
from kvspec.models.decode.residency import transfer
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


class Flaky:
    """Transfers of which the chosen ones, counted from 0, raise."""

    def __init__(self, *lost):
        self.lost = lost
        self.count = 0

    def __call__(self, target, rows):
        """Copy, or raise."""
        number, self.count = self.count, self.count + 1
        if number in self.lost:
            raise MemoryError("no room")
        transfer(target, rows)


def own_stream():
    """Transfers on a stream of the room's own."""
    return None, WorkerStream("unused")


def given_stream():
    """Transfers on a stream that the room is given."""
    stream = WorkerStream("given")
    return submit_on(stream), stream


def at_once():
    """Transfers on the thread that asks for them."""
    return run_now, WorkerStream("unused")


@pytest.mark.parametrize("fetches", [own_stream, given_stream, at_once])
@pytest.mark.parametrize("lost", [0, 2, 4])
def test_a_transfer_that_fails_is_started_anew(monkeypatch, shape, constant, fetches, lost):
    """The reader of that layer is refused once and told what to do; then all handles read all layers."""
    submit, stream = fetches()
    with stream:
        room = DeviceRoom(shape, fetches=submit)
        layout, other = OffloadedLayout(room), OffloadedLayout(room)
        add(layout, 5, constant)
        add(other, 6, constant)
        monkeypatch.setattr(residency, "transfer", Flaky(lost))
        for layer in range(lost // 2):
            assert layout.read(layer)[0][0, 0, :, 0].tolist() == [5, 5]
        with pytest.raises(DecodeError, match=r"MemoryError: no room.* read again") as refusal:
            layout.read(lost // 2)
        assert refusal.value.code == "FETCH_FAILED"
        assert shown(layout) == [[5, 5]] * LAYERS
        assert shown(other) == [[6, 6]] * LAYERS
        assert room.most == 2


def test_readers_that_share_a_failed_transfer_read_no_zeros(monkeypatch, shape, constant):
    """Of two readers that wait for it each is refused, or reads the rows of another transfer."""
    hold = Deferral()
    room = DeviceRoom(shape, fetches=hold)
    layout = OffloadedLayout(room)
    staging = layout.begin(2)
    constant.stage(staging, 5)
    layout.install(staging)
    monkeypatch.setattr(residency, "transfer", Flaky(0))
    found, stop = [], threading.Event()

    def read():
        try:
            found.append(layout.read(0)[0][0, 0, :, 0].tolist())
        except DecodeError as refusal:
            found.append(refusal.code)

    readers = [threading.Thread(target=read) for _ in range(2)]
    for reader in readers:
        reader.start()
    while not hold.writes:
        stop.wait(0.001)
    while any(reader.is_alive() for reader in readers):
        hold.fire_all()
        stop.wait(0.001)
    assert "FETCH_FAILED" in found
    assert all(each in ("FETCH_FAILED", [5, 5]) for each in found), found
