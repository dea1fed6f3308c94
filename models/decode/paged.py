"""The paged layout: rows in blocks of a shared pool, found through a block table.

Modelled: a snapshot is a table of blocks and the visible lengths; position p lies in block p // R of
the table at row p % R. A fork shares all blocks with its parent and copies none. An append reserves
its blocks when it is begun, so that publication needs no more room, and writes straight into them:
behind the visible rows of the last block where nobody else holds that block, into a copy of it where
others do. Only if the table was cut meanwhile, and grew again to the same length, or if the start of a
write failed, are the rows copied when they are published, which may need more blocks.

A snapshot holds its blocks for as long as it lives; a reader need not say that it is done, it drops
the snapshot. Left out: tables of different layers that differ.

Sizes: L layers, B batch, H_kv heads, R rows a block, d_h head width.
"""

import weakref
from collections.abc import Collection, Iterable
from typing import Self

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import Submit, settle
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.layouts import Layout, MixableSnapshot
from kvspec.models.decode.pages import BlockPool, Lease
from kvspec.models.decode.pages_memory import InBlocks
from kvspec.models.decode.shapes import SOUND, Cell, LayoutFaults, Lengths, common_length
from kvspec.models.decode.staging import Landing, StagedPart, Staging


@frozen(eq=False)
class PagedSnapshot(MixableSnapshot):
    """A block table, and how many of its rows are visible.

    Attributes:
        lease: the hold on the blocks of the table, which ends with the last snapshot that has it.
        visible: rows of K and of V for each layer.
    """

    lease: Lease
    visible: tuple[tuple[int, int], ...]

    @property
    def table(self) -> tuple[int, ...]:
        """The blocks, in the order of positions."""
        return self.lease.blocks

    @property
    def length(self) -> int:
        """The one length of all parts; UnevenRowsError when there is none."""
        return common_length(self.lengths(), "a snapshot of a paged layout")

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer: numbers beside the table."""
        return list(self.visible)

    def positions(self, layer: int) -> Tensor:
        """All positions from 0 on, without a look at the rows."""
        return torch.arange(min(self.visible[layer]), device=self.lease.pool.shape.device)

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, gathered through the table; a copy."""
        memory, index = self.lease.pool.memory, self.lease.index
        keys, values = (
            memory.gather((layer, part), index, length)
            for part, length in zip(Part, self.visible[layer], strict=True)
        )
        self.lease.note_reads()
        return keys, values

    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """The longer table, with the lengths of ``cells`` moved; what both show is the same in it."""
        taken = set(cells)
        visible = tuple(
            (
                now[0] if (layer, Part.KEY) in taken else was[0],
                now[1] if (layer, Part.VALUE) in taken else was[1],
            )
            for layer, (was, now) in enumerate(zip(self.visible, newer.visible, strict=True))
        )
        longer = newer if len(newer.table) >= len(self.table) else self
        return type(self)(longer.lease, visible)


class PagedStaging(Staging):
    """An append that lands in blocks of the pool.

    Attributes:
        lease: the blocks that it may write to.
        in_place: parts that land there; one of another interval than the append's has a buffer.
        spoilt: parts whose write there failed to start; it may land at any time, so these blocks are
            never published, nor let again.
    """

    def __init__(
        self, owner: "PagedLayout", base: PagedSnapshot, start: int, count: int, submit: Submit
    ) -> None:
        super().__init__(owner, base, owner.shape, start, count, submit)
        self.lease = owner.pool.reserve(
            base.table, start, start + count, is_careless=owner.is_careless
        )
        self.in_place: set[Cell] = set()
        self.spoilt: set[Cell] = set()
        # The lease must not keep the append alive.
        held = weakref.ref(self)
        self.lease.is_needed = lambda: (append := held()) is not None and not append.is_closed
        self._pool = owner.pool
        self._is_early = owner.faults.early_reuse
        self._slots = owner.pool.slots(self.lease, start, start + count)
        self._base_lease = base.lease
        self._index = owner.pool.memory.index_of(self.placed(base.table))

    def placed(self, table: tuple[int, ...]) -> tuple[int, ...]:
        """A table with the append's blocks at their places; what is missing before is the base's."""
        whole = table + self._base_lease.blocks[len(table) : self.lease.first]
        return _spliced(whole, self.lease)

    def fits(self, table: tuple[int, ...]) -> bool:
        """Its first block continues a table: the rows before its own are those of the table.

        Not so when the table was cut since begin, and grew again to the same length with other rows;
        nor when a write may yet land in the blocks that nobody knows of.
        """
        if self.spoilt:
            return False
        first = self.lease.first
        begins_block = self.start % self._pool.block_size == 0
        before = self._base_lease.blocks[first : first + 1]
        return begins_block or len(table) <= first or table[first : first + 1] == before

    def stage(self, layer: int, part: Part, rows: Tensor, start: int | None = None) -> None:
        """Take rows of one part; see `Staging.stage`."""
        with self._lock:
            super().stage(layer, part, rows, start)
            if (layer, part) in self.in_place:
                self.lease.note((layer, part), self._parts[layer, part].completion)

    def end(self, heir: Lease | None) -> None:
        """Hold no blocks any more, of its own or of the base: an append that is over has no view.

        ``heir`` has its blocks from here on; without one they are free once its writes are done.
        """
        if heir is None:
            self.lease.give_back(is_early=self._is_early)
        else:
            self.lease.pass_on(heir)
        nothing = _snapshot(self._pool.hold((), 0), 0)
        self.base, self._base_lease = nothing, nothing.lease

    def _landing(self, cell: Cell, start: int, rows: Tensor) -> Landing:
        stop = start + rows.shape[2]
        if start < self.start or stop > self.stop or cell in self.spoilt:
            return super()._landing(cell, start, rows)
        self.in_place.add(cell)
        # Until the start of the write succeeds, it may land at any time.
        self.lease.note(cell, None)
        slots = self._slots[start - self.start : stop - self.start]
        return InBlocks(self._pool.memory, cell, slots)

    def _joined(self, layer: int, key: StagedPart, value: StagedPart) -> tuple[Tensor, Tensor]:
        whole = (self.start, self.stop)
        landed = {(layer, Part.KEY), (layer, Part.VALUE)} <= self.in_place and all(
            entry.completion.in_order and (entry.start, entry.stop) == whole
            for entry in (key, value)
        )
        if not landed or self.base.lengths()[layer] != (self.start, self.start):
            keys, values = super()._joined(layer, key, value)
        else:
            keys, values = (
                self._pool.memory.gather((layer, part), self._index, self.stop) for part in Part
            )
        for lease in (self.lease, self._base_lease):
            lease.note_reads()
        return keys, values

    def _start_failed(self, cell: Cell) -> None:
        if cell in self.in_place:
            self.in_place.remove(cell)
            self.spoilt.add(cell)

    def _let_go(self) -> None:
        self.end(None)


class PagedLayout(Layout[PagedSnapshot]):
    """Rows of one handle in blocks of ``pool``, which other layouts and forks use too.

    A new layout is empty, unless ``content`` says otherwise. Blocks behind a truncation, and all
    blocks of a released layout, are free when no snapshot, child or write in flight has them.
    An append for which too few are free is refused with CapacityExceededError, changing nothing.
    """

    name = "paged"

    def __init__(
        self, pool: BlockPool, faults: LayoutFaults = SOUND, content: PagedSnapshot | None = None
    ) -> None:
        empty = PagedSnapshot(pool.hold((), 0), ((0, 0),) * pool.shape.layers)
        super().__init__(pool.shape, empty if content is None else content, faults)
        self.pool = pool

    @property
    def reserved_rows(self) -> int:
        """The rows of the blocks in the table, the last of which may not be full."""
        return 0 if self.is_released else len(self.snapshot().table) * self.pool.block_size

    @property
    def is_careless(self) -> bool:
        """An append writes into blocks of its table that others hold too."""
        return self.faults.share_tail or self.faults.alias_fork

    def release(self) -> None:
        """Give the rows up; snapshots already taken stay readable. Harmless when done before."""
        with self._lock:
            visible = self._visible
            super().release()
        if visible is not None:
            self._give_up(visible)
            if self.faults.double_free:
                visible.lease.give_back_twice()

    def _open(self, base: PagedSnapshot, start: int, count: int, submit: Submit) -> PagedStaging:
        return PagedStaging(self, base, start, count, submit)

    def _land(self, older: PagedSnapshot, staging: Staging) -> PagedSnapshot:
        own = self._own(staging)
        entries, table, in_place = staging.entries(), older.table, set[Cell]()
        if own is not None and own.fits(table):
            table, in_place = own.placed(table), own.in_place
        table, extra = self._land_elsewhere(table, staging, entries.keys() - in_place)
        visible = [list(pair) for pair in older.visible]
        for (layer, part), entry in entries.items():
            side = 0 if part is Part.KEY else 1
            visible[layer][side] = max(visible[layer][side], entry.stop)
        lengths = tuple((keys, values) for keys, values in visible)
        newer = PagedSnapshot(self.pool.hold(table, max(map(max, lengths))), lengths)
        if extra is not None:
            extra.give_back()
        return newer

    def _commit(self, older: PagedSnapshot, newer: PagedSnapshot, staging: Staging | None) -> None:
        own = self._own(staging)
        if own is not None:
            own.end(newer.lease if own.fits(older.table) else None)
        self._give_up(older)

    def _own(self, staging: Staging | None) -> PagedStaging | None:
        """The append, if it was begun here and lies in blocks."""
        return staging if isinstance(staging, PagedStaging) and staging.owner is self else None

    def _land_elsewhere(
        self, table: tuple[int, ...], staging: Staging, cells: Collection[Cell]
    ) -> tuple[tuple[int, ...], Lease | None]:
        """Copy rows that are not in blocks which continue the table, into blocks that do."""
        entries = {cell: entry for cell, entry in staging.entries().items() if cell in cells}
        if not entries:
            return table, None
        start = min(entry.start for entry in entries.values())
        stop = max(entry.stop for entry in entries.values())
        lease = self.pool.reserve(table, start, stop, is_careless=self.is_careless)
        for cell, entry in entries.items():
            slots = self.pool.slots(lease, entry.start, entry.stop)
            self.pool.memory.write(cell, slots, staging.rows(cell))
        # The blocks may be copied from at once, and a copy follows nobody's stream.
        settle(self.shape.device)
        return _spliced(table, lease), lease

    def _cut(self, older: PagedSnapshot, n: int) -> PagedSnapshot:
        return self._prefix(older, n)

    def _child(self, parent: PagedSnapshot, n: int) -> Self:
        if self.faults.alias_fork:
            # The child goes on in the table of its parent, whatever stands there behind row n.
            content = PagedSnapshot(self.pool.hold(parent.table, n), self._all(n))
        else:
            content = self._prefix(parent, n, is_counted=not self.faults.lost_reference)
        return type(self)(self.pool, self.faults, content)

    def _prefix(self, older: PagedSnapshot, n: int, *, is_counted: bool = True) -> PagedSnapshot:
        """The rows [0, n), or as many as the table has where a faulty layout asks for more."""
        size = self.pool.block_size
        length = max(0, min(n, len(older.table) * size))
        blocks = older.table[: -(-length // size)]
        return _snapshot(self.pool.hold(blocks, length, is_counted=is_counted), length)

    def _give_up(self, older: PagedSnapshot) -> None:
        """End the hold of a snapshot that is replaced: soundly, by dropping it and no more."""
        if self.faults.early_reuse:
            older.lease.give_back(is_early=True)

    def _all(self, length: int) -> tuple[tuple[int, int], ...]:
        return ((length, length),) * self.shape.layers


def _snapshot(lease: Lease, length: int) -> PagedSnapshot:
    """A snapshot of the rows [0, length) of a table, in every part."""
    return PagedSnapshot(lease, ((length, length),) * lease.pool.shape.layers)


def _spliced(table: tuple[int, ...], lease: Lease) -> tuple[int, ...]:
    """The table with the blocks of a lease at their places."""
    end = lease.first + len(lease.blocks)
    return table[: lease.first] + lease.blocks + table[end:]
