"""The replica: an external view of blocks, from a log that loses events."""

from observed import Observed

from kvspec.spec import replica


def stored(*blocks):
    """Requests of handle 0 have stored one prefix in blocks, and the consumer was told of each."""
    seen = Observed(replica.make_instance("SCENARIO", "", generations=3))
    for b in blocks:
        seen.do("allocate", h=0, b=b, a=0, k=0).do("deliver")
        seen.do("finish", h=0).do("release", h=0)
    return seen


def test_a_removal_takes_one_copy():
    """A prefix that is in two blocks is known until both are emptied."""
    seen = stored(0, 1).do("evict", b=0).do("deliver")
    assert (seen["known", 0], seen["known", 1]) == (None, 0)


def test_clearing_is_one_event():
    """One event tells that no block holds anything."""
    seen = stored(0, 1).do("clear_all").do("deliver")
    assert (seen["known", 0], seen["known", 1], seen["gap"]) == (None, None, False)


def test_a_heartbeat_shows_a_lost_end():
    """A loss behind which nothing comes shows at the next heartbeat, and a snapshot repairs it."""
    seen = stored(0).do("evict", b=0).do("lose")
    seen.refuse("resynchronize", "NO_GAP").do("heartbeat").do("resynchronize")
    assert (seen["known", 0], seen["expected"], seen["sequence"]) == (None, 2, 2)
