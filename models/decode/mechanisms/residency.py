"""Windowed layers on the decode backend: rows that queries are given, masks over them, and faults.

Modelled: a decoder with a window, whose committed rows the backend keeps. Beside them each layer counts
from where on it has rows: what lies before is given to no query. A query of an append is given those rows,
the append's, and a mask with so many columns, from the right. A row without a column is not hidden.
Left out: the memory of rows that were let go, which the backend's layout keeps. Every layer is windowed.
Damage: logits of the next query of a request, from the rows that it would be given, against those from
all rows; logits of a query whose mask had too few columns, against an uncached run; rows beyond what a
window and the rows to go back by take, in bytes; and all that the backend measures.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
import torch
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import PREFIX_ROWS, Run, token_of
from kvspec.models.decode.backend_tables import Entry, RefusedError
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.mechanisms.slot_rows import is_apart
from kvspec.spec.core import system as core
from kvspec.spec.language import Instance

FAULTS: Final = {
    "stage_k.window-and-query-alone": "a mask is no wider than the window",
    "stage_k.lets-go-while-open": "rows are let go when a row is staged",
    "truncate.drop-guard.WINDOW_GONE": "a truncate goes back to where rows are gone",
    "fork.drop-guard.WINDOW_GONE": "a fork is made where rows are gone",
    "publish.drop-assignment.first": "no row is ever let go",
}
"""Every fault that the cache can be given, by name, with what it does."""

Rows = list[tuple[Tensor, Tensor]]
"""K and V of each layer, [1, H_kv, R, d_h]."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(DecodeBackend):
    """The decode backend with layers that let go of rows; it speaks of the system `residency`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.width = 1
        self.rewind = 0
        self.first: list[list[int]] = []
        self._moving: dict[int, tuple[Entry, list[int]]] = {}
        self.columns: list[list[int]] = []
        self.narrow: list[Damage] = []

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `residency`."""
        constants = dict(instance.constants)
        self.width = self.window = max(1, constants.pop("window"))
        self.rewind = constants["rewind"]
        super().reset(
            attrs.evolve(
                instance, system=core, constants=constants, limits=(), initial={}, expected=None
            )
        )
        sizes, layers = instance.sizes, instance.sizes["Layer"]
        self.first = [[0] * layers for _ in range(sizes["Handle"])]
        self.columns = [[0] * layers for _ in range(sizes["Txn"])]
        self.narrow = []
        plain = dict(self._actions)
        self._actions |= {
            "begin": lambda **names: self._begin(plain["begin"], **names),
            "stage_k": lambda x, l, p: self._stage(plain["stage_k"], x, l, p),
            "publish": lambda x: self._publish(plain["publish"], x),
            "truncate": lambda h, n: self._truncate(plain["truncate"], h, n),
            "fork": lambda p, children, n: self._fork(plain["fork"], p, children, n),
            "release": lambda h: self._release(plain["release"], h),
        }

    def observe(self) -> State:
        """The state of the core, the first resident rows, and the widths of masks."""
        layers = self._held().shape.layers
        first = tuple(place for h in range(len(self.first)) for place in self._shown_first(h))
        columns = tuple(width for listed in self.columns for width in listed)
        return State((*super().observe().tables, (True,) * layers, first, columns))

    def damage(self) -> list[Damage]:
        """What the backend measures, windows with gaps, narrow masks, and rows let go too soon or late."""
        found = [*super().damage(), *self.narrow]
        for h, slot in enumerate(self._held().slots):
            if slot.entry.rows is not None and slot.entry.tokens:
                found += self._gap(h) + self._surplus(h) + self._ahead(h)
        return found

    def _shown_first(self, h: int) -> list[int]:
        """The first resident rows that belong to the entry which a reader of the handle sees now."""
        before, moved = self._moving.get(h, (None, []))
        return self.first[h] if before is None or self._shown(h) is before else moved

    def _shown(self, h: int) -> Entry:
        return self._held().slots[h].shown

    def _carry_out(self, moved: dict[int, list[int]], act: Callable[[], None]) -> None:
        """Carry out a step in which handles get other first rows in the moment of the swap."""
        self._moving = {h: (self._shown(h), first) for h, first in moved.items()}
        try:
            act()
            for h, first in moved.items():
                self.first[h] = first
        finally:
            self._moving = {}

    def _needed_from(self, n: int, further: int = 0) -> int:
        return max(0, n + 1 - self.width - further)

    def _has_window(self, h: int, n: int) -> bool:
        return all(min(first, n) <= self._needed_from(n) for first in self.first[h])

    def _run(self, h: int, more: tuple[int, ...] = ()) -> Run:
        entry = self._held().slots[h].entry
        model = self._held().models[entry.abi or 0]
        return model.run(entry.prompt + entry.tokens + more)

    def _begin(self, begin: Any, **names: int) -> None:
        begin(**names)
        self.columns[names["x"]] = [0] * self._held().shape.layers

    def _stage(self, stage: Any, x: int, l: int, p: int) -> None:
        """Stage the row, and make the mask of the query that computes it."""
        stage(x, l, p)
        txn = self._observer.appends.txns[x]
        h = 0 if txn.target is None else txn.target
        given = max(0, p + 1 - self.first[h][l])
        narrow = "stage_k.window-and-query-alone" in self.forgets
        self.columns[x][l] = min(given, self.width) if narrow else given
        if self.columns[x][l] < given:
            self.narrow += self._uncovered(
                h, txn.tokens[: p + 1 - txn.start], given, self.columns[x][l]
            )
        if "stage_k.lets-go-while-open" in self.forgets:
            self.first[h][l] = max(self.first[h][l], self._needed_from(p + 1))

    def _publish(self, publish: Any, x: int) -> None:
        txn = self._observer.appends.txns[x]
        h, stop = txn.target, txn.start + txn.count
        least = self._needed_from(stop, self.rewind)
        moved = {}
        if h is not None and "publish.drop-assignment.first" not in self.forgets:
            moved = {h: [max(first, least) for first in self.first[h]]}
        self._carry_out(moved, lambda: publish(x))

    def _truncate(self, truncate: Any, h: int, n: int) -> None:
        entry = self._held().slots[h].entry
        length = len(entry.tokens)
        cuts = entry.phase == "DECODE_READY" and n <= length <= n + self.rewind
        if cuts and not self._has_window(h, n):
            self._refuse("truncate", h, n)
        cut = [min(first, n) for first in self.first[h]]
        self._carry_out({h: cut}, lambda: truncate(h, n))

    def _fork(self, fork: Any, p: int, children: tuple[bool, ...], n: int) -> None:
        entry = self._held().slots[p].entry
        cuts = entry.phase == "DECODE_READY" and any(children) and n <= len(entry.tokens)
        if cuts and not self._has_window(p, n):
            self._refuse("fork", p, n)
        cut = [min(first, n) for first in self.first[p]]
        made = {child: list(cut) for child, is_made in enumerate(children) if is_made}
        self._carry_out(made, lambda: fork(p, children, n))

    def _refuse(self, action: str, h: int, n: int) -> None:
        if f"{action}.drop-guard.WINDOW_GONE" not in self.forgets:
            raise RefusedError(
                "WINDOW_GONE",
                f"handle{h} has rows from {self.first[h]} on, a query at {n} needs them from "
                f"{self._needed_from(n)} on",
            )

    def _release(self, release: Any, h: int) -> None:
        self._carry_out({h: [0] * self._held().shape.layers}, lambda: release(h))

    def _gap(self, h: int) -> list[Damage]:
        """How far off the next logits are, when the query is given resident rows alone."""
        layers = self.read(h).layers()
        stop = layers[0][0].shape[2]
        whole = [[(row, row) for row in range(stop)] for _ in layers]
        resident = [
            [(row, row) for row in range(stop) if not PREFIX_ROWS <= row < PREFIX_ROWS + first]
            for first in self.first[h]
        ]
        token = token_of("next", h, stop)
        found = self._query(h, layers, resident, token, stop)
        return _compare(f"handle{h}", found, self._query(h, layers, whole, token, stop))

    def _uncovered(self, h: int, tokens: tuple[int, ...], given: int, columns: int) -> list[Damage]:
        """How far off a query's logits are that sees the rows for which its mask has no column."""
        run = self._run(h, tokens)
        own = run.keys.shape[2] - 1
        layers = [
            (k[None, :, :own], v[None, :, :own]) for k, v in zip(run.keys, run.values, strict=True)
        ]
        first, covered = own + 1 - given, own + 1 - columns
        seen = [(row, own if first <= row < covered else row) for row in range(own)]
        found = self._query(h, layers, [seen] * len(layers), tokens[-1], own)
        return _compare(f"handle{h}", found, run.logits)

    def _query(
        self, h: int, layers: Rows, places: list[list[tuple[int, int]]], token: int, own: int
    ) -> Tensor:
        abi = self._held().slots[h].entry.abi or 0
        call = _Query(layers, places, own)
        ids, where = torch.tensor([[token]]), torch.tensor([own])
        return self._held().models[abi].decoder.forward(ids, where, call)[0, 0]

    def _row_bytes(self, h: int) -> int:
        return sum(part[:, :, 0].numel() * part.element_size() for part in self.read(h).layers()[0])

    def _ahead(self, h: int) -> list[Damage]:
        """Bytes of rows that were let go before they were there: the next queries are not given them."""
        length = len(self._held().slots[h].entry.tokens)
        rows = sum(max(0, first - length) for first in self.first[h])
        text = f"handle{h} has let go of {rows} rows beyond its {length}"
        where = f"handle{h}"
        return [Damage("rows", where, float(rows * self._row_bytes(h)), text)] if rows else []

    def _surplus(self, h: int) -> list[Damage]:
        """Bytes of rows that no query can need, however far a truncate may go back."""
        length = len(self._held().slots[h].entry.tokens)
        most = self.width - 1 + self.rewind
        extra = sum(max(0, length - first - most) for first in self.first[h])
        if not extra:
            return []
        text = f"handle{h} keeps {extra} rows beyond the {most} of a layer"
        return [Damage("rows", f"handle{h}", float(extra * self._row_bytes(h)), text)]


class _Query:
    """One query that is given some rows of each layer, each taken to stand at a place."""

    def __init__(self, layers: Rows, places: list[list[tuple[int, int]]], own: int) -> None:
        self._layers = layers
        self._places = places
        self._own = own
        self._staged: dict[tuple[int, Part], Tensor] = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep the row of the query."""
        self._staged[layer, part] = rows

    def view(self, layer: int) -> KVView:
        """The given rows, and the query's own."""
        rows = [row for row, _ in self._places[layer]]
        keys, values = (part[:, :, rows] for part in self._layers[layer])
        where = torch.tensor([*(place for _, place in self._places[layer]), self._own])
        return KVView(
            torch.cat((keys, self._staged[layer, Part.KEY]), dim=2),
            torch.cat((values, self._staged[layer, Part.VALUE]), dim=2),
            where,
        )


def _compare(where: str, found: Tensor, right: Tensor) -> list[Damage]:
    if not is_apart(found, right):
        return []
    off = disagreement(found, right)
    return [Damage("logits", where, off, f"logits of a query of {where} are off by {off:.3g}")]
