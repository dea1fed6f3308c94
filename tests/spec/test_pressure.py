"""A pool that is too small: who gives way, and for how long."""

from observed import Observed

from kvspec.spec import pressure


def pool(*, requests=2, slots=2):
    """Requests 0 and 1 have come, in this order, with one slot each."""
    seen = Observed(pressure.make_instance("SCENARIO", "", requests=requests, slots=slots))
    return seen.do("arrive", q=0, s=0).do("arrive", q=1, s=1)


def test_the_youngest_gives_way_once():
    """A parked slot is on its way, so nobody else is preempted; the oldest takes it and finishes."""
    seen = pool().refuse("preempt", "NOT_THE_YOUNGEST", v=0, q=0)
    seen.refuse("preempt", "YOUNGER_ASKS", v=0, q=1)
    seen.do("preempt", v=1, q=0)
    for victim in (0, 1):
        code = "NOTHING_TO_GAIN" if victim else "SLOTS_COME_BACK"
        seen.refuse("preempt", code, v=victim, q=0)
    seen.refuse("take", "SLOT_PARKED", q=0, s=1).do("settle_slot", s=1)
    seen.refuse("take", "OLDER_WAITS", q=1, s=1).do("take", q=0, s=1).do("end", q=0)
    assert [seen["life", 0], seen["life", 1]] == ["ENDED", "ACTIVE"]


def test_who_was_preempted_keeps_its_place():
    """A later request is not admitted before one that lost its slots, and does not outlive its turn."""
    seen = pool(requests=3).do("preempt", v=1, q=0).do("settle_slot", s=1)
    seen.refuse("arrive", "OLDER_WAITS", q=2, s=1)
    assert seen["age", 1] == 1
    seen.do("take", q=0, s=1).do("end", q=0).do("settle_slot", s=0).do("settle_slot", s=1)
    seen.do("take", q=1, s=0).do("take", q=1, s=1).do("end", q=1)


def test_a_second_flush_finds_nothing_and_is_no_error():
    """The owner of a preempted request leaves; no slot is parked for that, and leaving is done once."""
    seen = pool().do("preempt", v=1, q=0).do("settle_slot", s=1).do("give_up", q=1)
    seen.do("leave", q=1)
    assert [seen["parked", s] for s in (0, 1)] == [False, False]
    seen.refuse("leave", "NOT_LEAVING", q=1).do("take", q=0, s=1)


def test_a_request_that_never_fits_is_not_admitted():
    """A pool with a slot too few takes nobody."""
    small = Observed(pressure.TOO_SMALL)
    small.refuse("arrive", "NEVER_FITS", q=0, s=0)
