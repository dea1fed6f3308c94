"""The sliding-window layout: the length goes on, and a bounded number of rows behind it stays.

Modelled: rows that no call can see any more are dropped when later rows become visible. Where a row
stands in memory is apart from its position: a snapshot holds the position of its first row, and masks
are made from positions. An append's own rows are all there until it is installed, so a chunk may be
longer than the window. Rows are sliced and joined into new tensors, and no tensor is written to after
it became visible; so a snapshot or a fork keeps the rows that it shows, whatever is dropped later. Left
out: a ring that is written in place, which saves the copy, and has to know who still shows a slot.

How many rows stay (`most_rows`): a query at position p sees the keys in (p - w, p], its own among
them, so an append at length n needs the rows [n - w + 1, n). A truncate may take the length from T back
to any n in [T - r, T]. Together these are the rows [T - r - w + 1, T), which are w - 1 + r; with w = 1
no call needs any row but its own. One row fewer is missed by the append that follows a truncate by r.
The bound is for truncates from the longest length there was: a second one in a row asks for rows that are
gone, and is refused.
"""

from collections.abc import Callable, Iterable
from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import Submit, borrow
from kvspec.models.decode.errors import BadConfigError, CannotRewindError
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.layouts import Layout, MixableSnapshot
from kvspec.models.decode.shapes import (
    SOUND,
    CacheShape,
    Cell,
    LayoutFaults,
    Lengths,
    common_length,
)
from kvspec.models.decode.staging import Staging


def most_rows(window: int | None, rewind: int = 0) -> int | None:
    """Rows behind the frontier that a truncate by at most ``rewind`` rows, and what follows it, can need.

    None where every row can be needed, since there is no window.
    """
    if window is None:
        return None
    return 0 if window == 1 else window - 1 + rewind


@frozen(eq=False)
class WindowSnapshot(MixableSnapshot):
    """The rows that are left of what became visible, and where they stand.

    Attributes:
        parts: [B, H_kv, R, d_h] for each layer's K and V.
        starts: the position of the first of these rows.
        counted: positions begin at 0 in every snapshot, which is a fault.
    """

    parts: dict[Cell, Tensor]
    starts: dict[Cell, int]
    counted: bool = False

    @property
    def length(self) -> int:
        """The one length of all parts, dropped rows among it; UnevenRowsError when there is none."""
        return common_length(self.lengths(), "a snapshot of a window layout")

    @property
    def first(self) -> int:
        """The first position from which on all parts hold their rows."""
        return max(self.starts.values())

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer that became visible, dropped ones among them."""
        return self._pairs(lambda cell: self.starts[cell] + self.parts[cell].shape[2])

    def kept(self) -> Lengths:
        """Rows of K and of V for each layer that are left."""
        return self._pairs(lambda cell: self.parts[cell].shape[2])

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, the rows that are left."""
        return borrow(self.parts[layer, Part.KEY]), borrow(self.parts[layer, Part.VALUE])

    def positions(self, layer: int) -> Tensor:
        """The position of each row that is left."""
        keys, values = self.parts[layer, Part.KEY], self.parts[layer, Part.VALUE]
        start = 0 if self.counted else self.starts[layer, Part.KEY]
        count = min(keys.shape[2], values.shape[2])
        return torch.arange(start, start + count, device=keys.device)

    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """This snapshot with ``cells`` as ``newer`` has them."""
        taken = list(cells)
        return type(self)(
            self.parts | {cell: newer.parts[cell] for cell in taken},
            self.starts | {cell: newer.starts[cell] for cell in taken},
            self.counted,
        )

    def _pairs(self, number: Callable[[Cell], int]) -> Lengths:
        layers = len(self.parts) // len(Part)
        return [(number((layer, Part.KEY)), number((layer, Part.VALUE))) for layer in range(layers)]


class WindowLayout(Layout[WindowSnapshot]):
    """Rows of one handle, of which those stay that a window of ``window`` keys can still see.

    Without a window all rows stay. A new layout is empty, unless ``content`` says otherwise.

    Attributes:
        window: a query at position p sees the keys in (p - window, p].
        rewind: rows that a truncate, or a fork, may go back from the longest length.

    Raises:
        BadConfigError: the window is below one, or the rewind below zero.
    """

    name = "window"

    def __init__(
        self,
        shape: CacheShape,
        window: int | None,
        rewind: int = 0,
        faults: LayoutFaults = SOUND,
        content: WindowSnapshot | None = None,
    ) -> None:
        if (window is not None and window < 1) or rewind < 0:
            raise BadConfigError(
                where="WindowLayout",
                found=f"window = {window}, rewind = {rewind}",
                expected="a window of at least 1, or None, and a rewind of at least 0",
                fix="give the window of the decoder, which sees its own row at least",
            )
        super().__init__(shape, _empty(shape, faults) if content is None else content, faults)
        self.window = window
        self.rewind = rewind

    @property
    def reserved_rows(self) -> int:
        """As many as are left."""
        return 0 if self.is_released else self.snapshot().kept()[0][0]

    def _open(self, base: WindowSnapshot, start: int, count: int, submit: Submit) -> Staging:
        return Staging(self, base, self.shape, start, count, submit)

    def _land(self, older: WindowSnapshot, staging: Staging) -> WindowSnapshot:
        parts, starts = dict(older.parts), dict(older.starts)
        for cell in staging.entries():
            held, staged = older.parts[cell], staging.rows(cell)
            gone = self._surplus(held.shape[2] + staged.shape[2])
            # The tensors are cut before they are joined: a slice would keep what was cut off.
            left = held[:, :, gone:], staged[:, :, max(0, gone - held.shape[2]) :]
            parts[cell] = torch.cat(left, dim=2)
            starts[cell] += gone
        return WindowSnapshot(parts, starts, older.counted)

    def _surplus(self, count: int) -> int:
        """How many of so many rows, the oldest, no call can need."""
        most = most_rows(self.window, self.rewind)
        if most is None:
            return 0
        return max(0, count - max(0, most - self.faults.window_early))

    def _cut(self, older: WindowSnapshot, n: int) -> WindowSnapshot:
        starts = {cell: min(start, n) for cell, start in older.starts.items()}
        parts = {
            cell: rows[:, :, : max(0, n - older.starts[cell])].clone()
            for cell, rows in older.parts.items()
        }
        return WindowSnapshot(parts, starts, older.counted)

    def _child(self, parent: WindowSnapshot, n: int) -> Self:
        content = self._cut(parent, n)
        return type(self)(self.shape, self.window, self.rewind, self.faults, content)

    def _check_prefix(self, snapshot: WindowSnapshot, n: int, verb: str) -> None:
        super()._check_prefix(snapshot, n, verb)
        if self.window is None or self.faults.allow_gone:
            return
        needed = max(0, n - self.window + 1)
        # A layout that drops rows early does not know that it does.
        first = snapshot.first - self.faults.window_early
        if needed < n and needed < first:
            raise CannotRewindError(
                where=f"{verb} of a window layout",
                found=f"n = {n}, where a call sees rows from {needed} on, and rows from {first} on",
                expected=f"n = 0, or n >= {first + self.window - 1}",
                fix=f"go back by at most {self.rewind} rows from the longest length, or process the "
                "tokens anew",
            )


def _empty(shape: CacheShape, faults: LayoutFaults) -> WindowSnapshot:
    parts = {
        cell: torch.empty(shape.rows(0), dtype=shape.dtype, device=shape.device)
        for cell in shape.cells()
    }
    return WindowSnapshot(parts, dict.fromkeys(parts, 0), faults.row_as_position)
