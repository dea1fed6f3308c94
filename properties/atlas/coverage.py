"""Groups of the atlas about loads in parts: some part is missing, and the rows are used all the same."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.coverage import coverage
from kvspec.properties.faults import drop_guard, loosen, put
from kvspec.spec.coverage import (
    PART_MISSING,
    VOTE_CAST,
    VOTES_AWAITED,
    Chunk,
    Outcome,
    Rank,
    Stage,
    Verdict,
    Vote,
    apply_votes,
    has_voted,
    lost,
    make_instance,
    no_rank_dies,
    outcome,
    pass_over,
    system,
    vote,
    vote_for,
)
from kvspec.spec.coverage import verdict as done
from kvspec.spec.language import Counts, Expr, Instance, Limit, exists, forall, where


def _instance(
    name: str,
    doc: str,
    expected: Counts,
    limits: tuple[Limit, ...] = (no_rank_dies,),
    **sizes: int,
) -> Instance:
    """An instance without layers of its own and with the one row that it needs; by default no rank dies."""
    made = make_instance(name, doc, expected=expected, limits=limits, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0},
        bounds={**made.bounds, "Length": 1},
        constants={**made.constants, "rewind": 0},
    )


TWO_STAGES = _instance(
    "TWO_STAGES", "two stages of one load", Counts(1_123, 3_916, 12, 68), stages=2
)
TWO_RANKS = _instance("TWO_RANKS", "two ranks of one load", Counts(3_213, 11_408, 14, 210), ranks=2)
TWO_VOTERS = _instance(
    "TWO_VOTERS", "two ranks that have their parts", Counts(713, 2_320, 12, 46), ranks=2, chunks=0
)
MORTAL_VOTERS = _instance(
    "MORTAL_VOTERS",
    "two ranks that have their parts, and may die",
    Counts(2_852, 11_780, 14, 46),
    (),
    ranks=2,
    chunks=0,
)
ONE_PART = _instance("ONE_PART", "a load of one part", Counts(433, 1_444, 11, 26))


def _arrived(x: Expr, r: Expr, s: Expr, c: Expr) -> Expr:
    return outcome[x, r, s, c] == Outcome.ARRIVED


def _failed(x: Expr, r: Expr, s: Expr, c: Expr) -> Expr:
    return outcome[x, r, s, c] == Outcome.FAILED


def _all(x: Expr, said: Expr) -> Expr:
    return forall(Rank, lambda r: vote[x, r] == said)


ONE_SET_OF_CHUNKS = loosen(
    system,
    vote_for,
    PART_MISSING,
    lambda x, r: forall(Chunk, lambda c: exists(Stage, lambda s: _arrived(x, r, s, c))),
    name="one-set-of-chunks",
    says="takes a chunk as arrived when any stage has sent it",
)
EACH_RANK_ALONE = put(
    system,
    apply_votes,
    done,
    lambda x, r: where(vote[x, r] == Vote.FOR, Verdict.USED, Verdict.RECOMPUTED),
    name="each-rank-alone",
    says="lets each rank do what it has voted for itself",
)
VOTES_NOT_AWAITED = drop_guard(
    system, apply_votes, VOTES_AWAITED, "lets a rank decide before all have voted"
)
LATE_VOTE = drop_guard(
    system,
    vote_for,
    VOTE_CAST,
    "takes the vote of a rank that was passed over when it comes at last",
)
ALL_RANKS_FAILED = loosen(
    system,
    apply_votes,
    VOTES_AWAITED,
    lambda x: _all(x, Vote.FOR) | _all(x, Vote.AGAINST),
    name="all-ranks-failed",
    says="gives a load up only when every rank has failed",
)
DEAD_RANK_AWAITED = loosen(
    system,
    pass_over,
    VOTE_CAST,
    lambda x, r: ~has_voted(x, r) & ~lost[r],
    name="the-dead-are-awaited",
    says="waits for the vote of a rank that has died",
)
FAILURES_UNREPORTED = loosen(
    system,
    vote_for,
    PART_MISSING,
    lambda x, r: forall(Stage, Chunk, lambda s, c: outcome[x, r, s, c] != Outcome.AWAITED),
    name="failures-are-not-reported",
    says="takes a load as whole when every layer has come to its end, failed or not",
)
EACH_GROUP_ALONE = put(
    system,
    apply_votes,
    done,
    lambda x, r, stage_0: where(
        exists(Chunk, lambda c: _failed(x, r, stage_0, c)), Verdict.RECOMPUTED, Verdict.USED
    ),
    name="each-group-alone",
    says="gives up the group that failed, and trusts the others",
)

A_B21 = Group(
    name="A-B21",
    title="The chunks of one pipeline stage stand for those of all, and a load ends without the rest",
    kind="partial publication",
    evidence=Evidence.MERGED,
    sources=("sgl-project/sglang PR #15027 (merged)",),
    happened=(
        "two stages each send the chunks of a span",
        "the receiver keeps one set of chunks for both",
        "all chunks of the first stage arrive, and the set is full",
        "decode begins without the layers of the second stage",
    ),
    cases=(
        Case(
            "A load is accepted with every chunk of one stage and none of another.",
            ONE_SET_OF_CHUNKS,
            coverage,
            "rows_that_are_used_have_arrived",
            TWO_STAGES,
        ),
        Case(
            "The append is published, and its reader lacks the layers of a stage.",
            ONE_SET_OF_CHUNKS,
            coverage,
            "a_published_span_is_whole_or_computed",
            TWO_STAGES,
        ),
    ),
)

A_B22 = Group(
    name="A-B22",
    title="Ranks disagree on whether the rows were received",
    kind="partial publication",
    evidence=Evidence.MERGED,
    sources=("vllm-project/vllm-omni PR #5636 (merged)",),
    happened=(
        "all ranks wait for their share of the rows, and each learns of its own share alone",
        "one receives it, and another waits too long",
        "the first uses what it received, the second computes the rows again",
        "their shards differ in length",
    ),
    cases=(
        Case(
            "One rank uses the loaded rows and the other computes them.",
            EACH_RANK_ALONE,
            coverage,
            "ranks_agree_on_a_span",
            TWO_VOTERS,
        ),
        Case(
            "A consensus that needs the failure of every rank waits for ever after that of one.",
            ALL_RANKS_FAILED,
            coverage,
            "every_load_is_decided",
            TWO_VOTERS,
        ),
        Case(
            "The append is published, and its reader has loaded rows of one rank beside what the other "
            "computed without it.",
            EACH_RANK_ALONE,
            coverage,
            "a_published_span_is_whole_or_computed",
            TWO_RANKS,
        ),
        Case(
            "A rank computes the rows before the other has voted, which then uses what it has.",
            VOTES_NOT_AWAITED,
            coverage,
            "ranks_agree_on_a_span",
            TWO_VOTERS,
        ),
        Case(
            "A rank is passed over and the other computes the rows; then its vote comes, and it uses them.",
            LATE_VOTE,
            coverage,
            "ranks_agree_on_a_span",
            TWO_VOTERS,
        ),
        Case(
            "A rank dies before it has voted, and the other waits for ever.",
            DEAD_RANK_AWAITED,
            coverage,
            "every_load_is_decided",
            MORTAL_VOTERS,
        ),
    ),
)

A_B23 = Group(
    name="A-B23",
    title="A failed layer of a load by layers is not reported, or condemns its own group alone",
    kind="partial publication",
    evidence=Evidence.ANALYSIS,
    sources=("vllm-project/vllm issue #31526 (closed)", "vllm-project/vllm RFC #47812 (open)"),
    happened=(
        "the rows of a span are loaded layer by layer",
        "the load of one layer fails",
        "nobody is told, or only the layer's own group is",
        "the span counts as computed, and decode reads what is in its place",
    ),
    cases=(
        Case(
            "A layer fails, the load ends, and its rows are used.",
            FAILURES_UNREPORTED,
            coverage,
            "rows_that_are_used_have_arrived",
            ONE_PART,
        ),
        Case(
            "The append is published with the rows of a layer that failed.",
            FAILURES_UNREPORTED,
            coverage,
            "a_published_span_is_whole_or_computed",
            ONE_PART,
        ),
        Case(
            "One group fails and is computed again, and the other stays in use.",
            EACH_GROUP_ALONE,
            coverage,
            "stages_agree_on_a_span",
            TWO_STAGES,
        ),
    ),
)

GROUPS = (A_B21, A_B22, A_B23)
