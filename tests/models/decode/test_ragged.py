"""Tests of batched calls over requests of different length."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from kvspec.models.decode import (
    LAYOUT_KINDS,
    CacheShape,
    DecodeError,
    Decoder,
    DecoderConfig,
    Part,
    agrees,
    append,
    disagreement,
    finish,
    uncached_logits,
)
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.models.decode.ragged import Chunk, RaggedCall, append_ragged

WINDOW = 4


@pytest.fixture(params=LAYOUT_KINDS)
def store(request, shape):
    """A store of each kind, with room for four requests."""
    return open_store(request.param, shape, StoreSizes(16, layouts=8))


def ids(count, seed=0, vocab=32):
    """Token ids [count]."""
    return torch.randint(0, vocab, (count,), generator=torch.Generator().manual_seed(seed))


def filled(decoder, store, tokens):
    """A layout with the rows of ``tokens``."""
    layout = store()
    if len(tokens):
        append(decoder, layout, tokens[None])
    return layout


def prepared(decoder, store, lengths, counts):
    """Layouts with rows of the given lengths, and chunks of the given counts behind them."""
    sequences = [ids(n + m, seed) for seed, (n, m) in enumerate(zip(lengths, counts, strict=True))]
    layouts = [
        filled(decoder, store, tokens[:n]) for tokens, n in zip(sequences, lengths, strict=True)
    ]
    chunks = [
        Chunk(layout, tokens[n:])
        for layout, tokens, n in zip(layouts, sequences, lengths, strict=True)
    ]
    return sequences, chunks


def parted(decoder, sequences, chunks, results):
    """The largest disagreement of any row's logits with its own uncached run."""
    return max(
        disagreement(result.logits, uncached_logits(decoder, tokens[None])[0, -len(chunk.tokens) :])
        for tokens, chunk, result in zip(sequences, chunks, results, strict=True)
    )


ROWS = st.lists(st.tuples(st.integers(0, 8), st.integers(1, 6)), min_size=1, max_size=4)


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
@settings(max_examples=8)
@given(rows=ROWS)
def test_a_ragged_call_equals_each_request_alone(decoder, kind, rows):
    """Any lengths and any numbers of new tokens: each row's logits are those of its own run (D2)."""
    store = open_store(kind, CacheShape.of(decoder.config, decoder.device), StoreSizes(16, 8))
    lengths, counts = zip(*rows, strict=True)
    sequences, chunks = prepared(decoder, store, lengths, counts)
    results = append_ragged(decoder, chunks)
    for tokens, chunk, result in zip(sequences, chunks, results, strict=True):
        expected = uncached_logits(decoder, tokens[None])[0, -len(chunk.tokens) :]
        assert agrees(result.logits, expected)
        assert chunk.layout.length == len(tokens)


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_a_ragged_call_under_a_window_equals_each_request_alone(kind, cpu):
    """Rows that fell out of the window are missed by none of the requests in the batch (D2)."""
    decoder = Decoder(DecoderConfig(dtype=torch.float64, window=WINDOW), cpu)
    shape = CacheShape.of(decoder.config, cpu)
    store = open_store(kind, shape, StoreSizes(16, layouts=8, window=WINDOW))
    sequences, chunks = prepared(decoder, store, (7, 2, 0), (1, 5, 6))
    assert parted(decoder, sequences, chunks, append_ragged(decoder, chunks)) < 8e-15


def test_a_prompt_in_chunks_runs_beside_decoding_of_others(decoder, store):
    """Chunks of 3, 1, 4 and 2 prompt tokens, each in a call with a decode step of another (D2)."""
    prompt, other = ids(10, 1), ids(9, 2)
    waiting, running = store(), filled(decoder, store, other[:5])
    found: list[torch.Tensor] = []
    steps: list[torch.Tensor] = []
    for step, chunk in enumerate(torch.split(prompt, [3, 1, 4, 2])):
        results = append_ragged(
            decoder, [Chunk(waiting, chunk), Chunk(running, other[5 + step : 6 + step])]
        )
        found.append(results[0].logits)
        steps.append(results[1].logits)
    assert agrees(torch.cat(found), uncached_logits(decoder, prompt[None])[0])
    assert agrees(torch.cat(steps), uncached_logits(decoder, other[None])[0, 5:])


class PaddingSeen(RaggedCall):
    """A call whose padding counts as rows: views carry positions where there are none."""

    def view(self, layer):
        """The slots behind a short row's own rows stand at position 0."""
        found = super().view(layer)
        found.positions.clamp_(min=0)
        return found


class OneStart(RaggedCall):
    """A call that tells the model one start for all rows, as a batch of equal lengths could."""

    def __init__(self, stagings):
        super().__init__(stagings, [stagings[0].start] * len(stagings))


@pytest.mark.parametrize("fault", [PaddingSeen, OneStart])
def test_a_batch_that_forgets_its_raggedness_is_seen(decoder, store, fault):
    """Padding that is read, or positions of another row, part the logits from the run alone (D2)."""
    sequences, chunks = prepared(decoder, store, (2, 7), (1, 1))
    call = fault([chunk.layout.begin(len(chunk.tokens)) for chunk in chunks])
    tokens = call.tokens([chunk.tokens for chunk in chunks])
    logits = decoder.forward(tokens, call.positions, call)
    expected = [uncached_logits(decoder, tokens[None])[0, -1] for tokens in sequences]
    parts = [disagreement(logits[row, 0], expected[row]) for row in range(2)]
    assert max(parts) > 1e-3
    assert min(parts) < 8e-15


def test_padding_has_no_position(decoder, store):
    """Tokens of a shorter row are filled up on the right, at positions that are none."""
    _, chunks = prepared(decoder, store, (2, 5), (3, 1))
    call = RaggedCall([chunk.layout.begin(len(chunk.tokens)) for chunk in chunks])
    assert call.counts == [3, 1]
    assert call.positions.tolist() == [[2, 3, 4], [5, -1, -1]]
    assert call.tokens([ids(3, 1), ids(1, 2)]).tolist() == [
        ids(3, 1).tolist(),
        [*ids(1, 2).tolist(), 0, 0],
    ]


def test_rows_of_one_request_never_reach_another(decoder, store):
    """What a request appends in a ragged call is what it appends alone, row by row."""
    sequences, chunks = prepared(decoder, store, (3, 0, 6), (2, 4, 1))
    append_ragged(decoder, chunks)
    for tokens, chunk in zip(sequences, chunks, strict=True):
        alone = filled(decoder, store, tokens)
        for layer in range(2):
            pairs = zip(chunk.layout.read(layer), alone.read(layer), strict=True)
            assert all(agrees(one, other) for one, other in pairs)


@pytest.mark.parametrize("code", ["STAGING_CLOSED", "ALREADY_STAGED"])
@pytest.mark.parametrize("row", [0, 1, 2])
def test_an_append_that_ends_in_the_call_leaves_the_others(decoder, store, monkeypatch, row, code):
    """A row refused between two layers is told with its code; the others publish and agree (D2, A7)."""
    sequences, chunks = prepared(decoder, store, (3, 1, 4), (2, 3, 1))
    plain = RaggedCall.stage

    def stage(self, layer, part, rows):
        if (layer, part) == (1, Part.VALUE):
            disturbed = self.stagings[row]
            if code == "STAGING_CLOSED":
                disturbed.discard()
            else:
                disturbed.stage(layer, part, rows[row : row + 1, :, : disturbed.count])
        plain(self, layer, part, rows)

    monkeypatch.setattr(RaggedCall, "stage", stage)
    results = append_ragged(decoder, chunks)
    codes = [result.refused and result.refused.code for result in results]
    assert codes == [code if place == row else None for place in range(3)]
    assert [chunk.layout.length for chunk in chunks] == [
        len(tokens) - (len(chunk.tokens) if place == row else 0)
        for place, (tokens, chunk) in enumerate(zip(sequences, chunks, strict=True))
    ]
    kept = [place for place in range(3) if place != row]
    picked = [[each[place] for place in kept] for each in (sequences, chunks, results)]
    assert parted(decoder, *picked) < 8e-15


def test_a_row_that_is_refused_in_the_call_is_over_at_once(decoder, store):
    """Its append is closed and named with its refusal, while the others still wait for their install."""
    sequences, chunks = prepared(decoder, store, (3, 1), (2, 3))
    call = RaggedCall([chunk.layout.begin(len(chunk.tokens)) for chunk in chunks])
    shape = call.stagings[0].shape
    call.stagings[0].stage(1, Part.KEY, torch.zeros(shape.rows(2), dtype=shape.dtype))
    logits = finish(call.forward_layers(decoder, [chunk.tokens for chunk in chunks]))
    assert {row: refused.code for row, refused in call.failures.items()} == {0: "ALREADY_STAGED"}
    assert [staging.is_closed for staging in call.stagings] == [True, False]
    expected = uncached_logits(decoder, sequences[1][None])[0, -3:]
    assert agrees(logits[1, :3], expected)


def test_a_refused_begin_or_install_is_of_its_row_alone(decoder, store):
    """A released request and one named twice are refused with their codes, the third publishes."""
    sequences, chunks = prepared(decoder, store, (2, 3, 1), (1, 2, 3))
    chunks[0].layout.release()
    results = append_ragged(decoder, [*chunks, Chunk(chunks[1].layout, ids(1))])
    codes = [result.refused and result.refused.code for result in results]
    assert codes == ["ROWS_RELEASED", None, None, "NOT_AT_FRONTIER"]
    assert parted(decoder, sequences[1:], chunks[1:], results[1:3]) < 8e-15


def test_a_batch_whose_every_row_is_refused_publishes_nothing(decoder, store):
    """No call is made when no append could begin."""
    layout = store()
    layout.release()
    (result,) = append_ragged(decoder, [Chunk(layout, ids(1))])
    assert (result.logits, result.refused.code) == (None, "ROWS_RELEASED")


def test_a_failure_of_the_call_itself_leaves_no_row_visible(decoder, store, monkeypatch):
    """An exception that is no refusal of a row ends the call and its appends, and all may try again."""
    sequences, chunks = prepared(decoder, store, (2, 5), (3, 1))
    kind, opened = type(chunks[0].layout), []
    begin = kind.begin

    def opening(self, count, submit):
        opened.append(begin(self, count, submit))
        return opened[-1]

    monkeypatch.setattr(kind, "begin", opening)

    def broken(write, device):
        raise OSError("the device is gone")

    with pytest.raises(OSError, match="device is gone"):
        append_ragged(decoder, chunks, broken)
    assert [chunk.layout.lengths() for chunk in chunks] == [[(2, 2)] * 2, [(5, 5)] * 2]
    assert [staging.is_closed for staging in opened] == [True, True]
    assert parted(decoder, sequences, chunks, append_ragged(decoder, chunks)) < 8e-15


def test_a_call_refuses_rows_that_do_not_fit_together(decoder, store, shape):
    """No rows, caches of two shapes, and tokens that are not those of the append are refused."""
    other = open_store("dynamic", CacheShape.of(decoder.config, decoder.device, 2), StoreSizes(8))
    pairs = [[], [other().begin(1)], [store().begin(1), other().begin(1)]]
    for stagings in pairs:
        with pytest.raises(DecodeError, match=f"{len(stagings)} appends of") as refusal:
            RaggedCall(stagings)
        assert refusal.value.code == "BAD_SHAPE"
    with pytest.raises(DecodeError, match="one id for each row") as refusal:
        RaggedCall([store().begin(2)]).tokens([ids(3)])
    assert refusal.value.code == "BAD_SHAPE"


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_a_ragged_call_on_cuda_equals_each_request_alone(kind):
    """The same code on the device: rows of other lengths in one call, each as its own run (D1, D2)."""
    there = Decoder(DecoderConfig(dtype=torch.float64), torch.device("cuda"))
    store = open_store(kind, CacheShape.of(there.config, there.device), StoreSizes(16, 8))
    sequences = [ids(n, seed).to(there.device) for seed, n in enumerate((4, 7, 6))]
    layouts = [
        filled(there, store, tokens[:n]) for tokens, n in zip(sequences, (3, 2, 0), strict=True)
    ]
    chunks = [
        Chunk(layout, tokens[layout.length :])
        for layout, tokens in zip(layouts, sequences, strict=True)
    ]
    results = append_ragged(there, chunks)
    # Tolerances were measured on a CPU; other kernels add in another order.
    assert parted(there, sequences, chunks, results) < 8e-14
