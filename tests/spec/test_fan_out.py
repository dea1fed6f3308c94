"""Several samples of one prompt: scenarios of admission and cancel."""

from observed import Observed

from kvspec.spec import fan_out

BOTH = (False, True, True, False)
FIRST = (False, True, False, False)


def prompt(seats=3, **sizes):
    """A request on handle 0 with seat 0, beside handles for samples and for another request."""
    sizes = {"handles": 4, "blocks": 2, "versions": 2, "txns": 1, **sizes}
    seen = Observed(fan_out.make_instance("SCENARIO", "", seats=seats, **sizes))
    return seen.do("allocate", h=0, b=0, a=0, s=0)


def waiting(**sizes):
    """A prompt that has asked for two samples, on handles 1 and 2."""
    return prompt(**sizes).do("ask", p=0, samples=BOTH)


def sampled():
    """A prompt with both samples."""
    return waiting().do("fork", p=0, children=BOTH, n=0, seats=(0, 1, 2, 0))


def test_samples_are_admitted_together_or_not_at_all():
    """With room for one of two samples the fork is refused, and nothing has happened."""
    seen = waiting(seats=2)
    shared, taken = (0, 1, 1, 0), (0, 0, 1, 0)
    seen.refuse("fork", "NOT_ALL_SAMPLES", p=0, children=FIRST, n=0, seats=shared)
    seen.refuse("fork", "SEAT_TAKEN", p=0, children=BOTH, n=0, seats=taken)
    seen.refuse("fork", "ONE_SEAT_FOR_TWO", p=0, children=BOTH, n=0, seats=shared)
    assert [seen["phase", h] for h in (1, 2)] == ["VACANT", "VACANT"]


def test_a_rival_takes_the_room():
    """A rival takes a seat: the fork is refused whole, and the prompt waits on or is turned away."""
    seen = waiting(seats=3).do("allocate", h=3, b=1, a=0, s=1)
    for seats in ((0, 1, 2, 0), (0, 2, 2, 0)):
        code = "SEAT_TAKEN" if 1 in seats else "ONE_SEAT_FOR_TWO"
        seen.refuse("fork", code, p=0, children=BOTH, n=0, seats=seats)
    seen.do("turn_away", p=0).refuse("turn_away", "WAITS_FOR_NONE", p=0)
    assert [seen["wish", h] for h in (1, 2)] == [None, None]


def test_a_rival_takes_the_handle():
    """What was asked for is not reserved: another request may have the handle, and gives it back."""
    seen = waiting().do("allocate", h=1, b=1, a=0, s=1)
    seen.refuse("fork", "CHILD_IN_USE", p=0, children=BOTH, n=0, seats=(0, 1, 2, 0))
    seen.do("cancel_request", h=1).do("release", h=1)
    seen.do("fork", p=0, children=BOTH, n=0, seats=(0, 1, 2, 0))


def test_a_prompt_asks_once():
    """Who waits or has samples asks for no more, and nobody asks for one where another does."""
    seen = waiting().refuse("ask", "GROUP_BEGUN", p=0, samples=(False, False, False, True))
    seen.do("allocate", h=3, b=1, a=0, s=1)
    seen.refuse("ask", "ASKED_FOR", p=3, samples=FIRST)
    seen.refuse("ask", "NO_SAMPLE", p=3, samples=(False,) * 4)
    seen.refuse("ask", "HANDLE_TERMINAL", p=1, samples=FIRST)


def test_one_cancel_ends_the_prompt_and_its_samples():
    """The group ends in one step, with an append to one of its samples."""
    seen = sampled().do("begin", x=0, h=2, k=0, a=0, p=0, n=1)
    seen.refuse("cancel_request", "GROUP_RUNS", h=0).do("cancel_group", p=0)
    assert {seen["phase", h] for h in (0, 1, 2)} == {"CANCELLED"}
    assert seen["state", 0] == "ABORTED"


def test_a_sample_that_ended_keeps_its_reason():
    """A cancel of the group ends those that run; a prompt that has finished is not cancelled."""
    seen = sampled().do("finish", h=0).do("finish", h=1).do("cancel_group", p=0)
    assert [seen["phase", h] for h in (0, 1, 2)] == ["FINISHED", "FINISHED", "CANCELLED"]
    seen.refuse("cancel_group", "NO_RUNNING_MEMBER", p=0)


def test_a_prompt_is_released_after_its_samples():
    """The group goes by the handle of its parent, which is used again only when no member is held."""
    seen = sampled().do("cancel_group", p=0).do("release", h=1)
    seen.refuse("release", "GROUP_HELD", h=0)
    seen.do("release", h=2).do("release", h=0)
    assert [seen["seat", h] for h in (0, 1, 2)] == [None, None, None]


def test_a_sample_has_no_samples():
    """A member of a group asks for none, and is not forked without asking."""
    only = (False, False, False, True)
    seen = sampled().refuse("ask", "IN_A_GROUP", p=1, samples=only)
    seen.refuse("fork", "NOT_ALL_SAMPLES", p=1, children=only, n=0, seats=(0, 0, 0, 0))
