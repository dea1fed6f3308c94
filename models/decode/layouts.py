"""Cache layouts of one request behind one interface: what is visible, and how it changes.

Modelled: the rows of one handle. Readers hold immutable snapshots; every change builds the next
snapshot beside the current one and then swaps one reference, so that a reader sees all layers or
none. Staged rows belong to their append alone. Left out: who may change what and when (generations,
phases, conflicts): that is the backend's. A layout refuses only what would leave rows missing, torn
or in the wrong place.

Assumptions: one lock a layout orders its writers; reading a Python reference is atomic, so readers
take no lock. Locks are taken in the order layout, staging, buffer. A publication that is not settled
shows rows that only those find who order themselves behind its event (`publication`).
"""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import ClassVar, Generic, Self, TypeVar

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import DONE, Completion, Submit, record, run_now, settle
from kvspec.models.decode.errors import (
    BadLengthError,
    ForeignStagingError,
    NotAtFrontierError,
    ReleasedRowsError,
)
from kvspec.models.decode.shapes import SOUND, CacheShape, Cell, LayoutFaults, Lengths, Snapshot
from kvspec.models.decode.staging import Staging


class MixableSnapshot(Snapshot, ABC):
    """A snapshot that can also be taken over part by part, which is what a torn layout does."""

    def positions(self, layer: int) -> Tensor:
        """The position of each row that ``read`` gives of a layer: all from 0 on, if not overridden."""
        keys, values = self.read(layer)
        return torch.arange(min(keys.shape[2], values.shape[2]), device=keys.device)

    def kept(self) -> Lengths:
        """Rows of K and of V for each layer that are still held: all of them, if not overridden."""
        return self.lengths()

    @abstractmethod
    def mixed(self, newer: Self, cells: Iterable[Cell]) -> Self:
        """This snapshot with ``cells`` as ``newer`` has them."""


S = TypeVar("S", bound=MixableSnapshot)
V = TypeVar("V")


@frozen(eq=False)
class Publication(Generic[V]):
    """What was made visible, and when other streams may read it.

    Attributes:
        seen: the snapshot, or what else a reader reads from.
        landed: the event of the publication; a reader's stream that follows it finds all rows.
    """

    seen: V
    landed: Completion = DONE


class Layout(ABC, Generic[S]):
    """The rows of one request handle.

    Attributes:
        name: what this layout is called in messages and tables.
        shape: what its rows look like.
        faults: the guards it lacks.
        writes_in_place: rows may land in memory that an older snapshot shows a part of.
    """

    name: ClassVar[str]
    writes_in_place: ClassVar[bool] = False

    def __init__(self, shape: CacheShape, visible: S, faults: LayoutFaults = SOUND) -> None:
        self.shape = shape
        self.faults = faults
        self._visible: S | None = visible
        self._landed: Completion = DONE
        self._lock = threading.RLock()

    # Reading.

    @property
    def is_released(self) -> bool:
        """The rows are gone for good."""
        return self._visible is None

    @property
    def length(self) -> int:
        """The number of visible rows of every part.

        A layout whose faults may leave layers uneven answers with the K rows of its first layer, as
        a cache without that invariant would.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
            UnevenRowsError: the parts have no common length.
        """
        return self._length_of(self.snapshot())

    @property
    @abstractmethod
    def reserved_rows(self) -> int:
        """Rows of every part that the current buffer has memory for, visible or not."""

    def snapshot(self) -> S:
        """What is visible now; take one and read all layers from it.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
        """
        visible = self._visible
        if visible is None:
            raise ReleasedRowsError(
                where=f"a {self.name} layout",
                found="rows that were released",
                expected="a live handle",
                fix="allocate a new handle",
            )
        return visible

    def publication(self) -> Publication[S]:
        """What is visible now, with the event that a stream must follow before it reads it.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
        """
        # In this order: each event comes behind those before it, so a later one will do.
        seen = self.snapshot()
        return Publication(seen, self._landed)

    def lengths(self) -> Lengths:
        """Visible rows of K and of V for each layer, now."""
        return self.snapshot().lengths()

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """Visible K and V of one layer, now, [B, H_kv, T, d_h] each; not to be written to.

        Two reads may see two snapshots: take ``snapshot`` to read several layers.
        """
        self.shape.check_layer(layer, f"a {self.name} layout")
        return self.snapshot().read(layer)

    # Changing.

    def begin(self, count: int, submit: Submit = run_now) -> Staging:
        """Open an append of ``count`` rows behind what is visible now; several may be open at once.

        Raises:
            BadLengthError: ``count`` is below one.
            CapacityExceededError: the layout has no room for the interval.
            ReleasedRowsError: the handle's rows were given up.
        """
        if count < 1:
            raise BadLengthError(
                where=f"begin on a {self.name} layout",
                found=f"{count} rows",
                expected="at least 1",
                fix="leave the empty append out",
            )
        with self._lock:
            base = self.snapshot()
            return self._open(base, self._length_of(base), count, submit)

    def install(self, staging: Staging, *, wait: bool = True, settle: bool = True) -> S:
        """Make the staged rows of all layers visible in one step, and close the append.

        With ``wait`` it first waits for every part to be written; without, it checks. With
        ``settle`` it also waits for what landing them started; without, that goes on, and readers
        on other streams follow `publication`. A refusal leaves everything as it was, the append open.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
            StagingClosedError: the append is over.
            ForeignStagingError: the append was begun on another layout.
            NotAtFrontierError: the append does not begin where the visible rows end.
            RowsMissingError: a part is not staged.
            IntervalMismatchError: a part covers another interval than the append.
            RowsIncompleteError: a part is not yet written, and ``wait`` is off.
            CapacityExceededError: a paged layout must copy the rows, and has no blocks for that.
        """
        return _last(self.install_steps(staging, wait=wait, settle=settle))

    def install_steps(
        self, staging: Staging, *, wait: bool = True, settle: bool = True
    ) -> Iterator[S]:
        """The same, yielding after each visible change: one when sound, 2 L when torn."""
        self.snapshot()
        if wait and not self.faults.allow_incomplete:
            staging.wait()
        with self._lock, staging.closing():
            older = self.snapshot()
            self._check_install(older, staging)
            try:
                newer = self._made(lambda: self._land(older, staging), settle=settle)
            except BaseException:
                self._back_out(older, staging)
                raise
            self._commit(older, newer, staging)
            if not self.faults.tear:
                self._visible = newer
        yield from self._swap_steps(older, newer)

    def truncate(self, n: int) -> S:
        """Keep the rows [0, n) of all layers, in one step.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
            BadLengthError: ``n`` is outside [0, length].
        """
        return _last(self.truncate_steps(n))

    def truncate_steps(self, n: int) -> Iterator[S]:
        """The same, yielding after each visible change: one when sound, 2 L when torn."""
        with self._lock:
            older = self.snapshot()
            self._check_prefix(older, n, "truncate")
            newer = self._made(lambda: self._cut(older, n), settle=True)
            self._commit(older, newer, None)
            if not self.faults.tear:
                self._visible = newer
        yield from self._swap_steps(older, newer)

    def fork(self, n: int) -> Self:
        """A child with the rows [0, n), after which neither changes the other.

        Raises:
            ReleasedRowsError: the handle's rows were given up.
            BadLengthError: ``n`` is outside [0, length].
        """
        parent = self.snapshot()
        self._check_prefix(parent, n, "fork")
        self._landed.follow()
        child = self._child(parent, n)
        try:
            settle(self.shape.device)
        except BaseException:
            child.release()
            raise
        return child

    def release(self) -> None:
        """Give the rows up; snapshots already taken stay readable. Harmless when done before."""
        with self._lock:
            self._visible = None

    # What a layout is made of.

    @abstractmethod
    def _open(self, base: S, start: int, count: int, submit: Submit) -> Staging:
        """A staging for the rows [start, start + count)."""

    @abstractmethod
    def _land(self, older: S, staging: Staging) -> S:
        """The snapshot with the staged rows behind those of ``older``, which stays as it is.

        So does the append: what it holds is its own until ``_commit``, as landing may yet fail.
        """

    @abstractmethod
    def _cut(self, older: S, n: int) -> S:
        """The snapshot of the rows [0, n) of ``older``."""

    @abstractmethod
    def _child(self, parent: S, n: int) -> Self:
        """A layout of its own that shows the rows [0, n) of ``parent``."""

    def _commit(self, older: S, newer: S, staging: Staging | None) -> None:
        """Let go of what ``newer`` replaces, and of what an append held: it cannot fail any more.

        ``staging`` is None where rows were cut.
        """

    def _back_out(self, older: S, staging: Staging) -> None:
        """Undo what ``_land`` took for an append that did not land."""

    def _made(self, make: Callable[[], S], *, settle: bool) -> S:
        """The next snapshot, with the event behind what making it started taken down."""
        self._landed.follow()
        newer = make()
        try:
            # Nobody may see a row before the work that making it started is done.
            landed = record(self.shape.device)
            if settle:
                landed.wait()
        except BaseException:
            # A traceback that is kept must not hold what nobody is going to see.
            del newer
            raise
        self._landed = landed
        return newer

    def _swap_steps(self, older: S, newer: S) -> Iterator[S]:
        if not self.faults.tear:
            yield newer
            return
        done: list[Cell] = []
        for cell in self.shape.cells():
            done.append(cell)
            step = older.mixed(newer, done)
            self._visible = step
            yield step

    def _length_of(self, snapshot: S) -> int:
        return snapshot.lengths()[0][0] if self.faults.uneven else snapshot.length

    def _check_install(self, older: S, staging: Staging) -> None:
        if staging.owner is not self and not self.faults.allow_foreign:
            raise ForeignStagingError(
                where=f"install on a {self.name} layout",
                found="an append that was begun on another layout",
                expected="an append of this layout",
                fix="install it where it was begun",
            )
        length = self._length_of(older)
        if staging.start != length and not self.faults.allow_start:
            raise NotAtFrontierError(
                where=f"install on a {self.name} layout",
                found=f"rows [{staging.start}, {staging.stop})",
                expected=f"rows from {length}, the first position that is not visible",
                fix="discard this append, and begin a new one on what is visible now",
            )
        staging.check(self.faults)

    def _check_prefix(self, snapshot: S, n: int, verb: str) -> None:
        length = self._length_of(snapshot)
        if not 0 <= n <= length and not self.faults.allow_beyond:
            raise BadLengthError(
                where=f"{verb} of a {self.name} layout",
                found=f"n = {n}",
                expected=f"0 <= n <= {length}, the visible length",
                fix=f"{verb} at a position that is visible",
            )


def _last(steps: Iterator[S]) -> S:
    """Run all steps and return what the last one showed; there is always one."""
    final = next(steps)
    for final in steps:  # noqa: B007 - the last value is the result
        pass
    return final
