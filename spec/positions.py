"""Positions apart from rows: a sequence whose rows are shifted when others are taken out before them.

A row stays where it is in memory and has a logical position, which changes when tokens before it leave the
sequence. Its K was rotated for the position that it had. A shift is therefore put down as pending, and
applied by `flush` before attention reads the row; several shifts add up until then.

An edit brings the sequence of an old prompt to that of a new one. It goes through the old list of tokens
from the front: a token stays, or a run of tokens leaves. The edit has two cursors: `seen` counts in the old
list, and `kept` in the new one. Rows have been shifted already for what left before, so what a run has in
the cache lies at `kept`, in new coordinates, and not at `seen`.

Left out: handles, layers and windows (`core`, `residency`), shifts to the back, values of rows.
Free-standing: a row of the core is its position, and that is what this system takes apart. To the core an
edit is one change of a snapshot that no reader sees halfway.
Assumed: a request has its sequence for itself; a row that others share is copied before it is shifted.
"""

from __future__ import annotations

from kvspec.spec.failures import FailureClass
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Step,
    System,
    exists,
    forall,
    instance,
    member,
    where,
)


class Cell(Open):
    """A place for one row in memory, and the token whose row it has."""


class Position(Natural):
    """Logical positions, and counts of tokens."""


class Fate(Enum):
    """Where a token is with respect to the sequence."""

    ABSENT = member()
    KEPT = member()
    UNDECIDED = member()


CELL_TAKEN = ErrorCode("CELL_TAKEN", "the cell has a row", int(FailureClass.NONE))
EDIT_OPEN = ErrorCode("EDIT_OPEN", "an edit of the sequence is open", int(FailureClass.NONE))
NO_EDIT = ErrorCode("NO_EDIT", "no edit of the sequence is open", int(FailureClass.NONE))
SHIFT_PENDING = ErrorCode(
    "SHIFT_PENDING", "a row is not rotated for its position yet", int(FailureClass.POSITION)
)
NOTHING_PENDING = ErrorCode(
    "NOTHING_PENDING", "every row is rotated for its position", int(FailureClass.POSITION)
)
NOT_NEXT = ErrorCode(
    "NOT_NEXT", "the token is not the next one of the old list", int(FailureClass.POSITION)
)
EMPTY_RUN = ErrorCode("EMPTY_RUN", "the run has no token", int(FailureClass.POSITION))
BEYOND_LIST = ErrorCode(
    "BEYOND_LIST", "the run goes beyond the old list", int(FailureClass.POSITION)
)

positions = Module("positions", "Rows, their positions, and edits that shift them.")

fate = positions.variable(
    "fate", Cell, to=Fate, init=Fate.ABSENT, meaning="whether the cell's token is in the sequence"
)
index = positions.variable(
    "index",
    Cell,
    to=Position,
    init=0,
    meaning="place of the token in the list: in the old one until the edit decides on it",
)
held = positions.variable("held", Cell, to=Bool, init=False, meaning="the cell has a row")
position = positions.variable(
    "position", Cell, to=Position, init=0, meaning="logical position of the row"
)
rotated = positions.variable(
    "rotated", Cell, to=Position, init=0, meaning="position for which its K is rotated"
)
pending = positions.variable(
    "pending", Cell, to=Position, init=0, meaning="positions by which it is still to be turned back"
)
size = positions.variable("size", to=Position, init=0, meaning="tokens of the list")
editing = positions.variable("editing", to=Bool, init=False, meaning="an edit is open")
seen = positions.variable(
    "seen", to=Position, init=0, meaning="tokens of the old list that the edit decided on"
)
kept = positions.variable(
    "kept", to=Position, init=0, meaning="tokens of the new list so far: where its next row stands"
)


def leaves(c: Expr, n: Expr) -> Expr:
    """The row is one of the run of n tokens that leaves."""
    return held[c] & (kept[()] <= position[c]) & (position[c] < kept[()] + n)


def follows(c: Expr, n: Expr) -> Expr:
    """The row stands behind the run of n tokens that leaves."""
    return held[c] & (kept[()] + n <= position[c])


def is_dropped(c: Expr, n: Expr) -> Expr:
    """The token is one of the next n in the old list."""
    return (fate[c] == Fate.UNDECIDED) & (index[c] < seen[()] + n)


@positions.action
def add(step: Step, c: Cell) -> None:
    """A decode step reads every row, and adds one of its own behind them."""
    step.require(~editing[()], EDIT_OPEN)
    step.require((fate[c] == Fate.ABSENT) & ~held[c], CELL_TAKEN)
    step.require(forall(Cell, lambda d: pending[d] == 0), SHIFT_PENDING)
    step.assign(fate[c], Fate.KEPT)
    step.assign(index[c], size[()])
    step.assign(held[c], True)
    step.assign(position[c], size[()])
    step.assign(rotated[c], size[()])
    step.assign(size[()], size[()] + 1)


@positions.action
def open_edit(step: Step) -> None:
    """Begin at the front of the list, with nothing decided."""
    step.require(~editing[()], EDIT_OPEN)
    step.assign(editing[()], True)
    for c in step.every(Cell):
        step.assign(fate[c], where(fate[c] == Fate.KEPT, Fate.UNDECIDED, fate[c]))


@positions.action
def keep(step: Step, c: Cell) -> None:
    """The next token of the old list is the next one of the new list."""
    step.require((fate[c] == Fate.UNDECIDED) & (index[c] == seen[()]), NOT_NEXT)
    step.assign(fate[c], Fate.KEPT)
    step.assign(index[c], kept[()])
    step.assign(seen[()], seen[()] + 1)
    step.assign(kept[()], kept[()] + 1)


@positions.action
def drop(step: Step, n: Position) -> None:
    """The next n tokens of the old list leave: their rows are removed, and those behind are shifted."""
    step.require(editing[()], NO_EDIT)
    step.require(n >= 1, EMPTY_RUN)
    step.require(seen[()] + n <= size[()], BEYOND_LIST)
    step.assign(seen[()], seen[()] + n)
    for c in step.every(Cell):
        step.assign(fate[c], where(is_dropped(c, n), Fate.ABSENT, fate[c]))
        step.assign(index[c], where(is_dropped(c, n), 0, index[c]))
        step.assign(held[c], where(leaves(c, n), False, held[c]))
        step.assign(
            position[c],
            where(leaves(c, n), 0, where(follows(c, n), position[c] - n, position[c])),
        )
        step.assign(rotated[c], where(leaves(c, n), 0, rotated[c]))
        step.assign(
            pending[c], where(leaves(c, n), 0, where(follows(c, n), pending[c] + n, pending[c]))
        )


@positions.action
def close_edit(step: Step) -> None:
    """Nothing more of the old list is wanted, at any point: the sequence is what was kept."""
    step.require(editing[()], NO_EDIT)
    step.assign(editing[()], False)
    step.assign(size[()], kept[()])
    step.assign(seen[()], 0)
    step.assign(kept[()], 0)
    for c in step.every(Cell):
        rest = held[c] & (kept[()] <= position[c])
        step.assign(fate[c], where(fate[c] == Fate.UNDECIDED, Fate.ABSENT, fate[c]))
        step.assign(index[c], where(fate[c] == Fate.UNDECIDED, 0, index[c]))
        step.assign(held[c], where(rest, False, held[c]))
        step.assign(position[c], where(rest, 0, position[c]))
        step.assign(rotated[c], where(rest, 0, rotated[c]))
        step.assign(pending[c], where(rest, 0, pending[c]))


@positions.action
def flush(step: Step) -> None:
    """Turn every row by what is pending for it, once."""
    step.require(exists(Cell, lambda c: pending[c] >= 1), NOTHING_PENDING)
    for c in step.every(Cell):
        step.assign(rotated[c], rotated[c] - pending[c])
        step.assign(pending[c], 0)


system = System.of(
    "positions", "Logical positions of rows, and rotations that follow them.", positions
)


def make_instance(name: str, doc: str, cells: int, *, expected: Counts | None = None) -> Instance:
    """A sequence of at most so many rows."""
    return instance(name, system, {Cell: cells, Position: cells}, doc=doc, expected=expected)


TRIPLE = make_instance(
    "TRIPLE",
    "three rows, in any order in memory",
    3,
    expected=Counts(218, 623, 11, 0),
)
QUADRUPLE = make_instance(
    "QUADRUPLE",
    "four rows, in any order in memory",
    4,
    expected=Counts(1_746, 5_862, 14, 0),
)

INSTANCES = (TRIPLE, QUADRUPLE)
