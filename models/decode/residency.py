"""What of an offloaded store is on the device: at most two layers, and the transfers that move them.

Modelled: a room on the device for `LAYERS_ON_DEVICE` layers, the one in use and the one that comes next.
To read a layer is to wait for its transfer and to start that of the next one, so that the copy runs
beside the layer's arithmetic. A layer that is not there is fetched again from its rows on the host,
which are whole and never change once they are visible; so it may be dropped at any time. Rows of an
append under way are on the device first: a layer with such rows is dropped only when the host has them,
and who needs the room waits for that; an append that is over, or that everybody dropped, holds no room.
Transfers to the device run on a stream of the room's own (`streams`), on the CPU a thread; transfers to
the host are the writes of staged rows, on whatever stream the append was given. Left out: the rows that
a reader still holds in its own hands; who waits for a transfer already goes on waiting, although its
append is given up meanwhile; a policy that fetches the first layer before a call begins.

Assumptions: the room's lock is never held while somebody waits.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from typing import ClassVar, Final, Protocol

import torch
from attrs import define, field, frozen
from torch import Tensor

from kvspec.models.decode.completion import CURRENT_QUEUE, Completion, Submit, Write, borrow
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.shapes import SOUND, CacheShape, LayoutFaults
from kvspec.models.decode.streams import Stream, open_stream

LAYERS_ON_DEVICE: Final = 2
"""Layers of a store that may be on the device at a time."""

Rows = tuple[Tensor, Tensor]
"""K and V of one layer, [B, H_kv, T, d_h] each."""


class OnHost(Protocol):
    """Something whose layers lie on the host, whole and unchanging."""

    def on_host(self, layer: int) -> Rows:
        """K and V of one layer as they lie on the host."""
        ...


@torch.inference_mode()
def transfer(target: Tensor, rows: Tensor) -> None:
    """Start to copy ``rows`` into ``target``, between host and device in either direction.

    On CUDA the host's side is pinned, and the copy is over when an event recorded behind it fires.
    """
    borrow(target).copy_(borrow(rows), non_blocking=True)


class FetchFailedError(DecodeError):
    """A transfer to the device raised; what the host holds is whole, and can be fetched again."""

    code: ClassVar[str] = "FETCH_FAILED"


@define(eq=False)
class _Outcome:
    """What a transfer raised: its own failure, and none of the stream that runs it."""

    error: Exception | None = None

    def of(self, write: Write) -> None:
        """Do the transfer, wherever work of the stream is done."""
        try:
            write()
        except Exception as error:  # noqa: BLE001 - told to whoever needs the rows
            self.error = error


@frozen(eq=False)
class _Fetch:
    """A transfer to the device that was started."""

    started: Completion
    outcome: _Outcome

    def arrive(self) -> None:
        """Let what follows find the rows: on a stream in order behind the transfer, else by waiting.

        Raises:
            FetchFailedError: the transfer raised.
        """
        if self.started.in_order:
            self.started.follow()
        else:
            self.started.wait()
        if (error := self.outcome.error) is not None:
            raise FetchFailedError(
                where="a transfer of rows to the device",
                found=f"{type(error).__name__}: {error}",
                expected="rows that arrive",
                fix="see to the cause and read again: what reads next starts the transfer anew",
            ) from error


@frozen(eq=False)
class _Fetched:
    """K and V of a layer on the device, there once ``arrival`` says so."""

    rows: Rows
    arrival: _Fetch


@define(eq=False)
class _Resident:
    """What is on the device of one layer of one snapshot.

    Attributes:
        owner: the snapshot, which is not kept alive by this.
        layer: the layer.
        fetched: the snapshot's rows; None while nobody asked for them, and after a transfer failed.
        staged: rows of appends on that snapshot, by where they go on the host, with the completion of
            that transfer.
    """

    owner: weakref.ref[OnHost]
    layer: int
    fetched: _Fetched | None = None
    staged: dict[object, tuple[Tensor, Completion]] = field(factory=dict)

    def is_of(self, owner: OnHost, layer: int) -> bool:
        """It is this layer of this snapshot."""
        return self.owner() is owner and self.layer == layer

    def late(self) -> list[Completion]:
        """Transfers to the host that are not over."""
        return [written for _, written in self.staged.values() if not written.is_complete()]


class DeviceRoom:
    """The layers of one store that are on the device.

    ``fetches`` starts a transfer to the device; by default it runs on a stream of the room's own.

    Attributes:
        shape: what rows look like on the device.
        fetched: transfers of a layer to the device so far.
        stored: transfers of a part of a layer to the host so far.
        most: the largest number of layers that were on the device at a time.
        ended: where the rows of appends that were dropped go on the host, for the room to find at its
            next use: collection may come at any point, and takes no lock.
    """

    def __init__(
        self, shape: CacheShape, faults: LayoutFaults = SOUND, fetches: Submit | None = None
    ) -> None:
        self.shape = shape
        self.fetched = 0
        self.stored = 0
        self.most = 0
        self.ended: deque[set[object]] = deque()
        self._faults = faults
        self._fetches = fetches
        self._residents: list[_Resident] = []
        self._lock = threading.Lock()

    @property
    def layers(self) -> int:
        """Layers that are on the device now."""
        return len(self._residents)

    def read(self, owner: OnHost, layer: int) -> Rows:
        """K and V of a layer on the device, once they are there; the next layer's transfer is started.

        Raises:
            FetchFailedError: the transfer raised; the next reading starts another.
        """
        resident, fetched = self._with_rows(owner, layer)
        if layer + 1 < self.shape.layers:
            self._with_rows(owner, layer + 1, in_use=resident)
        if not self._faults.read_before_fetch:
            try:
                fetched.arrival.arrive()
            except Exception:
                with self._lock:
                    if resident.fetched is fetched:
                        resident.fetched = None
                raise
        keys, values = fetched.rows
        return borrow(keys), borrow(values)

    def hold(
        self, owner: OnHost, layer: int, place: object, rows: Tensor, written: Completion
    ) -> None:
        """Keep the rows of an append on the device, at least until the host has them at ``place``."""
        while True:
            resident = self._admitted(owner, layer)
            with self._lock:
                # Another thread may have dropped the layer meanwhile.
                if resident in self._residents:
                    resident.staged[place] = (rows, written)
                    self.stored += 1
                    return

    def staged(self, owner: OnHost, layer: int, place: object) -> Tensor | None:
        """Rows that are held for ``place``, or None when they were dropped."""
        with self._lock:
            for resident in self._residents:
                if resident.is_of(owner, layer) and place in resident.staged:
                    return resident.staged[place][0]
        return None

    def bring(self, rows: Tensor) -> Tensor:
        """Rows from the host, on the device, once they are there.

        Raises:
            FetchFailedError: the transfer raised.
        """
        target = self._empty(rows)
        self._start(lambda: transfer(target, rows)).arrive()
        return target

    def let_go(self, places: set[object]) -> None:
        """Drop the rows of an append that is over; a transfer under way has what it needs."""
        with self._lock:
            self._forget(places)

    def drop(self, owner: OnHost) -> None:
        """Drop the layers of a snapshot that nobody needs on the device, but for rows of appends."""
        with self._lock:
            self._residents = [
                each for each in self._residents if each.owner() is not owner or each.staged
            ]

    def _with_rows(
        self, owner: OnHost, layer: int, in_use: _Resident | None = None
    ) -> tuple[_Resident, _Fetched]:
        """A layer whose transfer to the device was started, and that transfer."""
        resident = self._admitted(owner, layer, in_use)
        with self._lock:
            if resident.fetched is None:
                host = owner.on_host(layer)
                rows = (self._empty(host[0]), self._empty(host[1]))
                arrival = self._start(lambda: _transfer_both(rows, host))
                resident.fetched = _Fetched(rows, arrival)
                self.fetched += 1
            return resident, resident.fetched

    def _admitted(self, owner: OnHost, layer: int, in_use: _Resident | None = None) -> _Resident:
        """The layer's place on the device, now the youngest; for it the oldest other one makes room."""
        while True:
            with self._lock:
                self._forget_dropped()
                for resident in self._residents:
                    if resident.is_of(owner, layer):
                        self._residents.remove(resident)
                        self._residents.append(resident)
                        return resident
                if len(self._residents) < LAYERS_ON_DEVICE:
                    self._residents.append(_Resident(weakref.ref(owner), layer))
                    self.most = max(self.most, len(self._residents))
                    return self._residents[-1]
                oldest = next(each for each in self._residents if each is not in_use)
                late = oldest.late()
                if not late:
                    self._residents.remove(oldest)
            for written in late:
                self._see_written(oldest, written)

    def _forget(self, places: set[object]) -> None:
        for resident in self._residents:
            for place in places & resident.staged.keys():
                del resident.staged[place]

    def _forget_dropped(self) -> None:
        """Drop what nobody can ask for any more: rows of appends, and layers of snapshots, that are gone."""
        while self.ended:
            self._forget(self.ended.popleft())
        self._residents = [each for each in self._residents if each.owner() is not None]

    def _see_written(self, resident: _Resident, written: Completion) -> None:
        """Wait until the host has some rows of an append, or never will: they are its own to miss."""
        try:
            written.wait()
        except DecodeError:
            # The append finds the same when it is installed; who needs the room has no part in it.
            with self._lock:
                lost = [key for key, (_, of) in resident.staged.items() if of is written]
                for place in lost:
                    del resident.staged[place]

    def _empty(self, rows: Tensor) -> Tensor:
        return torch.zeros(rows.shape, dtype=rows.dtype, device=self.shape.device)

    def _start(self, write: Write) -> _Fetch:
        if self._fetches is None:
            stream = open_stream(self.shape.device, "fetches")
            # The stream does not know the room, so that a room that nobody needs ends its stream.
            weakref.finalize(self, stream.close)
            self._fetches = _apart(stream)
        outcome = _Outcome()
        return _Fetch(self._fetches(lambda: outcome.of(write), self.shape.device), outcome)


def _apart(stream: Stream) -> Submit:
    """Work of that stream alone: rows on the host are whole, whatever a thread's own stream has to do."""

    def submit(write: Write, device: torch.device) -> Completion:
        del device
        token = CURRENT_QUEUE.set(None)
        try:
            return stream.launch(write)
        finally:
            CURRENT_QUEUE.reset(token)

    return submit


def _transfer_both(targets: Rows, rows: Rows) -> None:
    for target, host in zip(targets, rows, strict=True):
        transfer(target, host)
