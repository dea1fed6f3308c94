"""Seeded weights that are the same, bit for bit, on every machine and device.

Modelled: one matrix a projection, one gain a norm. Left out: trained weights and their files;
nothing in the cache lifecycle depends on a decoder that speaks well, only on one whose logits
depend on every row it reads.
"""

import hashlib
import math
from collections.abc import Iterator

import torch
from attrs import fields, frozen
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig


@frozen(eq=False)
class LayerWeights:
    """The matrices of one layer; a matrix maps rows by ``x @ w.T``, as [out, in].

    Attributes:
        attn_norm: gain before attention, [d].
        q: query projection, [H_q * d_h, d].
        k: key projection, [H_kv * d_h, d].
        v: value projection, [H_kv * d_h, d].
        o: output projection, [d, H_q * d_h].
        mlp_norm: gain before the MLP, [d].
        gate: SwiGLU gate, [d_ff, d].
        up: SwiGLU input, [d_ff, d].
        down: SwiGLU output, [d, d_ff].
    """

    attn_norm: Tensor
    q: Tensor
    k: Tensor
    v: Tensor
    o: Tensor
    mlp_norm: Tensor
    gate: Tensor
    up: Tensor
    down: Tensor


@frozen(eq=False)
class Weights:
    """All weights of a decoder.

    Attributes:
        embedding: one row a token, [vocab, d].
        layers: the layers in order.
        final_norm: gain before the head, [d].
        head: output head, [vocab, d]; the embedding itself when the head is tied.
    """

    embedding: Tensor
    layers: tuple[LayerWeights, ...]
    final_norm: Tensor
    head: Tensor

    def named(self) -> Iterator[tuple[str, Tensor]]:
        """Every tensor with its name, in a fixed order, a tied head twice."""
        yield "embedding", self.embedding
        for index, layer in enumerate(self.layers):
            for attribute in fields(LayerWeights):
                yield f"layers.{index}.{attribute.name}", getattr(layer, attribute.name)
        yield "final_norm", self.final_norm
        yield "head", self.head

    def digest(self) -> str:
        """SHA-256, in hexadecimal, over name, dtype, shape and bytes of every tensor.

        Two caches whose weights differ in one bit hold rows of different models, so this goes into
        a cache ABI.
        """
        state = hashlib.sha256()
        for name, tensor in self.named():
            state.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
            # bfloat16 has no numpy counterpart, so bytes are read as bytes.
            state.update(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        return state.hexdigest()


class _Draw:
    """Tensors drawn in a fixed order from one seeded generator."""

    # A draw is an integer in [0, 2^24) and is mapped onto [-1, 1) by exact float64 arithmetic. A
    # normal draw would go through log and cos, whose last bits differ between vector units.
    _STEPS = 1 << 24

    def __init__(self, config: DecoderConfig, device: torch.device) -> None:
        self._generator = torch.Generator(device="cpu").manual_seed(config.seed)
        self._dtype = config.dtype
        self._device = device

    def _unit(self, *shape: int) -> Tensor:
        steps = torch.randint(0, self._STEPS, shape, generator=self._generator)
        return steps.to(torch.float64) / (self._STEPS / 2) - 1.0

    def matrix(self, rows: int, columns: int, *, deviation: float) -> Tensor:
        """A uniform matrix [rows, columns] of mean zero and the given standard deviation."""
        # A uniform draw on [-1, 1) has standard deviation 1/sqrt(3).
        return self._place(self._unit(rows, columns) * (deviation * math.sqrt(3.0)))

    def gain(self, width: int) -> Tensor:
        """A norm's gain [width] in [0.5, 1.5): away from one, so that leaving it out is seen."""
        return self._place(1.0 + 0.5 * self._unit(width))

    def _place(self, values: Tensor) -> Tensor:
        return values.to(self._dtype).to(self._device)


def seeded_weights(config: DecoderConfig, device: torch.device) -> Weights:
    """The weights that ``config`` names, drawn on the CPU and then moved to ``device``.

    Projections have standard deviation 1/sqrt(fan-in), so that queries, keys and hidden rows keep a
    size near one and attention neither saturates nor averages blindly.
    """
    draw = _Draw(config, device)
    embedding = draw.matrix(config.vocab, config.d_model, deviation=1.0)
    layers = tuple(_seeded_layer(config, draw) for _ in range(config.layers))
    final_norm = draw.gain(config.d_model)
    head = embedding if config.tied else _projection(draw, config.vocab, config.d_model)
    return Weights(embedding=embedding, layers=layers, final_norm=final_norm, head=head)


def _seeded_layer(config: DecoderConfig, draw: _Draw) -> LayerWeights:
    d, q_width, kv_width = (
        config.d_model,
        config.heads * config.head_dim,
        config.kv_heads * config.head_dim,
    )
    return LayerWeights(
        attn_norm=draw.gain(d),
        q=_projection(draw, q_width, d),
        k=_projection(draw, kv_width, d),
        v=_projection(draw, kv_width, d),
        o=_projection(draw, d, q_width),
        mlp_norm=draw.gain(d),
        gate=_projection(draw, config.d_ff, d),
        up=_projection(draw, config.d_ff, d),
        down=_projection(draw, d, config.d_ff),
    )


def _projection(draw: _Draw, out: int, into: int) -> Tensor:
    return draw.matrix(out, into, deviation=into**-0.5)
