"""What is kept of the handles of a log: of one that is live, and of one that was released."""

from __future__ import annotations

from typing import NamedTuple

from kvspec.models.concrete.compiled import Cells
from kvspec.properties.audit.memory import Outputs
from kvspec.properties.audit.window import TXNS
from kvspec.spec.documents.log import HandleEnd


class Live:
    """What is kept of a live handle: the cells of its window, its appends by name, and its outputs.

    losses: events that its source had lost before the handle began. followed: false once an event
    could not be explained. since: where its generation began. taken: no earlier generation was seen.
    """

    __slots__ = (
        "cells",
        "followed",
        "losses",
        "names",
        "next",
        "operations",
        "outputs",
        "since",
        "taken",
        "trace",
    )

    def __init__(self, cells: Cells, trace: str, losses: int, outputs: Outputs) -> None:
        self.cells = cells
        self.since = 0
        self.taken = False
        self.trace = trace
        self.losses = losses
        self.outputs = outputs
        self.followed = True
        self.operations: dict[str, int] = {}
        self.names: list[str | None] = [None] * TXNS
        self.next = 0


class Gone(NamedTuple):
    """What is kept of a released handle. generation: its next one. at: where it was released.

    snapshot, rows: what a reader would see of it; none where it was no longer followed.
    """

    generation: int
    at: int
    snapshot: int | None = None
    rows: int = 0

    def end(self, name: str) -> HandleEnd | None:
        """Where the handle is; none of one that was no longer followed."""
        if self.snapshot is None:
            return None
        return HandleEnd(
            request_id=name,
            handle_generation=self.generation - 1,
            end_generation=self.generation,
            phase="RELEASED",
            snapshot=self.snapshot,
            committed_tokens=self.rows,
        )
