"""What a session keeps beside its cached rows: its tokens, the place of a restore, and images of both.

Modelled: an image has the K and V rows of a snapshot in every layer, its tokens, and a digest of the bytes of
both; a restore copies its rows one by one into a place of the session, where whether there is a row is told
by its bytes alone. The conversation as the client knows it is kept beside the tokens of the cache, and read
by no check: it is what damage is measured against.
Left out: files, and what identifies the model that computed the rows.
"""

from __future__ import annotations

import hashlib

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.decode.backend_reading import View
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.shapes import CacheShape, Cell, Snapshot

Rows = dict[Cell, Tensor]
"""K and V rows [1, H_kv, R, d_h] of every layer."""


@torch.inference_mode()
def own_rows(snapshot: Snapshot, shape: CacheShape) -> Rows:
    """The rows behind the prompt that a reader sees, copied."""
    parts = {layer: snapshot.read(layer) for layer in range(shape.layers)}
    return {
        (layer, part): rows.clone()
        for layer, pair in parts.items()
        for part, rows in zip(Part, pair, strict=True)
    }


@define(eq=False)
class Image:
    """A place for a saved snapshot.

    Attributes:
        rows: its rows, None as long as nothing was saved.
        tokens: its tokens.
        digest: SHA-256 of both, as they were when they were saved.
        told: the conversation as the client knew it then.
    """

    rows: Rows | None = None
    tokens: list[int] = field(factory=list)
    digest: str = ""
    told: list[int] = field(factory=list)

    @classmethod
    def of(cls, rows: Rows, tokens: list[int], told: list[int]) -> Image:
        """The image of a snapshot."""
        made = cls(rows, tokens, told=told)
        made.digest = made.measured()
        return made

    @property
    def count(self) -> int:
        """How many rows it has."""
        return 0 if self.rows is None else next(iter(self.rows.values())).shape[2]

    @property
    def is_damaged(self) -> bool:
        """Its bytes are not those that were saved."""
        return self.rows is not None and self.digest != self.measured()

    def measured(self) -> str:
        """The digest of the bytes that are there."""
        found = hashlib.sha256(repr(self.tokens).encode())
        for part in (self.rows or {}).values():
            found.update(part.contiguous().view(torch.uint8).numpy().tobytes())
        return found.hexdigest()

    @torch.inference_mode()
    def lose(self) -> None:
        """Lose some bytes: a sign in the last row, or a bit of the last token, or the digest."""
        if self.is_damaged:
            return
        if self.rows is not None and self.count:
            self.rows[next(reversed(self.rows))][:, -1, -1, -1] *= -1
        elif self.tokens:
            self.tokens[-1] ^= 1
        else:
            self.digest = self.digest[::-1]


class Place:
    """Where a restore writes the rows of a session, one behind the other; zeros where there is none."""

    def __init__(self, shape: CacheShape, rows: int) -> None:
        self.cells: Rows = {
            cell: torch.zeros(shape.rows(rows), dtype=shape.dtype) for cell in shape.cells()
        }

    @property
    def written(self) -> int:
        """How many rows are there, whosever they are."""
        held = [(cell != 0).any(dim=3).any(dim=1)[0] for cell in self.cells.values()]
        return int(torch.stack(held).any(dim=0).sum())

    @torch.inference_mode()
    def write(self, image: Image, row: int) -> None:
        """Copy one row of an image."""
        for cell, rows in (image.rows or {}).items():
            self.cells[cell][:, :, row] = rows[:, :, row]

    def first(self, count: int) -> Rows:
        """The first rows, copied."""
        return {cell: rows[:, :, :count].clone() for cell, rows in self.cells.items()}

    @torch.inference_mode()
    def clear(self) -> None:
        """No row is there."""
        for cell in self.cells.values():
            cell.zero_()


@define(eq=False)
class Session:
    """A handle's session.

    Attributes:
        client: whether it has a client; ``turn``: where its turn is; ``busy``: it takes no other turn.
        completed: rows at the end of the last completed turn.
        tokens: its tokens behind the prompt, the last of which has no row yet.
        told: the same, as its client knows them.
        restore: where a restore is, of the image ``source``, into ``place``.
        was_refused: the image that is being restored was found to be damaged.
        read: the tokens that were read of an image, which was whole then; what it loses later is no matter.
    """

    place: Place
    client: str = "NONE"
    turn: str = "NONE"
    busy: bool = False
    completed: int = 0
    tokens: list[int] = field(factory=list)
    told: list[int] = field(factory=list)
    restore: str = "NONE"
    source: int | None = None
    was_refused: bool = False
    read: list[int] = field(factory=list)

    def end_turn(self) -> None:
        """No turn, and ready for another one."""
        self.turn, self.busy = "NONE", False

    def end_restore(self, *, keep_rows: bool = False) -> None:
        """No restore, and no row of one in its place."""
        self.restore, self.source, self.was_refused = "NONE", None, False
        if not keep_rows:
            self.place.clear()


class Reading:
    """What the layers read in a step of a session: its rows, those in its place, and the step's own."""

    def __init__(self, view: View, place: Place, prompt: int, where: Tensor) -> None:
        self._layers, self._positions = view.layers(), view.positions()
        self._left, self._count = place.cells, place.written
        self._prompt, self._where = prompt, where
        self._staged: Rows = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep the row of the step."""
        self._staged[layer, part] = rows

    @torch.inference_mode()
    def view(self, layer: int) -> KVView:
        """All of them, each at the position at which it was computed."""
        keys, values = (
            torch.cat((rows, self._left[cell][:, :, : self._count], self._staged[cell]), dim=2)
            for rows, cell in zip(
                self._layers[layer], ((layer, part) for part in Part), strict=True
            )
        )
        left = torch.arange(self._prompt, self._prompt + self._count)
        return KVView(keys, values, torch.cat((self._positions[layer], left, self._where)))
