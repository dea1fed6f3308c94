"""The trace of one real call: every shape, stage, position and length as it was found, none computed.

Modelled: a call of the decoder on a layout, watched through its own steps, as a document of kind
``layer-trace``. Left out: ragged batches, in which rows of one call differ in position.

The decoder never forms expanded K and V: query heads of a group meet the same rows. Their shapes are
those of a view that repeats each head for its group, and attention over that view gives what the
decoder's attention gives, which a test shows.
"""

from typing import Final

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.decode.completion import run_now
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.ops import rotate, scaled_scores, visible
from kvspec.models.decode.weights import LayerWeights
from kvspec.spec.documents.layer_trace import (
    MODEL_INPUT,
    Call,
    Geometry,
    Layer,
    LayerTrace,
    Mask,
    Publication,
    result_of,
)

OUTSIDE: Final = "outside the stack"
"""The source of a hidden input that no layer of the call and no embedding made."""


@define(eq=False)
class Seen:
    """The tensors of one layer. raw_key: before rotation. committed: what another call could read."""

    hidden_in: Tensor
    raw_key: Tensor
    query: Tensor
    view: KVView
    hidden_out: Tensor
    committed: int
    pending: dict[Part, Tensor] = field(factory=dict)


class WatchedDecoder(Decoder):
    """A decoder that keeps the tensors of its last call; its arithmetic is the decoder's own."""

    _embedded: Tensor
    _raw_key: Tensor
    _query: Tensor

    def watch(self, tokens: Tensor, layout: AnyLayout) -> tuple[Tensor, list[Seen]]:
        """Append ``tokens`` [B, T_new] to a layout: the model's input and what each layer had."""
        self._seen: list[Seen] = []
        self._layout = layout
        staging = layout.begin(tokens.shape[-1], run_now)
        positions = positions_from(staging.start, staging.count, self.device)
        pending = [
            (made.layer, made.part, made.rows)
            for made in self.forward_layers(tokens, positions, staging)
        ]
        layout.install(staging)
        for layer, part, rows in pending:
            self._seen[layer].pending[part] = rows
        return self._embedded, self._seen

    def _embed(self, tokens: Tensor) -> Tensor:
        self._embedded = super()._embed(tokens)
        return self._embedded

    @torch.inference_mode()
    def _keys(self, layer: LayerWeights, normed: Tensor, positions: Tensor) -> Tensor:
        self._raw_key = self._split(normed @ layer.k.T, self.config.kv_heads)
        return super()._keys(layer, normed, positions)

    def _queries(self, layer: LayerWeights, normed: Tensor, positions: Tensor) -> Tensor:
        self._query = super()._queries(layer, normed, positions)
        return self._query

    def _finish_layer(
        self,
        layer: LayerWeights,
        hidden: Tensor,
        normed: Tensor,
        view: KVView,
        positions: Tensor,
    ) -> Tensor:
        made = super()._finish_layer(layer, hidden, normed, view, positions)
        length = self._layout.length
        self._seen.append(Seen(hidden, self._raw_key, self._query, view, made, length))
        return made


def expanded(rows: Tensor, query_heads: int) -> Tensor:
    """Rows [B, H_kv, T, d_h] with each head repeated for its group: [B, H_q, T, d_h]."""
    return rows.repeat_interleave(query_heads // rows.shape[1], dim=1)


def trace_call(decoder: WatchedDecoder, layout: AnyLayout, tokens: Tensor) -> LayerTrace:
    """Append ``tokens`` [B, T_new] to ``layout`` and tell what was found on the way."""
    before = layout.length
    embedded, seen = decoder.watch(tokens, layout)
    config, first = decoder.config, seen[0]
    key, value = first.pending[Part.KEY], first.pending[Part.VALUE]
    positions = positions_from(before, tokens.shape[-1], decoder.device)
    mask = visible(positions[None], first.view.positions, config.window)
    layers = tuple(_layer(n, one, _source(n, embedded, seen)) for n, one in enumerate(seen))
    return LayerTrace(
        geometry=Geometry(
            batch=tokens.shape[0],
            layers=len(seen),
            hidden_width=embedded.shape[-1],
            query_heads=first.query.shape[1],
            kv_heads=key.shape[1],
            head_width=key.shape[-1],
            key_bytes=key.element_size(),
            value_bytes=value.element_size(),
        ),
        call=Call(
            past_tokens=before,
            new_tokens=tokens.shape[-1],
            cache_positions=_new_positions(first.view, key.shape[2]),
            rope_positions=tuple(positions.tolist()),
            stored_key_stage=_stage(seen, layout, positions, config.rope_theta),
        ),
        mask=Mask(key_length=mask.shape[-1], visible=tuple(mask[0].sum(-1).tolist())),
        layers=layers,
        publication=Publication(
            stored=_stored(seen, layout, before),
            committed_before=before,
            committed_during=max(one.committed for one in seen),
            committed_after=layout.length,
            payload_bytes=sum(layer.payload_bytes for layer in layers),
        ),
    )


def _layer(index: int, one: Seen, source: str) -> Layer:
    """One layer's tensors by their shapes."""
    key, value, heads = one.pending[Part.KEY], one.pending[Part.VALUE], one.query.shape[1]
    return Layer(
        layer=index,
        source=source,
        hidden_in=tuple(one.hidden_in.shape),
        query=tuple(one.query.shape),
        pending_key=tuple(key.shape),
        pending_value=tuple(value.shape),
        usable_key=tuple(one.view.keys.shape),
        usable_value=tuple(one.view.values.shape),
        expanded_key=tuple(expanded(one.view.keys, heads).shape),
        expanded_value=tuple(expanded(one.view.values, heads).shape),
        scores=tuple(scaled_scores(one.query, one.view.keys).shape),
        hidden_out=tuple(one.hidden_out.shape),
        result=result_of(index),
        payload_bytes=sum(rows.numel() * rows.element_size() for rows in (key, value)),
    )


def _source(index: int, embedded: Tensor, seen: list[Seen]) -> str:
    """The name of the very tensor that a layer read."""
    found = seen[index].hidden_in
    if found is embedded:
        return MODEL_INPUT
    made = [n for n, one in enumerate(seen) if one.hidden_out is found]
    return result_of(made[0]) if made else OUTSIDE


def _new_positions(view: KVView, count: int) -> tuple[int, ...]:
    """The positions of the last rows of a view, which are those of the call."""
    return tuple(view.positions.reshape(-1, view.positions.shape[-1])[0, -count:].tolist())


def _stage(seen: list[Seen], layout: AnyLayout, positions: Tensor, theta: float) -> str:
    """What the keys are that the layout shows now; a row at position 0 is the same at both stages."""
    kept = [layout.read(n)[0][:, :, -positions.shape[-1] :] for n in range(len(seen))]
    where = positions.expand(kept[0].shape[0], -1)
    raw = [one.raw_key for one in seen]
    if all(map(torch.equal, kept, (rotate(rows, where, theta) for rows in raw))):
        return "post-rope"
    return "pre-rope" if all(map(torch.equal, kept, raw)) else "neither"


def _stored(seen: list[Seen], layout: AnyLayout, before: int) -> tuple[str, ...]:
    """The names of the tensors of the call whose rows the layout shows now."""
    kept = []
    for name in ("query", "pending_key", "pending_value"):
        found = [
            any(torch.equal(rows[:, :, before:], _named(one, name)) for rows in layout.read(n))
            for n, one in enumerate(seen)
        ]
        kept.extend([name] if all(found) else [])
    return tuple(kept)


def _named(one: Seen, name: str) -> Tensor:
    return {
        "query": one.query,
        "pending_key": one.pending[Part.KEY],
        "pending_value": one.pending[Part.VALUE],
    }[name]
