"""The memory of a pool of blocks: rows at slots, gathered through a table of blocks.

Modelled: one tensor for K and one for V, cut into blocks of R rows; slot block * R + row. Reading
copies, so that what was read outlives the block. The memory's own work (copies of blocks, overwriting,
indices) is over when its call returns, and waits for no stream of a reader or writer: on CUDA it has a
stream of its own. Left out: who may read or write what; ``pages`` tells that.

Assumption: blocks that are copied or overwritten are written, and nobody writes to them then.

Sizes: L layers, N blocks, R rows a block, B batch, H_kv heads, d_h head width.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import borrow
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.shapes import CacheShape, Cell


class BlockMemory:
    """Memory for N blocks of R rows of K and V of every layer, zero at first.

    Attributes:
        shape: what rows look like.
        blocks: number of blocks N.
        block_size: rows of a block R.
        rows: [L, N * R, B, H_kv, d_h] for K and for V.
    """

    def __init__(self, shape: CacheShape, blocks: int, block_size: int) -> None:
        self.shape = shape
        self.blocks = blocks
        self.block_size = block_size
        self._stream: Any = None
        if shape.device.type == "cuda":
            # torch gives its streams no types.
            make: Any = torch.cuda.Stream
            self._stream = make(shape.device)
        size = (shape.layers, blocks * block_size, shape.batch, shape.kv_heads, shape.head_dim)
        with self._own_work():
            self.rows = {
                part: torch.zeros(size, dtype=shape.dtype, device=shape.device) for part in Part
            }

    def index_of(self, numbers: Iterable[int]) -> Tensor:
        """Blocks or slots as a tensor, int64 [n], that every stream finds whole."""
        with self._own_work():
            return torch.tensor(tuple(numbers), dtype=torch.int64, device=self.shape.device)

    def gather(self, cell: Cell, index: Tensor, length: int) -> Tensor:
        """The rows [0, length) of one part in the order of a table, [B, H_kv, length, d_h]; a copy.

        ``index`` holds the blocks of the table, int64 [n].
        """
        count = -(-length // self.block_size)
        layer, part = cell
        picked = self._in_blocks(part)[layer].index_select(0, borrow(index)[:count])
        return picked.flatten(0, 1)[:length].permute(1, 2, 0, 3)

    def at_slots(self, cell: Cell, slots: Tensor) -> Tensor:
        """The rows at some slots of one part, [B, H_kv, n, d_h]; a copy."""
        layer, part = cell
        picked = borrow(self.rows[part])[layer].index_select(0, borrow(slots))
        return picked.permute(1, 2, 0, 3)

    @torch.inference_mode()
    def write(self, cell: Cell, slots: Tensor, rows: Tensor) -> None:
        """Put the rows [B, H_kv, n, d_h] of one part at some slots."""
        layer, part = cell
        memory = borrow(self.rows[part])[layer]
        memory.index_copy_(0, borrow(slots), borrow(rows).permute(2, 0, 1, 3))

    @torch.inference_mode()
    def copy_blocks(self, pairs: Iterable[tuple[int, int]]) -> None:
        """Copy whole blocks, in all layers, each pair from the first to the second."""
        moved = list(pairs)
        if not moved:
            return
        with self._own_work():
            for part in Part:
                blocks = self._in_blocks(part)
                for source, target in moved:
                    blocks[:, target] = blocks[:, source]

    @torch.inference_mode()
    def fill_blocks(self, blocks: Iterable[int], value: float) -> None:
        """Write one number over all rows of some blocks."""
        filled = list(blocks)
        if not filled:
            return
        with self._own_work():
            for part in Part:
                for block in filled:
                    self._in_blocks(part)[:, block] = value

    def _in_blocks(self, part: Part) -> Tensor:
        """The rows of a part as [L, N, R, B, H_kv, d_h]."""
        rows = borrow(self.rows[part])
        return rows.view(rows.shape[0], self.blocks, self.block_size, *rows.shape[2:])

    @contextmanager
    def _own_work(self) -> Iterator[None]:
        # On the CPU this thread does it at once, whatever queue is current.
        if self._stream is None:
            yield
            return
        with torch.cuda.stream(self._stream):
            yield
        self._stream.synchronize()


@frozen(eq=False)
class InBlocks:
    """Rows land at slots of a pool (`kvspec.models.decode.staging.Landing`).

    Attributes:
        memory: the pool's.
        cell: part of which layer.
        slots: where each row goes, int64 [n].
    """

    memory: BlockMemory
    cell: Cell
    slots: Tensor

    def write(self, rows: Tensor) -> None:
        """Put the rows [B, H_kv, n, d_h] at the slots."""
        self.memory.write(self.cell, self.slots, rows)

    def read(self) -> Tensor:
        """The rows at the slots."""
        return self.memory.at_slots(self.cell, self.slots)
