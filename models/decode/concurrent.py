"""The decode backend for several clients at a time: under real threads, or threads under control.

Modelled: the backend as it is, with a reader that takes no lock and tells a handle's phase, version,
committed length and the rows of all its layers out of one snapshot; and the faults that need a second
thread (`CONCURRENCY_FAULTS`), each in the place where a cache would have it. Left out: the generation of a
handle, which stands in the handle table beside the entry, so that no one look has both; clients that do not
wait for an answer.
"""

from __future__ import annotations

from functools import partial
from typing import Any, ClassVar

import torch
from attrs import frozen

from kvspec.models.backend import Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import Value
from kvspec.models.decode.agreement import TOLERANCES
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_appends import Appends
from kvspec.models.decode.backend_damage import ROW_SLACK
from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_requests import Requests
from kvspec.models.decode.backend_tables import Entry, Slot, Tables
from kvspec.models.decode.concurrent_faults import (
    ABORT_LATE,
    AFTER_FREE,
    CHECK_THEN_ACT,
    LAYERS_APART,
    SAME_LENGTH,
    STALE_READ,
    TORN,
    UNLOCKED,
    known_concurrency_faults,
    leaves_lock_out,
)
from kvspec.models.decode.concurrent_points import Guard, WatchedTxns, watch_tables
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.shapes import Lengths, Snapshot
from kvspec.models.interleaving import Scheduler
from kvspec.spec.language import Instance

Cells = tuple[tuple[str, tuple[int, ...]], ...]
"""Variables of the specification, each at an index."""


class WrongRowsError(DecodeError):
    """A reader found rows in memory that are not those of the tokens that it was shown."""

    code: ClassVar[str] = "WRONG_ROWS"


@frozen
class Look:
    """A read of a handle: all of `looked_at`, at one moment.

    with_rows: the reader goes on to read the rows themselves, layer by layer, from the snapshot that
    it took; found wrong, they are an error and no answer.
    """

    handle: int
    with_rows: bool = False

    def __str__(self) -> str:
        return f"look(h={self.handle}{', with rows' if self.with_rows else ''})"


def looked_at(handle: int, layers: int) -> Cells:
    """What a look at a handle tells, in the order of its answer."""
    rows = [(name, (handle, layer)) for name in ("k_rows", "v_rows") for layer in range(layers)]
    return (*((name, (handle,)) for name in ("phase", "version", "length")), *rows)


class ConcurrentBackend(DecodeBackend):
    """A decode backend that several threads may ask at a time.

    Attributes:
        scheduler: runs the threads one at a time, with points before each shared access; None leaves
            them to the machine, and the backend without points.
        is_exposed: it has the points of a cache that leaves its lock out, as one with such a fault has.
        planted: its faults of this kind; ``options`` are those of `DecodeBackend`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(
        self,
        layout: str = "dynamic",
        planted: tuple[str, ...] = (),
        *,
        scheduler: Scheduler | None = None,
        is_exposed: bool = False,
        **options: Any,
    ) -> None:
        self.planted = known_concurrency_faults(tuple(planted))
        faults = (*options.pop("faults", ()), *(self.planted & {TORN}))
        super().__init__(layout, faults=faults, **options)
        # Layouts under any fault rely on the backend's own checks, and let its wrong steps through.
        self.faults |= self.planted
        self.scheduler = scheduler
        self.is_exposed = is_exposed or leaves_lock_out(self.planted)
        self._alone = frozenset(UNLOCKED[fault] for fault in self.planted & UNLOCKED.keys())
        self._seen: dict[tuple[int, int], Entry] = {}
        self._guarded: Guard | None = None

    def reset(self, instance: Instance) -> None:
        """Begin anew; see `DecodeBackend.reset`."""
        self._seen = {}
        super().reset(instance)
        if self._requests is None:
            return
        appends = self._requests.appends
        if self.scheduler is not None and self._guarded is not None:
            appends.txns = WatchedTxns(appends.txns, self.scheduler.point, self._guarded)
        if CHECK_THEN_ACT in self.planted:
            self._actions["publish"] = partial(check_then_publish, appends)
        if ABORT_LATE in self.planted:
            self._actions["cancel_request"] = partial(cancel_then_abort, self._requests)

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it; a fault may leave the lock out."""
        if event.action in self._alone:
            self._held()
            return self._act(event.action, dict(event.values))
        return super().perform(event)

    def look(self, handle: int, client: int = 0, *, with_rows: bool = False) -> tuple[Value, ...]:
        """What a client sees of a handle now, as `looked_at` lists it; takes no lock.

        Raises:
            WrongRowsError: it was to read the rows too, and they are not those of the tokens.
        """
        tables = self._held()
        slot = tables.slots[handle]
        entry = slot.shown
        if STALE_READ in self.planted:
            entry = self._kept(client, handle, entry)
        rows = self._rows(tables, slot, entry)
        while SAME_LENGTH in self.planted and len(slot.shown.tokens) != len(entry.tokens):
            entry = slot.shown
            rows = self._rows(tables, slot, entry)
        if with_rows and entry.rows is not None:
            self._read_rows(tables, handle, entry, entry.rows)
        keys, values = [pair[0] for pair in rows], [pair[1] for pair in rows]
        return (entry.phase, entry.version, len(entry.tokens), *keys, *values)

    def looked_at(self, handle: int) -> Cells:
        """What `look` tells of a handle."""
        return looked_at(handle, self._held().shape.layers)

    def _rows(self, tables: Tables, slot: Slot, entry: Entry) -> Lengths:
        """Rows of K and of V of each layer; those of the entry, but for three faults."""
        layers = tables.shape.layers
        if AFTER_FREE in self.planted:
            layout = slot.layout
            return [(0, 0)] * layers if layout is None else layout.lengths()
        found = _lengths(entry, layers)
        if self.planted & {LAYERS_APART, SAME_LENGTH}:
            return found[:1] + [_lengths(slot.shown, layers)[layer] for layer in range(1, layers)]
        return found

    @torch.inference_mode()
    def _read_rows(self, tables: Tables, handle: int, entry: Entry, rows: Snapshot) -> None:
        """Read the rows of every layer, and compare them with an uncached run of the tokens.

        The prefix block is left out: a block may be evicted while somebody still reads it.
        """
        run = tables.models[entry.abi or 0].run(entry.prompt + entry.tokens)
        slack = ROW_SLACK * TOLERANCES[tables.shape.dtype]
        for layer in range(tables.shape.layers):
            if self.scheduler is not None:
                self.scheduler.point(f"handle{handle} rows of layer{layer} read")
            places = PREFIX_ROWS + rows.positions(layer)
            found = rows.read(layer)
            for part, shown, whole in zip(Part, found, (run.keys, run.values), strict=True):
                expected = whole[layer][:, places.to(whole.device)]
                if not torch.allclose(shown[0], expected, rtol=slack, atol=slack):
                    raise WrongRowsError(
                        where=f"a look at handle{handle}, {part.value} rows of layer {layer}",
                        found="rows that an uncached run of the tokens does not give",
                        expected=f"those of {len(entry.tokens)} tokens, as at the moment of the look",
                        fix="do not write rows that a snapshot still shows",
                    )

    def _kept(self, client: int, handle: int, entry: Entry) -> Entry:
        """What the client saw before, as long as the version is the same: the fault `STALE_READ`."""
        kept = self._seen.get((client, handle))
        if kept is None or kept.version != entry.version:
            kept = self._seen[client, handle] = entry
        return kept

    def _make_tables(self, instance: Instance) -> Tables:
        tables = super()._make_tables(instance)
        if self.scheduler is not None:
            self._guarded = watch_tables(tables, self.scheduler, is_exposed=self.is_exposed)
        return tables


def check_then_publish(appends: Appends, x: int) -> None:
    """A publication that takes the lock for its change, and compares before that."""
    slot = appends.publishable(x)
    with appends.tables.lock:
        appends.show(slot, x)


def cancel_then_abort(requests: Requests, h: int) -> None:
    """A cancellation in two critical sections: the phase, then the appends."""
    slot = requests.tables.slots[h]
    with requests.tables.lock:
        requests.end("cancel_request", slot, "CANCELLED")
    with requests.tables.lock:
        requests.appends.abort_all(slot)


def _lengths(entry: Entry, layers: int) -> Lengths:
    return [(0, 0)] * layers if entry.rows is None else entry.rows.lengths()
