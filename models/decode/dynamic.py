"""The dynamic layout: rows are concatenated, and a tensor is exactly as long as what is valid.

Modelled: growth by concatenation into new tensors, so that no tensor is ever written to after it
became visible. What a call joined for its own view is what its publication shows, so that rows are
joined once. Left out: growth in larger strides to save copies; it would part the valid length
from the tensor shape, which is the static layout's subject.
"""

from collections.abc import Iterable
from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import Completion, Submit, borrow, record
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
from kvspec.models.decode.staging import StagedPart, Staging


@frozen(eq=False)
class DynamicSnapshot(MixableSnapshot):
    """Tensors that hold the visible rows and nothing else.

    Attributes:
        parts: [B, H_kv, T, d_h] for each layer's K and V.
    """

    parts: dict[Cell, Tensor]

    @property
    def length(self) -> int:
        """The one length of all parts; UnevenRowsError when there is none."""
        return common_length(self.lengths(), "a snapshot of a dynamic layout")

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer: the tensors' own lengths."""
        layers = len(self.parts) // len(Part)
        return [
            (self.parts[layer, Part.KEY].shape[2], self.parts[layer, Part.VALUE].shape[2])
            for layer in range(layers)
        ]

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer."""
        return borrow(self.parts[layer, Part.KEY]), borrow(self.parts[layer, Part.VALUE])

    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """This snapshot with ``cells`` as ``newer`` has them."""
        return type(self)(self.parts | {cell: newer.parts[cell] for cell in cells})


class DynamicStaging(Staging):
    """An append that keeps what its views joined, for the snapshot that it becomes.

    Attributes:
        joined: base and staged rows in one tensor, with the completion of joining them; none for a part
            whose view went ahead of the write.
    """

    def __init__(
        self, owner: "DynamicLayout", base: DynamicSnapshot, start: int, count: int, submit: Submit
    ) -> None:
        super().__init__(owner, base, owner.shape, start, count, submit)
        self.joined: dict[Cell, tuple[Tensor, Completion]] = {}

    def _joined(self, layer: int, key: StagedPart, value: StagedPart) -> tuple[Tensor, Tensor]:
        keys, values = super()._joined(layer, key, value)
        if key.completion.in_order and value.completion.in_order:
            done = record(self.shape.device)
            self.joined[layer, Part.KEY] = (keys, done)
            self.joined[layer, Part.VALUE] = (values, done)
        return keys, values


class DynamicLayout(Layout[DynamicSnapshot]):
    """Rows of one handle in tensors that grow by concatenation.

    A new layout is empty, unless ``content`` says otherwise.
    """

    name = "dynamic"

    def __init__(
        self,
        shape: CacheShape,
        faults: LayoutFaults = SOUND,
        content: DynamicSnapshot | None = None,
    ) -> None:
        super().__init__(shape, _empty(shape) if content is None else content, faults)

    @property
    def reserved_rows(self) -> int:
        """As many as are visible."""
        return 0 if self.is_released else self.length

    def _open(self, base: DynamicSnapshot, start: int, count: int, submit: Submit) -> Staging:
        return DynamicStaging(self, base, start, count, submit)

    def _land(self, older: DynamicSnapshot, staging: Staging) -> DynamicSnapshot:
        grown = {cell: _grown(older, staging, cell) for cell in staging.entries()}
        return DynamicSnapshot(older.parts | grown)

    def _cut(self, older: DynamicSnapshot, n: int) -> DynamicSnapshot:
        # A slice would keep the memory of the rows that were cut off.
        return DynamicSnapshot({cell: rows[:, :, :n].clone() for cell, rows in older.parts.items()})

    def _child(self, parent: DynamicSnapshot, n: int) -> Self:
        return type(self)(self.shape, self.faults, self._cut(parent, n))


def _grown(older: DynamicSnapshot, staging: Staging, cell: Cell) -> Tensor:
    """The rows of one part with the staged ones behind them."""
    if isinstance(staging, DynamicStaging) and staging.base is older and cell in staging.joined:
        rows, done = staging.joined[cell]
        done.follow()
        return borrow(rows)
    return torch.cat((older.parts[cell], staging.rows(cell)), dim=2)


def _empty(shape: CacheShape) -> DynamicSnapshot:
    return DynamicSnapshot(
        {
            cell: torch.empty(shape.rows(0), dtype=shape.dtype, device=shape.device)
            for cell in shape.cells()
        }
    )
