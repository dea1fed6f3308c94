"""Residency: which rows of a request are there in each layer, and for which of them a mask has a column.

A full layer keeps every row. A windowed one has queries that see the last `window` positions, their own among
them, so it lets go of rows that no query can see any more: when an append is published, all but those that
the next query, or one after a truncate by at most `rewind` rows, can need. A truncate or a fork to a length
whose window begins before the first resident row is refused, though the core could cut the rows.

The rows of an open append stand behind the resident ones until it is published or ends, so that a burst of
drafts can be taken back. While it is open a windowed layer shows more rows than its window, and the mask of
each query has a column for every row that is shown. Which of these the query sees is the window's to say.

Layers that are windowed alike are a group; each is modelled by itself, as their rows are staged one by one.
Left out: where a row stands in a ring, and masks of several requests in one call. Positions are counted from
the beginning of the request, whatever was let go.
Assumed: rows are let go from the front, and of K and V alike.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import (
    Txn,
    append,
    begin,
    count,
    publish,
    stage_k,
    start,
    target,
)
from kvspec.spec.failures import FailureClass
from kvspec.spec.handles import Handle, Layer, Length, context, handles, rewind
from kvspec.spec.language import (
    ANY,
    TRUE,
    Bool,
    Counts,
    ErrorCode,
    Expr,
    Instance,
    Limit,
    Map,
    Module,
    Step,
    System,
    forall,
    implies,
    limit,
    the,
    where,
)
from kvspec.spec.lifecycle import fork, lifecycle, release, truncate
from kvspec.spec.retry import retry

WINDOW_GONE = ErrorCode(
    "WINDOW_GONE",
    "a layer has let go of rows that the next query would see",
    int(FailureClass.POSITION),
)

residency = Module("residency", "Resident rows of layers.", uses=(handles, append, lifecycle))

window = residency.constant("window", Length, meaning="rows that a query of a windowed layer sees")

windowed = residency.variable(
    "windowed", Layer, to=Bool, init=ANY, meaning="queries of the layer see a window alone"
)
first = residency.variable(
    "first", Handle, Layer, to=Length, init=0, meaning="position of the first resident row"
)
columns = residency.variable(
    "columns",
    Txn,
    Layer,
    to=Length,
    init=0,
    meaning="columns of the mask of the append's last query, the last one for its own row",
)


def needed_from(n: Expr, further: Expr | int = 0) -> Expr:
    """The first position in the window of the query at n, or at any up to `further` rows before n."""
    return where(window + further <= n + 1, n + 1 - window - further, 0)


def cut(h: Expr, l: Expr, n: Expr) -> Expr:
    """The first resident row where the first n rows stay."""
    return where(n < first[h, l], n, first[h, l])


def has_window(h: Expr, n: Expr) -> Expr:
    """Every layer has the rows of the window of a query at n."""
    return forall(Layer, lambda l: implies(windowed[l], cut(h, l, n) <= needed_from(n)))


def shown(h: Expr, l: Expr, p: Expr) -> Expr:
    """Rows of a layer that a query at position p is given: the resident ones, the append's, its own."""
    return where(first[h, l] <= p, p + 1 - first[h, l], 0)


@residency.extend(begin)
def begin_masks(step: Step, x: Txn) -> None:
    """No query of the append has a mask yet."""
    for l in step.every(Layer):
        step.assign(columns[x, l], 0)


@residency.extend(stage_k)
def make_mask(step: Step, x: Txn, l: Layer, p: Length) -> None:
    """The query at p is given a mask with a column for every row that it is given."""
    step.assign(columns[x, l], shown(the(target[x]), l, p))


@residency.extend(publish)
def let_go(step: Step, x: Txn) -> None:
    """Windowed layers let go of the rows that no query can see, however far a truncate may go back."""
    h = the(target[x])
    for l in step.every(Layer):
        least = needed_from(start[x] + count[x], rewind)
        step.assign(
            first[h, l],
            where(windowed[l] & (first[h, l] < least), least, first[h, l]),
        )


@residency.extend(truncate)
def truncate_window(step: Step, h: Handle, n: Length) -> None:
    """A truncate goes no further back than the rows that were let go allow."""
    step.require(has_window(h, n), WINDOW_GONE)
    for l in step.every(Layer):
        step.assign(first[h, l], cut(h, l, n))


@residency.extend(fork)
def fork_window(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Children have the resident rows of their parent, and all of their window."""
    step.require(has_window(p, n), WINDOW_GONE)
    for c in step.every(Handle):
        for l in step.every(Layer):
            step.assign(first[c, l], where(children[c], cut(p, l, n), first[c, l]))


@residency.extend(release)
def release_window(step: Step, h: Handle) -> None:
    """No row is resident."""
    for l in step.every(Layer):
        step.assign(first[h, l], 0)


system = System.of(
    "residency",
    "The core with layers that let go of rows.",
    *core.system.modules,
    residency,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    layers: int = 1,
    windows: int = 1,
    longest: int = 2,
    versions: int = 2,
    rewinds: int = 0,
    limits: tuple[Limit, ...] = (),
    all_windowed: bool = False,
    expected: Counts | None = None,
) -> Instance:
    """An instance in which each layer is windowed or full, as it comes, or all are windowed."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=layers,
        longest=longest,
        versions=versions,
        rewinds=rewinds,
        constants={window: windows},
        limits=limits,
        expected=expected,
    )
    return attrs.evolve(made, initial={"windowed": TRUE}) if all_windowed else made


@limit(retry)
def retries_nothing(n: Expr) -> Expr:
    """No client asks again for a receipt."""
    return n < 0


@limit(begin)
def appends_all(p: Expr, n: Expr) -> Expr:
    """An append is of all rows that a request can have."""
    return p + n == context


BURST = make_instance(
    "BURST",
    "bursts of up to three rows, a window of two",
    longest=3,
    windows=2,
    all_windowed=True,
    expected=Counts(1_348, 5_345, 18, 29),
)
LAYERS = make_instance(
    "LAYERS",
    "two layers, each full or windowed",
    layers=2,
    versions=1,
    expected=Counts(4_236, 20_996, 16, 80),
)
REWIND = make_instance(
    "REWIND",
    "a window of two rows, with one to go back by",
    windows=2,
    longest=4,
    versions=3,
    rewinds=1,
    all_windowed=True,
    expected=Counts(6_003, 25_230, 23, 64),
)
NARROW = make_instance(
    "NARROW",
    "a window of one row, with one to go back by",
    longest=3,
    versions=3,
    rewinds=1,
    all_windowed=True,
    expected=Counts(3_383, 13_766, 21, 45),
)
FORKED = make_instance(
    "FORKED",
    "two requests and forks of them",
    handles=2,
    windows=2,
    longest=3,
    versions=1,
    limits=(retries_nothing, appends_all),
    all_windowed=True,
    expected=Counts(10_237, 49_618, 28, 101),
)

INSTANCES = (BURST, NARROW, LAYERS, REWIND, FORKED)
