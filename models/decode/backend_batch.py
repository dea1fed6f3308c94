"""The running batch of the backend: rows are entered, left and reordered with all companions.

Modelled: five arrays beside each other (cache handle, tokens and output, random state of the
sampler, ancestry, position), moved together by one bijection. Left out: scores of beams, and which
request is chosen for which row.
"""

from __future__ import annotations

from typing import Any

import torch
from attrs import define

from kvspec.models.decode.backend_tables import Tables

COMPANIONS = {
    "row_cache": "caches",
    "row_tokens": "outputs",
    "row_sampler": "samplers",
    "row_ancestry": "ancestry",
    "row_position": "positions",
}
"""The batch's arrays, by the specification's names of them."""


@define(eq=False)
class BatchRows:
    """The batch of a backend; each method is an event, refused with `RefusedError`."""

    tables: Tables

    def enter(self, r: int, h: int) -> None:
        """Put a ready request into an empty row, with all its companions."""
        batch, slot, need = self.tables.batch, self.tables.slots[h], self.tables.need
        ready = slot.entry.phase == "DECODE_READY"
        need("enter", ready, "HANDLE_TERMINAL", slot.entry.phase)
        need("enter", batch.caches[r] is None, "ROW_TAKEN", f"row{r} carries {batch.caches[r]}")
        need("enter", batch.find(h) < 0, "IN_BATCH", f"handle{h} is in row{batch.find(h)}")
        companions = (
            h,
            slot.output,
            torch.Generator().manual_seed(slot.sampler_seed),
            slot.entry.parent,
            len(slot.entry.tokens),
        )
        for (name, array), value in zip(COMPANIONS.items(), companions, strict=True):
            if not self.tables.lacks(f"enter.drop-assignment.{name}"):
                getattr(batch, array)[r] = value

    def leave(self, h: int) -> None:
        """Take a request out of the batch and clear its row."""
        batch = self.tables.batch
        row = batch.find(h)
        self.tables.need("leave", row >= 0, "NOT_IN_BATCH", f"no row carries handle{h}")
        for name, array in COMPANIONS.items():
            held: list[Any] = getattr(batch, array)
            if held and not self.tables.lacks(f"leave.drop-assignment.{name}"):
                held[row] = 0 if array == "positions" else None

    def reorder(self, source: tuple[int, ...]) -> None:
        """Move every companion of row source[r] to row r, all rows at once."""
        batch = self.tables.batch
        once = len(set(source)) == len(source)
        self.tables.need("reorder", once, "NOT_A_PERMUTATION", f"rows from {list(source)}")
        for name, array in COMPANIONS.items():
            if not self.tables.lacks(f"reorder.drop-assignment.{name}"):
                held: list[Any] = getattr(batch, array)
                setattr(batch, array, [held[row] for row in source])
