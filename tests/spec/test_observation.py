"""Observation: what counts is what was published, and every request ends in one record."""

import attrs
from observed import Observed

from kvspec.spec import observation
from kvspec.spec.language import TRUE


def request():
    """A request with a prompt of two tokens on handle 0, whose name is known."""
    made = observation.make_instance("SCENARIO", "", longest=2, versions=3)
    seen = Observed(attrs.evolve(made, initial={"known": TRUE}))
    return seen.do("allocate", h=0, b=0, a=0, m=0, q=2)


def fetching(seen):
    """The first row of the request is being fetched."""
    return seen.do("begin", x=0, h=0, k=0, a=0, p=0, n=1).do("fetch", x=0)


def counts(seen):
    """Rows found, fetched, counted and recorded."""
    return tuple(seen[name, 0] for name in ("cached", "external", "total", "recorded"))


def test_a_load_that_fails_counts_for_nothing():
    """Neither the look-up nor the abort of a fetch changes a number."""
    seen = fetching(request())
    assert counts(seen) == (0, 0, 0, 0)
    assert counts(seen.do("cancel_txn", x=0)) == (0, 0, 0, 0)


def test_a_preempted_request_keeps_its_count():
    """A truncation cuts what was found, and no counter; the record has all that was counted."""
    seen = fetching(request()).stage(0).do("prepare", x=0).do("publish", x=0)
    assert counts(seen) == (1, 1, 1, 0)
    assert counts(seen.do("truncate", h=0, n=0)) == (0, 0, 1, 0)
    assert counts(seen.do("cancel_request", h=0)) == (0, 0, 1, 1)
    assert (seen["records", 0], seen["running", 0]) == (1, False)


def test_a_request_turned_away_has_a_record_of_its_own():
    """Where a block is empty nobody is turned away; else the refusal is counted and recorded, once."""
    made = observation.make_instance("SCENARIO", "", txns=0, refused=1)
    seen = Observed(attrs.evolve(made, initial={"known": TRUE}))
    seen.refuse("turn_away", "ROOM_LEFT", m=0).do("allocate", h=0, b=0, a=0, m=0, q=1)
    seen.do("turn_away", m=0)
    assert (seen["turned_away"], seen["refusals"], seen["records", 0]) == (1, 1, 0)
    seen.do("cancel_request", h=0)
    assert (seen["refusals"], seen["records", 0]) == (1, 1)
