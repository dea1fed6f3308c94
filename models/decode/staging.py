"""The rows of one append while it is under way, apart from everything that is visible.

Modelled: K and V of each layer staged separately, each with its interval of positions and its
completion; the view that the layers of the same call get; closing, after which late work is
refused. Left out: what makes an append a transaction (identity, states, conflicts): that is the
backend's.
"""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn, Protocol

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.completion import Completion, Submit, borrow
from kvspec.models.decode.errors import (
    AlreadyStagedError,
    BadShapeError,
    IntervalMismatchError,
    RowsIncompleteError,
    RowsMissingError,
    StagingClosedError,
)
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.shapes import CacheShape, Cell, LayoutFaults, Snapshot


@torch.inference_mode()
def copy_rows(target: Tensor, rows: Tensor) -> None:
    """Write ``rows`` into ``target``, whether or not either was made in inference mode."""
    # The stream that writes need not be the one on which either was allocated.
    borrow(target).copy_(borrow(rows))


class Landing(Protocol):
    """Where the rows of one part are written, be it one piece of memory or several."""

    def write(self, rows: Tensor) -> None:
        """Put the rows [B, H_kv, n, d_h] there."""
        ...

    def read(self) -> Tensor:
        """The rows as they are there now, in the same shape."""
        ...


@frozen(eq=False)
class InBuffer:
    """Rows land in one tensor.

    Attributes:
        buffer: the tensor, [B, H_kv, n, d_h].
    """

    buffer: Tensor

    def write(self, rows: Tensor) -> None:
        """Copy the rows into the tensor."""
        copy_rows(self.buffer, rows)

    def read(self) -> Tensor:
        """The tensor itself."""
        return borrow(self.buffer)


@frozen(eq=False)
class StagedPart:
    """One part of one layer in an append.

    Attributes:
        start: position of the first row.
        count: number of rows n.
        given: the rows as they were handed over, [B, H_kv, n, d_h].
        landing: where they land, the same once the completion says so.
        completion: what the device says about the landing.
    """

    start: int
    count: int
    given: Tensor
    landing: Landing
    completion: Completion

    @property
    def stop(self) -> int:
        """The position behind the last row."""
        return self.start + self.count

    @property
    def rows(self) -> Tensor:
        """The rows as the same call may read them at once, behind ``completion.follow``."""
        return self.landing.read() if self.completion.in_order else self.given


class Staging:
    """The rows of one append, which nothing else reads; the ``LayerCache`` of its model call.

    Attributes:
        owner: the layout it was begun on.
        base: the snapshot that was visible then.
        shape: what the rows look like.
        start: position of the first row.
        count: number of rows.
    """

    def __init__(
        self,
        owner: object,
        base: Snapshot,
        shape: CacheShape,
        start: int,
        count: int,
        submit: Submit,
    ) -> None:
        self.owner = owner
        self.base = base
        self.shape = shape
        self.start = start
        self.count = count
        self._submit = submit
        self._parts: dict[Cell, StagedPart] = {}
        self._closed = False
        self._extents: list[Any] | None = None
        self._known: tuple[Any, Tensor] | None = None
        self._lock = threading.RLock()

    @property
    def stop(self) -> int:
        """The position behind the last row of the append."""
        return self.start + self.count

    @property
    def is_closed(self) -> bool:
        """The rows were installed or thrown away."""
        return self._closed

    def stage(self, layer: int, part: Part, rows: Tensor, start: int | None = None) -> None:
        """Take rows [B, H_kv, n, d_h] of one part, for positions from ``start`` on.

        Without ``start`` they are for the append's own positions. Rows are copied, once their
        write is run: they stay as they are until it is complete. Another interval than the
        append's is taken down as it is, and found at the install. When starting the write fails, the
        part is not staged and may be staged again; the first write may land all the same, at any time,
        and no row that is ever visible is where it lands.

        Raises:
            StagingClosedError: the append is over.
            NoSuchLayerError: the cache has no such layer.
            BadShapeError: rows have another shape, dtype or device than this cache's.
            AlreadyStagedError: this part was staged before.
        """
        with self._lock:
            if self._closed:
                self._refuse_closed(f"staging the {part.value} rows of layer {layer}")
            self._check_rows(layer, part, rows)
            first = self.start if start is None else start
            try:
                landing = self._landing((layer, part), first, rows)
                completion = self._submit(lambda: landing.write(rows), self.shape.device)
                count = rows.shape[2]
                self._parts[layer, part] = StagedPart(first, count, rows, landing, completion)
            except BaseException:
                self._start_failed((layer, part))
                raise

    def view(self, layer: int) -> KVView:
        """The base rows of one layer, then its staged rows, with their positions.

        Raises:
            StagingClosedError: the append is over.
            RowsMissingError: K or V of this layer is not staged.
            UnevenRowsError: K and V have different numbers of rows.
        """
        with self._lock:
            if self._closed:
                self._refuse_closed(f"the view of layer {layer}")
            self.shape.check_layer(layer, "Staging.view")
            key, value = self._part(layer, Part.KEY), self._part(layer, Part.VALUE)
        for entry in (key, value):
            entry.completion.follow()
        keys, values = self._joined(layer, key, value)
        return KVView(keys, values, self._positions(layer, key.start, key.stop))

    def staged(self) -> dict[Cell, tuple[int, int]]:
        """The half-open interval of positions of each part staged so far."""
        with self._lock:
            return {cell: (part.start, part.stop) for cell, part in self._parts.items()}

    def is_complete(self, layer: int, part: Part) -> bool:
        """The part is staged, and the device says that it is written."""
        with self._lock:
            entry = self._parts.get((layer, part))
        return entry is not None and entry.completion.is_complete()

    def incomplete(self) -> list[Cell]:
        """Parts that are staged, but not yet written as far as the device says."""
        return [
            cell for cell, entry in self.entries().items() if not entry.completion.is_complete()
        ]

    def missing(self) -> list[Cell]:
        """Parts that are not staged."""
        entries = self.entries()
        return [cell for cell in self.shape.cells() if cell not in entries]

    def wait(self) -> None:
        """Return once everything staged so far is written."""
        for entry in self.entries().values():
            entry.completion.wait()

    def discard(self) -> None:
        """Throw the rows away; work that still arrives is refused. Harmless when already closed."""
        with self._lock:
            if not self._closed:
                self._closed = True
                self._let_go()

    def entries(self) -> dict[Cell, StagedPart]:
        """Everything staged so far, for the layout that installs it."""
        with self._lock:
            return dict(self._parts)

    def rows(self, cell: Cell) -> Tensor:
        """The landed rows of one part, for the layout that installs them."""
        return self._part(*cell).landing.read()

    @contextmanager
    def closing(self) -> Iterator[None]:
        """Hold late work and a second closing off, and close if the block succeeds."""
        with self._lock:
            if self._closed:
                self._refuse_closed("install")
            yield
            self._closed = True

    def check(self, faults: LayoutFaults) -> None:
        """Refuse an append that is not whole, except for what ``faults`` lets through.

        Raises:
            RowsMissingError: a part is not staged.
            IntervalMismatchError: a part covers another interval than the append.
            RowsIncompleteError: a part is not yet written.
        """
        if not faults.allow_missing and (missing := self.missing()):
            raise RowsMissingError(
                where=f"install of rows [{self.start}, {self.stop})",
                found=f"no {_listed(missing)}",
                expected=f"K and V of all {self.shape.layers} layers",
                fix="let the model call run to its end, or discard the append",
            )
        if not faults.allow_interval:
            self._check_intervals()
        if not faults.allow_incomplete and (late := self.incomplete()):
            raise RowsIncompleteError(
                where=f"install of rows [{self.start}, {self.stop})",
                found=f"{_listed(late)} not yet written",
                expected="the completion of every part",
                fix="wait, or install with wait=True",
            )

    def _check_intervals(self) -> None:
        for cell, (start, stop) in self.staged().items():
            if (start, stop) != (self.start, self.stop):
                raise IntervalMismatchError(
                    where=f"install of {_listed([cell])}",
                    found=f"rows [{start}, {stop})",
                    expected=f"rows [{self.start}, {self.stop})",
                    fix="stage exactly the rows that the append was begun for",
                )

    def _refuse_closed(self, where: str) -> NoReturn:
        raise StagingClosedError(
            where=where,
            found="an append whose rows were already installed or thrown away",
            expected="an open append",
            fix="stop this call, and begin a new append",
        )

    def _check_rows(self, layer: int, part: Part, rows: Tensor) -> None:
        self.shape.check_layer(layer, "Staging.stage")
        count = rows.shape[2] if rows.dim() == 4 else self.count
        found = (tuple(rows.shape), rows.dtype, rows.device)
        expected = (self.shape.rows(count), self.shape.dtype, self.shape.device)
        if found != expected:
            raise BadShapeError(
                where=f"staging the {part.value} rows of layer {layer}",
                found=_described(found),
                expected=_described(expected),
                fix="use the decoder that this cache was shaped for",
            )
        if (layer, part) in self._parts:
            raise AlreadyStagedError(
                where=f"staging the {part.value} rows of layer {layer}",
                found="rows staged earlier in the same append",
                expected="each part staged once",
                fix="discard this append and begin a new one",
            )

    def _part(self, layer: int, part: Part) -> StagedPart:
        if (layer, part) not in self._parts:
            raise RowsMissingError(
                where=f"the view of layer {layer}",
                found=f"no {part.value} rows staged",
                expected="K and V staged before the view is asked for",
                fix="stage both parts first",
            )
        return self._parts[layer, part]

    def _positions(self, layer: int, start: int, stop: int) -> Tensor:
        """Positions of a layer's base rows and of [start, stop); one tensor for layers that are alike."""
        if self._extents is None:
            self._extents = list(zip(self.base.lengths(), self.base.kept(), strict=True))
        alike = (self._extents[layer], start, stop)
        if self._known is None or self._known[0] != alike:
            staged = torch.arange(start, stop, device=self.shape.device)
            self._known = (alike, torch.cat((self.base.positions(layer), staged)))
        return self._known[1]

    # What a layout with room of its own for staged rows overrides.

    def _landing(self, cell: Cell, start: int, rows: Tensor) -> Landing:
        """Where the rows of one part are written: here in one buffer."""
        return InBuffer(self._buffer(cell, start, rows))

    def _buffer(self, cell: Cell, start: int, rows: Tensor) -> Tensor:
        """Where the rows of one part land: here a buffer of their own, zero until then."""
        del cell, start
        return torch.zeros_like(rows, memory_format=torch.contiguous_format)

    def _joined(self, layer: int, key: StagedPart, value: StagedPart) -> tuple[Tensor, Tensor]:
        """K and V of the base and of this call in one tensor each."""
        keys, values = self.base.read(layer)
        return torch.cat((keys, key.rows), dim=2), torch.cat((values, value.rows), dim=2)

    def _start_failed(self, cell: Cell) -> None:
        """Remember that a write whose start failed may land at any time; here nobody else uses its buffer."""

    def _let_go(self) -> None:
        """Give back what the append held, when its rows are thrown away."""


def _described(found: tuple[tuple[int, ...], torch.dtype, torch.device]) -> str:
    shape, dtype, device = found
    return f"rows {shape} of {dtype} on {device}"


def _listed(cells: list[Cell]) -> str:
    return ", ".join(f"layer {layer} {part.value}" for layer, part in cells)
