"""Points before every access of a backend to what its threads share, put there by exchanging its parts.

Modelled: the handle table's fields, the records of appends, the block pool, writes of staged rows, the
switch of a fork and the lock. A backend that nobody controls has its own parts, without a single point:
listening is a matter of which objects it holds, not of a question asked at each access. Left out: the
batch, digests and known sequences, which are read and written under the lock alone; rows of a
snapshot, which nobody writes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

from torch import Tensor, device

from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_model import Model
from kvspec.models.decode.backend_tables import Pool, Slot, Switch, Tables
from kvspec.models.decode.completion import Completion, Submit, Write
from kvspec.models.decode.shapes import CacheShape
from kvspec.models.interleaving import ControlledLock, Scheduler

PointAt = Callable[[str], None]
"""Called with the name of an access that comes next."""


def silent(at: str) -> None:
    """A listener that does nothing."""
    del at


def _watched(of: type, name: str, whose: Callable[[Any], str]) -> Any:
    """The attribute `name` of `of`, with a point before each look at it and each change of it."""
    inner: Any = getattr(of, name)

    def look(self: Any) -> Any:
        self.point(f"{whose(self)}.{name} read")
        return inner.__get__(self, of)

    def change(self: Any, value: Any) -> None:
        self.point(f"{whose(self)}.{name} write")
        inner.__set__(self, value)

    return property(look, change)


def _handle(slot: Slot) -> str:
    return f"handle{slot.handle}"


class WatchedSlot(Slot):
    """A slot of the handle table with points."""

    point: PointAt = staticmethod(silent)
    entry: Any = _watched(Slot, "entry", _handle)
    arriving: Any = _watched(Slot, "arriving", _handle)
    generation: Any = _watched(Slot, "generation", _handle)
    layout: Any = _watched(Slot, "layout", _handle)

    def __init__(self, handle: int, point: PointAt) -> None:
        super().__init__(handle)
        self.point = point


class WatchedSwitch(Switch):
    """A switch with points."""

    point: PointAt = staticmethod(silent)
    is_on: Any = _watched(Switch, "is_on", lambda _: "switch")

    def __init__(self, point: PointAt) -> None:
        super().__init__()
        self.point = point


class WatchedPool(Pool):
    """A block pool with points."""

    def __init__(self, blocks: int, shape: CacheShape, point: PointAt) -> None:
        self.point: PointAt = silent
        super().__init__(blocks, shape)
        self.point = point

    @property
    def held(self) -> Any:
        """The prompt whose rows each block holds."""
        self.point("pool.held read")
        return self._held

    @held.setter
    def held(self, value: Any) -> None:
        self._held = value

    def fill(self, block: int, prompt: tuple[int, ...], model: Model) -> None:
        """Write the rows of a prompt into a block."""
        self.point(f"block{block} fill")
        super().fill(block, prompt, model)

    def empty(self, block: int) -> None:
        """Overwrite a block and give it back."""
        self.point(f"block{block} empty")
        super().empty(block)

    def read(self, block: int, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer of a block."""
        self.point(f"block{block} read")
        return super().read(block, layer)


class WatchedTxns(list[Txn]):
    """The records of appends, with a point before each is taken out or put in."""

    def __init__(self, txns: Iterable[Txn], point: PointAt) -> None:
        super().__init__(txns)
        self.point = point

    def __getitem__(self, place: Any) -> Any:
        self.point(f"txn{place} read")
        return super().__getitem__(place)

    def __setitem__(self, place: Any, txn: Any) -> None:
        self.point(f"txn{place} write")
        super().__setitem__(place, txn)

    def __iter__(self) -> Iterator[Txn]:
        for place in range(len(self)):
            yield self[place]


def watch_tables(tables: Tables, scheduler: Scheduler) -> None:
    """Exchange the parts of tables that are still empty for parts with points."""
    point: PointAt = scheduler.point
    tables.slots = [WatchedSlot(slot.handle, point) for slot in tables.slots]
    tables.pool = WatchedPool(len(tables.pool.held), tables.shape, point)
    tables.lock = cast("Any", ControlledLock(scheduler))
    tables.submit = _watched_submit(tables.submit, point)
    tables.switch = lambda: WatchedSwitch(point)


def _watched_submit(submit: Submit, point: PointAt) -> Submit:
    def watched(write: Write, where: device) -> Completion:
        point("staged write")
        return submit(write, where)

    return watched
