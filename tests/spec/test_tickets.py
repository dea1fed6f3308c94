"""Tickets: a client whose request is gone does not reach the next one of its handle."""

import pytest
from observed import Observed

from kvspec.spec import tickets


@pytest.fixture
def reused():
    """Handle 0 with its second request; ticket 0 is of the first one, ticket 1 of the second."""
    seen = Observed(tickets.make_instance("SCENARIO", "", txns=1, tickets=2))
    seen.do("allocate", h=0, b=0, a=0).do("take_ticket", t=0, h=0)
    seen.do("finish", h=0, t=0).do("release", h=0, t=0).do("evict", b=0)
    return seen.do("allocate", h=0, b=0, a=0).do("take_ticket", t=1, h=0)


@pytest.mark.parametrize(
    ("action", "values"),
    [
        ("finish", {"h": 0}),
        ("cancel_request", {"h": 0}),
        ("truncate", {"h": 0, "n": 0}),
        ("begin", {"x": 0, "h": 0, "k": 0, "a": 0, "p": 0, "n": 1}),
    ],
)
def test_a_stale_client_reaches_nothing(reused, action, values):
    """Each call is refused to the first client, and taken from the second."""
    reused.refuse(action, "STALE_TICKET", t=0, **values)
    reused.do(action, t=1, **values)
    assert reused["last"] == 1


def test_a_stale_release_is_refused(reused):
    """The first client cannot give up the rows of the second request, even when that has ended."""
    reused.do("finish", h=0, t=1).refuse("release", "STALE_TICKET", h=0, t=0)
    reused.do("release", h=0, t=1)
