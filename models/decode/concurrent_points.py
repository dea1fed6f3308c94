"""Points before every access of a backend to what its threads share, put there by exchanging its parts.

Modelled: the handle table's fields, the records of appends with their fields and staged rows, the block
pool with its owners and free list, the batch's arrays, the switch of a fork and the lock. Fields that the
lock guards have points of their own only where somebody may be at them without it (`Guard`). A backend that
nobody controls has its own parts, without a single point: listening is a matter of which objects it holds,
not of a question asked at each access. Left out: digests, known sequences, fed tokens, a layout's own
tables and an append's model call, which have no points; rows of a snapshot, which nobody writes again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar, cast

import attrs
from torch import Tensor, device

from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_calls import Staged
from kvspec.models.decode.backend_model import Model
from kvspec.models.decode.backend_tables import Batch, Output, Pool, Slot, Switch, Tables
from kvspec.models.decode.completion import Completion, Submit, Write
from kvspec.models.decode.shapes import CacheShape
from kvspec.models.interleaving import ControlledLock, Scheduler

PointAt = Callable[[str], None]
"""Called with the name of an access that comes next."""

T = TypeVar("T")


class UnguardedError(RuntimeError):
    """A thread is at a field that the lock guards, and does not hold it; no refusal of the cache's own."""

    def __init__(self, at: str) -> None:
        super().__init__(
            f"{at}: found an access without the backend's lock, expected the thread that is here to "
            "hold it: take the lock around it, or name the action in UNLOCKED if it is a planted fault"
        )


def silent(at: str) -> None:
    """A listener that does nothing."""
    del at


@attrs.define(eq=False)
class Guard:
    """Points at what the lock guards.

    A thread that holds the lock is not stopped there: as long as everybody takes the lock for these fields,
    an access commutes with all that others can do meanwhile. That everybody does is not assumed but looked
    at: an access without the lock is an error, and no answer. A cache that is known to leave its lock out
    (``is_exposed``) has a point before each access instead, whoever holds the lock.
    """

    scheduler: Scheduler
    lock: ControlledLock
    is_exposed: bool

    def __call__(self, at: str) -> None:
        """Stop before an access, or see that the lock is held; a thread of no run passes.

        Raises:
            UnguardedError: the lock is not held, by a cache that is not known to leave it out.
        """
        if self.is_exposed:
            self.scheduler.point(at)
        elif self.scheduler.me is not None and not self.lock.is_mine:
            raise UnguardedError(at)


def _watched(of: type, name: str, whose: Callable[[Any], str], by: str = "point") -> Any:
    """The attribute `name` of `of`, with a point before each look at it and each change of it.

    by: the attribute that holds the listener.
    """
    inner: Any = getattr(of, name)

    def look(self: Any) -> Any:
        getattr(self, by)(f"{whose(self)}.{name} read")
        return inner.__get__(self, of)

    def change(self: Any, value: Any) -> None:
        getattr(self, by)(f"{whose(self)}.{name} write")
        inner.__set__(self, _with_points(value, f"{whose(self)}.{name}", getattr(self, by)))

    return property(look, change)


def _with_points(value: Any, name: str, point: PointAt) -> Any:
    """The value; one that is changed in place, and has no points yet, as a copy that has them."""
    for plain, watched in ((Output, WatchedOutput), (Staged, WatchedStaged)):
        if type(value) is plain:
            return _exchanged(value, watched, name, point)
    return value


def _exchanged(plain: Any, watched: type[T], name: str, point: PointAt) -> T:
    """An object of the watched type with the fields of a plain one, watched as well."""
    made: Any = watched.__new__(watched)
    for field in (each.name for each in attrs.fields(type(plain))):
        value = _with_points(getattr(plain, field), f"{name}.{field}", point)
        getattr(type(plain), field).__set__(made, value)
    made.name, made.point = name, point
    return cast("T", made)


def _handle(slot: Slot) -> str:
    return f"handle{slot.handle}"


def _name(part: Any) -> str:
    return str(part.name)


class WatchedOutput(Output):
    """A request's token state with points."""

    name: str = ""
    point: PointAt = staticmethod(silent)
    tokens: Any = _watched(Output, "tokens", _name)


class WatchedStaged(Staged):
    """The staged rows of an append with points; each write of a row has one of its own."""

    name: str = ""
    point: PointAt = staticmethod(silent)
    ends: Any = _watched(Staged, "ends", _name)
    writes: Any = _watched(Staged, "writes", _name)


class WatchedTxn(Txn):
    """The record of an append with points."""

    name: str = ""
    point: PointAt = staticmethod(silent)
    state: Any = _watched(Txn, "state", _name)
    target: Any = _watched(Txn, "target", _name)
    base_generation: Any = _watched(Txn, "base_generation", _name)
    base_version: Any = _watched(Txn, "base_version", _name)
    base_digest: Any = _watched(Txn, "base_digest", _name)
    abi: Any = _watched(Txn, "abi", _name)
    key: Any = _watched(Txn, "key", _name)
    start: Any = _watched(Txn, "start", _name)
    count: Any = _watched(Txn, "count", _name)
    tokens: Any = _watched(Txn, "tokens", _name)
    fingerprint: Any = _watched(Txn, "fingerprint", _name)
    receipt: Any = _watched(Txn, "receipt", _name)
    ack: Any = _watched(Txn, "ack", _name)
    staged: Any = _watched(Txn, "staged", _name)
    call: Any = _watched(Txn, "call", _name)


class WatchedList(list[T]):
    """A list that is changed in place, with a point before each access to it."""

    def __init__(self, of: Iterable[T], name: str, point: PointAt) -> None:
        super().__init__(of)
        self.name = name
        self.point = point

    def __getitem__(self, place: Any) -> Any:
        self.point(f"{self.name}[{place}] read")
        return super().__getitem__(place)

    def __setitem__(self, place: Any, value: Any) -> None:
        self.point(f"{self.name}[{place}] write")
        super().__setitem__(place, value)

    def __iter__(self) -> Iterator[T]:
        for place in range(len(self)):
            yield self[place]

    def __contains__(self, value: object) -> bool:
        self.point(f"{self.name} read")
        return super().__contains__(value)

    def index(self, value: Any, *within: Any) -> int:
        """The first place of a value."""
        self.point(f"{self.name} read")
        return super().index(value, *within)

    def append(self, value: T) -> None:
        """Put a value at the end."""
        self.point(f"{self.name} write")
        super().append(value)

    def remove(self, value: T) -> None:
        """Take the first such value out."""
        self.point(f"{self.name} write")
        super().remove(value)


class WatchedOwners(set[int]):
    """The handles with a claim to a block, with a point before each access."""

    def __init__(self, of: Iterable[int], name: str, point: PointAt) -> None:
        super().__init__(of)
        self.name = name
        self.point = point

    def __contains__(self, handle: object) -> bool:
        self.point(f"{self.name} read")
        return super().__contains__(handle)

    def __iter__(self) -> Iterator[int]:
        self.point(f"{self.name} read")
        return super().__iter__()

    def add(self, handle: int) -> None:
        """Enter a claim."""
        self.point(f"{self.name} write")
        super().add(handle)

    def discard(self, handle: object) -> None:
        """Give a claim up."""
        self.point(f"{self.name} write")
        super().discard(handle)


def _array(name: str) -> Any:
    """An array of the batch, which may be exchanged as a whole, with points."""

    def look(self: Any) -> Any:
        self.point(f"batch.{name} read")
        return self.arrays[name]

    def change(self: Any, value: Any) -> None:
        self.point(f"batch.{name} write")
        self.arrays[name] = WatchedList(value, f"batch.{name}", self.point)

    return property(look, change)


class WatchedBatch(Batch):
    """The running batch with points."""

    caches: Any = _array("caches")
    outputs: Any = _array("outputs")
    samplers: Any = _array("samplers")
    ancestry: Any = _array("ancestry")
    positions: Any = _array("positions")

    def __init__(self, rows: int, point: PointAt) -> None:
        self.point: PointAt = point
        self.arrays: dict[str, Any] = {}
        super().__init__(rows)


class WatchedSlot(Slot):
    """A slot of the handle table with points; ``guarded`` are those of what the lock guards."""

    point: PointAt = staticmethod(silent)
    guarded: PointAt = staticmethod(silent)
    entry: Any = _watched(Slot, "entry", _handle)
    arriving: Any = _watched(Slot, "arriving", _handle)
    generation: Any = _watched(Slot, "generation", _handle)
    layout: Any = _watched(Slot, "layout", _handle)
    births: Any = _watched(Slot, "births", _handle, "guarded")
    output: Any = _watched(Slot, "output", _handle, "guarded")

    def __init__(self, handle: int, point: PointAt, guarded: PointAt) -> None:
        super().__init__(handle)
        self.point, self.guarded = point, guarded


class WatchedSwitch(Switch):
    """A switch with points."""

    point: PointAt = staticmethod(silent)
    is_on: Any = _watched(Switch, "is_on", lambda _: "switch")

    def __init__(self, point: PointAt) -> None:
        super().__init__()
        self.point = point


class WatchedPool(Pool):
    """A block pool with points."""

    def __init__(self, blocks: int, shape: CacheShape, point: PointAt, guarded: PointAt) -> None:
        self.point: PointAt = silent
        super().__init__(blocks, shape)
        self.point = point
        self.free = WatchedList(self.free, "pool.free", guarded)
        self.owners = [
            WatchedOwners(owners, f"block{block}.owners", guarded)
            for block, owners in enumerate(self.owners)
        ]

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
    """The records of appends, with a point before each is taken out or put in, and in each of them.

    Fields of a record have the points of ``guarded``.
    """

    def __init__(self, txns: Iterable[Txn], point: PointAt, guarded: PointAt) -> None:
        super().__init__(
            _exchanged(txn, WatchedTxn, f"txn{place}", guarded) for place, txn in enumerate(txns)
        )
        self.point, self.guarded = point, guarded

    def __getitem__(self, place: Any) -> Any:
        self.point(f"txn{place} read")
        return super().__getitem__(place)

    def __setitem__(self, place: Any, txn: Any) -> None:
        self.point(f"txn{place} write")
        super().__setitem__(place, _exchanged(txn, WatchedTxn, f"txn{place}", self.guarded))

    def __iter__(self) -> Iterator[Txn]:
        for place in range(len(self)):
            yield self[place]


def watch_tables(tables: Tables, scheduler: Scheduler, *, is_exposed: bool) -> Guard:
    """Exchange the parts of tables that are still empty for parts with points.

    is_exposed: somebody is at guarded fields without the lock. Gives the points of such fields.
    """
    point: PointAt = scheduler.point
    lock = ControlledLock(scheduler)
    guarded = Guard(scheduler, lock, is_exposed)
    tables.slots = [WatchedSlot(slot.handle, point, guarded) for slot in tables.slots]
    tables.pool = WatchedPool(len(tables.pool.held), tables.shape, point, guarded)
    tables.batch = WatchedBatch(len(tables.batch.caches), guarded)
    tables.lock = cast("Any", lock)
    tables.submit = _watched_submit(tables.submit, point)
    tables.switch = lambda: WatchedSwitch(point)
    return guarded


def _watched_submit(submit: Submit, point: PointAt) -> Submit:
    def watched(write: Write, where: device) -> Completion:
        point("staged write")
        return submit(write, where)

    return watched
