"""Tests of the offloaded layout: rows on the host, two layers on the device, transfers on other threads."""

import gc
import threading
import time
import weakref

import pytest
import torch

from kvspec.models.concrete import Event
from kvspec.models.decode import (
    LAYERS_ON_DEVICE,
    TOLERANCES,
    CacheShape,
    DecodeError,
    Decoder,
    DecoderConfig,
    Deferral,
    DeviceRoom,
    LayoutFaults,
    OffloadedLayout,
    WorkerStream,
    agrees,
    append,
    cached_logits,
    disagreement,
    make_backend,
    positions_from,
    run_now,
    submit_on,
    uncached_logits,
)
from kvspec.models.decode.workers import WorkerMark
from kvspec.spec import core

DAMAGE = 1e9 * TOLERANCES[torch.float64]
"""A disagreement no rounding explains: a share of 8e-6 of the largest logit."""

LAYERS = 5


@pytest.fixture(scope="module")
def deep(cpu):
    """Five layers, so that more than the device has room for are between the first and the last."""
    return Decoder(DecoderConfig(layers=LAYERS, dtype=torch.float64), cpu)


@pytest.fixture
def stream():
    """A stream of the CPU, which ends with the test."""
    found = WorkerStream()
    yield found
    found.close()


class Watched(DeviceRoom):
    """A room that knows which of the tensors that it made are still held by anybody."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.made = []

    def _empty(self, rows):
        target = super()._empty(rows)
        self.made.append(weakref.ref(target))
        return target

    @property
    def alive(self):
        """K and V of fetched layers that are in memory."""
        return sum(made() is not None for made in self.made)


def opened(decoder, fetches=None, **faults):
    """An empty layout in a store of its own."""
    room = Watched(CacheShape.of(decoder.config, decoder.device), LayoutFaults(**faults), fetches)
    return OffloadedLayout(room, LayoutFaults(**faults))


def called(decoder, layout, tokens, start, stop, submit=run_now):
    """An open append with the rows of tokens [start, stop), and the call's logits."""
    staging = layout.begin(stop - start, submit)
    at = positions_from(start, stop - start, decoder.device)
    return staging, decoder.forward(tokens[:, start:stop], at, staging)


def stepped(steps, watch):
    """Run a call to its end, with ``watch`` told of each step, and give its logits."""
    while True:
        try:
            watch(next(steps))
        except StopIteration as end:
            return end.value


def started(target):
    """A thread that runs ``target``."""
    thread = threading.Thread(target=target)
    thread.start()
    return thread


@pytest.mark.parametrize("late", [False, True], ids=["stores-now", "stores-on-a-stream"])
def test_two_layers_at_most_are_on_the_device(deep, tokens, stream, late):
    """Through every step of every call two layers of five are on the device, and logits agree (D2)."""
    layout = opened(deep)
    room, expected, held = layout.room, uncached_logits(deep, tokens), []
    for start, stop in ((0, 5), (5, 6), (6, 7), (7, 11), (11, 12)):
        staging = layout.begin(stop - start, submit_on(stream) if late else run_now)
        at = positions_from(start, stop - start, deep.device)
        steps = deep.forward_layers(tokens[:, start:stop], at, staging)
        found = stepped(steps, lambda _: held.append((room.layers, room.alive)))
        assert agrees(found, expected[:, start:stop])
        layout.install(staging)
    assert len(held) == 5 * 2 * LAYERS
    assert all(alive <= 2 * layers <= 2 * LAYERS_ON_DEVICE for layers, alive in held), held
    assert room.most == LAYERS_ON_DEVICE == 2


def test_each_layer_is_fetched_once_a_call_and_each_part_stored_once(deep, tokens):
    """A prefetched layer is not fetched again; nothing is fetched at all to learn of lengths."""
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])
    counts = []
    for at in range(4, 8):
        before = (layout.room.fetched, layout.room.stored)
        append(deep, layout, tokens[:, at : at + 1])
        layout.lengths()
        layout.snapshot().positions(3)
        counts.append((layout.room.fetched - before[0], layout.room.stored - before[1]))
    assert counts == [(LAYERS, 2 * LAYERS)] * 4


def test_reading_a_layer_waits_for_its_transfer_and_starts_the_next(deep, tokens):
    """With transfers held back a reader of layer 1 waits; those of layers 1 and 2 are under way alone."""
    hold = Deferral()
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])
    expected = [part.clone() for part in layout.read(1)]
    other = OffloadedLayout(Watched(layout.shape, fetches=hold))
    rows = layout.snapshot().parts
    snapshot = type(layout.snapshot())(rows, other.room)
    found = []
    reader = started(lambda: found.extend(snapshot.read(1)))
    reader.join(timeout=0.1)
    assert reader.is_alive()
    assert len(hold.writes) == 2
    hold.writes[0].fire()
    reader.join(timeout=10)
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert not hold.writes[1].is_complete()


def test_transfers_run_on_a_thread_of_the_store(deep, tokens):
    """No transfer to the device runs on the thread that asks for it, and the thread ends with the store."""
    layout = opened(deep)
    ours = {thread.ident for thread in threading.enumerate()}
    append(deep, layout, tokens[:, :4])
    append(deep, layout, tokens[:, 4:5])
    (worker,) = [thread for thread in threading.enumerate() if thread.ident not in ours]
    assert worker.name == "kvspec fetches"
    del layout
    gc.collect()
    worker.join(timeout=10)
    assert not worker.is_alive()


def test_a_publication_waits_for_the_hosts_copy_of_every_layer(decoder, tokens, stream):
    """While one part is not yet on the host nothing is visible; when it is, all layers are (D3)."""
    layout = opened(decoder)
    append(decoder, layout, tokens[:, :4])
    stream.hold()
    staging, _ = called(decoder, layout, tokens, 4, 6, submit_on(stream))
    stream.release(3)
    with pytest.raises(DecodeError) as refusal:
        layout.install(staging, wait=False)
    assert refusal.value.code == "ROWS_INCOMPLETE"
    installing = started(lambda: layout.install(staging))
    installing.join(timeout=0.1)
    assert installing.is_alive()
    assert layout.lengths() == [(4, 4)] * 2
    stream.release()
    installing.join(timeout=10)
    assert layout.lengths() == [(6, 6)] * 2
    found = cached_logits(decoder, layout, tokens[:, 6:], (1, 5))
    assert agrees(found, uncached_logits(decoder, tokens)[:, 6:])


def test_a_call_goes_no_further_than_the_host_follows(deep, tokens, stream):
    """With no part on the host yet a call stops before its third layer; then it goes on and agrees."""
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])
    stream.hold()
    staging = layout.begin(2, submit_on(stream))
    steps = deep.forward_layers(tokens[:, 4:6], positions_from(4, 2, deep.device), staging)
    reached, logits = [], []

    calling = started(
        lambda: logits.append(stepped(steps, lambda made: reached.append(made.layer)))
    )
    calling.join(timeout=0.2)
    assert calling.is_alive()
    # The prefetch of the third layer already needs the first one's room.
    assert set(reached) == {0, 1}
    assert layout.room.layers == 2
    stream.release()
    calling.join(timeout=10)
    assert agrees(logits[0], uncached_logits(deep, tokens)[:, 4:6])
    assert layout.room.most == 2


def test_calls_of_two_requests_share_the_room(deep, tokens):
    """Two calls in turns displace each other's rows, and both agree; two layers are there at a time."""
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])
    child = layout.fork(3)
    others = torch.cat((tokens[:, :3], (tokens[:, 3:] + 5) % deep.config.vocab), dim=1)
    runs, logits = [], []
    for each, ids, start in ((layout, tokens, 4), (child, others, 3)):
        staging = each.begin(3)
        at = positions_from(start, 3, deep.device)
        runs.append(deep.forward_layers(ids[:, start : start + 3], at, staging))
    before = layout.room.fetched
    while len(logits) < 2:
        for steps in runs:
            try:
                next(steps)
            except StopIteration as end:
                logits.append(end.value)
        assert layout.room.layers <= 2
    assert agrees(logits[0], uncached_logits(deep, tokens)[:, 4:7])
    assert agrees(logits[1], uncached_logits(deep, others)[:, 3:6])
    assert layout.room.fetched - before > 2 * LAYERS
    assert layout.room.most == 2


def test_readers_on_other_threads_share_the_room(deep, tokens):
    """Three readers of old and new snapshots see whole rows while appends go on, through two layers."""
    layout = opened(deep)
    expected = uncached_logits(deep, tokens)
    append(deep, layout, tokens[:, :2])
    old = [part.clone() for layer in range(LAYERS) for part in layout.read(layer)]
    snapshot, stop, wrong, reads = layout.snapshot(), threading.Event(), [], []

    def read():
        while not stop.is_set():
            for each in (snapshot, layout.snapshot()):
                parts = [part for layer in range(LAYERS) for part in each.read(layer)]
                reads.append(len(parts))
                if not all(torch.equal(a, b[:, :, :2]) for a, b in zip(old, parts, strict=True)):
                    wrong.append(each.lengths())

    readers = [started(read) for _ in range(3)]
    for at in range(2, 12):
        assert agrees(append(deep, layout, tokens[:, at : at + 1])[:, 0], expected[:, at])
    while len(reads) < 12:
        time.sleep(0.001)
    stop.set()
    for reader in readers:
        reader.join(timeout=10)
    assert wrong == []
    assert layout.room.most == 2


def test_the_device_has_nothing_of_a_released_request(deep, tokens):
    """After a release no layer is there; a discarded append leaves none of its rows either."""
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])
    layout.read(3)
    assert layout.room.layers == 2
    staging, _ = called(deep, layout, tokens, 4, 6)
    staging.discard()
    layout.release()
    assert layout.room.layers == 0


def test_a_transfer_that_fails_is_the_appends_own(deep, tokens, stream):
    """Rows that the host never gets are refused at the install; others read on, and take the room."""
    layout = opened(deep)
    append(deep, layout, tokens[:, :4])

    def lost():
        raise RuntimeError("no host memory")

    stream.launch(lost)
    staging = layout.begin(1, lambda write, _: WorkerMark(stream, 2))
    for layer, part in list(layout.shape.cells())[:4]:
        staging.stage(layer, part, torch.ones(layout.shape.rows(1), dtype=torch.float64))
    assert layout.room.layers == 2
    assert agrees(append(deep, layout, tokens[:, 4:5]), uncached_logits(deep, tokens)[:, 4:5])
    with pytest.raises(DecodeError) as refusal:
        staging.wait()
    assert refusal.value.code == "STREAM_FAILED"


def test_the_backend_keeps_two_layers_on_the_device():
    """Through appends, forks and reads of three layers the store of a backend holds two of them (D2)."""
    instance = core.make_instance(
        "DEEP", "three layers", handles=2, txns=1, layers=3, longest=3, versions=4
    )
    backend = make_backend("offloaded")
    backend.reset(instance)
    names = {
        name: [parameter.name for parameter in action.parameters]
        for name, action in instance.system.actions.items()
    }

    def do(action, *values):
        reply = backend.perform(Event(action, tuple(zip(names[action], values, strict=True))))
        assert reply.accepted, (action, values, reply)

    do("allocate", 0, 0, 0)
    for start in range(3):
        do("begin", 0, 0, 0, 0, start, 1)
        for layer in range(3):
            do("stage_k", 0, layer, start)
            do("stage_v", 0, layer, start)
        do("prepare", 0)
        do("publish", 0)
        do("forget", 0)
        assert backend.damage() == []
    do("fork", 0, (False, True), 2)
    assert backend.damage() == []
    room = backend.read(1).entry.rows.room
    assert room is backend.read(0).entry.rows.room
    assert room.most == 2
    assert room.stored == 3 * 3 * 2


# What is lost without a guard.


def test_a_layer_read_before_its_transfer_gives_wrong_logits(decoder, tokens):
    """With transfers held back the sound layout waits and agrees; the faulty one reads zeros (D4)."""
    expected = uncached_logits(decoder, tokens)[:, 4:6]
    hold = Deferral()
    faulty = opened(decoder, hold, read_before_fetch=True)
    append(decoder, faulty, tokens[:, :4])
    _, found = called(decoder, faulty, tokens, 4, 6)
    assert faulty.read(0)[0].abs().max() == 0
    assert disagreement(found, expected) > DAMAGE

    hold = Deferral()
    sound, logits, stop = opened(decoder, hold), [], threading.Event()

    def fire():
        while not stop.wait(0.001):
            hold.fire_all()

    firing = started(fire)
    append(decoder, sound, tokens[:, :4])
    logits.append(called(decoder, sound, tokens, 4, 6)[1])
    stop.set()
    firing.join(timeout=10)
    assert agrees(logits[0], expected)


def test_rows_given_up_before_the_host_has_them_are_lost(decoder, tokens):
    """With stores held back the sound layout refuses; the faulty one publishes zeros (D4)."""
    damage = []
    for faults in ({}, {"free_before_store": True}):
        layout, hold = opened(decoder, **faults), Deferral()
        append(decoder, layout, tokens[:, :4])
        staging, _ = called(decoder, layout, tokens, 4, 5, hold)
        if faults:
            layout.install(staging)
            assert layout.read(1)[1][0, :, 4].abs().max() == 0
        else:
            with pytest.raises(DecodeError) as refusal:
                layout.install(staging, wait=False)
            assert refusal.value.code == "ROWS_INCOMPLETE"
            hold.fire_all()
            layout.install(staging, wait=False)
        hold.fire_all()
        _, found = called(decoder, layout, tokens, 5, 6)
        damage.append(disagreement(found, uncached_logits(decoder, tokens)[:, 5:6]))
    sound, faulty = damage
    assert sound <= TOLERANCES[torch.float64]
    assert faulty > DAMAGE


def test_without_the_wait_a_call_runs_ahead_of_the_host(deep, tokens, stream):
    """The faulty layout's call ends although no row is on the host; the sound one's stops (D4)."""
    stream.hold()
    layout = opened(deep, free_before_store=True)
    staging, _ = called(deep, layout, tokens, 0, 4, submit_on(stream))
    layout.install(staging)
    assert layout.lengths() == [(4, 4)] * LAYERS
    assert all(part.abs().max() == 0 for part in layout.snapshot().parts.values())
    stream.release()
