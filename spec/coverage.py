"""Coverage: an append whose rows are loaded is used whole by all ranks, or by none.

The rows of one append come in parts: each rank loads its heads, each stage (a pipeline stage, a layer, a
group of layers) loads apart, and each in chunks. A part arrives or it fails. A rank sees its own parts alone:
it votes to use them when it has all of every stage, and against that when it lacks one and has waited long
enough. Each rank then does what the votes of all say, at a moment of its own: with one vote against, all
compute the rows themselves. The append can be prepared once every rank has done so.

Modelled: a part that fails, a part that comes late or never, a part that is told of twice, parts in any
order; a rank that dies at any time. The vote of a rank that is dead or slow is not awaited for ever: it is
passed over, which counts as a vote against. What came of a part and a vote are written once.
Left out: where the rows come from, loads of a part of the ranks, a second attempt, a rank that comes back;
a part that lands after the load was decided (leases of `transfer` are for that); what a group does that has
lost a rank after its vote: its append is not prepared any more, and stays open until it is cancelled.
Assumed: a vote, cast or passed over, is the same for all ranks that see it, as where one collects the votes.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, TxnState, append, begin, prepare, state
from kvspec.spec.failures import TXN_CLOSED, FailureClass, error_code
from kvspec.spec.language import (
    FALSE,
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Limit,
    Module,
    Open,
    Step,
    System,
    forall,
    limit,
    member,
    where,
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


class Vote(Enum):
    """What a rank has said of its parts of a load."""

    NONE = member()
    FOR = member()
    AGAINST = member()


class Verdict(Enum):
    """What a rank does with the rows of a stage."""

    OPEN = member()
    USED = member()
    RECOMPUTED = member()


PART_ENDED = error_code("PART_ENDED", "the part has arrived or failed already")
RANK_LOST = error_code("RANK_LOST", "the rank has died")
VOTE_CAST = error_code("VOTE_CAST", "the vote of the rank is cast, or was passed over")
VERDICT_APPLIED = error_code("VERDICT_APPLIED", "the rank has done what the votes say")
PART_MISSING = error_code(
    "PART_MISSING", "the rank lacks a chunk of some stage", FailureClass.LAYERS
)
NOTHING_MISSING = error_code(
    "NOTHING_MISSING", "the rank has every part of its load", FailureClass.LAYERS
)
VOTES_AWAITED = error_code(
    "VOTES_AWAITED", "some rank has not voted on the load", FailureClass.LAYERS
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
vote = loads.variable(
    "vote",
    Txn,
    Rank,
    to=Vote,
    init=Vote.NONE,
    meaning="what the rank has said of its parts",
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
lost = loads.variable("lost", Rank, to=Bool, init=False, meaning="the rank has died")


def has_own(x: Expr, r: Expr) -> Expr:
    """Every part of the load that is the rank's has arrived."""
    return forall(Stage, Chunk, lambda s, c: outcome[x, r, s, c] == Outcome.ARRIVED)


def has_all(x: Expr) -> Expr:
    """Every part of the load has arrived."""
    return forall(Rank, lambda r: has_own(x, r))


def has_voted(x: Expr, r: Expr) -> Expr:
    """The vote of the rank is cast, or was passed over."""
    return vote[x, r] != Vote.NONE


def all_for(x: Expr) -> Expr:
    """Every rank has voted to use what was loaded."""
    return forall(Rank, lambda r: vote[x, r] == Vote.FOR)


def is_settled(x: Expr, r: Expr) -> Expr:
    """The rank has done what the votes say, in every stage."""
    return forall(Stage, lambda s: verdict[x, r, s] != Verdict.OPEN)


def is_decided(x: Expr) -> Expr:
    """Every rank has done what the votes say."""
    return forall(Rank, lambda r: is_settled(x, r))


@loads.observe(begin)
def begin_a_load(step: Step, x: Txn) -> None:
    """All parts of a new load are awaited, and all votes."""
    for r in step.every(Rank):
        step.assign(vote[x, r], Vote.NONE)
        for s in step.every(Stage):
            step.assign(verdict[x, r, s], Verdict.OPEN)
            for c in step.every(Chunk):
                step.assign(outcome[x, r, s, c], Outcome.AWAITED)


@loads.extend(prepare)
def prepare_what_is_decided(step: Step, x: Txn) -> None:
    """An append is complete once every rank knows what becomes of its load, and does it."""
    step.require(is_decided(x), LOAD_OPEN)


@loads.action
def arrive(step: Step, x: Txn, r: Rank, s: Stage, c: Chunk) -> None:
    """A part of a load arrives."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(outcome[x, r, s, c] == Outcome.AWAITED, PART_ENDED)
    step.assign(outcome[x, r, s, c], Outcome.ARRIVED)


@loads.action
def fail(step: Step, x: Txn, r: Rank, s: Stage, c: Chunk) -> None:
    """A part of a load fails, and will not come any more."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(outcome[x, r, s, c] == Outcome.AWAITED, PART_ENDED)
    step.assign(outcome[x, r, s, c], Outcome.FAILED)


@loads.action
def vote_for(step: Step, x: Txn, r: Rank) -> None:
    """A rank that has all its parts votes to use them."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(~lost[r], RANK_LOST)
    step.require(~has_voted(x, r), VOTE_CAST)
    step.require(has_own(x, r), PART_MISSING)
    step.assign(vote[x, r], Vote.FOR)


@loads.action
def vote_against(step: Step, x: Txn, r: Rank) -> None:
    """A rank votes against a load of which it lacks a part: one has failed, or it has waited long enough."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(~lost[r], RANK_LOST)
    step.require(~has_voted(x, r), VOTE_CAST)
    step.require(~has_own(x, r), NOTHING_MISSING)
    step.assign(vote[x, r], Vote.AGAINST)


@loads.action
def pass_over(step: Step, x: Txn, r: Rank) -> None:
    """The others have waited long enough for the vote of a rank, dead or slow: it counts as one against."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(~has_voted(x, r), VOTE_CAST)
    step.assign(vote[x, r], Vote.AGAINST)


@loads.action
def apply_votes(step: Step, x: Txn, r: Rank) -> None:
    """A rank does what the votes say: it uses the rows of all its stages, or computes them itself."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(~lost[r], RANK_LOST)
    step.require(~is_settled(x, r), VERDICT_APPLIED)
    step.require(forall(Rank, lambda q: has_voted(x, q)), VOTES_AWAITED)
    for s in step.every(Stage):
        step.assign(verdict[x, r, s], where(all_for(x), Verdict.USED, Verdict.RECOMPUTED))


@loads.action
def crash(step: Step, r: Rank) -> None:
    """A rank dies, whatever it was about to do."""
    step.require(~lost[r], RANK_LOST)
    step.assign(lost[r], True)


system = System.of(
    "coverage", "The core, and appends whose rows are loaded in parts.", *core.system.modules, loads
)


@limit(crash)
def no_rank_dies() -> Expr:
    """Nothing in such an instance is about ranks that die."""
    return FALSE


@limit(fail)
def no_part_fails() -> Expr:
    """What does not arrive may still come."""
    return FALSE


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
    limits: tuple[Limit, ...] = (),
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer and one block, without a batch. limits: those beside the core's."""
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
        limits=limits,
    )


RANKS = make_instance(
    "RANKS", "one part for each of two ranks", ranks=2, expected=Counts(22_164, 126_720, 18, 210)
)
STAGES = make_instance(
    "STAGES",
    "two stages in two chunks",
    stages=2,
    chunks=2,
    expected=Counts(30_566, 176_505, 17, 572),
)
PRODUCT = make_instance(
    "PRODUCT",
    "two ranks and two stages",
    ranks=2,
    stages=2,
    limits=(no_rank_dies,),
    expected=Counts(37_473, 220_599, 18, 1_422),
)
TWO_LOADS = make_instance(
    "TWO_LOADS",
    "two appends that are loaded",
    txns=2,
    limits=(no_rank_dies, no_part_fails),
    expected=Counts(27_816, 180_260, 21, 167),
)

INSTANCES = (RANKS, STAGES, PRODUCT, TWO_LOADS)
