"""A table of blocks that passes over a real decoder read in place, and metadata staged for them, with faults.

Modelled: each request has one row of a table on the device, a tensor of slot numbers; its rows of K and V
lie in those slots. A row is rewritten when its request, a beam, goes on from another history: other slots,
with other rows; between that and the writing no pass is dispatched on it. A pass reads the table when it
runs, so that it finds what is there by then. Its metadata,
the token and position that it is for, goes through a staging buffer, a tensor that the host writes and an
upload copies.
Damage: the logits of a pass against an uncached run of its request's tokens.
"""

from __future__ import annotations

from functools import cache
from typing import Final

import torch
from attrs import define
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import VOCAB, Model
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.checks import Checked
from kvspec.models.decode.mechanisms.slot_rows import SlotRows, is_apart, small_model
from kvspec.spec.language import Instance

FAULTS: Final = {
    "take_row.drop-guard.ROW_READ": "a row is given away that a pass in flight reads",
    "rewrite_row.drop-guard.ROW_READ": "a row is rewritten that a pass in flight reads",
    "dispatch.drop-guard.BUFFER_READ": "a buffer is written over whose upload has not run",
}
"""Every fault that the tables can be given, by name, with what it does."""

PROMPT: Final = 3
"""Tokens of a history."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the tables behave like a mutation of their rules, or None."""
    return mutation if mutation in FAULTS else None


@cache
def shared_model() -> Model:
    """The decoder of every cache of this kind."""
    return small_model()


@define(eq=False)
class Queued:
    """A pass in flight: what it is to compute, and what it has of that on the device."""

    number: int
    row: int
    captured: int
    tokens: tuple[int, ...]
    buffer: int | None
    metadata: Tensor | None = None


def _named(metadata: Tensor) -> int | None:
    """The pass for which metadata was staged, or None of a buffer that was never written."""
    return int(metadata[0]) if metadata[0] >= 0 else None


class Cache(Checked):
    """The table, the buffers and the passes (`kvspec.models.backend.Backend` of tables).

    Raises:
        ValueError: a fault is not one of ``FAULTS``.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew with a row for each of the instance, and slots for all editions of all rows."""
        rows, editions = instance.sizes["TableRow"], instance.bounds["Edition"]
        self._variables = list(instance.system.variables)
        self._slots = SlotRows(shared_model(), max(1, rows * editions * PROMPT))
        self._table = torch.zeros((rows, PROMPT), dtype=torch.int64)
        self._tokens: list[tuple[int, ...]] = [()] * rows
        self._taken = [False] * rows
        self._outdated = [False] * rows
        self._edition = [0] * rows
        self._fence = [0] * rows
        self._buffers = [torch.tensor([-1, 0, 0]) for _ in range(instance.sizes["Buffer"])]
        self._passes: list[Queued | None] = [None] * instance.sizes["Pass"]
        self._dispatched = self._settled = self._used = self._histories = 0
        self._damage: list[Damage] = []

    def _write(self, r: int) -> None:
        """Another history has its rows in slots that nobody used, and the table names them."""
        first = 3 + 11 * self._histories
        self._histories += 1
        self._tokens[r] = tuple((first + 2 * place) % VOCAB for place in range(PROMPT))
        slots = list(range(self._used, self._used + PROMPT))
        self._used += PROMPT
        self._slots.compute(self._tokens[r], 0, slots)
        self._table[r] = torch.tensor(slots)
        self._edition[r] += 1

    def _take_row(self, r: int) -> None:
        self._need(not self._taken[r], "ROW_IN_USE")
        self._need(self._fence[r] <= self._settled, "ROW_READ")
        self._taken[r] = True
        self._write(r)

    def _rewrite_row(self, r: int) -> None:
        self._need(self._outdated[r], "NOT_OUTDATED")
        self._need(self._fence[r] <= self._settled, "ROW_READ")
        self._outdated[r] = False
        self._write(r)

    def _change_block(self, r: int) -> None:
        self._need(self._taken[r], "ROW_NOT_TAKEN")
        self._need(not self._outdated[r], "ROW_OUTDATED")
        self._outdated[r] = True

    def _return_row(self, r: int) -> None:
        self._need(self._taken[r], "ROW_NOT_TAKEN")
        self._taken[r] = self._outdated[r] = False

    def _dispatch(self, p: int, r: int, s: int) -> None:
        self._need(self._passes[p] is None, "PASS_IN_USE")
        self._need(self._taken[r], "ROW_NOT_TAKEN")
        self._need(not self._outdated[r], "ROW_OUTDATED")
        self._need(all(q is None or q.buffer != s for q in self._passes), "BUFFER_READ")
        self._dispatched += 1
        self._fence[r] = self._dispatched
        tokens = self._tokens[r]
        place = (self._dispatched - 1) % PROMPT
        self._buffers[s][:] = torch.tensor([p, tokens[place], place])
        self._passes[p] = Queued(self._dispatched, r, self._edition[r], tokens[: place + 1], s)

    def _upload(self, p: int) -> None:
        run = self._passes[p]
        if run is None or run.buffer is None:
            raise RefusedError("UPLOADED", "")
        run.metadata, run.buffer = self._buffers[run.buffer].clone(), None

    def _settle(self, p: int) -> None:
        run = self._passes[p]
        if run is None or run.number != self._settled + 1:
            raise RefusedError("PASS_NOT_NEXT", "")
        if run.metadata is None:
            raise RefusedError("NOT_UPLOADED", "")
        self._measure(run, run.metadata)
        self._settled, self._passes[p] = run.number, None

    def _measure(self, run: Queued, metadata: Tensor) -> None:
        """Compute the pass from what the table and its metadata say now, and hold it against its tokens."""
        _, token, place = metadata.tolist()
        layers = self._slots.layers(self._table[run.row].tolist()[: place + 1])
        found = self._slots.next_logits(token, place, layers)
        right = self._slots.model.run(run.tokens).logits
        if is_apart(found, right):
            off = disagreement(found, right)
            text = "logits of the pass, uncached run"
            self._damage.append(Damage("logits", f"pass {run.number}", off, text))

    def observe(self) -> State:
        """Every variable of the system, read off the tables and the buffers."""
        passes = self._passes
        seen: dict[str, list[Value]] = {
            "unsettled": [self._dispatched - self._settled],
            "in_flight": [q is not None for q in passes],
            "pass_number": [0 if q is None else q.number - self._settled for q in passes],
            "taken": list(self._taken),
            "edition": list(self._edition),
            "outdated": list(self._outdated),
            "row_fence": [max(0, fence - self._settled) for fence in self._fence],
            "pass_row": [None if q is None else q.row for q in passes],
            "captured": [0 if q is None else q.captured for q in passes],
            "staged_in": [None if q is None else q.buffer for q in passes],
            "staged_for": [_named(buffer) for buffer in self._buffers],
            "uploaded_for": [
                None if q is None or q.metadata is None else _named(q.metadata) for q in passes
            ],
        }
        return State(tuple(tuple(seen[name]) for name in self._variables))

    def damage(self) -> list[Damage]:
        """Logits of settled passes that are not those of their request."""
        return list(self._damage)
