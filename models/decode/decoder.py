"""A small real decoder that hands out every layer's K and V, and can stop between any two of them.

Modelled: the forward pass of a dense Llama-like decoder, from token ids and absolute positions to
logits, with the cache behind a hook (``hooks.LayerCache``). Left out: training, sampling, batching
policy. The decoder keeps no state between calls; whatever a later call knows of an earlier one, it
knows through its cache.

Sizes: B batch, T_new tokens of this call, d hidden width, H_q and H_kv heads, d_h head width.
"""

from collections.abc import Generator

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig, concrete_device, default_device
from kvspec.models.decode.errors import BadShapeError, BadTokenError
from kvspec.models.decode.hooks import KVView, LayerCache, Part
from kvspec.models.decode.ops import attend, rms_norm, rotate, swiglu
from kvspec.models.decode.weights import LayerWeights, Weights, seeded_weights


@frozen(eq=False)
class Produced:
    """A point at which a call can be stopped: one part of one layer has just been staged.

    Attributes:
        layer: the layer, from 0.
        part: K (after rotation) or V.
        rows: the rows as the cache got them, [B, H_kv, T_new, d_h].
    """

    layer: int
    part: Part
    rows: Tensor


ForwardSteps = Generator[Produced, None, Tensor]
"""A call under way: yields 2 L times (K then V, layer by layer) and returns logits."""


def positions_from(start: int, count: int, device: torch.device) -> Tensor:
    """The absolute positions [start, start + count) as int64 [count]."""
    return torch.arange(start, start + count, dtype=torch.int64, device=device)


def finish(steps: ForwardSteps) -> Tensor:
    """Run what is left of a call and return its logits [B, T_new, vocab]."""
    while True:
        try:
            next(steps)
        except StopIteration as stop:
            logits: Tensor = stop.value
            return logits


class Decoder:
    """A decoder with seeded weights on one device.

    Attributes:
        config: sizes, dtype and seed.
        device: where weights live and where tokens and rows must be.
        weights: the weights, equal for equal configs on every device.
    """

    def __init__(self, config: DecoderConfig, device: torch.device | None = None) -> None:
        self.config = config
        self.device = default_device() if device is None else concrete_device(device)
        self.weights: Weights = seeded_weights(config, self.device)

    def forward(self, tokens: Tensor, positions: Tensor, cache: LayerCache) -> Tensor:
        """Logits [B, T_new, vocab] of ``tokens`` [B, T_new] at ``positions``, through ``cache``.

        ``positions`` are absolute, int64, [T_new] or [B, T_new]; a negative one marks padding,
        whose logits mean nothing.

        Raises:
            BadShapeError: tokens or positions have another shape, or are no integers.
            BadTokenError: a token is outside the vocabulary.
            UnevenRowsError: the cache answers a layer with unequal K and V.
        """
        return finish(self.forward_layers(tokens, positions, cache))

    def forward_layers(self, tokens: Tensor, positions: Tensor, cache: LayerCache) -> ForwardSteps:
        """The same call in steps: yields after each layer's K, and after its V, has been staged.

        A caller may stop for good (``close``), raise into the call (``throw``), or do other work
        between two steps, other calls of the same decoder included. Arguments are checked at the
        first step.
        """
        where = self._checked_positions(tokens, positions)
        hidden = self._embed(tokens)
        for index, layer in enumerate(self.weights.layers):
            normed = self._attention_input(layer, hidden)
            k = self._keys(layer, normed, where)
            cache.stage(index, Part.KEY, k)
            yield Produced(index, Part.KEY, k)
            v = self._values(layer, normed)
            cache.stage(index, Part.VALUE, v)
            yield Produced(index, Part.VALUE, v)
            hidden = self._finish_layer(layer, hidden, normed, cache.view(index), where)
        return self._logits(hidden)

    # Each stretch between two yields enters inference mode by itself: held across a yield, the mode
    # would leak into whatever the caller does there.

    @torch.inference_mode()
    def _embed(self, tokens: Tensor) -> Tensor:
        return self.weights.embedding[tokens]

    @torch.inference_mode()
    def _attention_input(self, layer: LayerWeights, hidden: Tensor) -> Tensor:
        return rms_norm(hidden, layer.attn_norm, self.config.norm_eps)

    @torch.inference_mode()
    def _keys(self, layer: LayerWeights, normed: Tensor, positions: Tensor) -> Tensor:
        raw = self._split(normed @ layer.k.T, self.config.kv_heads)
        return rotate(raw, positions, self.config.rope_theta)

    @torch.inference_mode()
    def _values(self, layer: LayerWeights, normed: Tensor) -> Tensor:
        return self._split(normed @ layer.v.T, self.config.kv_heads)

    @torch.inference_mode()
    def _queries(self, layer: LayerWeights, normed: Tensor, positions: Tensor) -> Tensor:
        raw = self._split(normed @ layer.q.T, self.config.heads)
        return rotate(raw, positions, self.config.rope_theta)

    @torch.inference_mode()
    def _finish_layer(
        self,
        layer: LayerWeights,
        hidden: Tensor,
        normed: Tensor,
        view: KVView,
        positions: Tensor,
    ) -> Tensor:
        q = self._queries(layer, normed, positions)
        mixed = attend(q, view, positions, self.config.window)
        hidden = hidden + mixed.transpose(1, 2).flatten(2) @ layer.o.T
        inner = rms_norm(hidden, layer.mlp_norm, self.config.norm_eps)
        return hidden + swiglu(inner, layer.gate, layer.up, layer.down)

    @torch.inference_mode()
    def _logits(self, hidden: Tensor) -> Tensor:
        normed = rms_norm(hidden, self.weights.final_norm, self.config.norm_eps)
        return normed @ self.weights.head.T

    def _split(self, rows: Tensor, heads: int) -> Tensor:
        """Rows [B, T, H * d_h] as heads [B, H, T, d_h]."""
        batch, count, _ = rows.shape
        return rows.view(batch, count, heads, self.config.head_dim).transpose(1, 2)

    def _checked_positions(self, tokens: Tensor, positions: Tensor) -> Tensor:
        """Positions as [B, T_new], once tokens and positions are found to fit this decoder."""
        if tokens.dim() != 2 or tokens.shape[1] < 1 or tokens.is_floating_point():
            raise BadShapeError(
                where="Decoder.forward",
                found=f"tokens of shape {tuple(tokens.shape)} and dtype {tokens.dtype}",
                expected="integer token ids [B, T_new] with T_new >= 1",
                fix="add the batch axis, or leave the empty call out",
            )
        if positions.shape not in {tokens.shape, tokens.shape[1:]} or positions.is_floating_point():
            raise BadShapeError(
                where="Decoder.forward",
                found=f"positions of shape {tuple(positions.shape)} and dtype {positions.dtype}",
                expected=f"integers of shape {tuple(tokens.shape)} or {tuple(tokens.shape[1:])}",
                fix="give one absolute position a token, see positions_from",
            )
        low, high = int(tokens.min()), int(tokens.max())
        if low < 0 or high >= self.config.vocab:
            raise BadTokenError(
                where="Decoder.forward",
                found=f"token ids from {low} to {high}",
                expected=f"ids in [0, {self.config.vocab})",
                fix="tokenize for this vocabulary",
            )
        return positions.expand(tokens.shape)
