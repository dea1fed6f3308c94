"""Rows of a decoder in numbered slots: a table of slots says where the rows of a request lie, in order.

Modelled: K and V rows of every layer, written by calls into the slots of a table and read through it; a row
keeps the position at which it was computed. A slot that was never written holds zeros.
Left out: pages, batches.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.backend_model import VOCAB, Model, model_of
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.hooks import KVView, Part

ROW_SLACK = 4
"""Single rows may part by so many tolerances of logits: they are smaller, and sums end sooner."""


def small_model() -> Model:
    """A decoder of two layers on the CPU, the same one at each call."""
    return model_of(DecoderConfig(layers=2, vocab=VOCAB), 0, torch.device("cpu"))


class SlotRows:
    """Rows by slot.

    Attributes:
        model: the decoder that computes them.
        at: position at which the row in a slot was computed, [slots].
    """

    def __init__(self, model: Model, slots: int) -> None:
        config = model.decoder.config
        size = (1, config.kv_heads, slots, config.head_dim)
        self.model = model
        self.at = torch.zeros(slots, dtype=torch.int64)
        self._cells = {
            (layer, part): torch.zeros(size, dtype=config.dtype)
            for layer in range(config.layers)
            for part in Part
        }

    @property
    def row_bytes(self) -> int:
        """Bytes of one slot, all layers, K and V."""
        return sum(cell[:, :, 0].numel() * cell.element_size() for cell in self._cells.values())

    @torch.inference_mode()
    def compute(self, tokens: Sequence[int], start: int, table: Sequence[int]) -> Tensor:
        """Rows of tokens at positions from `start` on, into the last slots of a table; logits [T, vocab]."""
        where = torch.arange(start, start + len(tokens))
        slots = torch.tensor(table)
        self.at[slots[len(table) - len(tokens) :]] = where
        call = _Call(self._cells, slots, len(tokens), self.at[slots])
        ids = torch.tensor([list(tokens)])
        return self.model.decoder.forward(ids, where, call)[0]

    def layers(self, table: Sequence[int]) -> list[tuple[Tensor, Tensor]]:
        """K and V rows of each layer in the slots of a table, [1, H_kv, R, d_h]; copies."""
        slots = torch.tensor(table, dtype=torch.int64)
        return [
            (self._cells[layer, Part.KEY][:, :, slots], self._cells[layer, Part.VALUE][:, :, slots])
            for layer in range(self.model.decoder.config.layers)
        ]

    def wrong_rows(self, tokens: Sequence[int], layers: list[tuple[Tensor, Tensor]]) -> int:
        """How many of the rows an uncached run of the tokens does not give; those behind them count."""
        count = layers[0][0].shape[2]
        known = min(count, len(tokens))
        if not known:
            return count
        run = self.model.run(tuple(tokens[:known]))
        wrong = set(range(known, count))
        for layer, pair in enumerate(layers):
            for found, right in zip(pair, (run.keys, run.values), strict=True):
                for place in range(known):
                    if not is_same(found[0, :, place], right[layer, :, place]):
                        wrong.add(place)
        return len(wrong)

    def next_logits(self, token: int, position: int, layers: list[tuple[Tensor, Tensor]]) -> Tensor:
        """Logits [vocab] behind a token at a position, whose row is the last of the given ones."""
        places = torch.arange(layers[0][0].shape[2])
        return self.model.logits(token, position, layers, [places] * len(layers))


class _Call:
    """One model call on the slots of a table, the last of which it writes."""

    def __init__(
        self, cells: dict[tuple[int, Part], Tensor], slots: Tensor, count: int, at: Tensor
    ) -> None:
        self._cells = cells
        self._slots = slots
        self._count = count
        self._at = at

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Write the rows of this call into its slots."""
        self._cells[layer, part][:, :, self._slots[len(self._slots) - self._count :]] = rows

    def view(self, layer: int) -> KVView:
        """Every row of the table, at the position at which it was computed."""
        keys, values = (self._cells[layer, part][:, :, self._slots] for part in Part)
        return KVView(keys, values, self._at)


def is_same(row: Tensor, other: Tensor) -> bool:
    """Two rows are those of one token at one position, up to the order of sums."""
    return disagreement(row, other) <= ROW_SLACK * TOLERANCES[other.dtype]


def is_apart(found: Tensor, right: Tensor) -> bool:
    """Logits are not those of an uncached run."""
    return disagreement(found, right) > TOLERANCES[right.dtype]
