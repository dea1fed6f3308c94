"""The offloaded layout: rows lie on the host, and the device has two layers of them at a time.

Modelled: the visible rows in host memory, pinned where there is CUDA, joined into new tensors as in the
dynamic layout, so that no visible row is ever written over. A layer is read through the room of its store
(`residency`): its transfer is waited for, and the next layer's is started. Staging a part starts its
transfer to the host; the part counts as written when that is over, so a publication waits for, or checks,
the host's copy of every layer, and only then are the rows on the device given up. Left out: layers that
stay on the device for good, a window of layers larger than two, compression on the way, storage below
the host's memory.

Assumptions: the bound speaks of what the store keeps on the device; what a reader has been handed, and
the rows that a call has produced and not yet staged, are theirs.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from typing import Self

import torch
from attrs import evolve, frozen
from torch import Tensor

from kvspec.models.decode.completion import DONE, Submit
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.layouts import Layout, MixableSnapshot
from kvspec.models.decode.residency import DeviceRoom, Rows, transfer
from kvspec.models.decode.shapes import (
    SOUND,
    CacheShape,
    Cell,
    LayoutFaults,
    Lengths,
    common_length,
)
from kvspec.models.decode.staging import Landing, StagedPart, Staging, copy_rows


def _host_rows(shape: tuple[int, ...], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Zeros on the host, pinned where a CUDA device is to copy from and to them."""
    return torch.zeros(shape, dtype=dtype, pin_memory=device.type == "cuda")


@frozen(eq=False)
class OffloadedSnapshot(MixableSnapshot):
    """Rows on the host, and the room through which they are read.

    Attributes:
        parts: [B, H_kv, T, d_h] for each layer's K and V, on the host.
        room: what is on the device.
    """

    parts: dict[Cell, Tensor]
    room: DeviceRoom

    @property
    def length(self) -> int:
        """The one length of all parts; UnevenRowsError when there is none."""
        return common_length(self.lengths(), "a snapshot of an offloaded layout")

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer, on the host."""
        pairs = (self.on_host(layer) for layer in range(len(self.parts) // len(Part)))
        return [(keys.shape[2], values.shape[2]) for keys, values in pairs]

    def read(self, layer: int) -> Rows:
        """K and V of one layer on the device, once they are there."""
        return self.room.read(self, layer)

    def positions(self, layer: int) -> Tensor:
        """All positions from 0 on, which takes no transfer to know."""
        count = min(self.lengths()[layer])
        return torch.arange(count, device=self.room.shape.device)

    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """This snapshot with ``cells`` as ``newer`` has them."""
        parts = self.parts | {cell: newer.parts[cell] for cell in cells}
        return type(self)(parts, self.room)

    def on_host(self, layer: int) -> Rows:
        """K and V of one layer on the host."""
        return self.parts[layer, Part.KEY], self.parts[layer, Part.VALUE]


@frozen(eq=False)
class OnTheHost:
    """Rows land in a tensor on the host.

    Attributes:
        buffer: the tensor, [B, H_kv, n, d_h], zero until then.
    """

    buffer: Tensor

    def write(self, rows: Tensor) -> None:
        """Start the transfer of the rows from the device."""
        transfer(self.buffer, rows)

    def read(self) -> Tensor:
        """The tensor itself, on the host."""
        return self.buffer


class OffloadedStaging(Staging):
    """An append whose rows are on the device until the host has them."""

    def __init__(
        self,
        owner: OffloadedLayout,
        base: OffloadedSnapshot,
        start: int,
        count: int,
        submit: Submit,
    ) -> None:
        super().__init__(owner, base, owner.shape, start, count, submit)
        self._offloaded = base
        self._landings: set[object] = set()
        # One that is dropped without an end must not hold the room of its store for good.
        end = weakref.finalize(self, base.room.ended.append, self._landings)
        end.atexit = False
        self._frees_early = owner.faults.free_before_store

    def stage(self, layer: int, part: Part, rows: Tensor, start: int | None = None) -> None:
        """Take rows of one part, and start their transfer to the host; see `Staging.stage`."""
        with self._lock:
            super().stage(layer, part, rows, start)
            entry = self._parts[layer, part]
            # The rows on the device are the room's alone to keep, or they would outlast their layer.
            entry = evolve(entry, given=entry.landing.read())
            if self._frees_early:
                entry = evolve(entry, completion=DONE)
            self._parts[layer, part] = entry
            self._landings.add(entry.landing)
        room, written = self._offloaded.room, entry.completion
        room.hold(self._offloaded, layer, entry.landing, rows, written)
        if self.is_closed:
            self.let_go()

    def let_go(self) -> None:
        """Drop what is on the device of the append."""
        with self._lock:
            landings = set(self._landings)
        self._offloaded.room.let_go(landings)

    def _landing(self, cell: Cell, start: int, rows: Tensor) -> Landing:
        del cell, start
        return OnTheHost(_host_rows(tuple(rows.shape), rows.dtype, self.shape.device))

    def _joined(self, layer: int, key: StagedPart, value: StagedPart) -> Rows:
        keys, values = self._offloaded.read(layer)
        own = [self._on_device(layer, entry) for entry in (key, value)]
        return torch.cat((keys, own[0]), dim=2), torch.cat((values, own[1]), dim=2)

    def _on_device(self, layer: int, entry: StagedPart) -> Tensor:
        room = self._offloaded.room
        rows = room.staged(self._offloaded, layer, entry.landing)
        if rows is not None:
            return rows
        # What another call's layers have displaced is on the host, or its transfer failed.
        entry.completion.wait()
        return room.bring(entry.landing.read())

    def _let_go(self) -> None:
        self.let_go()


class OffloadedLayout(Layout[OffloadedSnapshot]):
    """Rows of one handle on the host, read through the room of its store.

    A new layout is empty, unless ``content`` says otherwise.

    Attributes:
        room: what the store has on the device.
    """

    name = "offloaded"

    def __init__(
        self,
        room: DeviceRoom,
        faults: LayoutFaults = SOUND,
        content: OffloadedSnapshot | None = None,
    ) -> None:
        visible = _empty(room.shape, room) if content is None else content
        super().__init__(room.shape, visible, faults)
        self.room = room

    @property
    def reserved_rows(self) -> int:
        """As many as are visible, on the host."""
        return 0 if self.is_released else self.length

    def release(self) -> None:
        """Give the rows up, and what the device has of them; snapshots already taken stay readable."""
        with self._lock:
            visible = self._visible
            super().release()
        if visible is not None:
            self.room.drop(visible)

    def _open(
        self, base: OffloadedSnapshot, start: int, count: int, submit: Submit
    ) -> OffloadedStaging:
        return OffloadedStaging(self, base, start, count, submit)

    def _land(self, older: OffloadedSnapshot, staging: Staging) -> OffloadedSnapshot:
        parts = dict(older.parts)
        for cell in staging.entries():
            held, staged = older.parts[cell], staging.rows(cell)
            length = held.shape[2]
            size = (*held.shape[:2], length + staged.shape[2], held.shape[3])
            parts[cell] = _host_rows(size, held.dtype, self.shape.device)
            copy_rows(parts[cell][:, :, :length], held)
            copy_rows(parts[cell][:, :, length:], staged)
        return OffloadedSnapshot(parts, self.room)

    def _commit(
        self, older: OffloadedSnapshot, newer: OffloadedSnapshot, staging: Staging | None
    ) -> None:
        del older, newer
        if isinstance(staging, OffloadedStaging):
            staging.let_go()

    def _cut(self, older: OffloadedSnapshot, n: int) -> OffloadedSnapshot:
        parts = {}
        for cell, held in older.parts.items():
            kept = held[:, :, :n]
            parts[cell] = _host_rows(tuple(kept.shape), held.dtype, self.shape.device)
            copy_rows(parts[cell], kept)
        return OffloadedSnapshot(parts, self.room)

    def _child(self, parent: OffloadedSnapshot, n: int) -> Self:
        return type(self)(self.room, self.faults, self._cut(parent, n))


def _empty(shape: CacheShape, room: DeviceRoom) -> OffloadedSnapshot:
    parts = {cell: _host_rows(shape.rows(0), shape.dtype, shape.device) for cell in shape.cells()}
    return OffloadedSnapshot(parts, room)
