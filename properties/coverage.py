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
    Vote,
    apply_votes,
    arrive,
    crash,
    fail,
    has_all,
    has_own,
    has_voted,
    is_decided,
    is_settled,
    lost,
    outcome,
    pass_over,
    system,
    verdict,
    vote,
    vote_against,
    vote_for,
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
    """What one rank uses of a stage no other rank computes: those that have decided are of one mind."""
    return forall(
        Txn,
        Stage,
        Rank,
        Rank,
        lambda x, s, q, r: ~(is_used(x, q, s) & (verdict[x, r, s] == Verdict.RECOMPUTED)),
    )


@coverage.invariant
def a_vote_for_a_load_is_of_a_rank_that_has_it() -> Expr:
    """A rank that votes to use its parts has them all."""
    return forall(Txn, Rank, lambda x, r: implies(vote[x, r] == Vote.FOR, has_own(x, r)))


@coverage.invariant
def what_a_rank_does_is_what_all_votes_say() -> Expr:
    """Rows are used if every vote is for them, and computed if all are in and one is against."""

    def said(x: Expr, r: Expr, s: Expr) -> Expr:
        whole = forall(Rank, lambda q: vote[x, q] == Vote.FOR)
        return forall(Rank, lambda q: has_voted(x, q)) & (is_used(x, r, s) == whole)

    return forall(
        Txn, Rank, Stage, lambda x, r, s: implies(verdict[x, r, s] != Verdict.OPEN, said(x, r, s))
    )


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


@coverage.step
def a_vote_against_a_load_has_a_reason() -> Expr:
    """A load is voted against by a rank that lacks a part, or since a vote was not awaited any more."""
    return forall(
        Txn,
        Rank,
        lambda x, r: implies(
            (vote[x, r] == Vote.NONE) & after(vote[x, r] == Vote.AGAINST),
            fired(pass_over) | fired(vote_against) & ~has_own(x, r),
        ),
    )


@coverage.step
def a_vote_is_cast_once() -> Expr:
    """What a rank has voted stays until its append id is used again."""
    return forall(
        Txn,
        Rank,
        lambda x, r: implies(has_voted(x, r) & ~fired(begin), after(vote[x, r]) == vote[x, r]),
    )


@coverage.step
def a_step_of_the_votes_casts_one() -> Expr:
    """A vote is cast by one rank in one step, and is what the step says."""
    cast = exists(
        Txn,
        Rank,
        lambda x, r: ~has_voted(x, r) & after(has_voted(x, r) & (state[x] == TxnState.OPEN)),
    )
    voted = fired(vote_for) | fired(vote_against) | fired(pass_over)
    return implies(voted, cast) & forall(
        Txn,
        Rank,
        lambda x, r: implies(
            ~has_voted(x, r) & after(has_voted(x, r)),
            voted & (fired(vote_for) == after(vote[x, r] == Vote.FOR)),
        ),
    )


@coverage.step
def a_rank_decides_once() -> Expr:
    """A rank that does what the votes say has done nothing with some rows of the load before."""
    return implies(
        fired(apply_votes),
        exists(Txn, Rank, lambda x, r: ~is_settled(x, r) & after(is_settled(x, r))),
    )


@coverage.step
def a_rank_that_died_does_nothing() -> Expr:
    """A rank stays dead; it neither votes to use a load nor does anything with its rows."""
    return forall(
        Rank,
        lambda r: implies(
            lost[r],
            after(lost[r])
            & forall(
                Txn,
                lambda x: implies(
                    ~fired(begin),
                    implies(after(vote[x, r]) != vote[x, r], fired(pass_over))
                    & forall(Stage, lambda s: after(verdict[x, r, s]) == verdict[x, r, s]),
                ),
            ),
        ),
    )


@coverage.step
def a_rank_dies_of_a_crash() -> Expr:
    """A crash is the death of a rank that was alive, and no other step is."""
    return fired(crash) == exists(Rank, lambda r: ~lost[r] & after(lost[r]))


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
    """An append that begins has none of the parts and votes of an earlier one."""
    return forall(
        Txn,
        Rank,
        Stage,
        Chunk,
        lambda x, r, s, c: implies(
            (state[x] == TxnState.IDLE) & after(state[x] == TxnState.OPEN),
            after(
                (outcome[x, r, s, c] == Outcome.AWAITED)
                & (verdict[x, r, s] == Verdict.OPEN)
                & ~has_voted(x, r)
            ),
        ),
    )


@coverage.step
def what_is_told_was_awaited() -> Expr:
    """An arrival or a failure tells of a part that was awaited."""
    return implies(
        fired(arrive) | fired(fail),
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
            (fired(fail) == after(outcome[x, r, s, c] == Outcome.FAILED))
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


@coverage.witness
def reaches_a_rank_that_decides_before_another() -> Expr:
    """One rank does already what the votes say, and another does not yet."""
    return exists(Txn, Rank, Rank, lambda x, q, r: is_settled(x, q) & ~is_settled(x, r) & ~lost[r])


@coverage.witness
def reaches_a_part_that_comes_after_the_vote() -> Expr:
    """A rank has voted against a load, and now has all of it."""
    return exists(Txn, Rank, lambda x, r: (vote[x, r] == Vote.AGAINST) & has_own(x, r) & ~lost[r])


@coverage.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@coverage.leads_to(weak(pass_over, "x", "r"), weak(apply_votes, "x", "r"))
def every_load_is_decided(x: Txn, r: Rank) -> tuple[Expr, Expr]:
    """A living rank comes to know what becomes of an open load, whoever else dies, or its append ends."""
    return (
        (state[x] == TxnState.OPEN) & ~is_settled(x, r),
        is_settled(x, r) | lost[r] | ~is_live(x),
    )
