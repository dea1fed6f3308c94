"""What is claimed of loads in parts: a span is used whole, and by all ranks and stages or by none."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, TxnState, begin, is_live, state
from kvspec.spec.coverage import (
    Chunk,
    Outcome,
    Rank,
    Stage,
    Verdict,
    accept,
    arrive,
    fail,
    give_up,
    has_all,
    has_failed,
    is_decided,
    outcome,
    system,
    time_out,
    verdict,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    one_of,
    weak,
)

coverage = Properties(system, given=core)


def is_used(x: Expr, r: Expr, s: Expr) -> Expr:
    """The rank uses the loaded rows of the stage."""
    return verdict[x, r, s] == Verdict.USED


@coverage.invariant
def rows_that_are_used_have_arrived() -> Expr:
    """What a rank uses of a stage has arrived in every chunk."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(is_used(x, r, s), outcome[x, r, s, c] == Outcome.ARRIVED),
    )


@coverage.invariant
def a_span_that_is_used_is_whole() -> Expr:
    """If any rank uses any stage of a load, every part of it has arrived: none failed and none is missing."""
    return forall(Txn, Rank, Stage, lambda x, r, s: implies(is_used(x, r, s), has_all(x)))


@coverage.invariant
def ranks_agree_on_a_span() -> Expr:
    """All ranks use the rows of a stage, or none does."""
    return forall(Txn, Stage, Rank, Rank, lambda x, s, q, r: verdict[x, q, s] == verdict[x, r, s])


@coverage.invariant
def stages_agree_on_a_span() -> Expr:
    """A rank uses the rows of all its stages, or of none: a failed group takes the others with it."""
    return forall(Txn, Rank, Stage, Stage, lambda x, r, s, t: verdict[x, r, s] == verdict[x, r, t])


@coverage.invariant
def nothing_is_published_undecided() -> Expr:
    """A complete append has a decision on its load, and so has a published one."""
    return forall(
        Txn,
        lambda x: implies(one_of(state[x], TxnState.PREPARED, TxnState.PUBLISHED), is_decided(x)),
    )


@coverage.invariant
def a_published_span_is_whole_or_computed() -> Expr:
    """A published append was loaded whole, or every rank computed every stage of it."""
    return forall(
        Txn,
        lambda x: implies(
            state[x] == TxnState.PUBLISHED,
            has_all(x) | forall(Rank, Stage, lambda r, s: ~is_used(x, r, s)),
        ),
    )


@coverage.invariant
def a_load_is_given_up_for_a_failure() -> Expr:
    """Rows are computed again only if some part failed."""
    return forall(
        Txn,
        Rank,
        Stage,
        lambda x, r, s: implies(verdict[x, r, s] == Verdict.RECOMPUTED, has_failed(x)),
    )


@coverage.step
def an_outcome_is_written_once() -> Expr:
    """What came of a part stays until its append id is used again."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(
            (outcome[x, r, s, c] != Outcome.AWAITED) & ~fired(begin),
            after(outcome[x, r, s, c]) == outcome[x, r, s, c],
        ),
    )


@coverage.step
def a_decision_is_final() -> Expr:
    """What was decided of a load stays until its append id is used again."""
    return forall(
        Txn,
        Rank,
        Stage,
        lambda x, r, s: implies(
            (verdict[x, r, s] != Verdict.OPEN) & ~fired(begin),
            after(verdict[x, r, s]) == verdict[x, r, s],
        ),
    )


@coverage.step
def a_new_load_awaits_everything() -> Expr:
    """An append that begins has none of the parts of an earlier one."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(
            (state[x] == TxnState.IDLE) & after(state[x] == TxnState.OPEN),
            after((outcome[x, r, s, c] == Outcome.AWAITED) & (verdict[x, r, s] == Verdict.OPEN)),
        ),
    )


@coverage.step
def what_is_told_was_awaited() -> Expr:
    """An arrival or a failure tells of a part that was awaited."""
    return implies(
        fired(arrive) | fired(fail) | fired(time_out),
        exists(
            Txn,
            Rank,
            Stage,
            Chunk,
            lambda x, r, s, c: (
                (outcome[x, r, s, c] == Outcome.AWAITED)
                & after(outcome[x, r, s, c] != Outcome.AWAITED)
            ),
        ),
    )


@coverage.step
def a_part_that_fails_is_told_as_failed() -> Expr:
    """What a failure leaves is a failed part, and what an arrival leaves is none."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(
            after(outcome[x, r, s, c]) != outcome[x, r, s, c],
            ((fired(fail) | fired(time_out)) == after(outcome[x, r, s, c] == Outcome.FAILED))
            & (fired(arrive) == after(outcome[x, r, s, c] == Outcome.ARRIVED)),
        ),
    )


@coverage.step
def a_load_is_decided_while_its_append_is_open() -> Expr:
    """What becomes of a load is decided before its append is complete."""
    return forall(
        Txn,
        Rank,
        Stage,
        lambda x, r, s: implies(
            after(verdict[x, r, s]) != verdict[x, r, s],
            after(state[x] == TxnState.OPEN) & (fired(begin) | (state[x] == TxnState.OPEN)),
        ),
    )


@coverage.step
def parts_are_told_of_while_the_append_is_open() -> Expr:
    """A part is told of only while its append takes work."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(
            after(outcome[x, r, s, c]) != outcome[x, r, s, c], after(state[x] == TxnState.OPEN)
        ),
    )


@coverage.witness
def reaches_a_load_that_is_used() -> Expr:
    """A load was accepted and published."""
    return exists(
        Txn, Rank, Stage, lambda x, r, s: is_used(x, r, s) & (state[x] == TxnState.PUBLISHED)
    )


@coverage.witness
def reaches_a_load_that_is_computed() -> Expr:
    """A load failed in part, and the append was published all the same."""
    return exists(
        Txn,
        Rank,
        Stage,
        lambda x, r, s: (verdict[x, r, s] == Verdict.RECOMPUTED) & (state[x] == TxnState.PUBLISHED),
    )


@coverage.witness
def reaches_a_rank_that_fails_alone() -> Expr:
    """One rank has all its parts, and another has failed."""
    return exists(
        Txn,
        Rank,
        Rank,
        Stage,
        Chunk,
        lambda x, q, r, s, c: (
            (outcome[x, r, s, c] == Outcome.FAILED)
            & forall(Stage, Chunk, lambda t, d: outcome[x, q, t, d] == Outcome.ARRIVED)
        ),
    )


@coverage.witness
def reaches_every_chunk_of_one_stage_alone() -> Expr:
    """Every chunk has arrived in one stage, and another stage has none."""
    return exists(
        Txn,
        Rank,
        Stage,
        Stage,
        lambda x, r, s, t: forall(
            Chunk,
            lambda c: (
                (outcome[x, r, s, c] == Outcome.ARRIVED) & (outcome[x, r, t, c] == Outcome.AWAITED)
            ),
        ),
    )


@coverage.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@coverage.leads_to(weak(time_out, "x", "r", "s", "c"), weak(accept, "x"), weak(give_up, "x"))
def every_load_is_decided(x: Txn) -> tuple[Expr, Expr]:
    """An open load is accepted or given up in the end, or its append ends: what never comes times out."""
    return (state[x] == TxnState.OPEN) & ~is_decided(x), is_decided(x) | ~is_live(x)
