"""Rows that are shifted in place on real K: edits of a sequence, rotations put down and applied, and faults.

Modelled: a sequence whose rows lie in cells. A row has the K and V that the decoder made, turned for a
position; an edit takes rows out and shifts those behind them, and a flush turns their K by what is pending,
on the tensors. A decode step reads every row where it is said to stand. The list of tokens is kept apart
from the rows, as an engine keeps it.
Damage: rows that are missing or left over, in bytes; and logits, of decode steps that were taken and of one
that would come next once every shift is applied. They are held against the same K and V, each turned from
where it was made to the place of its token in the list, in one go. An edit changes what later rows were
computed from, so that an uncached run of the new list is no measure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final

import torch
from attrs import define
from torch import Tensor

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.ops import rotate
from kvspec.spec.language import Instance

FAULTS: Final = {
    "drop.removes-in-old-coordinates": "rows are removed at the run's place in the old list",
    "drop.shifts-in-old-coordinates": "rows behind the run's place in the old list are shifted",
    "drop.the-last-shift-alone": "the last shift takes the place of those that are pending",
    "add.drop-guard.SHIFT_PENDING": "a decode step reads rows before their shift is applied",
}
"""Every fault that the cache can be given, by name, with what it does."""

TOLERANCE: Final = 1e-9
"""Logits in float64 that are no further apart are equal: turning K twice rounds twice."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Row:
    """A row in its cell: K and V [L, 1, H_kv, 1, d_h], and what is kept beside them.

    position: where it is said to stand. rotated: for which position its K is turned. pending: by how much
    it is still to be turned back. made, made_at: its K as the decoder made it, and for which position.
    """

    keys: Tensor
    values: Tensor
    position: int
    rotated: int
    pending: int
    made: Tensor
    made_at: int


class Reading:
    """A cache for one query: it reads given rows where they are said to stand, and keeps what is new."""

    def __init__(self, rows: Iterable[tuple[Tensor, Tensor, int]], own: int) -> None:
        self.rows = list(rows)
        self.own = own
        self.staged: dict[tuple[int, Part], Tensor] = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep the row of the query."""
        self.staged[layer, part] = rows

    def view(self, layer: int) -> KVView:
        """Every row, and the query's own."""
        keys = [keys[layer] for keys, _, _ in self.rows] + [self.staged[layer, Part.KEY]]
        values = [values[layer] for _, values, _ in self.rows] + [self.staged[layer, Part.VALUE]]
        where = torch.tensor([*(place for _, _, place in self.rows), self.own])
        return KVView(torch.cat(keys, dim=2), torch.cat(values, dim=2), where)


class Cache:
    """A sequence whose rows are shifted in place; it speaks of the system `positions`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self.faults = known_faults(faults, FAULTS)
        self.decoder = Decoder(DecoderConfig(dtype=torch.float64), torch.device("cpu"))
        self._clear(0)

    def _clear(self, cells: int) -> None:
        self.cells = cells
        self.rows: dict[int, Row] = {}
        self.new: list[int] = []
        self.old: list[int] | None = None
        self.seen = 0
        self.read: list[Damage] = []

    def reset(self, instance: Instance) -> None:
        """Begin with an empty sequence, of as many cells as the instance has."""
        self._clear(instance.sizes["Cell"])

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it by a check of this cache and change nothing."""
        actions: dict[str, Callable[..., None]] = {
            "add": self._add,
            "open_edit": self._open,
            "keep": self._keep,
            "drop": self._drop,
            "close_edit": self._close,
            "flush": self._flush,
        }
        values: dict[str, Any] = dict(event.values)
        try:
            actions[event.action](**values)
        except RefusedError as refused:
            return Reply(False, refused.code, str(refused))
        return Reply(True)

    def observe(self) -> State:
        """The two lists, the rows, and the cursors."""
        fates = dict.fromkeys(range(self.cells), ("ABSENT", 0))
        fates |= {cell: ("KEPT", place) for place, cell in enumerate(self.new)}
        for place, cell in enumerate(self.old or ()):
            if place >= self.seen:
                fates[cell] = ("UNDECIDED", place)
        rows = [self.rows.get(cell) for cell in range(self.cells)]
        editing = self.old is not None
        return State(
            (
                tuple(fate for fate, _ in fates.values()),
                tuple(place for _, place in fates.values()),
                tuple(row is not None for row in rows),
                tuple(row.position if row else 0 for row in rows),
                tuple(row.rotated if row else 0 for row in rows),
                tuple(row.pending if row else 0 for row in rows),
                (len(self.new if self.old is None else self.old),),
                (editing,),
                (self.seen,),
                (len(self.new) if editing else 0,),
            )
        )

    def damage(self) -> list[Damage]:
        """Decode steps that read wrong logits, rows missing or left over, and the logits to come."""
        due = self._due()
        found = list(self.read)
        for cell in sorted(due.keys() ^ self.rows.keys()):
            what = "has no row" if cell in due else "left the list and its row is read"
            text = f"the token of cell{cell} {what}"
            found.append(Damage("rows", f"cell{cell}", float(self._row_bytes()), text))
        applied = [
            (self._turned(row.keys, -row.pending), row.values, row.position)
            for row in self.rows.values()
        ]
        return found + self._compare(applied, "the next step")

    def _row_bytes(self) -> int:
        config = self.decoder.config
        return 2 * config.layers * config.kv_heads * config.head_dim * torch.float64.itemsize

    def _turned(self, keys: Tensor, by: int) -> Tensor:
        where = torch.full((1, 1), by)
        return torch.stack([rotate(k, where, self.decoder.config.rope_theta) for k in keys])

    def _due(self) -> dict[int, int]:
        """The place of every token that is, or may stay, in the list."""
        waiting = [] if self.old is None else self.old[self.seen :]
        return {cell: place for place, cell in enumerate([*self.new, *waiting])}

    def _logits(self, rows: list[tuple[Tensor, Tensor, int]], token: int) -> tuple[Tensor, Reading]:
        reading = Reading(rows, len(self._due()))
        tokens, where = torch.tensor([[token]]), torch.tensor([reading.own])
        return self.decoder.forward(tokens, where, reading)[0, 0], reading

    def _compare(self, rows: list[tuple[Tensor, Tensor, int]], what: str) -> list[Damage]:
        """The damage of a query that reads the rows, against the rows that the list of tokens asks for."""
        token = self._token(self.cells)
        due = [
            (self._turned(row.made, place - row.made_at), row.values, place)
            for cell, place in self._due().items()
            for row in [self.rows.get(cell)]
            if row is not None
        ]
        off = float((self._logits(rows, token)[0] - self._logits(due, token)[0]).abs().max())
        text = f"logits of {what} are off by {off:.3g}"
        return [Damage("logits", what, off, text)] if off > TOLERANCE else []

    def _token(self, cell: int) -> int:
        return (7 * cell + 3) % self.decoder.config.vocab

    def _add(self, c: int) -> None:
        """A decode step reads every row as it is, and adds one of its own."""
        if self.old is not None:
            raise RefusedError("EDIT_OPEN", "a sequence is not read while an edit is open")
        if c in self.rows or c in self.new:
            raise RefusedError("CELL_TAKEN", f"cell{c} has a row")
        turning = [cell for cell, row in self.rows.items() if row.pending]
        if turning and "add.drop-guard.SHIFT_PENDING" not in self.faults:
            raise RefusedError("SHIFT_PENDING", f"shifts of cells {turning} are not applied")
        rows = [(row.keys, row.values, row.position) for row in self.rows.values()]
        self.read += self._compare(rows, f"the step into cell{c}")
        _, reading = self._logits(rows, self._token(c))
        layers = range(self.decoder.config.layers)
        keys = torch.stack([reading.staged[layer, Part.KEY] for layer in layers])
        values = torch.stack([reading.staged[layer, Part.VALUE] for layer in layers])
        place = len(self.new)
        self.rows[c] = Row(keys, values, place, place, 0, keys.clone(), place)
        self.new.append(c)

    def _open(self) -> None:
        if self.old is not None:
            raise RefusedError("EDIT_OPEN", "another edit is open")
        self.old, self.new, self.seen = self.new, [], 0

    def _edited(self) -> list[int]:
        if self.old is None:
            raise RefusedError("NO_EDIT", "no edit is open")
        return self.old

    def _keep(self, c: int) -> None:
        if self.old is None or self.seen >= len(self.old) or self.old[self.seen] != c:
            raise RefusedError("NOT_NEXT", f"cell{c} is not at {self.seen} of the old list")
        self.new.append(c)
        self.seen += 1

    def _drop(self, n: int) -> None:
        """Take rows out at the cursor of the new list, and shift those behind them."""
        old = self._edited()
        if n < 1:
            raise RefusedError("EMPTY_RUN", "the run has no token")
        if self.seen + n > len(old):
            raise RefusedError(
                "BEYOND_LIST", f"the old list has {len(old) - self.seen} more tokens"
            )
        removed_from = shifted_from = len(self.new)
        if "drop.removes-in-old-coordinates" in self.faults:
            removed_from = self.seen
        if "drop.shifts-in-old-coordinates" in self.faults:
            shifted_from = self.seen
        for cell, row in list(self.rows.items()):
            if removed_from <= row.position < removed_from + n:
                del self.rows[cell]
            elif row.position >= shifted_from + n:
                row.position -= n
                alone = "drop.the-last-shift-alone" in self.faults
                row.pending = n if alone else row.pending + n
        self.seen += n

    def _close(self) -> None:
        """What the edit has not come to leaves, with every row behind those that stay."""
        self._edited()
        for cell, row in list(self.rows.items()):
            if row.position >= len(self.new):
                del self.rows[cell]
        self.old, self.seen = None, 0

    def _flush(self) -> None:
        """Turn K of every row that has a shift pending, on its tensor."""
        turning = [row for row in self.rows.values() if row.pending]
        if not turning:
            raise RefusedError("NOTHING_PENDING", "no row has a shift to apply")
        for row in turning:
            row.keys = self._turned(row.keys, -row.pending)
            row.rotated -= row.pending
            row.pending = 0
