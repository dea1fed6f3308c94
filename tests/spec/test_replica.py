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


def test_a_restarted_engine_tells_numbers_anew():
    """The first event of a restarted engine has a number that the consumer has passed, and is a gap."""
    seen = stored(0).do("restart_engine").do("allocate", h=0, b=0, a=0, k=0).do("deliver")
    assert (seen["expected"], seen["sequence"], seen["gap"]) == (1, 1, True)
    seen.do("resynchronize")
    assert (seen["known", 0], seen["followed"], seen["gap"]) == (0, 1, False)


def test_a_restart_shows_without_an_event():
    """A heartbeat has the start of the engine, though no event tells that its cache is empty."""
    seen = stored(0).do("restart_engine")
    seen.refuse("deliver", "CHANNEL_EMPTY").do("heartbeat").do("resynchronize")
    assert (seen["known", 0], seen["expected"], seen["followed"]) == (None, 0, 1)


def test_an_event_from_before_a_restart_brings_nothing_back():
    """An event of the start before, which comes after the snapshot, is a gap and is not applied."""
    seen = Observed(replica.make_instance("SCENARIO", "", blocks=1, generations=3))
    seen.do("restart").do("allocate", h=0, b=0, a=0, k=0).do("finish", h=0).do("release", h=0)
    seen.do("restart_engine").do("resynchronize").do("deliver")
    assert (seen["known", 0], seen["gap"]) == (None, True)
