"""Groups of the atlas about loads in parts: some part is missing, and the rows are used all the same."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.coverage import coverage
from kvspec.properties.faults import loosen, put
from kvspec.spec.coverage import (
    NOTHING_FAILED,
    PART_MISSING,
    Chunk,
    Outcome,
    Rank,
    Stage,
    Verdict,
    accept,
    give_up,
    make_instance,
    outcome,
    system,
    verdict,
)
from kvspec.spec.language import Counts, Expr, Instance, exists, forall, where


def _instance(name: str, doc: str, expected: Counts, **sizes: int) -> Instance:
    """An instance without layers of its own and with the one row that it needs."""
    made = make_instance(name, doc, expected=expected, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0},
        bounds={**made.bounds, "Length": 1},
        constants={**made.constants, "rewind": 0},
    )


TWO_STAGES = _instance("TWO_STAGES", "two stages of one load", Counts(607, 2_144, 11, 36), stages=2)
TWO_RANKS = _instance("TWO_RANKS", "two ranks of one load", Counts(607, 2_144, 11, 36), ranks=2)
ONE_PART = _instance("ONE_PART", "a load of one part", Counts(203, 676, 10, 12))


def _arrived(x: Expr, r: Expr, s: Expr, c: Expr) -> Expr:
    return outcome[x, r, s, c] == Outcome.ARRIVED


def _failed(x: Expr, r: Expr, s: Expr, c: Expr) -> Expr:
    return outcome[x, r, s, c] == Outcome.FAILED


ONE_SET_OF_CHUNKS = loosen(
    system,
    accept,
    PART_MISSING,
    lambda x: forall(Rank, Chunk, lambda r, c: exists(Stage, lambda s: _arrived(x, r, s, c))),
    name="one-set-of-chunks",
    says="takes a chunk as arrived when any stage has sent it",
)
EACH_RANK_ALONE = put(
    system,
    give_up,
    verdict,
    lambda x, rank_0: where(
        forall(Stage, Chunk, lambda s, c: _arrived(x, rank_0, s, c)),
        Verdict.USED,
        Verdict.RECOMPUTED,
    ),
    name="each-rank-alone",
    says="lets each rank decide by what it has received itself",
)
ALL_RANKS_FAILED = loosen(
    system,
    give_up,
    NOTHING_FAILED,
    lambda x: forall(Rank, lambda r: exists(Stage, Chunk, lambda s, c: _failed(x, r, s, c))),
    name="all-ranks-failed",
    says="gives a load up only when every rank has failed",
)
FAILURES_UNREPORTED = loosen(
    system,
    accept,
    PART_MISSING,
    lambda x: forall(Rank, Stage, Chunk, lambda r, s, c: outcome[x, r, s, c] != Outcome.AWAITED),
    name="failures-are-not-reported",
    says="takes a load as whole when every layer has come to its end, failed or not",
)
EACH_GROUP_ALONE = put(
    system,
    give_up,
    verdict,
    lambda x, stage_1: where(
        exists(Rank, Chunk, lambda r, c: _failed(x, r, stage_1, c)),
        Verdict.RECOMPUTED,
        Verdict.USED,
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
        "all ranks wait for their share of the rows",
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
            TWO_RANKS,
        ),
        Case(
            "A consensus that needs the failure of every rank waits for ever after that of one.",
            ALL_RANKS_FAILED,
            coverage,
            "every_load_is_decided",
            TWO_RANKS,
        ),
        Case(
            "The append is published, and its reader has loaded rows of one rank beside what the other "
            "computed without it.",
            EACH_RANK_ALONE,
            coverage,
            "a_published_span_is_whole_or_computed",
            TWO_RANKS,
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
