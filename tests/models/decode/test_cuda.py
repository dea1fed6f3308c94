"""Tests that need a CUDA device: the same code, events that fire late, readers on other streams."""

import threading

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    TOLERANCES,
    CacheShape,
    DecodeError,
    Decoder,
    DecoderConfig,
    allocate,
    append,
    default_device,
    open_stream,
    submit_on,
)
from kvspec.models.decode.config import SUPPORTED_DTYPES
from kvspec.models.decode.measure import measure
from kvspec.models.decode.weights import seeded_weights

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device"),
]

SLACK = 10
"""The tolerances were measured on a CPU; other kernels add in another order."""

LONG = 200_000_000
"""Clock cycles for which a stream is kept busy: about a tenth of a second."""


@pytest.fixture
def cuda():
    """The device that decoders get by default where there is CUDA."""
    return default_device()


@pytest.fixture(params=LAYOUT_KINDS)
def layout(request, cuda):
    """An empty layout of each kind on the device."""
    return allocate(request.param, CacheShape.of(DecoderConfig(), cuda), capacity=16)


def test_weights_are_those_of_the_cpu(cuda, cpu):
    """Equal configs give equal bytes on both devices."""
    config = DecoderConfig()
    assert seeded_weights(config, cuda).digest() == seeded_weights(config, cpu).digest()


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=str)
def test_cached_and_uncached_logits_agree(cuda, dtype):
    """As on the CPU, within a tolerance widened for other kernels."""
    worst = max(measure(dtype, cuda, seeds=1), key=lambda case: case.disagreement)
    assert worst.disagreement <= SLACK * TOLERANCES[dtype], worst


def test_rows_are_incomplete_until_their_event_fires(cuda, layout):
    """Behind a long kernel rows are staged but not complete, and an install that only checks refuses."""
    decoder = Decoder(DecoderConfig(), cuda)
    stream = torch.cuda.Stream()
    tokens = torch.zeros(1, 2, dtype=torch.int64, device=cuda)
    positions = torch.arange(2, device=cuda)
    with torch.cuda.stream(stream):
        # Memory and kernels are fetched beforehand; fetching them later might wait for the device.
        append(decoder, layout.fork(0), tokens)
    staging = layout.begin(2)
    steps = decoder.forward_layers(tokens, positions, staging)
    next(steps)
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.cuda._sleep(LONG)
        for _ in steps:
            pass
    assert staging.missing() == []
    assert staging.incomplete() != []
    with pytest.raises(DecodeError) as refusal:
        layout.install(staging, wait=False)
    assert refusal.value.code == "ROWS_INCOMPLETE"
    assert layout.length == 0
    layout.install(staging)
    assert staging.incomplete() == []
    assert layout.length == 2


def test_a_reader_on_another_stream_finds_the_rows(cuda, layout):
    """After an install a stream that waits for nothing reads the rows that were staged elsewhere."""
    shape = layout.shape
    writer, reader = torch.cuda.Stream(), torch.cuda.Stream()
    staging = layout.begin(4)
    with torch.cuda.stream(writer):
        torch.cuda._sleep(LONG)
        for layer, part in shape.cells():
            staging.stage(layer, part, torch.ones(shape.rows(4), dtype=shape.dtype, device=cuda))
        layout.install(staging)
    with torch.cuda.stream(reader):
        found = [part.sum().item() for layer in range(2) for part in layout.read(layer)]
    assert found == [4 * shape.kv_heads * shape.head_dim] * 4


def test_rows_that_a_busy_stream_still_writes_are_not_handed_out(cuda, layout):
    """Rows dropped by the host while their write waits on another stream land as they were."""
    shape = layout.shape
    with open_stream(cuda) as writer:
        writer.launch(lambda: torch.ones(shape.rows(4), dtype=shape.dtype, device=cuda).clone())
        writer.synchronize()
        writer.hold()
        staging = layout.begin(4, submit_on(writer))
        for layer, part in shape.cells():
            rows = torch.ones(shape.rows(4), dtype=shape.dtype, device=cuda)
            staging.stage(layer, part, rows)
            del rows
        assert staging.incomplete() != []
        for _ in range(64):
            torch.full(shape.rows(4), 7.0, dtype=shape.dtype, device=cuda)
        layout.install(staging)
        assert staging.incomplete() == []
    found = [part.sum().item() for layer in range(2) for part in layout.read(layer)]
    assert found == [4 * shape.kv_heads * shape.head_dim] * 4


def test_work_of_another_thread_has_its_own_current_stream(cuda):
    """A stream that one thread made its own is no other thread's."""
    with open_stream(cuda) as stream, stream.current():
        here = torch.cuda.current_stream(cuda)
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.cuda.current_stream(cuda)))
        thread.start()
        thread.join()
    assert seen == [torch.cuda.default_stream(cuda)]
    assert here != seen[0]


def test_a_snapshot_read_on_another_stream_outlives_its_layout(cuda, layout):
    """Memory dropped while another stream still reads it is not handed out again."""
    shape = layout.shape
    decoder = Decoder(DecoderConfig(), cuda)
    append(decoder, layout, torch.zeros(1, 8, dtype=torch.int64, device=cuda))
    expected = layout.read(0)[0].clone()
    torch.cuda.synchronize()
    reader = torch.cuda.Stream()
    with torch.cuda.stream(reader):
        torch.cuda._sleep(LONG)
        seen = layout.read(0)[0].clone()
    layout.release()
    for _ in range(64):
        torch.full(shape.rows(16), 7.0, dtype=shape.dtype, device=cuda)
    reader.synchronize()
    assert torch.equal(seen, expected)
