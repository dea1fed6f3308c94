"""A wrapper with transactions around the dynamic cache of Transformers: what a caller must add to it.

Modelled: a table of requests, each with one immutable snapshot of all layers; appends that run a forward
call of the library on a cache object of their own; publication by one reference, after generation,
snapshot and phase were compared; prefix blocks with owners; receipts by idempotency key. The library's
layers never write in place, so that a snapshot is shared and not copied. Left out: locks (a caller with
several threads holds one around each method, never around the forward call), devices, eviction policy.

Each refusal has the code that the specification gives it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import torch
from attrs import define, evolve, field, frozen
from torch import Tensor

from kvspec.models.adapter import RefusedByCacheError
from kvspec.models.runtimes.batch_rows import BatchRows
from kvspec.models.runtimes.transformers_api import library

Rows = tuple[tuple[Tensor, Tensor], ...]
"""K and V rows of each layer, each [1, H_kv, T, d_h]."""

HandOver = Callable[[int, Tensor, Tensor], None]
"""Takes the rows that a forward call has made for a layer: K and V, each [1, H_kv, n, d_h]."""

FREE = ("VACANT", "RELEASED")
LIVE = ("OPEN", "PREPARED")


@frozen(eq=False)
class Snapshot:
    """What a reader of a request sees, all layers at once: tokens, the prompt's first, and their rows."""

    version: int = 0
    prompt: int = 0
    ids: tuple[int, ...] = ()
    rows: Rows = ()

    @property
    def length(self) -> int:
        """Committed rows after the prompt."""
        return len(self.ids) - self.prompt


@define(eq=False)
class Request:
    """A place in the table of handles, and the request that it was given to last."""

    phase: str = "VACANT"
    generation: int = 0
    abi: int | None = None
    parent: int | None = None
    snapshot: Snapshot = Snapshot()


@define(eq=False)
class Block:
    """A prefix block: the rows of a prompt, and the handles with a claim on them."""

    rows: Rows = ()
    owners: set[int] = field(factory=set)


@define(eq=False)
class Append:
    """The record of one append. staged: K rows and V rows of each layer, in the order of their positions.

    base: the snapshot that it extends. ends: the position behind the last staged K and V row of each
    layer. ready: rows of all layers, complete. ack: what a retry was told.
    """

    state: str = "IDLE"
    target: int | None = None
    base_generation: int = 0
    base: Snapshot = Snapshot()
    abi: int | None = None
    key: int | None = None
    ids: tuple[int, ...] = ()
    start: int = 0
    staged: list[tuple[list[Tensor], list[Tensor]]] = field(factory=list)
    ends: list[list[int]] = field(factory=list)
    ready: Rows = ()
    receipt: int = 0
    ack: tuple[int, int, int, int, int] | None = None


class TransactionalCache:
    """Requests over Transformers' cache, changed by published appends alone.

    Attributes:
        models: one decoder for each cache ABI.
        context: rows that a request may have after its prompt.
        rewind: rows that `truncate` may take back at once.
    """

    def __init__(
        self,
        models: Sequence[Any],
        *,
        handles: int,
        blocks: int,
        rows: int,
        appends: int,
        context: int,
        rewind: int,
    ) -> None:
        self.models = models
        self.layers = len(models[0].model.layers)
        self.context = context
        self.rewind = rewind
        self.requests = [Request() for _ in range(handles)]
        self.blocks = [Block() for _ in range(blocks)]
        self.appends = [self._blank() for _ in range(appends)]
        self.batch = BatchRows(rows)

    # The life of a request.

    def allocate(self, h: int, b: int, a: int, prompt: Sequence[int]) -> None:
        """Compute a prompt into an empty block and give it to a free handle."""
        request, block = self.requests[h], self.blocks[b]
        _need(request.phase in FREE, "HANDLE_LIVE", request.phase)
        _need(not block.rows, "BLOCK_IN_USE", f"block{b} holds rows")
        held = _new_cache(self.models[a])
        library().forward(self.models[a], list(prompt), held)
        block.rows = tuple((layer.keys, layer.values) for layer in held.layers)
        block.owners.add(h)
        snapshot = Snapshot(0, len(prompt), tuple(prompt), block.rows)
        self.requests[h] = Request("DECODE_READY", request.generation, a, None, snapshot)

    def fork(self, p: int, children: Sequence[int], n: int) -> None:
        """Give the first n rows to all children: they share the tensors of the parent's snapshot."""
        parent = self.requests[p]
        busy = [c for c in children if self.requests[c].phase not in FREE]
        _need_ready(parent)
        _need(bool(children), "NO_CHILD", "no child")
        _need(n <= parent.snapshot.length, "BEYOND_COMMITTED", f"{parent.snapshot.length} rows")
        _need(not busy, "CHILD_IN_USE", f"handles {busy} are in use")
        snapshot = _first(parent.snapshot, n, version=0)
        for c in children:
            generation = self.requests[c].generation
            self.requests[c] = Request("DECODE_READY", generation, parent.abi, p, snapshot)
            for block in self.blocks:
                (block.owners.add if p in block.owners else block.owners.discard)(c)

    def truncate(self, h: int, n: int) -> None:
        """A new snapshot of the first n rows, of all layers at once."""
        request = self.requests[h]
        snapshot = request.snapshot
        _need_ready(request)
        _need(n <= snapshot.length, "BEYOND_COMMITTED", f"{snapshot.length} rows")
        _need(snapshot.length <= n + self.rewind, "CANNOT_REWIND", f"from {snapshot.length} to {n}")
        request.snapshot = _first(snapshot, n, version=snapshot.version + 1)
        self.batch.move(h, n)

    def finish(self, h: int) -> None:
        """End a request after its last row."""
        _need_ready(self.requests[h])
        self.requests[h].phase = "FINISHED"

    def cancel_request(self, h: int) -> None:
        """End a request early, with every append that it has open."""
        request = self.requests[h]
        _need_ready(request)
        request.phase = "CANCELLED"
        for append in self.appends:
            is_its = append.target == h and append.base_generation == request.generation
            if is_its and append.state in LIVE:
                self._discard(append, "ABORTED")

    def release(self, h: int) -> None:
        """Give up the rows and claims of an ended request; the record of it stays."""
        request = self.requests[h]
        _need(request.phase in ("FINISHED", "CANCELLED"), "NOT_TERMINAL", request.phase)
        _need(self.batch.row_of(h) is None, "ROW_HOLDS_HANDLE", f"row{self.batch.row_of(h)}")
        request.phase = "RELEASED"
        request.generation += 1
        request.snapshot = evolve(request.snapshot, rows=())
        for block in self.blocks:
            block.owners.discard(h)

    def evict(self, b: int) -> None:
        """Free a block that nobody owns."""
        block = self.blocks[b]
        _need(bool(block.rows), "BLOCK_EMPTY", f"block{b} is empty")
        _need(not block.owners, "STILL_OWNED", f"owned by handles {sorted(block.owners)}")
        block.rows = ()

    # Appends.

    def begin(self, x: int, h: int, k: int, a: int, p: int, ids: Sequence[int]) -> None:
        """Open an append of these tokens at position p, on the snapshot that the handle has now."""
        append, request = self.appends[x], self.requests[h]
        length = request.snapshot.length
        _need(append.state == "IDLE", "TXN_IN_USE", append.state)
        _need_ready(request)
        _need(request.abi == a, "ABI_MISMATCH", f"rows of ABI {request.abi}")
        _need(p == length, "POSITION_MISMATCH", f"{length} rows, asked for position {p}")
        _need(len(ids) >= 1, "EMPTY_APPEND", "no token")
        _need(p + len(ids) <= self.context, "CONTEXT_FULL", f"{p + len(ids)} of {self.context}")
        self.appends[x] = Append(
            "OPEN",
            h,
            request.generation,
            request.snapshot,
            a,
            k,
            tuple(ids),
            p,
            [([], []) for _ in range(self.layers)],
            [[p, p] for _ in range(self.layers)],
        )

    def view(self, x: int, hand_over: HandOver | None = None) -> Any:
        """The cache object for the forward call of an append: it reads the base, and stages what is new.

        hand_over: is given the rows of each layer instead, and must stage them before it returns.
        """
        append = self.appends[x]
        model = self.models[append.abi or 0]
        view = _view_class()(config=model.config)
        for layer, (keys, values) in zip(view.layers, append.base.rows, strict=True):
            library().fill(layer, keys, values)
        view.hand_over = hand_over or (
            lambda layer, keys, values: self.stage(x, layer, keys, values)
        )
        view.rows_of = lambda layer: self._staged_rows(append, layer)
        return view

    def stage(self, x: int, l: int, keys: Tensor, values: Tensor) -> None:
        """Stage all rows of a layer, K and V."""
        for place in range(keys.shape[-2]):
            position = self.appends[x].start + place
            self.stage_row(x, l, 0, position, keys[..., place : place + 1, :])
            self.stage_row(x, l, 1, position, values[..., place : place + 1, :])

    def stage_row(self, x: int, l: int, part: int, p: int, row: Tensor) -> None:
        """Stage one row [1, H_kv, 1, d_h] of a layer at position p. part: 0 for K, 1 for V."""
        append = self.appends[x]
        _need(append.state == "OPEN", "TXN_CLOSED", append.state)
        end = append.ends[l][part]
        _need(p == end, "POSITION_MISMATCH", f"the next row is {end}, not {p}")
        _need(end < append.start + len(append.ids), "INTERVAL_FULL", f"{len(append.ids)} rows")
        append.staged[l][part].append(row)
        append.ends[l][part] = p + 1

    def prepare(self, x: int) -> None:
        """Declare an append complete, and put its rows behind those of its base, out of sight."""
        append = self.appends[x]
        _need(append.state == "OPEN", "TXN_CLOSED", append.state)
        end = append.start + len(append.ids)
        for part, code in enumerate(("K_INCOMPLETE", "V_INCOMPLETE")):
            ends = [pair[part] for pair in append.ends]
            _need(set(ends) == {end}, code, f"rows up to {ends}, expected {end}")
        append.ready = tuple(self._staged_rows(append, layer) for layer in range(self.layers))
        append.state = "PREPARED"

    def publish(self, x: int) -> None:
        """Make all layers visible by one reference, if the handle still has the captured snapshot."""
        append = self.appends[x]
        _need(append.state == "PREPARED", "NOT_PREPARED", append.state)
        target = append.target or 0
        request = self.requests[target]
        found, base = request.snapshot.version, append.base.version
        for is_so, code, told in (
            (
                request.generation == append.base_generation,
                "STALE_GENERATION",
                f"{request.generation}",
            ),
            (found == base, "STALE_SNAPSHOT", f"snapshot {found}, the append has {base}"),
            (request.phase == "DECODE_READY", "HANDLE_TERMINAL", request.phase),
        ):
            if not is_so:
                self._discard(append, "REJECTED")
                raise RefusedByCacheError(code, told)
        ids = append.base.ids + append.ids
        snapshot = evolve(append.base, version=base + 1, ids=ids, rows=append.ready)
        append.state, append.receipt = "PUBLISHED", snapshot.version
        append.staged, append.ready = [], ()
        request.snapshot = snapshot
        self.batch.move(target, snapshot.length)

    def retry(self, x: int, h: int, k: int, v: int, n: int) -> int:
        """The receipt of a published append, to a call with the same fingerprint."""
        append = self.appends[x]
        _need(append.state == "PUBLISHED", "NOT_PUBLISHED", append.state)
        _need(append.target == h, "HANDLE_CONFLICT", f"it extended handle{append.target}")
        _need(append.key == k, "KEY_CONFLICT", f"its key is {append.key}")
        _need(append.base.version == v, "BASE_CONFLICT", f"its base is {append.base.version}")
        _need(len(append.ids) == n, "INTERVAL_CONFLICT", f"it had {len(append.ids)} rows")
        append.ack = (h, k, v, n, append.receipt)
        return append.receipt

    def cancel_txn(self, x: int) -> None:
        """Abort one append and keep the request."""
        append = self.appends[x]
        _need(append.state in LIVE, "TXN_CLOSED", append.state)
        self._discard(append, "ABORTED")

    def forget(self, x: int) -> None:
        """Drop the record of an ended append."""
        state = self.appends[x].state
        _need(state in ("PUBLISHED", "ABORTED", "REJECTED"), "TXN_LIVE", state)
        self.appends[x] = self._blank()

    # The batch.

    def enter(self, r: int, h: int) -> None:
        """Put a ready request into an empty row."""
        request = self.requests[h]
        _need_ready(request)
        self.batch.enter(r, h, request.parent, request.snapshot.length)

    # Reading.

    def reader(self, h: int) -> Any:
        """A cache object of the library with the rows of a request's snapshot, for a reader of its own."""
        request = self.requests[h]
        held = _new_cache(self.models[request.abi or 0])
        for layer, (keys, values) in zip(held.layers, request.snapshot.rows, strict=True):
            library().fill(layer, keys, values)
        return held

    # Within.

    def _staged_rows(self, append: Append, layer: int) -> tuple[Tensor, Tensor]:
        """Rows of the base and of an append, for one layer."""
        _need(append.state == "OPEN", "TXN_CLOSED", append.state)
        (keys, values), (new_keys, new_values) = append.base.rows[layer], append.staged[layer]
        return torch.cat([keys, *new_keys], dim=-2), torch.cat([values, *new_values], dim=-2)

    def _discard(self, append: Append, state: str) -> None:
        """End an append: what it staged is gone, and nothing of it names a handle any more."""
        append.state, append.target, append.base_generation = state, None, 0
        append.base, append.abi, append.key = Snapshot(), None, None
        append.staged, append.ready = [], ()
        append.ends = [[append.start, append.start] for _ in range(self.layers)]

    def _blank(self) -> Append:
        return Append(ends=[[0, 0] for _ in range(self.layers)])


def _need(is_so: bool, code: str, found: str) -> None:
    if not is_so:
        raise RefusedByCacheError(code, f"found {found}")


def _need_ready(request: Request) -> None:
    _need(request.phase == "DECODE_READY", "HANDLE_TERMINAL", request.phase)


def _first(snapshot: Snapshot, n: int, version: int) -> Snapshot:
    """The prompt and the first n rows of a snapshot: views of its tensors, nothing is copied."""
    end = snapshot.prompt + n
    rows = tuple((keys[..., :end, :], values[..., :end, :]) for keys, values in snapshot.rows)
    return Snapshot(version, snapshot.prompt, snapshot.ids[:end], rows)


def _new_cache(model: Any) -> Any:
    from transformers import DynamicCache

    return DynamicCache(config=model.config)


@cache
def _view_class() -> Any:
    """The class of caches that forward calls are given; made when Transformers is there."""
    from transformers import DynamicCache

    class AppendView(DynamicCache):  # type: ignore[misc]  # the library's class is not typed here
        """The rows of an append's base, which a forward call reads and leaves as they are."""

        hand_over: HandOver
        rows_of: Callable[[int], tuple[Tensor, Tensor]]

        def update(
            self, key_states: Tensor, value_states: Tensor, layer_idx: int, *_: Any, **__: Any
        ) -> tuple[Tensor, Tensor]:
            """Stage the new rows of a layer; the layer's attention sees them behind the base."""
            self.hand_over(layer_idx, key_states, value_states)
            return self.rows_of(layer_idx)

    return AppendView
