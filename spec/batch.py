"""The batch: rows that carry a request's companions side by side, and move them together.

Modelled: a row has the cache handle, the identity of its tokens and output, its sampler and random
state, its ancestry and its next position. Reorder applies one permutation to all of them; a map that
takes one row twice is no reorder but select and fork.
Left out: which requests are chosen for a batch, and scores of beams.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    HANDLE_TERMINAL,
    IN_BATCH,
    NOT_A_PERMUTATION,
    NOT_IN_BATCH,
    ROW_TAKEN,
)
from kvspec.spec.handles import Handle, Length, Phase, handles, length, parent, phase
from kvspec.spec.language import (
    Expr,
    Map,
    Module,
    Open,
    Option,
    Step,
    bijective,
    exists,
    forall,
    is_some,
    none,
    where,
)


class Row(Open):
    """A row of the running batch."""


batch = Module("batch", "Rows of the running batch and their companions.", uses=(handles,))

row_cache = batch.variable(
    "row_cache", Row, to=Option[Handle], init=none(Handle), meaning="cache handle of the row"
)
row_tokens = batch.variable(
    "row_tokens",
    Row,
    to=Option[Handle],
    init=none(Handle),
    meaning="whose tokens and output it has",
)
row_sampler = batch.variable(
    "row_sampler", Row, to=Option[Handle], init=none(Handle), meaning="whose sampler state it has"
)
row_ancestry = batch.variable(
    "row_ancestry", Row, to=Option[Handle], init=none(Handle), meaning="parent of the row's request"
)
row_position = batch.variable(
    "row_position", Row, to=Length, init=0, meaning="position of the next token of the row"
)


@batch.action
def enter(step: Step, r: Row, h: Handle) -> None:
    """Put a ready request into an empty row, with all its companions."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~is_some(row_cache[r]), ROW_TAKEN)
    step.require(forall(Row, lambda s: row_cache[s] != h), IN_BATCH)
    step.assign(row_cache[r], h)
    step.assign(row_tokens[r], h)
    step.assign(row_sampler[r], h)
    step.assign(row_ancestry[r], parent[h])
    step.assign(row_position[r], length[h])


@batch.action
def leave(step: Step, h: Handle) -> None:
    """Take a request out of the batch and clear its row."""
    step.require(exists(Row, lambda r: row_cache[r] == h), NOT_IN_BATCH)
    for r in step.every(Row):
        hit = row_cache[r] == h
        step.assign(row_cache[r], where(hit, None, row_cache[r]))
        step.assign(row_tokens[r], where(hit, None, row_tokens[r]))
        step.assign(row_sampler[r], where(hit, None, row_sampler[r]))
        step.assign(row_ancestry[r], where(hit, None, row_ancestry[r]))
        step.assign(row_position[r], where(hit, 0, row_position[r]))


@batch.action
def reorder(step: Step, source: Map[Row, Row]) -> None:
    """Move every companion of row source[r] to row r, all rows at once."""
    step.require(bijective(source), NOT_A_PERMUTATION)
    for r in step.every(Row):
        step.assign(row_cache[r], row_cache[source[r]])
        step.assign(row_tokens[r], row_tokens[source[r]])
        step.assign(row_sampler[r], row_sampler[source[r]])
        step.assign(row_ancestry[r], row_ancestry[source[r]])
        step.assign(row_position[r], row_position[source[r]])


def move_rows_of(step: Step, h: Expr, position: Expr) -> None:
    """The rows that carry the handle go to another position, with the handle."""
    for r in step.every(Row):
        step.assign(row_position[r], where(row_cache[r] == h, position, row_position[r]))
