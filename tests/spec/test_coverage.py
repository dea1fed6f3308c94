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


def test_a_load_is_accepted_with_its_last_part():
    """Every part but one is not enough, whichever it is."""
    for missing in PARTS:
        seen = tell(load(), "arrive", *(part for part in PARTS if part != missing))
        seen.refuse("accept", "PART_MISSING", x=0)
        tell(seen, "arrive", missing).do("accept", x=0)
        assert verdicts(seen) == {"USED"}


def test_all_chunks_of_one_stage_are_no_load():
    """The chunks of a stage do not stand for those of another."""
    seen = tell(load(), "arrive", *(part for part in PARTS if part[1] == 0))
    seen.refuse("accept", "PART_MISSING", x=0).refuse("give_up", "NOTHING_FAILED", x=0)


def test_one_failure_is_a_failure_for_all():
    """One part of one rank fails, and every rank computes every stage."""
    seen = tell(tell(load(), "arrive", *PARTS[:-1]), "fail", PARTS[-1])
    seen.refuse("accept", "PART_MISSING", x=0).do("give_up", x=0)
    assert verdicts(seen) == {"RECOMPUTED"}


def test_a_part_that_never_comes_times_out():
    """A timeout counts as a failure, and a part that timed out does not arrive any more."""
    seen = tell(tell(load(), "arrive", *PARTS[:-1]), "time_out", PARTS[-1])
    seen.refuse("arrive", "PART_ENDED", x=0, r=1, s=1, c=1)
    seen.refuse("time_out", "PART_ENDED", x=0, r=0, s=0, c=0).do("give_up", x=0)
    assert verdicts(seen) == {"RECOMPUTED"}


def test_what_came_of_a_part_is_not_changed():
    """A part that failed does not arrive, and one that arrived does not fail."""
    seen = tell(tell(load(), "fail", (0, 0, 0)), "arrive", (0, 0, 1))
    seen.refuse("arrive", "PART_ENDED", x=0, r=0, s=0, c=0)
    seen.refuse("fail", "PART_ENDED", x=0, r=0, s=0, c=1)


def test_an_append_waits_for_the_decision():
    """With all rows staged, an append is complete only once its load is decided; then it is published."""
    seen = tell(load(), "fail", (1, 1, 1)).stage(0)
    seen.refuse("prepare", "LOAD_OPEN", x=0)
    seen.do("give_up", x=0).do("prepare", x=0).do("publish", x=0)
    assert seen["length", 0] == 1
    seen.refuse("fail", "TXN_CLOSED", x=0, r=0, s=0, c=0)


def test_an_id_that_is_used_again_awaits_everything():
    """An append begins without the parts of the one that had its id before."""
    seen = tell(load(), "arrive", *PARTS).do("accept", x=0).do("cancel_txn", x=0)
    seen.do("forget", x=0).do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    assert verdicts(seen) == {"OPEN"}
    seen.refuse("accept", "PART_MISSING", x=0)
