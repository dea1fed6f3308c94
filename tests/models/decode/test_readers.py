"""Readers and writers on streams of their own: one body for workers on the CPU and for CUDA."""

import random
import sys
import threading
import time
from contextlib import ExitStack

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    CacheShape,
    DecodeError,
    Decoder,
    DecoderConfig,
    LayoutFaults,
    Publication,
    Reader,
    agrees,
    append,
    open_stream,
    submit_on,
    uncached_logits,
)
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.models.decode.readers import copied

ON_CUDA = pytest.param(
    "cuda",
    marks=[
        pytest.mark.cuda,
        pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
    ],
)
SIZES = StoreSizes(capacity=24, layouts=6)
CONFIG = DecoderConfig(dtype=torch.float64)


@pytest.fixture(params=["cpu", ON_CUDA])
def device(request):
    """Where rows are, and with it the kind of stream."""
    return torch.device(request.param)


@pytest.fixture
def streams(device):
    """Opens streams on the device, and closes them all."""
    with ExitStack() as stack:

        def opened():
            stream = stack.enter_context(open_stream(device))
            if device.type == "cuda":
                # Memory and kernels are fetched now; later that might wait for a stream that is held.
                with stream.current():
                    layout = store("dynamic", device)()
                    layout.install(staged(layout, 1, 2))
                    copied(layout.snapshot(), 2)
            return stream

        yield opened


@pytest.fixture(params=LAYOUT_KINDS)
def kind(request):
    """Each kind of layout."""
    return request.param


def store(kind, device, faults=None):
    """A store for rows of two layers."""
    shape = CacheShape.of(CONFIG, device)
    return open_store(kind, shape, SIZES, faults or LayoutFaults())


def staged(layout, value, count, *on):
    """An open append whose rows all hold ``value``, written on the given streams in turn."""
    staging = layout.begin(count, *([submit_on(*on)] if on else []))
    shape = layout.shape
    for layer, part in shape.cells():
        rows = torch.full(shape.rows(count), float(value), dtype=shape.dtype, device=shape.device)
        staging.stage(layer, part, rows)
    return staging


def values(layers):
    """The row values of every part, once each row is found to be of one value."""
    for part in (part for pair in layers for part in pair):
        assert torch.equal(part, part[:, :1, :, :1].expand_as(part))
    return [part[0, 0, :, 0].tolist() for pair in layers for part in pair]


def is_whole(layers):
    """All parts hold the same rows, each of one value, none of them unwritten."""
    parts = [part for pair in layers for part in pair]
    if len({part.shape for part in parts}) > 1:
        return False
    rows = torch.stack(parts)
    return bool((rows == rows[:1, :1, :1, :, :1]).all()) and not bool((rows == 0).any())


def seen_while_publishing(layout, reader, *writers):
    """What a reader on another stream sees after each visible change of three appends.

    The writers' streams are held until somebody waits for them, so all rows are late.
    """
    seen = []
    for value in (1, 2, 3):
        for writer in writers:
            writer.hold(until_waited=True)
        staging = staged(layout, value, 2, *writers)
        assert len(staging.incomplete()) == 4
        seen += [reader.copy(layout).result() for _ in layout.install_steps(staging)]
    return seen


def test_a_reader_sees_all_layers_of_late_rows(kind, device, streams):
    """Publication waits for each layer's event, whichever of two streams it is on."""
    layout = store(kind, device)()
    seen = seen_while_publishing(layout, Reader(streams()), streams(), streams())
    assert [values(layers) for layers in seen] == [
        [[1, 1]] * 4,
        [[1, 1, 2, 2]] * 4,
        [[1, 1, 2, 2, 3, 3]] * 4,
    ]


def test_rows_published_before_their_event_are_seen_unwritten(kind, device, streams):
    """A publication that does not ask is caught: the first rows that a reader gets are zeros."""
    layout = store(kind, device, LayoutFaults(allow_incomplete=True))()
    seen = seen_while_publishing(layout, Reader(streams()), streams(), streams())
    assert not any(is_whole(layers) for layers in seen)
    assert values(seen[0]) == [[0, 0]] * 4


def test_a_torn_publication_is_seen_from_another_stream(kind, device, streams):
    """A publication part by part is caught: three of four reads have layers of unlike length."""
    layout = store(kind, device, LayoutFaults(tear=True))()
    seen = seen_while_publishing(layout, Reader(streams()), streams(), streams())
    assert [is_whole(layers) for layers in seen] == [False, False, False, True] * 3


def test_publication_polls_each_event(kind, device, streams):
    """Without waiting a late part is refused by name; once all events have fired it is published."""
    layout = store(kind, device)()
    on_time, late = streams(), streams()
    late.hold()
    staging = staged(layout, 1, 2, on_time, late)
    on_time.synchronize()
    assert [staging.is_complete(*cell) for cell in layout.shape.cells()] == [True, False] * 2
    said = "found layer 0 value, layer 1 value not yet written"
    with pytest.raises(DecodeError, match=said) as refusal:
        layout.install(staging, wait=False)
    assert refusal.value.code == "ROWS_INCOMPLETE"
    assert layout.length == 0
    late.release()
    late.synchronize()
    layout.install(staging, wait=False)
    assert values(copied(layout.snapshot(), 2)) == [[1, 1]] * 4


def test_a_failed_write_is_never_published(kind):
    """A worker that lost a write leaves its part incomplete; waiting says why, nothing is visible."""
    layout = store(kind, torch.device("cpu"))()
    lost = open_stream(torch.device("cpu"), "lost")
    lost.hold()
    lost.launch(lambda: 1 / 0)
    staging = staged(layout, 1, 2, lost)
    lost.release()
    with pytest.raises(DecodeError, match="STREAM_FAILED in wait on lost: found work that raised"):
        layout.install(staging)
    with pytest.raises(DecodeError) as refusal:
        layout.install(staging, wait=False)
    assert refusal.value.code == "ROWS_INCOMPLETE"
    assert layout.length == 0
    staging.discard()
    lost.close()
    layout.install(staged(layout, 2, 1))
    assert values(copied(layout.snapshot(), 2)) == [[2]] * 4


def test_a_decoder_whose_rows_are_written_elsewhere_is_right(kind, device, streams):
    """Appends whose writes run on two streams give the logits of an uncached run."""
    decoder = Decoder(CONFIG, device)
    draw = torch.Generator().manual_seed(7)
    tokens = torch.randint(0, CONFIG.vocab, (1, 12), generator=draw).to(device)
    layout, submit = store(kind, device)(), submit_on(streams(), streams())
    pieces = [append(decoder, layout, piece, submit) for piece in tokens.split((5, 1, 1, 5), -1)]
    assert agrees(torch.cat(pieces, dim=1), uncached_logits(decoder, tokens))


def test_appends_run_whole_on_the_stream_of_their_writer(kind, device, streams):
    """Decoding under a current stream, and handing a call to a stream, both give the right rows."""
    decoder = Decoder(CONFIG, device)
    tokens = torch.arange(8, device=device)[None]
    layout, writer, logits = store(kind, device)(), streams(), []
    with writer.current():
        logits.append(append(decoder, layout, tokens[:, :5]))
    writer.launch(lambda: logits.append(append(decoder, layout, tokens[:, 5:]))).wait()
    assert agrees(torch.cat(logits, dim=1), uncached_logits(decoder, tokens))


def test_a_reader_does_not_block_and_comes_behind_the_publication(kind, device, streams):
    """Reading an unsettled publication is handed in at once, and starts behind its event."""
    layout, writer, reader = store(kind, device)(), streams(), Reader(streams())
    layout.install(staged(layout, 1, 2))
    staging = staged(layout, 2, 2)
    writer.hold()
    with writer.current():
        writer.launch(lambda: None)
        layout.install(staging, settle=False)
    published = layout.publication()
    assert not published.landed.is_complete()
    reading = reader.copy(layout)
    assert not reading.is_complete()
    writer.release()
    assert values(reading.result()) == [[1, 1, 2, 2]] * 4
    assert published.landed.is_complete()


def test_what_a_look_raises_is_raised_where_its_result_is_asked_for(kind, device, streams):
    """The reader is told of its own error, and can read on."""
    layout, reader = store(kind, device)(), Reader(streams())
    layout.install(staged(layout, 1, 2))

    def look(seen):
        raise KeyError(len(seen.lengths()))

    lost = reader.read(layout.publication(), look)
    with pytest.raises(KeyError, match="2"):
        lost.result()
    assert values(reader.copy(layout).result()) == [[1, 1]] * 4


def test_a_reader_that_follows_finds_rows_that_are_still_on_their_way(device, streams):
    """In place, rows published too early are found by who follows the event, and by no one else."""
    layout = store("static", device, LayoutFaults(allow_incomplete=True))()
    writer, follower, hasty = streams(), Reader(streams()), Reader(streams())
    writer.hold()
    with writer.current():
        staging = staged(layout, 1, 2)
        layout.install(staging, settle=False)
    reading = follower.copy(layout)
    published = layout.publication()
    too_early = hasty.read(Publication(published.seen), lambda seen: copied(seen, 2)).result()
    writer.release()
    assert values(too_early) == [[0, 0]] * 4
    assert values(reading.result()) == [[1, 1]] * 4


def test_what_a_reader_is_given_outlives_all_that_others_do(kind, device, streams):
    """A snapshot read late is as it was, after cut, append, release, and other requests' rows."""
    make = store(kind, device)
    layout, reader = make(), Reader(streams())
    layout.install(staged(layout, 1, 3))
    reader.stream.hold()
    reading = reader.copy(layout)
    layout.truncate(2)
    layout.install(staged(layout, 2, 2))
    layout.release()
    later = []
    for value in (3, 4, 5):
        later.append(make())
        later[-1].install(staged(later[-1], value, 4))
    assert [values(copied(other.snapshot(), 2)) for other in later] == [
        [[value] * 4] * 4 for value in (3, 4, 5)
    ]
    reader.stream.release()
    assert values(reading.result()) == [[1, 1, 1]] * 4


def test_a_reader_finds_out_that_its_rows_are_written_over(device, streams):
    """A static layout that writes over rows which an older snapshot shows is caught by the same reader."""
    layout = store("static", device, LayoutFaults(overwrite=True))()
    layout.install(staged(layout, 1, 3))
    reader = Reader(streams())
    reader.stream.hold()
    reading = reader.copy(layout)
    layout.truncate(2)
    layout.install(staged(layout, 2, 2))
    reader.stream.release()
    assert values(reading.result()) == [[1, 1, 2]] * 4


def test_a_discarded_append_is_not_let_room_while_its_writes_are_on_their_way(
    kind, device, streams
):
    """Late writes of a discarded append meet nobody's rows."""
    layout, late, reader = store(kind, device)(), streams(), Reader(streams())
    late.hold()
    staged(layout, 9, 2, late).discard()
    layout.install(staged(layout, 1, 2))
    late.release()
    late.synchronize()
    assert values(reader.copy(layout).result()) == [[1, 1]] * 4


def hammer(kind, device, streams, *, readers, reads, faults=None):
    """The reads of all readers that were not whole, while a writer appends and cuts all the time."""
    layout, chance = store(kind, device, faults)(), random.Random(kind)
    writers = [streams() for _ in range(2)]
    eyes = [Reader(streams()) for _ in range(readers)]
    bad, lengths, problems = [], set(), []
    stop = threading.Event()

    def write():
        value = 0
        while not stop.is_set():
            value += 1
            late = chance.choice(writers)
            if device.type == "cpu" or faults:
                # A device is late by itself, and a hold there lasts for as long as all reads.
                late.hold(until_waited=True)
            staging = staged(layout, value, chance.randint(1, 3), *writers)
            for _ in layout.install_steps(staging):
                # Each visible change gives the readers a chance to run.
                time.sleep(1e-4)
            late.release()
            if layout.length > 6:
                layout.truncate(chance.randint(0, 2))

    def read(eye):
        for _ in range(reads):
            layers = eye.copy(layout).result()
            lengths.add(layers[0][0].shape[2])
            if not is_whole(layers):
                bad.append(layers)

    def told(work, *of):
        try:
            work(*of)
        except BaseException as error:  # noqa: BLE001 - told by the test's own thread
            problems.append(error)

    threads = [threading.Thread(target=told, args=(read, eye)) for eye in eyes]
    writing = threading.Thread(target=told, args=(write,))
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        for thread in (writing, *threads):
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        stop.set()
        writing.join()
        sys.setswitchinterval(before)
    if problems:
        raise problems[0]
    assert faults or len(lengths) > 3
    return bad


@pytest.mark.parametrize(
    ("readers", "reads"), [(2, 1000), pytest.param(3, 10_000, marks=pytest.mark.slow)]
)
def test_no_reader_ever_sees_a_part_of_a_publication(kind, device, streams, readers, reads):
    """While a writer appends late rows and cuts, readers on their own streams see all layers or none."""
    assert hammer(kind, device, streams, readers=readers, reads=reads) == []


@pytest.mark.parametrize("fault", ["tear", "allow_incomplete"])
def test_readers_in_a_race_see_what_a_fault_shows(kind, device, streams, fault):
    """The same race finds a torn layout out, and one that publishes before the events, in five goes."""
    faults = LayoutFaults(**{fault: True})
    goes = (hammer(kind, device, streams, readers=2, reads=200, faults=faults) for _ in range(5))
    assert any(goes)
