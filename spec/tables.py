"""Tables: a row that names the blocks of a request, and the metadata that a pass is given of it.

A pass reads two things that the host writes: the row of its request in the device's table, in place, when
it runs; and metadata that the host puts into a staging buffer, from which it is uploaded some time after
the dispatch. Both are resources with readers. A row has a version, one more for each time that it is written
anew; a pass captures the version at dispatch, and the row is not written again before that pass has
settled (`row_fence`), whoever has it by then. A buffer is not written again before its upload has run.
A row that is to be written anew is drained: no pass is dispatched on it, since with run-ahead each pass
overlaps the next, and the last reader would never come.

Modelled: rows are taken, rewritten (a block was swapped or copied) and returned; run-ahead; uploads that
run late. Left out: rows that grow at their end, which no reader in flight looks at; what a row names; the
life of requests beyond that they take and return a row, so that the core is not needed here.
Assumed: uploads and passes each run on the device, uploads before their pass.
"""

from __future__ import annotations

from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    exists,
    instance,
    is_some,
    limit,
    none,
    the,
)
from kvspec.spec.passes import (
    Pass,
    Tick,
    dispatch,
    dispatches_below_the_last_tick,
    has_passed,
    one_less,
    passes,
    settle,
    unsettled,
)


class TableRow(Open):
    """A row of the device's table of requests."""


class Buffer(Open):
    """A staging buffer on the host."""


class Edition(Natural):
    """How many times a row was written."""


ROW_IN_USE = error_code("ROW_IN_USE", "a request has the row")
ROW_NOT_TAKEN = error_code("ROW_NOT_TAKEN", "no request has the row")
NOT_OUTDATED = error_code("NOT_OUTDATED", "the mapping in the row is the one that its request has")
ROW_OUTDATED = error_code("ROW_OUTDATED", "the row is to be written anew first")
UPLOADED = error_code("UPLOADED", "no upload of the pass is to run")
NOT_UPLOADED = error_code("NOT_UPLOADED", "the metadata of the pass is not on the device yet")
ROW_READ = error_code(
    "ROW_READ", "a pass that captured the row is in flight", FailureClass.OWNERSHIP
)
BUFFER_READ = error_code(
    "BUFFER_READ", "the upload from the buffer has not run yet", FailureClass.OWNERSHIP
)

tables = Module("tables", "Rows of the device's table, and staged metadata.", uses=(passes,))

taken = tables.variable("taken", TableRow, to=Bool, init=False, meaning="a request has the row")
edition = tables.variable("edition", TableRow, to=Edition, init=0, meaning="times it was written")
outdated = tables.variable(
    "outdated",
    TableRow,
    to=Bool,
    init=False,
    meaning="a block of its request is another one, and the row is to be written anew",
)
row_fence = tables.variable(
    "row_fence", TableRow, to=Tick, init=0, meaning="last pass that captured the row"
)
pass_row = tables.variable(
    "pass_row", Pass, to=Option[TableRow], init=none(TableRow), meaning="row that the pass reads"
)
captured = tables.variable(
    "captured", Pass, to=Edition, init=0, meaning="edition of the row when it was dispatched"
)
staged_in = tables.variable(
    "staged_in",
    Pass,
    to=Option[Buffer],
    init=none(Buffer),
    meaning="buffer from which the metadata of the pass is still to be uploaded",
)
staged_for = tables.variable(
    "staged_for",
    Buffer,
    to=Option[Pass],
    init=none(Pass),
    meaning="pass whose metadata is in the buffer",
)
uploaded_for = tables.variable(
    "uploaded_for",
    Pass,
    to=Option[Pass],
    init=none(Pass),
    meaning="pass whose metadata this one has on the device",
)


def is_awaited(s: Expr) -> Expr:
    """An upload from the buffer has still to run."""
    return exists(Pass, lambda p: staged_in[p] == s)


def write_row(step: Step, r: Expr) -> None:
    """The row has another edition."""
    step.assign(edition[r], edition[r] + 1)


@tables.action
def take_row(step: Step, r: TableRow) -> None:
    """Give a row to a request that begins, and write the request's mapping into it."""
    step.require(~taken[r], ROW_IN_USE)
    step.require(has_passed(row_fence[r]), ROW_READ)
    step.assign(taken[r], True)
    write_row(step, r)


@tables.action
def change_block(step: Step, r: TableRow) -> None:
    """One of the blocks of a row's request is another now: it was swapped or copied."""
    step.require(taken[r], ROW_NOT_TAKEN)
    step.require(~outdated[r], ROW_OUTDATED)
    step.assign(outdated[r], True)


@tables.action
def rewrite_row(step: Step, r: TableRow) -> None:
    """Write the mapping that the request has now into its row."""
    step.require(outdated[r], NOT_OUTDATED)
    step.require(has_passed(row_fence[r]), ROW_READ)
    step.assign(outdated[r], False)
    write_row(step, r)


@tables.action
def return_row(step: Step, r: TableRow) -> None:
    """The request of a row has ended; passes that captured the row may still be in flight."""
    step.require(taken[r], ROW_NOT_TAKEN)
    step.assign(taken[r], False)
    step.assign(outdated[r], False)


@tables.extend(dispatch)
def stage_metadata(step: Step, p: Pass, r: TableRow, s: Buffer) -> None:
    """The pass captures the row's edition, and its metadata is put into a buffer, to be uploaded."""
    step.require(taken[r], ROW_NOT_TAKEN)
    step.require(~outdated[r], ROW_OUTDATED)
    step.require(~is_awaited(s), BUFFER_READ)
    step.assign(pass_row[p], r)
    step.assign(captured[p], edition[r])
    step.assign(row_fence[r], unsettled[()] + 1)
    step.assign(staged_in[p], s)
    step.assign(staged_for[s], p)


@tables.action
def upload(step: Step, p: Pass) -> None:
    """The device copies what is in the buffer now, as the metadata of a pass."""
    step.require(is_some(staged_in[p]), UPLOADED)
    step.assign(uploaded_for[p], staged_for[the(staged_in[p])])
    step.assign(staged_in[p], none(Buffer))


@tables.extend(settle)
def read_the_row(step: Step, p: Pass) -> None:
    """The pass has read the row as it is now, and the metadata that was uploaded for it."""
    step.require(~is_some(staged_in[p]), NOT_UPLOADED)
    step.assign(pass_row[p], none(TableRow))
    step.assign(captured[p], 0)
    step.assign(uploaded_for[p], none(Pass))
    for r in step.every(TableRow):
        step.assign(row_fence[r], one_less(row_fence[r]))


system = System.of(
    "tables", "Passes, the rows they read and the metadata they are given.", passes, tables
)


@limit(take_row)
def takes_below_the_last_edition(r: TableRow) -> Expr:
    """A row that is taken is written once more."""
    return edition[r] < Edition.top


@limit(change_block)
def changes_below_the_last_edition(r: TableRow) -> Expr:
    """A row that is written anew has one edition more."""
    return edition[r] < Edition.top


def make_instance(
    name: str,
    doc: str,
    *,
    rows: int,
    passes: int,
    buffers: int,
    editions: int = 2,
    expected: Counts | None = None,
) -> Instance:
    """An instance by its sizes."""
    return instance(
        name,
        system,
        {
            TableRow: rows,
            Pass: passes,
            Buffer: buffers,
            Tick: passes,
            Edition: editions,
        },
        limits=(
            dispatches_below_the_last_tick,
            takes_below_the_last_edition,
            changes_below_the_last_edition,
        ),
        expected=expected,
        doc=doc,
    )


ONE_BUFFER = make_instance(
    "ONE_BUFFER",
    "one row, two passes in flight, one staging buffer",
    rows=1,
    passes=2,
    buffers=1,
    editions=3,
    expected=Counts(89, 194, 10, 3),
)
TWO_BUFFERS = make_instance(
    "TWO_BUFFERS",
    "two rows, two passes in flight, a buffer for each",
    rows=2,
    passes=2,
    buffers=2,
    expected=Counts(4_936, 17_928, 15, 9),
)

INSTANCES = (ONE_BUFFER, TWO_BUFFERS)
