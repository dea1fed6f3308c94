"""The decoders of the backend, one a cache ABI, with recomputation as the truth to compare with.

Modelled: ABI 0 is a decoder with seeded weights; ABI k > 0 is the same with a low-rank adapter on
its query, key and value projections, so that its rows have the same shapes and other values. An
uncached run of a token sequence gives the logits and the rows that a cache must hold. Left out:
adapters that change shapes; nothing could take the rows of one for those of another.

Runs are pure functions of ABI and tokens, so their results are kept; what a cache holds is never
kept here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import lru_cache

import torch
from attrs import evolve, frozen
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import CallRows, KVView, Part
from kvspec.models.decode.weights import LayerWeights

PREFIX_ROWS = 2
"""Tokens of the prompt that a prefix block holds, at positions [0, PREFIX_ROWS)."""

_ADAPTER_RANK = 2
_KEPT_RUNS = 4096


@frozen(eq=False)
class Run:
    """An uncached run over S tokens.

    Attributes:
        logits: what comes after the last token, [vocab].
        keys: rotated key rows, [L, H_kv, S, d_h].
        values: value rows, [L, H_kv, S, d_h].
    """

    logits: Tensor
    keys: Tensor
    values: Tensor


class _Recorded(CallRows):
    """The rows of one call, kept for whoever asks afterwards."""

    def stacked(self, layers: int, part: Part) -> Tensor:
        """The rows of all layers, [L, H_kv, S, d_h]."""
        return torch.cat([self._part(layer, part) for layer in range(layers)])


class _Given:
    """A cache that answers with given rows, whatever the call itself produces."""

    def __init__(
        self, layers: Sequence[tuple[Tensor, Tensor]], positions: Sequence[Tensor]
    ) -> None:
        self._layers = layers
        self._positions = positions

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Nothing: the row of the last token is in the cache already."""

    def view(self, layer: int) -> KVView:
        """The given rows at their positions; where K and V differ, as many as both have."""
        keys, values = self._layers[layer]
        count = min(keys.shape[2], values.shape[2])
        return KVView(keys[:, :, :count], values[:, :, :count], self._positions[layer])


class Model:
    """The decoder of one cache ABI.

    Attributes:
        decoder: the decoder.
        digest: SHA-256 of the weights, in hexadecimal: the cache ABI's identity.
    """

    def __init__(self, config: DecoderConfig, device: torch.device, abi: int) -> None:
        self.decoder = Decoder(config, device)
        if abi:
            self._adapt(abi)
        self.digest = self.decoder.weights.digest()
        self._runs: dict[tuple[int, ...], Run] = {}

    def run(self, tokens: tuple[int, ...]) -> Run:
        """The uncached run of ``tokens``, at positions from 0 on."""
        found = self._runs.get(tokens)
        if found is None:
            if len(self._runs) >= _KEPT_RUNS:
                self._runs.clear()
            found = self._runs[tokens] = self._recompute(tokens)
        return found

    @torch.inference_mode()
    def logits(
        self,
        token: int,
        position: int,
        layers: Sequence[tuple[Tensor, Tensor]],
        positions: Sequence[Tensor],
    ) -> Tensor:
        """Logits [vocab] behind ``token`` at ``position``, read from given K and V of each layer.

        Rows are [1, H_kv, R, d_h] at ``positions`` [R] of each layer, that of the token among them.
        """
        device = self.decoder.device
        cache = _Given(layers, positions)
        where = torch.tensor([position], device=device)
        return self.decoder.forward(torch.tensor([[token]], device=device), where, cache)[0, -1]

    @torch.inference_mode()
    def _recompute(self, tokens: tuple[int, ...]) -> Run:
        device, layers = self.decoder.device, self.decoder.config.layers
        positions = positions_from(0, len(tokens), device)
        rows = _Recorded(positions)
        logits = self.decoder.forward(torch.tensor([tokens], device=device), positions, rows)
        keys, values = (rows.stacked(layers, part) for part in Part)
        return Run(logits[0, -1], keys, values)

    def _adapt(self, abi: int) -> None:
        config = self.decoder.config
        draw = torch.Generator().manual_seed(config.seed * 1009 + abi)

        def adapted(weight: Tensor) -> Tensor:
            rows, columns = weight.shape
            down = torch.rand(_ADAPTER_RANK, columns, generator=draw, dtype=torch.float64) - 0.5
            up = torch.rand(rows, _ADAPTER_RANK, generator=draw, dtype=torch.float64) - 0.5
            return weight + (up @ down).to(weight.dtype).to(weight.device)

        def with_adapter(layer: LayerWeights) -> LayerWeights:
            return evolve(layer, q=adapted(layer.q), k=adapted(layer.k), v=adapted(layer.v))

        weights = self.decoder.weights
        layers = tuple(with_adapter(layer) for layer in weights.layers)
        self.decoder.weights = evolve(weights, layers=layers)


@lru_cache(maxsize=64)
def model_of(config: DecoderConfig, abi: int, device: torch.device) -> Model:
    """The model of an ABI; equal arguments give one and the same, with the runs it has kept."""
    return Model(config, device, abi)


VOCAB = 128
"""Token ids: enough for the few tokens of an instance to differ."""


def token_of(*parts: object) -> int:
    """A token id that depends on all parts, and on nothing else."""
    drawn = hashlib.sha256("|".join(map(str, parts)).encode()).digest()
    return int.from_bytes(drawn[:4], "big") % VOCAB


def prompt_of(lineage: str) -> tuple[int, ...]:
    """The prompt of a family of requests: the tokens that its prefix block holds."""
    return tuple(token_of("prompt", lineage, place) for place in range(PREFIX_ROWS))
