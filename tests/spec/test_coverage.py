"""Loads in parts: scenarios of arrivals, failures and what is decided for all ranks."""

from itertools import product

from observed import Observed

from kvspec.spec import coverage

SIZES = {"ranks": 2, "stages": 2, "chunks": 2}
PARTS = list(product(range(2), range(2), range(2)))


def load(**sizes):
    """An open append on handle 0 whose rows are awaited in parts."""
    made = coverage.make_instance("SCENARIO", "", **{**SIZES, "versions": 2, **sizes})
    return Observed(made).do("allocate", h=0, b=0, a=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)


def tell(seen, action, *parts):
    """What came of some parts of append 0."""
    for r, s, c in parts:
        seen.do(action, x=0, r=r, s=s, c=c)
    return seen


def verdicts(seen):
    """What each rank does with each stage."""
    return {seen["verdict", 0, r, s] for r in range(2) for s in range(2)}


def decide(seen, *ranks):
    """Ranks do what the votes say."""
    for r in ranks:
        seen.do("apply_votes", x=0, r=r)
    return seen


def test_a_rank_votes_for_its_parts_with_the_last_of_them():
    """Every part but one is not enough, whichever it is; then both ranks use the load."""
    for missing in PARTS:
        seen = tell(load(), "arrive", *(part for part in PARTS if part != missing))
        late = missing[0]
        seen.refuse("vote_for", "PART_MISSING", x=0, r=late)
        seen.do("vote_for", x=0, r=1 - late).refuse("apply_votes", "VOTES_AWAITED", x=0, r=0)
        tell(seen, "arrive", missing).do("vote_for", x=0, r=late)
        assert verdicts(decide(seen, 0, 1)) == {"USED"}


def test_all_chunks_of_one_stage_are_no_load():
    """The chunks of a stage do not stand for those of another."""
    seen = tell(load(), "arrive", *(part for part in PARTS if part[1] == 0))
    seen.refuse("vote_for", "PART_MISSING", x=0, r=0).do("vote_against", x=0, r=0)


def test_one_failure_is_a_failure_for_all():
    """One part of one rank fails; the ranks decide one after the other, and compute every stage."""
    seen = tell(tell(load(), "arrive", *PARTS[:-1]), "fail", PARTS[-1])
    seen.do("vote_for", x=0, r=0).refuse("vote_for", "PART_MISSING", x=0, r=1)
    seen.do("vote_against", x=0, r=1)
    assert verdicts(decide(seen, 0)) == {"RECOMPUTED", "OPEN"}
    seen.refuse("apply_votes", "VERDICT_APPLIED", x=0, r=0)
    assert verdicts(decide(seen, 1)) == {"RECOMPUTED"}


def test_a_vote_that_comes_too_late_is_refused():
    """A rank that was passed over gets its last part, cannot vote any more, and computes like the other."""
    seen = tell(load(), "arrive", *PARTS[:-1]).do("vote_for", x=0, r=0).do("pass_over", x=0, r=1)
    tell(decide(seen, 0), "arrive", PARTS[-1])
    seen.refuse("vote_for", "VOTE_CAST", x=0, r=1).refuse("pass_over", "VOTE_CAST", x=0, r=0)
    assert verdicts(decide(seen, 1)) == {"RECOMPUTED"}


def test_a_dead_rank_is_passed_over():
    """A rank dies before its vote: the other comes to know, and the append is never complete."""
    seen = tell(load(), "arrive", *PARTS).stage(0).do("vote_for", x=0, r=0).do("crash", r=1)
    seen.refuse("vote_for", "RANK_LOST", x=0, r=1).do("pass_over", x=0, r=1)
    decide(seen, 0).refuse("apply_votes", "RANK_LOST", x=0, r=1)
    seen.refuse("prepare", "LOAD_OPEN", x=0).do("cancel_txn", x=0)


def test_a_rank_with_all_its_parts_has_no_reason_to_vote_against():
    """Nothing is missing."""
    tell(load(), "arrive", *PARTS).refuse("vote_against", "NOTHING_MISSING", x=0, r=0)


def test_what_came_of_a_part_is_not_changed():
    """A part that failed does not arrive, and one that arrived does not fail."""
    seen = tell(tell(load(), "fail", (0, 0, 0)), "arrive", (0, 0, 1))
    seen.refuse("arrive", "PART_ENDED", x=0, r=0, s=0, c=0)
    seen.refuse("fail", "PART_ENDED", x=0, r=0, s=0, c=1)


def test_an_append_waits_for_the_decision():
    """With all rows staged, an append is complete only once all ranks have decided; then it is published."""
    seen = tell(load(), "fail", (1, 1, 1)).stage(0)
    seen.do("vote_against", x=0, r=0).do("vote_against", x=0, r=1)
    decide(seen, 0).refuse("prepare", "LOAD_OPEN", x=0)
    decide(seen, 1).do("prepare", x=0).do("publish", x=0)
    assert seen["length", 0] == 1
    seen.refuse("fail", "TXN_CLOSED", x=0, r=0, s=0, c=0)


def test_an_id_that_is_used_again_awaits_everything():
    """An append begins without the parts and votes of the one that had its id before."""
    seen = tell(load(), "arrive", *PARTS).do("vote_for", x=0, r=0).do("vote_for", x=0, r=1)
    decide(seen, 0, 1).do("cancel_txn", x=0)
    seen.do("forget", x=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    assert verdicts(seen) == {"OPEN"}
    seen.refuse("vote_for", "PART_MISSING", x=0, r=0)
