"""What is owed to the rows of a request: scenarios of reports, leases and the one release."""

import pytest
from observed import Observed

from kvspec.spec import completion


def request(**sizes):
    """A ready request on handle 0 whose rows are held for both of its parts."""
    made = completion.make_instance("SCENARIO", "", **{"parts": 2, "generations": 2, **sizes})
    return Observed(made).do("allocate", h=0, b=0, a=0)


def serving(*parts, **sizes):
    """A request whose parts are at work, their reports awaited."""
    seen = request(**sizes)
    for p in parts:
        seen.do("hold", h=0, p=p).do("register", h=0, p=p)
    return seen


@pytest.mark.parametrize("first", [0, 1])
def test_the_second_report_releases_in_either_order(first):
    """A cancelled request is released once, after both of its transfers have reported."""
    seen = serving(0, 1).do("cancel_request", h=0)
    for p in (first, 1 - first):
        seen.refuse("release", "RELEASE_NOT_ASKED", h=0)
        seen.do("land", h=0, p=p).do("arrive", h=0, p=p)
    assert seen["asked", 0] == 1
    seen.do("release", h=0)
    assert (seen["asked", 0], seen["pin", 0, 0], seen["pin", 0, 1]) == (0, "NONE", "NONE")


def test_two_reports_of_one_step_ask_for_one_release():
    """Both transfers report in the same step, and the rows are released once."""
    seen = serving(0, 1).do("cancel_request", h=0)
    seen.do("land", h=0, p=0).do("land", h=0, p=1).do("arrive_together", h=0)
    assert seen["asked", 0] == 1
    seen.do("release", h=0).refuse("release", "NOT_TERMINAL", h=0)


def test_an_end_after_the_last_report_asks_itself():
    """Where nothing is owed at the end, the end asks for the release."""
    seen = serving(0).do("land", h=0, p=0).do("arrive", h=0, p=0)
    assert seen["asked", 0] == 0
    assert seen.do("finish", h=0)["asked", 0] == 1


def test_a_report_before_its_registration_is_remembered():
    """The registration finds the report and drops the pin at once."""
    seen = request().do("hold", h=0, p=0).do("land", h=0, p=0).do("arrive", h=0, p=0)
    assert (seen["pin", 0, 0], seen["early", 0, 0]) == ("HELD", True)
    seen.do("cancel_request", h=0).do("register", h=0, p=0)
    assert (seen["pin", 0, 0], seen["asked", 0]) == ("MET", 1)


def test_a_repeated_report_is_thrown_away():
    """A second copy changes nothing but that it is gone."""
    seen = serving(0).do("land", h=0, p=0).do("arrive", h=0, p=0).do("repeat", h=0, p=0)
    seen.refuse("arrive", "NOT_OWED", changes=True, h=0, p=0)
    assert (seen["pin", 0, 0], seen["mail", 0, 0]) == ("MET", 0)
    seen.refuse("arrive", "NO_REPORT", h=0, p=0)


def test_a_late_report_does_not_touch_the_next_request():
    """A copy that is on its way across a release names a request that is gone."""
    seen = serving(0).do("finish", h=0).do("land", h=0, p=0).do("arrive", h=0, p=0)
    seen.do("repeat", h=0, p=0).do("release", h=0).do("evict", b=0)
    seen.do("allocate", h=0, b=0, a=0).do("hold", h=0, p=0).do("register", h=0, p=0)
    seen.refuse("arrive", "STALE_REPORT", changes=True, h=0, p=0)
    assert (seen["pin", 0, 0], seen["peer", 0, 0]) == ("AWAITED", "BUSY")


def test_a_lease_runs_out_whatever_its_peer_does():
    """The pin of a peer at work, of one that stalls and of one that crashed is dropped by its lease."""
    for fate, left in (((), "FENCED"), (("stall",), "FENCED"), (("crash",), "LOST")):
        seen = serving(0).do("cancel_request", h=0)
        for action in fate:
            seen.do(action, h=0, p=0)
        seen.do("expire", h=0, p=0).refuse("expire", "NOT_OWED", h=0, p=0)
        assert (seen["asked", 0], seen["peer", 0, 0]) == (1, left)


def test_a_late_write_does_not_land():
    """A peer that stalled and wakes after its lease is turned away, before and after the release."""
    seen = serving(0).do("stall", h=0, p=0).refuse("land", "NOT_BUSY", h=0, p=0)
    seen.do("cancel_request", h=0).do("expire", h=0, p=0)
    seen.refuse("resume", "NOT_STALLED", h=0, p=0).refuse("land", "LEASE_ENDED", h=0, p=0)
    seen.do("release", h=0).refuse("land", "LEASE_ENDED", h=0, p=0)
    assert seen["mail", 0, 0] == 0


def test_a_peer_that_stalled_goes_on():
    """Within its lease a peer may stand still, go on and report."""
    seen = serving(0).do("stall", h=0, p=0).refuse("stall", "NOT_BUSY", h=0, p=0)
    seen.do("resume", h=0, p=0).do("land", h=0, p=0).do("arrive", h=0, p=0)
    assert seen["pin", 0, 0] == "MET"


def test_a_report_after_its_lease_is_thrown_away():
    """The lease runs out with the report on its way, which then counts for nothing."""
    seen = serving(0).do("land", h=0, p=0).do("expire", h=0, p=0)
    seen.refuse("arrive", "NOT_OWED", changes=True, h=0, p=0)
    assert (seen["pin", 0, 0], seen["peer", 0, 0]) == ("MET", "DONE")


def test_a_lost_report_leaves_the_pin_to_its_lease():
    """Once the report is lost, only the lease ends the pin."""
    seen = serving(0).do("land", h=0, p=0).do("lose", h=0, p=0)
    assert seen["peer", 0, 0] == "LOST"
    seen.do("expire", h=0, p=0).refuse("expire", "NOT_OWED", h=0, p=0)


def test_siblings_are_reported_each():
    """One peer takes the rows that two samples share, and each sample has its own report."""
    seen = request(handles=2, parts=1)
    seen.do("fork", p=0, children=(False, True), n=0)
    for h in (0, 1):
        seen.do("hold", h=h, p=0).do("register", h=h, p=0)
    seen.do("land", h=1, p=0)
    assert [seen["mail", h, 0] for h in (0, 1)] == [1, 1]
    seen.do("arrive", h=0, p=0)
    assert [seen["pin", h, 0] for h in (0, 1)] == ["MET", "AWAITED"]
    seen.do("arrive", h=1, p=0)
    assert seen["pin", 1, 0] == "MET"


def test_a_part_is_held_once_by_a_request():
    """A part has one pin in a request, even after it was met."""
    seen = serving(0).refuse("hold", "ALREADY_PINNED", h=0, p=0)
    seen.refuse("register", "NOT_WAITING_FOR_REGISTRATION", h=0, p=0)
    seen.do("land", h=0, p=0).do("arrive", h=0, p=0)
    seen.refuse("hold", "ALREADY_PINNED", h=0, p=0).refuse("crash", "NOT_BUSY", h=0, p=0)
    seen.do("finish", h=0).refuse("hold", "HANDLE_TERMINAL", h=0, p=1)
