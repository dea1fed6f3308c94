"""The static layout: a preallocated buffer, indexed writes, a valid length apart from shape.

Modelled: rows at their position in a buffer of fixed capacity. An append writes its rows straight
into the buffer behind the visible length, where they are invisible until the length moves; so
publication copies nothing. Three rules keep this sound: the room behind the visible rows has one
tenant at a time (other appends stage in buffers of their own); a row that was ever visible is never
written over (such an append moves to a fresh buffer, and older snapshots keep theirs); room is let
again only when the writes of its last tenant have completed. Left out: a view of the full capacity
under a mask, which kernels compiled for one shape want; here attention gets the valid slice, so
that not even a NaN behind it can reach the logits.

Sizes: L layers, B batch, H_kv heads, C capacity in rows, d_h head width.
"""

import threading
from collections.abc import Iterable
from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import Completion, Submit, borrow, record, settle
from kvspec.models.decode.errors import BadConfigError, CapacityExceededError
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
from kvspec.models.decode.staging import StagedPart, Staging, copy_rows


class Buffer:
    """Memory for C rows of every part, with the book-keeping of who may write where.

    Attributes:
        rows: [L, B, H_kv, C, d_h] for K and for V.
    """

    def __init__(self, rows: dict[Part, Tensor], sealed: int = 0) -> None:
        self.rows = rows
        self._sealed = sealed
        self._tenant: object | None = None
        self._draining: list[Completion] = []
        self._lock = threading.Lock()

    @classmethod
    def allocate(cls, shape: CacheShape, capacity: int) -> Self:
        """A zeroed buffer."""
        size = (shape.layers, *shape.rows(capacity))
        rows = {part: torch.zeros(size, dtype=shape.dtype, device=shape.device) for part in Part}
        # Another stream may write first; zeroing must not come after it.
        settle(shape.device)
        return cls(rows)

    def cell(self, cell: Cell) -> Tensor:
        """All C rows of one part of one layer, [B, H_kv, C, d_h], as a view."""
        layer, part = cell
        return borrow(self.rows[part])[layer]

    def let(self, tenant: object, start: int, *, carelessly: bool) -> bool:
        """Give ``tenant`` the room from ``start`` on, if nobody holds, shows or still writes it."""
        with self._lock:
            self._draining = [write for write in self._draining if not write.is_complete()]
            free = self._tenant is None and not self._draining and start == self._sealed
            if not free and not carelessly:
                return False
            self._tenant = tenant
            return True

    def give_back(self, tenant: object, writes: Iterable[Completion]) -> None:
        """End a tenancy whose rows are thrown away; ``writes`` may still be landing."""
        with self._lock:
            self._draining.extend(writes)
            if self._tenant is tenant:
                self._tenant = None

    def seal(self, tenant: object, length: int) -> None:
        """End a tenancy whose rows up to ``length`` become visible."""
        with self._lock:
            self._sealed = max(self._sealed, length)
            if self._tenant is tenant:
                self._tenant = None

    def copy(self, length: int) -> "Buffer":
        """Another buffer of the same size with the rows [0, length) of this one."""
        rows = {part: torch.zeros_like(borrow(held)) for part, held in self.rows.items()}
        for part, held in self.rows.items():
            copy_rows(rows[part][..., :length, :], held[..., :length, :])
        return Buffer(rows, sealed=length)


@frozen(eq=False)
class StaticSnapshot(MixableSnapshot):
    """A buffer, and how many of its rows are visible.

    Attributes:
        buffer: the memory.
        visible: rows of K and of V for each layer.
    """

    buffer: Buffer
    visible: tuple[tuple[int, int], ...]

    @property
    def length(self) -> int:
        """The one length of all parts; UnevenRowsError when there is none."""
        return common_length(self.lengths(), "a snapshot of a static layout")

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer: numbers beside the buffer."""
        return list(self.visible)

    @property
    def most(self) -> int:
        """The largest number of rows of a part."""
        return max(max(pair) for pair in self.visible)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, as views of the buffer."""
        keys, values = self.visible[layer]
        return (
            self.buffer.cell((layer, Part.KEY))[:, :, :keys],
            self.buffer.cell((layer, Part.VALUE))[:, :, :values],
        )

    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """The newer buffer with the lengths of ``cells`` moved; its older rows are the same."""
        taken = set(cells)
        visible = tuple(
            (
                now[0] if (layer, Part.KEY) in taken else was[0],
                now[1] if (layer, Part.VALUE) in taken else was[1],
            )
            for layer, (was, now) in enumerate(zip(self.visible, newer.visible, strict=True))
        )
        return type(self)(newer.buffer, visible)


class StaticStaging(Staging):
    """An append that lands in the buffer itself where it is the tenant of the room it needs.

    Attributes:
        room: the buffer it may write into, or None.
        in_place: parts that landed there.
        spoilt: parts whose write there failed to start; it may land at any time, so nothing in the room
            is ever shown, and the room is never let again.
    """

    def __init__(
        self,
        owner: "StaticLayout",
        base: StaticSnapshot,
        start: int,
        count: int,
        submit: Submit,
    ) -> None:
        super().__init__(owner, base, owner.shape, start, count, submit)
        careless = owner.faults.overwrite
        self.room = base.buffer if base.buffer.let(self, start, carelessly=careless) else None
        self.in_place: set[Cell] = set()
        self.spoilt: set[Cell] = set()

    def _buffer(self, cell: Cell, start: int, rows: Tensor) -> Tensor:
        fits = (start, rows.shape[2]) == (self.start, self.count)
        if self.room is None or not fits or cell in self.spoilt:
            return super()._buffer(cell, start, rows)
        self.in_place.add(cell)
        return self.room.cell(cell)[:, :, self.start : self.stop]

    def _joined(self, layer: int, key: StagedPart, value: StagedPart) -> tuple[Tensor, Tensor]:
        even = self.base.lengths()[layer] == (self.start, self.start)
        landed = {(layer, Part.KEY), (layer, Part.VALUE)} <= self.in_place
        ordered = key.completion.in_order and value.completion.in_order
        if self.room is None or not (even and landed and ordered):
            return super()._joined(layer, key, value)
        keys, values = (self.room.cell((layer, part)) for part in Part)
        return keys[:, :, : self.stop], values[:, :, : self.stop]

    def _start_failed(self, cell: Cell) -> None:
        if cell in self.in_place:
            self.in_place.remove(cell)
            self.spoilt.add(cell)

    def _let_go(self) -> None:
        entries = self.entries()
        if self.room is not None and not self.spoilt:
            self.room.give_back(self, [entries[cell].completion for cell in self.in_place])


class StaticLayout(Layout[StaticSnapshot]):
    """Rows of one handle at their positions in a buffer of ``capacity`` rows.

    A new layout is empty, unless ``content`` says otherwise.

    Raises:
        BadConfigError: ``capacity`` is below one.
    """

    name = "static"
    writes_in_place = True

    def __init__(
        self,
        shape: CacheShape,
        capacity: int,
        faults: LayoutFaults = SOUND,
        content: StaticSnapshot | None = None,
    ) -> None:
        if capacity < 1:
            raise BadConfigError(
                where="StaticLayout",
                found=f"capacity = {capacity}",
                expected="at least 1 row",
                fix="give the longest sequence that the handle may hold",
            )
        if content is None:
            buffer = Buffer.allocate(shape, capacity)
            content = StaticSnapshot(buffer, _all_layers(shape, 0))
        super().__init__(shape, content, faults)
        self.capacity = capacity

    @property
    def reserved_rows(self) -> int:
        """The capacity, however little of it is visible."""
        return 0 if self.is_released else self.capacity

    def _open(self, base: StaticSnapshot, start: int, count: int, submit: Submit) -> StaticStaging:
        self._check_capacity("begin", start, start + count)
        return StaticStaging(self, base, start, count, submit)

    def _land(self, older: StaticSnapshot, staging: Staging) -> StaticSnapshot:
        entries = staging.entries()
        for entry in entries.values():
            self._check_capacity("install", entry.start, entry.stop)
        target = self._target(older, staging)
        visible = [list(pair) for pair in older.visible]
        for cell, entry in entries.items():
            if not _has_landed(staging, cell, target):
                copy_rows(target.cell(cell)[:, :, entry.start : entry.stop], staging.rows(cell))
            layer, part = cell
            side = 0 if part is Part.KEY else 1
            visible[layer][side] = max(visible[layer][side], entry.stop)
        return StaticSnapshot(target, tuple((keys, values) for keys, values in visible))

    def _commit(
        self, older: StaticSnapshot, newer: StaticSnapshot, staging: Staging | None
    ) -> None:
        del older
        if staging is not None:
            newer.buffer.seal(staging, newer.most)

    def _back_out(self, older: StaticSnapshot, staging: Staging) -> None:
        if not (isinstance(staging, StaticStaging) and staging.room is older.buffer):
            # On the CPU a copy is over when its call returns, whatever queue is current.
            on_cpu = self.shape.device.type == "cpu"
            older.buffer.give_back(staging, () if on_cpu else (record(self.shape.device),))

    def _target(self, older: StaticSnapshot, staging: Staging) -> Buffer:
        """The buffer for the staged rows: the current one where its room is free for them."""
        current = older.buffer
        if isinstance(staging, StaticStaging) and staging.room is current:
            return current.copy(older.most) if staging.spoilt else current
        if current.let(staging, staging.start, carelessly=self.faults.overwrite):
            return current
        return current.copy(older.most)

    def _cut(self, older: StaticSnapshot, n: int) -> StaticSnapshot:
        return StaticSnapshot(older.buffer, _all_layers(self.shape, n))

    def _child(self, parent: StaticSnapshot, n: int) -> Self:
        held = parent.buffer
        # An alias is the same memory under a second book-keeping that knows nothing of the first.
        buffer = Buffer(held.rows, sealed=n) if self.faults.alias_fork else held.copy(n)
        content = StaticSnapshot(buffer, _all_layers(self.shape, n))
        return type(self)(self.shape, self.capacity, self.faults, content)

    def _check_capacity(self, verb: str, start: int, stop: int) -> None:
        if stop > self.capacity:
            raise CapacityExceededError(
                where=f"{verb} on a static layout",
                found=f"rows [{start}, {stop})",
                expected=f"rows within [0, {self.capacity}), the capacity",
                fix="append fewer rows, truncate, or allocate a larger layout",
            )


def _has_landed(staging: Staging, cell: Cell, target: Buffer) -> bool:
    """The part is in ``target`` already, at its own positions."""
    return (
        isinstance(staging, StaticStaging) and staging.room is target and cell in staging.in_place
    )


def _all_layers(shape: CacheShape, length: int) -> tuple[tuple[int, int], ...]:
    return ((length, length),) * shape.layers
