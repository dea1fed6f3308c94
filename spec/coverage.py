"""Coverage: an append whose rows are loaded is used whole by all ranks, or by none.

The rows of one append come in parts: each rank loads its heads, each stage (a pipeline stage, a layer, a
group of layers) loads apart, and each in chunks. A part arrives, or it fails or times out. The load is
accepted for all ranks and stages at once when the whole product has arrived; one failed part is enough to
give it up for all, who then compute the rows themselves. The append can be prepared once that is decided.

Modelled: a part that fails, a part that never comes and whose rank times out, a part that is told of twice,
parts in any order. What came of a part is written once. Left out: where the rows come from, loads of a part
of the ranks, a second attempt.
Assumed: ranks learn of a decision in the step in which it falls.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, TxnState, append, begin, prepare, state
from kvspec.spec.failures import TXN_CLOSED, FailureClass, error_code
from kvspec.spec.language import (
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Open,
    Step,
    System,
    exists,
    forall,
    member,
)


class Rank(Open):
    """A rank: it has some of the heads."""


class Stage(Open):
    """A pipeline stage, a layer, or a group of layers: what loads apart from the others."""


class Chunk(Open):
    """Some of the rows of a span."""


class Outcome(Enum):
    """What came of a part of a load."""

    AWAITED = member()
    ARRIVED = member()
    FAILED = member()


class Verdict(Enum):
    """What a rank does with the rows of a stage."""

    OPEN = member()
    USED = member()
    RECOMPUTED = member()


PART_ENDED = error_code("PART_ENDED", "the part has arrived or failed already")
NOTHING_FAILED = error_code("NOTHING_FAILED", "no part of the load has failed", FailureClass.LAYERS)
PART_MISSING = error_code(
    "PART_MISSING", "some rank lacks a chunk of some stage", FailureClass.LAYERS
)
LOAD_OPEN = error_code(
    "LOAD_OPEN", "it is not decided what becomes of the load", FailureClass.LAYERS
)

loads = Module("loads", "Loads in parts, and what is decided of them.", uses=(append,))

outcome = loads.variable(
    "outcome",
    Txn,
    Rank,
    Stage,
    Chunk,
    to=Outcome,
    init=Outcome.AWAITED,
    meaning="what came of the part",
)
verdict = loads.variable(
    "verdict",
    Txn,
    Rank,
    Stage,
    to=Verdict,
    init=Verdict.OPEN,
    meaning="what the rank does with the rows of the stage",
)


def has_all(x: Expr) -> Expr:
    """Every part of the load has arrived."""
    return forall(Rank, Stage, Chunk, lambda r, s, c: outcome[x, r, s, c] == Outcome.ARRIVED)


def has_failed(x: Expr) -> Expr:
    """Some part of the load has failed."""
    return exists(Rank, Stage, Chunk, lambda r, s, c: outcome[x, r, s, c] == Outcome.FAILED)


def is_decided(x: Expr) -> Expr:
    """Every rank knows for every stage what becomes of the load."""
    return forall(Rank, Stage, lambda r, s: verdict[x, r, s] != Verdict.OPEN)


@loads.observe(begin)
def begin_a_load(step: Step, x: Txn) -> None:
    """All parts of a new load are awaited."""
    for r in step.every(Rank):
        for s in step.every(Stage):
            step.assign(verdict[x, r, s], Verdict.OPEN)
            for c in step.every(Chunk):
                step.assign(outcome[x, r, s, c], Outcome.AWAITED)


@loads.extend(prepare)
def prepare_what_is_decided(step: Step, x: Txn) -> None:
    """An append is complete once it is decided what becomes of its load."""
    step.require(is_decided(x), LOAD_OPEN)


@loads.action
def arrive(step: Step, x: Txn, r: Rank, s: Stage, c: Chunk) -> None:
    """A part of a load arrives."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(outcome[x, r, s, c] == Outcome.AWAITED, PART_ENDED)
    step.assign(outcome[x, r, s, c], Outcome.ARRIVED)


@loads.action
def fail(step: Step, x: Txn, r: Rank, s: Stage, c: Chunk) -> None:
    """A part of a load fails, and its rank is told."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(outcome[x, r, s, c] == Outcome.AWAITED, PART_ENDED)
    step.assign(outcome[x, r, s, c], Outcome.FAILED)


@loads.action
def time_out(step: Step, x: Txn, r: Rank, s: Stage, c: Chunk) -> None:
    """A rank has waited long enough for a part, of which it was told nothing."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(outcome[x, r, s, c] == Outcome.AWAITED, PART_ENDED)
    step.assign(outcome[x, r, s, c], Outcome.FAILED)


@loads.action
def accept(step: Step, x: Txn) -> None:
    """All ranks use the rows of all stages, since every part has arrived."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(has_all(x), PART_MISSING)
    for r in step.every(Rank):
        for s in step.every(Stage):
            step.assign(verdict[x, r, s], Verdict.USED)


@loads.action
def give_up(step: Step, x: Txn) -> None:
    """All ranks compute the rows of all stages themselves, since some part has failed."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(has_failed(x), NOTHING_FAILED)
    for r in step.every(Rank):
        for s in step.every(Stage):
            step.assign(verdict[x, r, s], Verdict.RECOMPUTED)


system = System.of(
    "coverage", "The core, and appends whose rows are loaded in parts.", *core.system.modules, loads
)


def make_instance(
    name: str,
    doc: str,
    *,
    ranks: int = 1,
    stages: int = 1,
    chunks: int = 1,
    handles: int = 1,
    txns: int = 1,
    versions: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer, one block and rows of length 1, without a batch."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        versions=versions,
        more={Rank: ranks, Stage: stages, Chunk: chunks},
        expected=expected,
    )


RANKS = make_instance(
    "RANKS", "one part for each of two ranks", ranks=2, expected=Counts(967, 4_613, 13, 36)
)
STAGES = make_instance(
    "STAGES",
    "two stages in two chunks",
    stages=2,
    chunks=2,
    expected=Counts(9_691, 56_609, 15, 360),
)
PRODUCT = make_instance(
    "PRODUCT",
    "two ranks and two stages",
    ranks=2,
    stages=2,
    expected=Counts(9_691, 56_609, 15, 360),
)
TWO_LOADS = make_instance(
    "TWO_LOADS", "two appends that are loaded", txns=2, expected=Counts(11_117, 73_666, 19, 66)
)

INSTANCES = (RANKS, STAGES, PRODUCT, TWO_LOADS)
