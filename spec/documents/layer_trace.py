"""One model call through every layer: the shape of each tensor, and what of it stays.

Modelled: one call of a dense decoder with grouped-query attention, from hidden rows to hidden rows. What
a layer stages its own attention reads at once (usable K and V have past and new rows), but other calls
only when all layers have been published. Prefill, decode and a cached continuation are one kind of
document: they differ in past and new rows alone. Left out: values, norms, the MLP's inside, logits.

Sizes: B batch, d hidden width, H_q and H_kv heads, d_h head width.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, requires
from kvspec.spec.formulas import append_bytes, layer_append_bytes

STAGES: Final = ("post-rope", "pre-rope")
STORED: Final = ("pending_key", "pending_value")
"""The tensors of a layer whose rows outlive the call. The query is not one of them."""

MODEL_INPUT: Final = "model-input"


@attrs.frozen
class Geometry:
    """Sizes of the model and of the call's batch.

    batch: B. layers: L, that produce K and V. hidden_width: d. query_heads: H_q. kv_heads: H_kv. head_width:
    d_h. key_bytes, value_bytes: of one stored scalar.
    """

    batch: int
    layers: int
    hidden_width: int
    query_heads: int
    kv_heads: int
    head_width: int
    key_bytes: int
    value_bytes: int


@attrs.frozen
class Call:
    """Where the call stands. past_tokens: committed rows before it. new_tokens: rows that it adds.

    cache_positions: the slot of each new row. rope_positions: by how much each is rotated. stored_key_stage:
    of the keys that are kept.
    """

    past_tokens: int
    new_tokens: int
    cache_positions: tuple[int, ...]
    rope_positions: tuple[int, ...]
    stored_key_stage: str


@attrs.frozen
class Mask:
    """What new rows see. key_length: keys that it covers. visible: for each new row, how many of them."""

    key_length: int
    visible: tuple[int, ...]


@attrs.frozen
class Layer:
    """The tensors of one layer, in the order in which they arise, by their shapes.

    layer: its index. source: the name of its hidden input. hidden_in: [B, T_new, d]. query: after rotation.
    pending_key, pending_value: the rows of this call. usable_key, usable_value: past and pending rows.
    expanded_key, expanded_value: the same with a head for each query head; a view, not stored. scores:
    [B, H_q, T_new, T_past + T_new]. hidden_out: as hidden_in. result: the name of it. payload_bytes: of the
    pending rows.
    """

    layer: int
    source: str
    hidden_in: tuple[int, ...]
    query: tuple[int, ...]
    pending_key: tuple[int, ...]
    pending_value: tuple[int, ...]
    usable_key: tuple[int, ...]
    usable_value: tuple[int, ...]
    expanded_key: tuple[int, ...]
    expanded_value: tuple[int, ...]
    scores: tuple[int, ...]
    hidden_out: tuple[int, ...]
    result: str
    payload_bytes: int


@attrs.frozen
class Publication:
    """What the call leaves. stored: the tensors of each layer whose rows are kept.

    committed_before, committed_during, committed_after: the length that another call may read before, during
    and after this one. payload_bytes: of all layers.
    """

    stored: tuple[str, ...]
    committed_before: int
    committed_during: int
    committed_after: int
    payload_bytes: int


@attrs.frozen
class LayerTrace:
    """One call: its sizes, its place, every layer, and what it publishes."""

    geometry: Geometry
    call: Call
    mask: Mask
    layers: tuple[Layer, ...]
    publication: Publication


LAYER_TRACE: Final = DocumentKind(
    "layer-trace",
    LayerTrace,
    "The shapes of one model call through every layer, and what it keeps.",
)


@attrs.frozen
class Shapes:
    """The shapes that geometry and call ask for, the same in every layer."""

    hidden: tuple[int, ...]
    query: tuple[int, ...]
    pending: tuple[int, ...]
    usable: tuple[int, ...]
    expanded: tuple[int, ...]
    scores: tuple[int, ...]

    @classmethod
    def of(cls, t: LayerTrace) -> Shapes:
        """Those of a trace."""
        g, new, keys = t.geometry, t.call.new_tokens, t.call.past_tokens + t.call.new_tokens
        return cls(
            hidden=(g.batch, new, g.hidden_width),
            query=(g.batch, g.query_heads, new, g.head_width),
            pending=(g.batch, g.kv_heads, new, g.head_width),
            usable=(g.batch, g.kv_heads, keys, g.head_width),
            expanded=(g.batch, g.query_heads, keys, g.head_width),
            scores=(g.batch, g.query_heads, new, keys),
        )


@LAYER_TRACE.contract("SIZES", "sizes are at least 1; there may be no past")
def sizes(t: LayerTrace) -> Iterator[Finding]:
    """Every dimension exists."""
    for name, size in attrs.asdict(t.geometry).items():
        yield from requires(size >= 1, f"/geometry/{name}", "at least 1", size)
    new, past = t.call.new_tokens, t.call.past_tokens
    yield from requires(new >= 1, "/call/new_tokens", "at least 1", new)
    yield from requires(past >= 0, "/call/past_tokens", "at least 0", past)


@LAYER_TRACE.contract("QUERY_GROUP", "equally many query heads share each K/V head")
def query_group(t: LayerTrace) -> Iterator[Finding]:
    """H_kv divides H_q."""
    heads, kv = t.geometry.query_heads, t.geometry.kv_heads
    told = f"a multiple of the {kv} K/V heads"
    yield from requires(heads % kv == 0, "/geometry/query_heads", told, heads)


@LAYER_TRACE.contract("LAYER_SET", "every layer is there once, in order")
def layer_set(t: LayerTrace) -> Iterator[Finding]:
    """Layers are numbered from 0 to L - 1."""
    yield from _counted("/layers", 0, t.geometry.layers, tuple(one.layer for one in t.layers))


def _counted(path: str, first: int, count: int, found: tuple[int, ...]) -> Iterator[Finding]:
    """The numbers are first, first + 1, ..., `count` of them; never more are made than were found."""
    good = len(found) == count and found == tuple(range(first, first + count))
    yield from requires(good, path, f"{count} in turn from {first}", found)


def result_of(layer: int) -> str:
    """The name of a layer's hidden output."""
    return f"layer-{layer}-output"


@LAYER_TRACE.contract(
    "LAYER_CHAIN", "layer 0 reads the model's input, each later one its predecessor's output"
)
def layer_chain(t: LayerTrace) -> Iterator[Finding]:
    """K and V of a layer are projected from what the layer below made, not from the embedding."""
    source = MODEL_INPUT
    for one in t.layers:
        yield from differs(f"/layers/{one.layer}/source", source, one.source)
        source = result_of(one.layer)
        yield from differs(f"/layers/{one.layer}/result", source, one.result)


@LAYER_TRACE.contract(
    "CACHE_POSITIONS", "the new rows stand right behind the past ones, without a gap"
)
def cache_positions(t: LayerTrace) -> Iterator[Finding]:
    """Cache positions are [T_past, T_past + T_new)."""
    call = t.call
    yield from _counted(
        "/call/cache_positions", call.past_tokens, call.new_tokens, call.cache_positions
    )


@LAYER_TRACE.contract("ROPE_POSITIONS", "each new row is rotated by its own position")
def rope_positions(t: LayerTrace) -> Iterator[Finding]:
    """Without padding the rotary positions are the cache positions; a row of a batch is no exception."""
    yield from differs("/call/rope_positions", t.call.cache_positions, t.call.rope_positions)


@LAYER_TRACE.contract("KEY_STAGE", "keys are stored after rotation, which is the ABI of this trace")
def key_stage(t: LayerTrace) -> Iterator[Finding]:
    """Keys before rotation have equal shapes and are other values: they need another ABI."""
    yield from differs("/call/stored_key_stage", STAGES[0], t.call.stored_key_stage)


@LAYER_TRACE.contract("MASK_KEY_LENGTH", "the mask covers past and new keys")
def mask_key_length(t: LayerTrace) -> Iterator[Finding]:
    """T_past + T_new: new queries score against committed keys and those of this call."""
    expected = t.call.past_tokens + t.call.new_tokens
    yield from differs("/mask/key_length", expected, t.mask.key_length)


@LAYER_TRACE.contract("MASK_CAUSAL", "a new row sees all keys up to its own")
def mask_causal(t: LayerTrace) -> Iterator[Finding]:
    """The row at position p sees p + 1 keys."""
    expected = tuple(p + 1 for p in t.call.cache_positions)
    yield from differs("/mask/visible", expected, t.mask.visible)


def _same(t: LayerTrace, shape: tuple[int, ...], *names: str) -> Iterator[Finding]:
    """These tensors have this shape in every layer."""
    for one in t.layers:
        for name in names:
            yield from differs(f"/layers/{one.layer}/{name}", shape, getattr(one, name))


@LAYER_TRACE.contract("HIDDEN_SHAPE", "hidden rows are [B, T_new, d], into a layer and out of it")
def hidden_shape(t: LayerTrace) -> Iterator[Finding]:
    """A layer keeps the shape of what it reads."""
    yield from _same(t, Shapes.of(t).hidden, "hidden_in", "hidden_out")


@LAYER_TRACE.contract("QUERY_SHAPE", "queries are [B, H_q, T_new, d_h]")
def query_shape(t: LayerTrace) -> Iterator[Finding]:
    """A query for each new row alone."""
    yield from _same(t, Shapes.of(t).query, "query")


@LAYER_TRACE.contract("PENDING_SHAPE", "pending K and V are [B, H_kv, T_new, d_h] each")
def pending_shape(t: LayerTrace) -> Iterator[Finding]:
    """A row of each for every new position, with the heads that are stored."""
    yield from _same(t, Shapes.of(t).pending, *STORED)


@LAYER_TRACE.contract("USABLE_SHAPE", "usable K and V are [B, H_kv, T_past + T_new, d_h]")
def usable_shape(t: LayerTrace) -> Iterator[Finding]:
    """A layer's attention reads what its own call has staged."""
    yield from _same(t, Shapes.of(t).usable, "usable_key", "usable_value")


@LAYER_TRACE.contract("EXPANDED_SHAPE", "expanded K and V are [B, H_q, T_past + T_new, d_h]")
def expanded_shape(t: LayerTrace) -> Iterator[Finding]:
    """Each K/V head once for every query head of its group."""
    yield from _same(t, Shapes.of(t).expanded, "expanded_key", "expanded_value")


@LAYER_TRACE.contract("SCORE_SHAPE", "scores are [B, H_q, T_new, T_past + T_new]")
def score_shape(t: LayerTrace) -> Iterator[Finding]:
    """A score for each pair of a new query and a key in view."""
    yield from _same(t, Shapes.of(t).scores, "scores")


@LAYER_TRACE.contract("STORED_TENSORS", "K and V rows of the call are kept, and nothing else")
def stored_tensors(t: LayerTrace) -> Iterator[Finding]:
    """The query and the expanded view end with the call."""
    yield from differs("/publication/stored", STORED, t.publication.stored)


@LAYER_TRACE.contract("LAYER_PAYLOAD", "a layer's payload is that of its pending rows")
def layer_payload(t: LayerTrace) -> Iterator[Finding]:
    """B T_new H_kv d_h (b_K + b_V); H_q is not in it."""
    g = t.geometry
    sizes_of_row = (g.kv_heads, g.head_width, g.key_bytes, g.value_bytes)
    expected = layer_append_bytes(g.batch, t.call.new_tokens, *sizes_of_row)
    for one in t.layers:
        yield from differs(f"/layers/{one.layer}/payload_bytes", expected, one.payload_bytes)


@LAYER_TRACE.contract("PAYLOAD", "the payload of the call is that of all layers")
def payload(t: LayerTrace) -> Iterator[Finding]:
    """L times the payload of a layer."""
    g = t.geometry
    sizes_of_row = (g.kv_heads, g.head_width, g.key_bytes, g.value_bytes)
    expected = append_bytes(g.layers, g.batch, t.call.new_tokens, *sizes_of_row)
    yield from differs("/publication/payload_bytes", expected, t.publication.payload_bytes)


@LAYER_TRACE.contract(
    "PUBLICATION", "another call reads the past alone until all layers are published"
)
def publication(t: LayerTrace) -> Iterator[Finding]:
    """Committed length is T_past before and during the call, T_past + T_new after it."""
    past, one = t.call.past_tokens, t.publication
    yield from differs("/publication/committed_before", past, one.committed_before)
    yield from differs("/publication/committed_during", past, one.committed_during)
    after = past + t.call.new_tokens
    yield from differs("/publication/committed_after", after, one.committed_after)
