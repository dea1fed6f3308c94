"""Both ends of a transfer on real rows: its record, the buffers, and what their bytes say.

A block and an entry have a buffer of K and V rows, and the prompt whose rows it should have.
"""

from __future__ import annotations

import torch
from attrs import define, field

from kvspec.models.decode.mechanisms.tiers_rows import (
    Buffer,
    Chain,
    cached_logits,
    empty,
    rows_of,
    uncached_logits,
)
from kvspec.models.decode.shapes import Cell


@define(eq=False)
class Move:
    """The record of a transfer."""

    stage: str = "IDLE"
    attempt: int = 0
    direction: str = "LOAD"
    serves: int | None = None
    generation: int = 0
    block: int | None = None
    entry: int | None = None
    block_pin: bool = False
    entry_pin: bool = False
    waiter: str = "ABSENT"
    remembered: bool = False
    sender: str = "QUIET"
    lease: str = "ENDED"
    landed: list[bool] = field(factory=list)
    fill: int = 0

    @property
    def is_over(self) -> bool:
        """No attempt is under way."""
        return self.stage in {"IDLE", "VISIBLE", "DRAINED"}

    def end(self, stage: str) -> None:
        """The attempt is over, and pins nothing."""
        self.stage, self.block_pin, self.entry_pin = stage, False, False


@define(eq=False)
class Place:
    """A block or an entry: a buffer, and the prompt whose rows it should have.

    arriving: a load into the block is not admitted. state: what a lookup finds of the entry.
    """

    buffer: Buffer = field(factory=empty)
    prompt: Chain | None = None
    fill: int = 0
    arriving: bool = False
    state: str = "ABSENT"


@define(eq=False)
class Letter:
    """A notice."""

    state: str = "UNUSED"
    of: int | None = None
    attempt: int = 0


def cells_of(layer: int, layers: int) -> list[Cell]:
    """The cells of the decoder that one of so many layers stands for."""
    return [cell for cell in rows_of((0,)) if cell[0] % layers == layer]


def content(place: Place, layer: int, layers: int) -> str:
    """What the bytes of a layer say: the rows of the prompt, nothing, or rows of somebody else."""
    cells = cells_of(layer, layers)
    if place.prompt is not None:
        right = rows_of(place.prompt)
        if all(torch.equal(place.buffer[cell], right[cell]) for cell in cells):
            return "ROWS"
    if all(not place.buffer[cell].any() for cell in cells):
        return "NOTHING"
    return "FOREIGN"


def wrong_bytes(place: Place, layers: int) -> int:
    """Bytes in so many layers that are not those of the prompt."""
    if place.prompt is None or not layers:
        return 0
    right = rows_of(place.prompt)
    return sum(
        int((rows != right[cell]).sum()) * rows.element_size()
        for cell, rows in place.buffer.items()
    )


def logits_off(place: Place) -> float:
    """The largest difference of logits behind the rows of a block to those of an uncached run."""
    if place.prompt is None:
        return 0.0
    off = cached_logits(place.prompt, [place.buffer]) - uncached_logits(place.prompt)
    return float(off.abs().max())
