"""Readers of the decode backend: between any two steps they see all layers of one snapshot."""

import sys
import threading
import time

import pytest
import torch

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeBackend,
    Deferral,
    NotReadableError,
    Reader,
    Stream,
    make_backend,
    open_stream,
    submit_on,
)
from kvspec.spec import core

INSTANCE = core.make_instance(
    "READERS",
    "a request that grows by appends to three layers",
    handles=2,
    txns=1,
    layers=3,
    longest=4,
    versions=40,
    blocks=2,
    generations=2,
)
MACHINE = Machine(INSTANCE)
NAMES = {
    name: [parameter.name for parameter in action.parameters]
    for name, action in INSTANCE.system.actions.items()
}


def do(backend: DecodeBackend, action: str, *values: object) -> None:
    """Perform an event that must be accepted."""
    event = Event(action, tuple(zip(NAMES[action], values, strict=True)))
    reply = backend.perform(event)
    assert reply.accepted, (event, reply)


def stage_all(backend: DecodeBackend, start: int, count: int) -> None:
    """Begin an append and stage all its rows."""
    do(backend, "begin", 0, 0, 0, 0, start, count)
    for layer in range(3):
        for place in range(start, start + count):
            do(backend, "stage_k", 0, layer, place)
            do(backend, "stage_v", 0, layer, place)


def publish_all(backend: DecodeBackend, start: int, count: int) -> None:
    """Begin, stage, prepare, publish and forget an append."""
    stage_all(backend, start, count)
    do(backend, "prepare", 0)
    do(backend, "publish", 0)
    do(backend, "forget", 0)


def allocated(layout: str, *faults: str, **options: object) -> DecodeBackend:
    """A backend with one request on handle 0."""
    backend = make_backend(layout, faults, **options)
    backend.reset(INSTANCE)
    do(backend, "allocate", 0, 0, 0)
    return backend


def lengths_seen_while_publishing(layout: str, *faults: str, rounds: int = 8) -> tuple[int, int]:
    """How many reads a second thread made while this one published, and how many were uneven."""
    seen: list[bool] = []
    stop = threading.Event()
    # Each visible change gives the reader a chance to run.
    backend = allocated(layout, *faults, watch=lambda: time.sleep(1e-4))

    def read() -> None:
        while not stop.is_set():
            pairs = backend.read(0).lengths()
            seen.append(len({length for pair in pairs for length in pair}) > 1)

    reader = threading.Thread(target=read)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    reader.start()
    try:
        for _ in range(rounds):
            publish_all(backend, 0, 2)
            do(backend, "truncate", 0, 0)
    finally:
        stop.set()
        reader.join()
        sys.setswitchinterval(before)
    return len(seen), sum(seen)


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_a_reader_on_another_thread_never_sees_uneven_layers(layout: str) -> None:
    """While one thread publishes and truncates, another sees equal lengths in every read."""
    reads, uneven = lengths_seen_while_publishing(layout)
    assert reads > 50
    assert uneven == 0


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_a_torn_publication_is_seen_from_another_thread(layout: str) -> None:
    """With the torn fault, the reader sees layers of different lengths."""
    _, uneven = lengths_seen_while_publishing(layout, "publish.torn")
    assert uneven > 0


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize(("faults", "changes"), [((), 1), (("publish.torn",), 7)])
def test_a_publication_is_one_visible_change(
    layout: str, faults: tuple[str, ...], changes: int
) -> None:
    """Sound: one change, even. Torn: one for each part, uneven until the last, and wrong logits."""
    seen: list[list[tuple[int, int]]] = []
    harm: list[str] = []

    def watch() -> None:
        seen.append(backend.read(0).lengths())
        harm.extend(found.kind for found in backend.damage())

    backend = allocated(layout, *faults, watch=watch)
    publish_all(backend, 0, 1)
    assert len(seen) == changes
    assert seen[-1] == [(1, 1)] * 3
    assert [pairs == [(1, 1)] * 3 for pairs in seen].count(False) == max(0, changes - 2)
    assert set(harm) == ({"layers", "logits"} if faults else set())
    assert backend.damage() == []


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_an_old_view_stays_as_it_was(layout: str) -> None:
    """A reader that took its view before an append, a cut and another append still reads the old rows."""
    backend = allocated(layout)
    publish_all(backend, 0, 2)
    view = backend.read(0)
    rows = [(keys.clone(), values.clone()) for keys, values in view.layers()]
    do(backend, "truncate", 0, 0)
    publish_all(backend, 0, 3)
    assert view.lengths() == [(2, 2)] * 3
    for (keys, values), (old_keys, old_values) in zip(view.layers(), rows, strict=True):
        assert torch.equal(keys, old_keys)
        assert torch.equal(values, old_values)
    assert backend.read(0).lengths() == [(3, 3)] * 3


def test_vacant_and_released_handles_are_unreadable() -> None:
    """A reader of a handle without rows is refused with a code of its own."""
    backend = allocated("dynamic")
    with pytest.raises(NotReadableError, match=r"NOT_READABLE .* found the phase VACANT"):
        backend.read(1)
    do(backend, "finish", 0)
    assert backend.read(0).lengths() == [(0, 0)] * 3
    do(backend, "release", 0)
    with pytest.raises(NotReadableError, match="found the phase RELEASED"):
        backend.logits(0)


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_prepare_refuses_rows_that_are_not_written(layout: str) -> None:
    """A row whose write has not landed counts as missing, in the order of the checks."""
    late = Deferral()
    backend = allocated(layout, submit=late, wait=False)
    stage_all(backend, 0, 1)
    prepare = Event("prepare", (("x", 0),))
    assert backend.perform(prepare).code == "K_INCOMPLETE"
    for write in late.writes[::2]:
        write.fire()
    assert backend.perform(prepare).code == "V_INCOMPLETE"
    late.fire_all()
    assert backend.perform(prepare).accepted
    do(backend, "publish", 0)
    assert backend.damage() == []


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_prepare_waits_for_rows_by_default(layout: str) -> None:
    """With `wait`, prepare returns once another thread has let the writes land."""
    late = Deferral()
    backend = allocated(layout, submit=late)
    stage_all(backend, 0, 1)
    firing = threading.Timer(0.02, late.fire_all)
    firing.start()
    do(backend, "prepare", 0)
    firing.join()
    do(backend, "publish", 0)
    assert backend.damage() == []


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_publishing_unwritten_rows_gives_wrong_logits(layout: str) -> None:
    """Without the question whether rows are written, readers get memory as it was before."""
    late = Deferral()
    backend = allocated(layout, "publish.unwritten", submit=late)
    publish_all_late = (
        stage_all,
        lambda b, *_: do(b, "prepare", 0),
        lambda b, *_: do(b, "publish", 0),
    )
    for step in publish_all_late:
        step(backend, 0, 1)
    harm = {found.kind: found for found in backend.damage()}
    assert harm["rows"].amount == 6
    assert "never written" in harm["rows"].text
    assert harm["logits"].amount > 0.01


def lost_rows(backend: DecodeBackend) -> dict[str, float]:
    """Publish an append, and measure the harm by its kind."""
    stage_all(backend, 0, 1)
    do(backend, "prepare", 0)
    do(backend, "publish", 0)
    return {found.kind: found.amount for found in backend.damage()}


ON_CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_prepare_polls_the_events_of_two_streams(layout: str, device: str) -> None:
    """Rows on a stream that is late hold prepare back, with the code of the part that is missing."""
    with open_stream(torch.device(device)) as early, open_stream(torch.device(device)) as late:
        # K and V are staged in turn, so that all V rows go to the second stream.
        backend = allocated(layout, device=device, submit=submit_on(early, late), wait=False)
        publish_all_on(backend, early, late)
        late.hold()
        stage_all(backend, 1, 1)
        early.synchronize()
        prepare = Event("prepare", (("x", 0),))
        assert backend.perform(prepare).code == "V_INCOMPLETE"
        late.release()
        late.synchronize()
        assert backend.perform(prepare).accepted
        do(backend, "publish", 0)
        assert backend.damage() == []


def publish_all_on(backend: DecodeBackend, *streams: Stream) -> None:
    """Publish a row that was written on streams which are not late."""
    stage_all(backend, 0, 1)
    for stream in streams:
        stream.synchronize()
    do(backend, "prepare", 0)
    do(backend, "publish", 0)
    do(backend, "forget", 0)


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_publishing_before_the_event_is_measured_in_numbers(layout: str, device: str) -> None:
    """Late rows: the sound backend waits for them, the faulty one shows memory as it was before."""
    harm = {}
    for faults in ((), ("publish.unwritten",)):
        with open_stream(torch.device(device)) as late:
            backend = allocated(layout, *faults, device=device, submit=submit_on(late))
            late.hold(until_waited=True)
            harm[faults] = lost_rows(backend)
    assert harm[()] == {}
    assert harm["publish.unwritten",]["rows"] == 6
    assert harm["publish.unwritten",]["logits"] > 0.01


@pytest.mark.parametrize("device", ["cpu", ON_CUDA])
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_a_reader_on_its_own_stream_reads_all_layers_of_a_handle(layout: str, device: str) -> None:
    """A view copied late, after more appends, is that of the moment at which it was taken."""
    with open_stream(torch.device(device)) as late, open_stream(torch.device(device)) as eye:
        backend = allocated(layout, device=device, submit=submit_on(late))
        late.hold(until_waited=True)
        publish_all(backend, 0, 2)
        expected = [(keys.clone(), values.clone()) for keys, values in backend.read(0).layers()]
        reader = Reader(eye)
        eye.hold()
        reading = reader.copy_view(backend.read(0))
        publish_all(backend, 2, 1)
        assert not reading.is_complete()
        eye.release()
        for found, right in zip(reading.result(), expected, strict=True):
            assert all(torch.equal(*pair) for pair in zip(found, right, strict=True))


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_on_cuda_a_late_kernel_holds_prepare_back(layout: str) -> None:
    """Rows behind a busy stream are not complete: prepare refuses, then waits, and no damage is left."""
    backend = allocated(layout, device="cuda", wait=False)
    publish_all(backend, 0, 1)
    torch.cuda._sleep(200_000_000)
    stage_all(backend, 1, 1)
    assert backend.perform(Event("prepare", (("x", 0),))).code == "K_INCOMPLETE"
    torch.cuda.synchronize()
    do(backend, "prepare", 0)
    do(backend, "publish", 0)
    assert backend.damage() == []
