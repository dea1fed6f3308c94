"""The layer traces on file are those of real calls."""

import pytest

torch = pytest.importorskip("torch")

from kvspec.counterexamples.negative_cases import documents_of  # noqa: E402
from kvspec.models.decode import (  # noqa: E402
    LAYOUT_KINDS,
    CacheShape,
    Decoder,
    DecoderConfig,
    KVView,
    Part,
    allocate,
    append,
    disagreement,
)
from kvspec.models.decode.layer_trace import WatchedDecoder, expanded, trace_call  # noqa: E402
from kvspec.models.decode.ops import attend  # noqa: E402
from kvspec.models.documents import convert  # noqa: E402
from kvspec.spec.documents.layer_trace import LAYER_TRACE  # noqa: E402

CPU = torch.device("cpu")
TOKENS = torch.tensor([[3, 1, 4, 1, 5]])
ON_FILE = {
    "layer-trace.json": ({}, 4, 1),
    "layer-trace-prefill.json": ({}, 0, 4),
    "layer-trace-eight-query-heads.json": ({"heads": 8}, 4, 1),
}
"""The documents: sizes that differ from the decoder's own, T_past and T_new."""


def traced(sizes, past, new, layout_kind="dynamic", dtype=torch.float16):
    """The trace of a call over `new` tokens behind `past` others."""
    config = DecoderConfig(dtype=dtype, **sizes)
    decoder = WatchedDecoder(config, CPU)
    layout = allocate(layout_kind, CacheShape.of(config, CPU), capacity=past + new)
    if past:
        append(Decoder(config, CPU), layout, TOKENS[:, :past])
    return trace_call(decoder, layout, TOKENS[:, past : past + new])


def test_every_trace_on_file_is_tried():
    """No trace is on file that is not held against a run."""
    assert set(documents_of("layer-trace")) == set(ON_FILE)


@pytest.mark.parametrize("layout_kind", LAYOUT_KINDS)
@pytest.mark.parametrize("file", ON_FILE)
def test_a_trace_on_file_is_that_of_a_real_call(file, layout_kind):
    """The decoder, run with these sizes in float16, gives exactly the document."""
    found = traced(*ON_FILE[file], layout_kind)
    assert found == convert(LAYER_TRACE, documents_of("layer-trace")[file], file)


@pytest.mark.parametrize("sizes", [{"kv_heads": 1}, {"layers": 3, "head_dim": 8}, {"heads": 2}])
@pytest.mark.parametrize(("past", "new"), [(0, 1), (0, 5), (2, 3), (4, 1)])
def test_any_real_call_keeps_the_contracts(sizes, past, new):
    """Prefill, decode and cached continuation of other decoders go through the same contracts."""
    found = traced(sizes, past, new, dtype=torch.float32)
    assert LAYER_TRACE.first_broken(found) is None


def test_a_batch_is_counted_in_the_payload():
    """Two sequences in lockstep stage twice the bytes."""
    config = DecoderConfig(dtype=torch.float16)
    layout = allocate("dynamic", CacheShape.of(config, CPU, batch=2), capacity=4)
    found = trace_call(WatchedDecoder(config, CPU), layout, TOKENS[:, :4].repeat(2, 1))
    assert LAYER_TRACE.first_broken(found) is None
    assert found.publication.payload_bytes == 2 * 4 * 64


def test_attention_over_expanded_rows_is_the_decoder_s():
    """One head for each query head, or one for each group: the same attention."""
    config = DecoderConfig(dtype=torch.float64)
    layout = allocate("dynamic", CacheShape.of(config, CPU), capacity=5)
    _, seen = WatchedDecoder(config, CPU).watch(TOKENS, layout)
    where = torch.arange(5)[None]
    for one in seen:
        wide = [expanded(rows, config.heads) for rows in (one.view.keys, one.view.values)]
        view = KVView(*wide, one.view.positions)
        found = attend(one.query, view, where, None)
        assert disagreement(found, attend(one.query, one.view, where, None)) < 1e-12


def test_watching_changes_no_logits():
    """The watched decoder publishes the rows that the plain one does."""
    config = DecoderConfig(dtype=torch.float64)
    layouts = [allocate("dynamic", CacheShape.of(config, CPU), capacity=5) for _ in range(2)]
    append(Decoder(config, CPU), layouts[0], TOKENS)
    WatchedDecoder(config, CPU).watch(TOKENS, layouts[1])
    for layer in range(config.layers):
        for one, two in zip(layouts[0].read(layer), layouts[1].read(layer), strict=True):
            assert torch.equal(one, two)


def test_keys_stored_before_rotation_are_told(monkeypatch):
    """A decoder that hands out raw keys is found to store them, and the contract refuses it."""
    monkeypatch.setattr("kvspec.models.decode.decoder.rotate", lambda x, *_: x)
    found = traced({}, 0, 4)
    assert found.call.stored_key_stage == "pre-rope"
    assert LAYER_TRACE.first_broken(found).code == "KEY_STAGE"


def test_other_calls_read_the_past_alone_until_all_layers_are_there():
    """While the call is in a layer, the layout shows what it showed before, whatever was staged."""
    config = DecoderConfig(dtype=torch.float16)
    layout = allocate("dynamic", CacheShape.of(config, CPU), capacity=5)
    append(Decoder(config, CPU), layout, TOKENS[:, :3])
    _, seen = WatchedDecoder(config, CPU).watch(TOKENS[:, 3:], layout)
    assert [one.committed for one in seen] == [3, 3]
    assert [set(one.pending) for one in seen] == [set(Part), set(Part)]
    assert layout.length == 5
