"""The running batch of the wrapper: a row is one object with all companions of a request.

Modelled: cache handle, whose tokens, random state, parent and position of the next token, which cannot be
parted because they move as one object. Left out: the kernels that would read a batch's rows together.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from attrs import evolve, frozen

from kvspec.models.adapter import RefusedByCacheError


@frozen(eq=False)
class Row:
    """A request in the batch. sampler: its random state; position: of its next token."""

    handle: int
    tokens_of: int
    sampler: torch.Generator
    parent: int | None
    position: int


class BatchRows:
    """The rows of the batch; None is an empty row."""

    def __init__(self, rows: int) -> None:
        self.rows: list[Row | None] = [None] * rows

    def row_of(self, h: int) -> int | None:
        """The row that carries a handle, if one does."""
        for place, row in enumerate(self.rows):
            if row is not None and row.handle == h:
                return place
        return None

    def enter(self, r: int, h: int, parent: int | None, position: int) -> None:
        """Fill an empty row."""
        if self.rows[r] is not None:
            raise RefusedByCacheError("ROW_TAKEN", f"found a request in row{r}")
        if self.row_of(h) is not None:
            raise RefusedByCacheError("IN_BATCH", f"found handle{h} in row{self.row_of(h)}")
        self.rows[r] = Row(h, h, torch.Generator().manual_seed(h), parent, position)

    def leave(self, h: int) -> None:
        """Clear the row that carries a handle."""
        row = self.row_of(h)
        if row is None:
            raise RefusedByCacheError("NOT_IN_BATCH", f"found handle{h} in no row")
        self.rows[row] = None

    def reorder(self, source: Sequence[int]) -> None:
        """Row r becomes what row source[r] was, all rows at once."""
        if sorted(source) != list(range(len(self.rows))):
            raise RefusedByCacheError("NOT_A_PERMUTATION", f"found the rows {list(source)}")
        self.rows = [self.rows[r] for r in source]

    def move(self, h: int, position: int) -> None:
        """The request of a handle has another next position."""
        self.rows = [
            evolve(row, position=position) if row is not None and row.handle == h else row
            for row in self.rows
        ]
