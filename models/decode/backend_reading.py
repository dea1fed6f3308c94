"""What a reader of a handle gets: one snapshot of all layers, or a refusal.

Modelled: a reader takes the slot's entry, one reference, and reads everything from it; the prefix
block is memory that the entry points to. Left out: readers still at work when their block is
evicted; the specification leaves reads in flight out too.
"""

from __future__ import annotations

from typing import ClassVar

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.backend_model import PREFIX_ROWS
from kvspec.models.decode.backend_tables import Entry, Pool, Tables
from kvspec.models.decode.decoder import positions_from
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.shapes import Lengths, Snapshot


class NotReadableError(DecodeError):
    """The handle holds no rows: it is vacant or released."""

    code: ClassVar[str] = "NOT_READABLE"


@frozen(eq=False)
class View:
    """A handle as one reader sees it.

    Attributes:
        handle: the handle.
        entry: the request at that moment.
    """

    handle: int
    entry: Entry
    _pool: Pool
    _rows: Snapshot

    @property
    def ids(self) -> tuple[int, ...]:
        """Prompt and committed tokens."""
        return self.entry.prompt + self.entry.tokens

    def lengths(self) -> Lengths:
        """Rows of K and of V behind the prompt, for each layer; all equal in a sound backend."""
        return self._rows.lengths()

    def is_even(self) -> bool:
        """Every part of every layer has one row for each committed token."""
        length = len(self.entry.tokens)
        return all(pair == (length, length) for pair in self.lengths())

    @torch.inference_mode()
    def layers(self) -> list[tuple[Tensor, Tensor]]:
        """K and V of each layer, prompt rows first, [1, H_kv, P + R, d_h] each, from memory now.

        R is the number of committed tokens T, or less where a window dropped rows.
        """
        found = []
        for layer in range(self._pool.keys.shape[0]):
            keys, values = self._rows.read(layer)
            if self.entry.block is not None:
                before_keys, before_values = self._pool.read(self.entry.block, layer)
                keys = torch.cat((before_keys, keys), dim=2)
                values = torch.cat((before_values, values), dim=2)
            found.append((keys, values))
        return found

    def positions(self) -> list[Tensor]:
        """The position of each row of ``layers``, prompt rows first, int64 [P + R] for each layer.

        R is the number of rows that K and V both have behind the prompt, without dropped ones.
        """
        prompt = 0 if self.entry.block is None else PREFIX_ROWS
        first = positions_from(0, prompt, self._pool.keys.device)
        return [
            torch.cat((first, self._rows.positions(layer) + prompt))
            for layer in range(self._pool.keys.shape[0])
        ]


def view_of(tables: Tables, handle: int) -> View:
    """What a reader of the handle sees now; takes no lock.

    Raises:
        NotReadableError: the handle holds no rows.
    """
    entry = tables.slots[handle].shown
    if entry.rows is None:
        raise NotReadableError(
            where=f"read of handle{handle}",
            found=f"the phase {entry.phase}",
            expected="a request that holds rows",
            fix="read before release, or allocate anew",
        )
    return View(handle, entry, tables.pool, entry.rows)


def content(layers: list[tuple[Tensor, Tensor]]) -> bytes:
    """The bytes of all rows, one layer after the other."""
    parts = [part.contiguous().view(torch.uint8).cpu() for pair in layers for part in pair]
    return b"|".join(part.numpy().tobytes() for part in parts)
