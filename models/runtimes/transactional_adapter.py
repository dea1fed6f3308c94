"""The wrapper with transactions, held against the core system: every action, every variable.

Modelled: as `transformers_adapter`, with forward calls that stop at each layer's rows as well, so that
rows are staged one at a time. Not tried is a row of a layer that the forward call has not come to.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import torch
from attrs import define
from torch import Tensor

from kvspec.models.adapter import Adapter, Observed
from kvspec.models.backend import Damage
from kvspec.models.concrete.state import Value
from kvspec.models.runtimes.batch_rows import Row
from kvspec.models.runtimes.transactional import FREE, LIVE, Append, Request, TransactionalCache
from kvspec.models.runtimes.transformers_adapter import PROBE, uncached_logits
from kvspec.models.runtimes.transformers_api import library
from kvspec.models.runtimes.transformers_calls import ForwardCall, stop_here
from kvspec.models.runtimes.transformers_model import (
    PROMPT_ROWS,
    logits_damage,
    prompt_of,
    tiny_llama,
    tokens_of,
)
from kvspec.spec.language import Instance


@define(eq=False)
class _Running:
    """A forward call, and the layer and rows (K and V, each [1, H_kv, n, d_h]) that it last made."""

    call: ForwardCall | None = None
    layer: int = -1
    rows: tuple[Tensor, ...] = ()


class TransactionalAdapter(Adapter):
    """`TransactionalCache` over the installed release of Transformers."""

    name: ClassVar[str] = "Transformers with transactions"

    def __init__(self) -> None:
        self.library = library()
        self._calls: list[_Running] = []
        self._begun = 0

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of the core system."""
        for running in self._calls:
            _cut(running)
        sizes, self._begun = instance.sizes, 0
        self.cache = TransactionalCache(
            [tiny_llama(sizes["Layer"], abi) for abi in range(sizes["Abi"])],
            handles=sizes["Handle"],
            blocks=sizes["Block"],
            rows=sizes["Row"],
            appends=sizes["Txn"],
            context=int(instance.constants["context"] or 0),
            rewind=int(instance.constants["rewind"] or 0),
        )
        self._calls = [_Running() for _ in range(sizes["Txn"])]

    # Actions: named and parametrised as in the specification.

    def allocate(self, h: int, b: int, a: int) -> None:
        """Compute a prompt into a block and give it to a handle."""
        self.cache.allocate(h, b, a, prompt_of(b))

    def evict(self, b: int) -> None:
        """Free a block that nobody owns."""
        self.cache.evict(b)

    def enter(self, r: int, h: int) -> None:
        """Put a request into a row."""
        self.cache.enter(r, h)

    def leave(self, h: int) -> None:
        """Take a request out of its row."""
        self.cache.batch.leave(h)

    def reorder(self, source: tuple[int, ...]) -> None:
        """Permute the rows."""
        self.cache.batch.reorder(source)

    def begin(self, x: int, h: int, k: int, a: int, p: int, n: int) -> None:
        """Open an append, and run its forward call up to the rows of layer 0."""
        self._begun += 1
        ids = tokens_of(self._begun, n)
        self.cache.begin(x, h, k, a, p, ids)
        running = self._calls[x] = _Running()

        def take(layer: int, keys: Tensor, values: Tensor) -> None:
            running.layer, running.rows = layer, (keys, values)
            stop_here()

        model, view = tiny_llama(self.cache.layers, a), self.cache.view(x, take)
        positions = torch.arange(n) + PROMPT_ROWS + p
        running.call = ForwardCall(lambda: self.library.forward(model, ids, view, positions))
        running.call.go_on()

    def stage_k(self, x: int, l: int, p: int) -> None:
        """Stage the K row of a layer at position p."""
        self._stage(x, l, 0, p)

    def stage_v(self, x: int, l: int, p: int) -> None:
        """Stage the V row of a layer at position p."""
        self._stage(x, l, 1, p)

    def prepare(self, x: int) -> None:
        """The forward call has returned with logits, and the append is complete."""
        self.cache.prepare(x)
        running = self._calls[x]
        if running.call is not None:
            running.call.finish()

    def publish(self, x: int) -> None:
        """Make the append visible."""
        self.cache.publish(x)

    def retry(self, x: int, h: int, k: int, v: int, n: int) -> None:
        """Ask for the receipt again."""
        self.cache.retry(x, h, k, v, n)

    def forget(self, x: int) -> None:
        """Drop the record of an ended append."""
        self.cache.forget(x)

    def cancel_txn(self, x: int) -> None:
        """Abort an append; an exception ends its forward call."""
        self.cache.cancel_txn(x)
        self._cut_ended()

    def fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        """Give the first n rows to all children."""
        self.cache.fork(p, [h for h, is_child in enumerate(children) if is_child], n)

    def truncate(self, h: int, n: int) -> None:
        """Go back to the first n rows."""
        self.cache.truncate(h, n)

    def cancel_request(self, h: int) -> None:
        """End a request early; exceptions end its forward calls."""
        self.cache.cancel_request(h)
        self._cut_ended()

    def finish(self, h: int) -> None:
        """End a request."""
        self.cache.finish(h)

    def release(self, h: int) -> None:
        """Give up the rows of an ended request."""
        self.cache.release(h)

    # Observation.

    def can_try(self, action: str, values: Mapping[str, Any]) -> bool:
        """Rows of a layer can be staged once the forward call has made them."""
        if action in {"stage_k", "stage_v"}:
            x = int(values["x"])
            is_open = self.cache.appends[x].state == "OPEN"
            return not is_open or int(values["l"]) <= self._calls[x].layer
        return True

    def observe(self) -> Observed:
        """Every variable of the core system, read off the wrapper's tables and tensors."""
        return {name: tuple(read(self.cache)) for name, read in READERS.items()}

    def damage(self) -> list[Damage]:
        """Logits that are not those of an uncached run of the committed tokens, in a batch of one."""
        found = []
        for h, request in enumerate(self.cache.requests):
            if request.phase in FREE:
                continue
            layers, abi = self.cache.layers, request.abi or 0
            cached = self.library.forward(tiny_llama(layers, abi), [PROBE], self.cache.reader(h))
            right = uncached_logits(layers, abi, (*request.snapshot.ids, PROBE))
            apart = float((cached - right).abs().max())
            found += logits_damage(h, apart)
        return found

    def describe(self) -> str:
        """Phase, snapshot and rows of each request."""
        return "; ".join(
            f"handle{h}: {request.phase}, snapshot {request.snapshot.version}, layers "
            f"{[keys.shape[-2] for keys, _ in request.snapshot.rows]}"
            for h, request in enumerate(self.cache.requests)
        )

    # Within.

    def _stage(self, x: int, l: int, part: int, p: int) -> None:
        """Hand over one row; a call goes on once its layer is complete."""
        append, running = self.cache.appends[x], self._calls[x]
        self.cache.stage_row(x, l, part, p, self._row(x, l, part, p))
        end = append.start + len(append.ids)
        if running.call is not None and append.ends[l] == [end, end]:
            running.call.go_on()
            if l + 1 < self.cache.layers:
                running.call.go_on()

    def _row(self, x: int, l: int, part: int, p: int) -> Tensor:
        """The row [1, H_kv, 1, d_h] that the call made; of one that it never made, no number."""
        append, running = self.cache.appends[x], self._calls[x]
        place = p - append.start
        if running.layer == l and running.rows and 0 <= place < running.rows[part].shape[-2]:
            return running.rows[part][..., place : place + 1, :]
        return torch.full((1, 1, 1, 1), float("nan"))

    def _cut_ended(self) -> None:
        for append, running in zip(self.cache.appends, self._calls, strict=True):
            if append.state not in LIVE:
                _cut(running)


def transactional_cache() -> TransactionalAdapter:
    """An adapter of the wrapper: the factory for `kvspec conform`."""
    return TransactionalAdapter()


def _cut(running: _Running) -> None:
    if running.call is not None:
        running.call.cut()


Reader = Callable[[TransactionalCache], list[Value]]


def _requests(read: Callable[[Request], Value]) -> Reader:
    return lambda held: [read(request) for request in held.requests]


def _appends(read: Callable[[Append], Value]) -> Reader:
    return lambda held: [read(append) for append in held.appends]


def _batch(read: Callable[[Row], Value], otherwise: Value) -> Reader:
    return lambda held: [otherwise if row is None else read(row) for row in held.batch.rows]


def _rows(part: int) -> Reader:
    """Rows of a part that a reader sees, the prompt's left out, for each handle and layer."""

    def read(held: TransactionalCache) -> list[Value]:
        found: list[Value] = []
        for request in held.requests:
            rows = request.snapshot.rows
            prompt = request.snapshot.prompt
            found += (
                [int(pair[part].shape[-2]) - prompt for pair in rows] if rows else [0] * held.layers
            )
        return found

    return read


def _ends(part: int) -> Reader:
    return lambda held: [pair[part] for append in held.appends for pair in append.ends]


def _ack(place: int, otherwise: Value) -> Reader:
    return _appends(lambda append: otherwise if append.ack is None else append.ack[place])


READERS: dict[str, Reader] = {
    "phase": _requests(lambda request: request.phase),
    "generation": _requests(lambda request: request.generation),
    "version": _requests(lambda request: request.snapshot.version),
    "abi": _requests(lambda request: request.abi),
    "parent": _requests(lambda request: request.parent),
    "length": _requests(lambda request: request.snapshot.length),
    "k_rows": _rows(0),
    "v_rows": _rows(1),
    "filled": lambda held: [bool(block.rows) for block in held.blocks],
    "owner": lambda held: [
        h in block.owners for block in held.blocks for h in range(len(held.requests))
    ],
    "row_cache": _batch(lambda row: row.handle, None),
    "row_tokens": _batch(lambda row: row.tokens_of, None),
    "row_sampler": _batch(lambda row: row.sampler.initial_seed(), None),
    "row_ancestry": _batch(lambda row: row.parent, None),
    "row_position": _batch(lambda row: row.position, 0),
    "state": _appends(lambda append: append.state),
    "target": _appends(lambda append: append.target),
    "base_generation": _appends(lambda append: append.base_generation),
    "base_version": _appends(lambda append: append.base.version),
    "txn_abi": _appends(lambda append: append.abi),
    "key": _appends(lambda append: append.key),
    "start": _appends(lambda append: append.start),
    "count": _appends(lambda append: len(append.ids)),
    "k_end": _ends(0),
    "v_end": _ends(1),
    "receipt": _appends(lambda append: append.receipt),
    "acked": _appends(lambda append: append.ack is not None),
    "ack_handle": _ack(0, None),
    "ack_key": _ack(1, None),
    "ack_base": _ack(2, 0),
    "ack_count": _ack(3, 0),
    "ack_receipt": _ack(4, 0),
}
"""How each variable of the core system is read."""
