"""A pool of blocks of cache rows: who holds which block, and when it may be let again.

Modelled: memory for a fixed number of blocks, each of R rows of K and V in every layer; reference
counts; holds of readers (a snapshot's table) and of writers (the blocks that an open append may
write to). Logical release and reclaim are apart: whoever ends a hold only says so, and the pool
takes the blocks back, at its next use, once none of the work that was started on them is in flight.
A block that several hold is copied before it is written to. Left out: eviction, swapping to the
host, blocks shared by content rather than by fork.

Assumptions: one lock orders all book-keeping, and is taken after any lock of a layout or an append.
A hold that is dropped rather than given back ends when Python collects it: at once, unless it is
part of a reference cycle. Collection takes no lock and touches no memory; it may come at any point.

Sizes: N blocks, R rows a block.
"""

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from enum import Enum
from typing import Final

from attrs import define, field
from torch import Tensor

from kvspec.models.decode.completion import Completion, record
from kvspec.models.decode.errors import BadConfigError, CapacityExceededError
from kvspec.models.decode.pages_audit import Holder, Use, problems
from kvspec.models.decode.pages_memory import BlockMemory
from kvspec.models.decode.shapes import CacheShape

POISON: Final = 8.0
"""What is written over the rows of a block that is given back, so that a late reader shows it."""

BLOCK_SIZE: Final = 2
"""Rows of a block where nobody asks for another number: few, so that tables get long."""


class _State(Enum):
    OPEN = "open"
    ENDED = "ended"
    BACK = "back"


@define(eq=False)
class Hold:
    """What the pool knows of one hold.

    Attributes:
        holder: the blocks, and what they are held for.
        is_counted: its references were added to the counts.
        pending: work started on the blocks, by whatever tells it apart; None where the start of a
            write failed, so that it may land at any time.
        state: open, ended by its holder, or taken back by the pool.
    """

    holder: Holder
    is_counted: bool = True
    pending: dict[object, Completion | None] = field(factory=dict)
    state: _State = _State.OPEN

    @property
    def is_busy(self) -> bool:
        """Work is in flight on the blocks, as far as anybody knows."""
        self.forget_complete()
        return bool(self.pending)

    def forget_complete(self) -> None:
        """Drop the work that is complete."""
        for key, work in list(self.pending.items()):
            if work is not None and work.is_complete():
                del self.pending[key]


class Lease:
    """A hold on blocks of a pool, which ends when it is given back or dropped.

    Attributes:
        pool: whose blocks they are.
        first: index of its first block in a block table.
        blocks: the blocks, in the order of the table.
        is_needed: somebody uses the blocks although the hold may have ended, which is wrong then. A
            snapshot reads as long as it lives; an append says for itself whether it is open.
    """

    def __init__(self, pool: "BlockPool", hold: Hold) -> None:
        self.pool = pool
        self.first = hold.holder.first
        self.blocks = hold.holder.blocks
        self._hold = hold
        self._index: Tensor | None = None
        reads = hold.holder.use is Use.READER
        self.is_needed: Callable[[], bool] = lambda: reads
        end = weakref.finalize(self, pool.ended.append, hold)
        end.atexit = False

    @property
    def holder(self) -> Holder:
        """What it holds, and what for."""
        return self._hold.holder

    @property
    def is_open(self) -> bool:
        """It was not given back."""
        return self._hold.state is _State.OPEN

    @property
    def index(self) -> Tensor:
        """Its blocks as a tensor, int64 [n], on the pool's device."""
        if self._index is None:
            self._index = self.pool.memory.index_of(self.blocks)
        return self._index

    def note(self, key: object, work: Completion | None) -> None:
        """The blocks are not let again before ``work`` is complete; never, while it is None."""
        self.pool.note(self._hold, key, work)

    def note_reads(self) -> None:
        """As ``note``, for all reads that the current stream was given so far.

        On the CPU a read is over when its call returns, whatever queue is current.
        """
        if self.pool.shape.device.type == "cuda":
            self.note(object(), record(self.pool.shape.device))

    def pass_on(self, heir: "Lease") -> None:
        """Give the blocks back, and let another lease of them wait for the work in flight."""
        self.pool.pass_on(self._hold, heir._hold)  # noqa: SLF001 - of the same class

    def give_back(self, *, is_early: bool = False) -> None:
        """End the hold; its blocks are free once its work is done. Harmless when done before.

        With ``is_early``, a fault, they are free at once.
        """
        self.pool.end(self._hold, is_early=is_early)

    def give_back_twice(self) -> None:
        """A fault: drop the references now, and once more when the hold ends."""
        self.pool.drop(self._hold)


class BlockPool:
    """N blocks of R rows each, for K and V of every layer.

    ``poison`` is written over the rows of a block that is given back; None leaves them.

    Attributes:
        shape: what rows look like.
        block_size: rows of a block R.
        blocks: number of blocks N.
        memory: where the rows lie; a slot is block * R + row.
        ended: holds that were dropped, for the pool to find at its next use.
        taken: blocks that were ever let to a writer, each time counted.

    Raises:
        BadConfigError: there is no block, or no row in a block.
    """

    def __init__(
        self,
        shape: CacheShape,
        blocks: int,
        block_size: int = BLOCK_SIZE,
        poison: float | None = POISON,
    ) -> None:
        for name, number in (("blocks", blocks), ("block_size", block_size)):
            if number < 1:
                raise BadConfigError(
                    where="BlockPool",
                    found=f"{name} = {number}",
                    expected="at least 1",
                    fix="give a positive size",
                )
        self.shape = shape
        self.block_size = block_size
        self.blocks = blocks
        self.memory = BlockMemory(shape, blocks, block_size)
        self.ended: deque[Hold] = deque()
        self.taken = 0
        self._poison = poison
        self._refs = [0] * blocks
        # The block that was given back last is let first: a reader that is late finds out soon.
        self._free = list(range(blocks))[::-1]
        self._leases: weakref.WeakSet[Lease] = weakref.WeakSet()
        self._draining: list[Hold] = []
        self._careless: list[Hold] = []
        self._lock = threading.RLock()

    # Holding blocks.

    def hold(self, blocks: Iterable[int], length: int, *, is_counted: bool = True) -> Lease:
        """A reader's hold on a table whose rows [0, length) it shows.

        The caller holds every one of the blocks itself until this returns. Without ``is_counted``,
        a fault, no reference is added.
        """
        return self._enter(Holder(Use.READER, 0, tuple(blocks), (0, length)), is_counted)

    def reserve(
        self, table: tuple[int, ...], start: int, stop: int, *, is_careless: bool = False
    ) -> Lease:
        """A writer's hold on blocks for the rows [start, stop) of a table that its caller holds once.

        A block of the table that nobody else holds is taken as it is; one that others hold is copied,
        unless ``is_careless``, a fault. A refusal changes nothing.

        Raises:
            CapacityExceededError: too few blocks are free.
        """
        size = self.block_size
        first = min(start // size, len(table))
        last = max(first, -(-stop // size))
        with self._lock:
            self.reclaim()
            chosen: list[int | None] = [
                block if is_careless or self._refs[block] <= 1 else None
                for block in table[first:last]
            ]
            chosen += [None] * (last - first - len(chosen))
            self._check_room(chosen.count(None), start, stop)
            blocks = [self._take() if block is None else block for block in chosen]
            lease = self._enter(Holder(Use.WRITER, first, tuple(blocks), (start, stop)), True)
        held = zip(table[first:last], blocks, strict=False)
        self.memory.copy_blocks(pair for pair in held if pair[0] != pair[1])
        return lease

    def note(self, hold: Hold, key: object, work: Completion | None) -> None:
        """Keep the blocks of a hold until ``work`` is complete; see `Lease.note`."""
        with self._lock:
            hold.pending[key] = work
            hold.forget_complete()

    def pass_on(self, hold: Hold, heir: Hold) -> None:
        """End a hold whose work another one waits for from here on; see `Lease.pass_on`."""
        with self._lock:
            heir.pending |= hold.pending
            hold.pending.clear()
            self.end(hold)

    def end(self, hold: Hold, *, is_early: bool = False) -> None:
        """End a hold; see `Lease.give_back`."""
        with self._lock:
            if hold.state is not _State.OPEN:
                return
            hold.state = _State.ENDED
            if is_early:
                self._careless.append(hold)
                hold.state = _State.BACK
                self.drop(hold)
            else:
                self._draining.append(hold)
            self.reclaim()

    def drop(self, hold: Hold) -> None:
        """Take the references of a hold off the counts; a block that has none left is free."""
        with self._lock:
            if not hold.is_counted:
                return
            freed = []
            for block in hold.holder.blocks:
                self._refs[block] -= 1
                if self._refs[block] <= 0:
                    self._free.append(block)
                    freed.append(block)
            if self._poison is not None:
                self.memory.fill_blocks(freed, self._poison)

    def reclaim(self) -> int:
        """Take back the blocks of ended holds on which no work is in flight; the number of free blocks."""
        with self._lock:
            while self.ended:
                hold = self.ended.popleft()
                if hold.state is _State.OPEN:
                    hold.state = _State.ENDED
                    self._draining.append(hold)
            # None is lost if a completion raises when it is asked.
            for hold in list(self._draining):
                if not hold.is_busy:
                    self._draining.remove(hold)
                    hold.state = _State.BACK
                    self.drop(hold)
            return len(self._free)

    def slots(self, lease: Lease, start: int, stop: int) -> Tensor:
        """The slots of the positions [start, stop), which lie in the blocks of ``lease``, int64 [n]."""
        size = self.block_size
        return self.memory.index_of(
            tuple(
                lease.blocks[at // size - lease.first] * size + at % size
                for at in range(start, stop)
            )
        )

    # What tests and reports look at.

    @property
    def free_count(self) -> int:
        """Blocks that can be let now."""
        return self.reclaim()

    @property
    def draining_count(self) -> int:
        """Blocks that nobody holds but for work in flight."""
        with self._lock:
            self.reclaim()
            waiting = {block for hold in self._draining for block in hold.holder.blocks}
            held = {
                block for lease in list(self._leases) if lease.is_open for block in lease.blocks
            }
            return len(waiting - held)

    @property
    def references(self) -> tuple[int, ...]:
        """The reference count of each block."""
        with self._lock:
            self.reclaim()
            return tuple(self._refs)

    def audit(self) -> list[str]:
        """What is wrong with the book-keeping, in words; empty when sound.

        Holders are counted anew, from the leases that are alive. To be asked while no other thread
        uses the pool: a lease that is collected just then may be missed.
        """
        with self._lock:
            self.reclaim()
            leases = list(self._leases)
            # Who reads or writes is a holder, whatever was given back in its name.
            holders = [lease.holder for lease in leases if lease.is_open or lease.is_needed()]
            holders += [hold.holder for hold in self._draining]
            holders += [hold.holder for hold in self.ended if hold.state is _State.OPEN]
            self._careless = [hold for hold in self._careless if hold.is_busy]
            late = [hold.holder for hold in self._careless]
            return problems(self.block_size, tuple(self._refs), tuple(self._free), holders, late)

    def _enter(self, holder: Holder, is_counted: bool) -> Lease:
        with self._lock:
            if is_counted:
                for block in holder.blocks:
                    self._refs[block] += 1
            lease = Lease(self, Hold(holder, is_counted))
            self._leases.add(lease)
            return lease

    def _take(self) -> int:
        self.taken += 1
        return self._free.pop()

    def _check_room(self, needed: int, start: int, stop: int) -> None:
        if needed > len(self._free):
            waiting = f"{self.draining_count} more wait for work in flight"
            raise CapacityExceededError(
                where=f"a pool of {self.blocks} blocks of {self.block_size} rows",
                found=f"{len(self._free)} free blocks for rows [{start}, {stop}); {waiting}",
                expected=f"{needed} free blocks",
                fix="release or truncate a handle, drop snapshots, or open a larger store",
            )
