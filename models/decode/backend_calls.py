"""The model call of an append: computed as far as an event asks, in whatever order events come.

Modelled: the forward pass over an append's tokens as one generator that stops at each layer's K and
V. An event that stages a row of a layer runs it up to that layer and part, and no further; what it
produced on the way stays with the call, so that a later event of an earlier layer finds its row
made. Rows of other layers are computed for this, for the layer's input needs them, but they are not
staged: only an event stages, row by row, and only staged rows are ever published. What a layer
reads are the prefix block as it is in memory then, the rows that were visible at begin, and the
call's own rows. Left out: stopping a call that the append no longer needs; a kernel in flight
cannot be called back, so its late rows must be refused.
"""

from __future__ import annotations

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import Entry, Tables
from kvspec.models.decode.completion import Completion
from kvspec.models.decode.decoder import positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.shapes import CacheShape, Cell
from kvspec.models.decode.staging import copy_rows


class _CallCache:
    """What the layers of one call read and produce: a `LayerCache`."""

    def __init__(self, tables: Tables, entry: Entry, start: int, positions: Tensor) -> None:
        self._pool = tables.pool
        self._entry = entry
        self._start = start
        self._positions = positions
        self.rows: dict[Cell, Tensor] = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep what the layer produced, [1, H_kv, n, d_h]."""
        self.rows[layer, part] = rows

    @torch.inference_mode()
    def view(self, layer: int) -> KVView:
        """Prefix rows, the rows that were visible at begin, and the call's own, with positions."""
        keys, values = [self.rows[layer, Part.KEY]], [self.rows[layer, Part.VALUE]]
        where = [self._positions]
        prompt = 0 if self._entry.block is None else PREFIX_ROWS
        if self._entry.rows is not None:
            base_keys, base_values = self._entry.rows.read(layer)
            places = self._entry.rows.positions(layer)
            seen = int((places < self._start).sum())
            keys.insert(0, base_keys[:, :, :seen])
            values.insert(0, base_values[:, :, :seen])
            where.insert(0, places[:seen] + prompt)
        if self._entry.block is not None:
            block_keys, block_values = self._pool.read(self._entry.block, layer)
            keys.insert(0, block_keys)
            values.insert(0, block_values)
            where.insert(0, positions_from(0, prompt, self._positions.device))
        return KVView(torch.cat(keys, dim=2), torch.cat(values, dim=2), torch.cat(where))


class Call:
    """The model call of one append of ``tokens`` at positions from ``start`` on.

    It reads ``entry``, the request as it was at begin.
    """

    def __init__(
        self, tables: Tables, entry: Entry, abi: int, start: int, tokens: tuple[int, ...]
    ) -> None:
        decoder = tables.models[abi].decoder
        positions = positions_from(PREFIX_ROWS + start, len(tokens), decoder.device)
        self._start = start
        self._count = len(tokens)
        self._cache = _CallCache(tables, entry, start, positions)
        ids = torch.tensor([tokens], dtype=torch.int64, device=decoder.device)
        self._steps = decoder.forward_layers(ids, positions, self._cache)

    def row(self, layer: int, part: Part, place: int) -> Tensor:
        """The row [1, H_kv, 1, d_h] of one part at a position, computed now if need be.

        A position outside the call's interval gives its nearest row, as a kernel with a clamped
        index would.
        """
        while (layer, part) not in self._cache.rows:
            next(self._steps)
        index = min(max(place - self._start, 0), self._count - 1)
        return self._cache.rows[layer, part][:, :, index : index + 1]


@define(eq=False)
class Staged:
    """The staged rows of an append, at their positions, with the device's word on each write.

    Attributes:
        start: position of the first row.
        rows: [L, 1, H_kv, C, d_h] for K and for V, zero where nothing was staged.
        ends: position behind the last staged row, for each part of each layer.
        writes: completions of the writes so far.
    """

    start: int
    rows: dict[Part, Tensor]
    ends: dict[Cell, int]
    writes: list[tuple[Cell, Completion]] = field(factory=list)

    @classmethod
    @torch.inference_mode()
    def begin(cls, shape: CacheShape, start: int, longest: int) -> Staged:
        """Nothing staged yet, from ``start`` on, with memory for positions up to ``longest``."""
        size = (shape.layers, *shape.rows(longest + 1))
        rows = {part: torch.zeros(size, dtype=shape.dtype, device=shape.device) for part in Part}
        return cls(start, rows, dict.fromkeys(shape.cells(), start))

    def stage(self, tables: Tables, cell: Cell, place: int, row: Tensor) -> None:
        """Start the write of a row [1, H_kv, 1, d_h] at its position."""
        layer, part = cell
        with torch.inference_mode():
            target = self.rows[part][layer, :, :, place : place + 1]
        done = tables.submit(lambda: copy_rows(target, row), tables.shape.device)
        self.writes.append((cell, done))
        self.ends[cell] = place + 1

    def is_written(self, part: Part) -> bool:
        """Every staged row of K, or of V, is written, as far as the device says."""
        return all(done.is_complete() for (_, of), done in self.writes if of is part)

    def wait(self) -> None:
        """Return once every staged row is written."""
        for _, done in self.writes:
            done.wait()

    @torch.inference_mode()
    def part(self, cell: Cell) -> Tensor:
        """The staged rows of one part, [1, H_kv, end - start, d_h]."""
        layer, part = cell
        return self.rows[part][layer, :, :, self.start : self.ends[cell]]
