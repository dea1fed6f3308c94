"""Blocks of real rows, and what the requests that read them find there.

Modelled: a block is so many slots of `SlotRows`; a request's rows lie in one block, from its first slot on.
Left out: requests of several blocks.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kvspec.models.backend import Damage
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend_model import Model
from kvspec.models.decode.mechanisms.slot_rows import SlotRows, is_apart


class BlockRows(SlotRows):
    """Rows by block.

    Attributes:
        size: slots of a block.
    """

    def __init__(self, model: Model, blocks: int, size: int) -> None:
        super().__init__(model, max(1, blocks * size))
        self.size = size

    @property
    def block_bytes(self) -> int:
        """Bytes of one block, all layers, K and V."""
        return self.size * self.row_bytes

    def slots(self, block: int, count: int) -> list[int]:
        """The first slots of a block."""
        return list(range(block * self.size, block * self.size + count))

    def put(self, block: int, tokens: Sequence[int]) -> None:
        """The rows of a whole sequence, computed from its tokens alone, in the first slots of a block."""
        self.compute(tokens, 0, self.slots(block, len(tokens)))

    def append(self, block: int, token: int, position: int) -> None:
        """The row of one more token, computed from the rows before it in the block."""
        self.compute([token], position, self.slots(block, position + 1))

    @torch.inference_mode()
    def clear(self, block: int) -> None:
        """The block holds zeros."""
        for cell in self._cells.values():
            cell[:, :, self.slots(block, self.size)] = 0.0

    @torch.inference_mode()
    def copy(self, source: int, target: int) -> None:
        """All rows of a block, in another one."""
        here, there = self.slots(source, self.size), self.slots(target, self.size)
        self.at[there] = self.at[here]
        for cell in self._cells.values():
            cell[:, :, there] = cell[:, :, here]

    def damage_of(self, where: str, block: int, tokens: Sequence[int]) -> list[Damage]:
        """What a request with these tokens finds in its block that is not its own."""
        found: list[Damage] = []
        layers = self.layers(self.slots(block, len(tokens)))
        wrong = self.wrong_rows(tokens, layers)
        if wrong:
            found.append(Damage("rows", where, wrong, f"rows of another request in block {block}"))
        logits = self.next_logits(tokens[-1], len(tokens) - 1, layers)
        right = self.model.run(tuple(tokens)).logits
        if is_apart(logits, right):
            off = disagreement(logits, right)
            found.append(Damage("logits", where, off, "logits of the next token, uncached run"))
        return found
