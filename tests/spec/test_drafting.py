"""Speculative rounds in a cache that is written in place."""

import pytest
from observed import Observed

from kvspec.spec import drafting


def admitted(prompt=2, longest=9, values=None):
    """A request with the rows of its prompt, and its first output."""
    made = drafting.make_instance("SCENARIO", "", longest=longest, values=values)
    return Observed(made).do("admit", h=0, p=prompt)


def counts(seen):
    """Rows, position and tokens of the client."""
    return seen["written", 0], seen["position", 0], seen["known", 0]


def deliver(seen, tokens, last="ORDINARY"):
    """The client gets as many tokens; `last` says whether the last of them is the last output."""
    for left in reversed(range(tokens)):
        seen.do("deliver", h=0, t="ORDINARY" if left else last)
    return seen


@pytest.mark.parametrize("accepted", range(4))
def test_position_and_rows_agree_for_any_accepted_count(accepted):
    """After a round of three drafts, a accepted, there are a + 1 rows more, and the position is theirs."""
    seen = admitted().do("draft", h=0, d=3)
    assert counts(seen) == (6, 2, 3)
    seen.do("verify", h=0, a=accepted)
    seen.refuse("close", "UNDELIVERED", h=0)
    deliver(seen, accepted + 1).do("close", h=0)
    assert counts(seen) == (3 + accepted, 3 + accepted, 4 + accepted)


@pytest.mark.parametrize("tokens", range(1, 4))
def test_a_stop_within_a_round_cuts_what_the_client_did_not_get(tokens):
    """Of three accepted drafts the client gets fewer, and the key has none of the others."""
    seen = admitted().do("draft", h=0, d=3).do("verify", h=0, a=3)
    deliver(seen, tokens, "STOP")
    seen.refuse("deliver", "OUTPUT_STOPPED", h=0, t="ORDINARY")
    seen.do("close", h=0).do("finish", h=0)
    assert seen["key", 0] + 1 == seen["known", 0] == 3 + tokens


@pytest.mark.parametrize("events", range(6))
def test_a_cancel_at_every_point_cuts_by_the_counts_of_its_own_round(events):
    """After a round that delivered three, the next one is interrupted anywhere: no row of it is left over."""
    seen = admitted().do("draft", h=0, d=2).do("verify", h=0, a=2)
    deliver(seen, 3).do("close", h=0)
    course = [
        ("draft", {"h": 0, "d": 1}),
        ("verify", {"h": 0, "a": 1}),
        ("deliver", {"h": 0, "t": "ORDINARY"}),
        ("deliver", {"h": 0, "t": "ORDINARY"}),
        ("close", {"h": 0}),
    ]
    for action, values in course[:events]:
        seen.do(action, **values)
    known = seen["known", 0]
    seen.do("cancel", h=0)
    assert (*counts(seen), seen["key", 0]) == (known - 1, known - 1, known, known - 1)


def test_a_lost_verdict_undoes_the_round():
    """Rows of a round without a verdict are cut, and the same tokens are drafted for again."""
    seen = admitted().do("draft", h=0, d=2)
    seen.refuse("truncate", "ROUND_OPEN", h=0, n=1)
    seen.do("lose", h=0)
    assert counts(seen) == (2, 2, 3)
    seen.do("draft", h=0, d=0)


def test_a_truncation_moves_the_position_with_the_rows():
    """After a truncation the next round begins where the rows end, stopped or not before."""
    seen = deliver(admitted().do("draft", h=0, d=2).do("verify", h=0, a=2), 3, "STOP")
    seen.do("close", h=0)
    seen.refuse("draft", "OUTPUT_STOPPED", h=0, d=0)
    seen.do("truncate", h=0, n=3)
    assert counts(seen) == (3, 3, 4)
    seen.do("draft", h=0, d=1)
    assert counts(seen) == (5, 3, 4)


def test_the_output_that_fills_the_context_is_the_last_one():
    """A request stops where no token has room, whether the output says so or not."""
    seen = admitted(prompt=2, longest=5).do("draft", h=0, d=2).do("verify", h=0, a=2)
    deliver(seen, 2)
    assert seen["stopped", 0]
    seen.do("close", h=0).do("finish", h=0)
    assert counts(seen) == (4, 4, 5)


def test_a_recurrent_state_that_went_back_can_go_back_less_far():
    """With two earlier values kept, rows can be cut twice one by one, or two at once, and then no more."""
    seen = admitted(prompt=4, values=2)
    seen.refuse("truncate", "NO_ROLLBACK", h=0, n=1)
    seen.do("truncate", h=0, n=3).do("truncate", h=0, n=2)
    assert seen["state", 0] == seen["oldest", 0] == 2
    seen.refuse("truncate", "NO_ROLLBACK", h=0, n=1)


def test_a_round_is_as_long_as_the_recurrent_state_can_undo():
    """The row of the last token and those of the drafts are values to go back by."""
    seen = admitted(values=2)
    seen.refuse("draft", "NO_ROLLBACK", h=0, d=2)
    seen.do("draft", h=0, d=1).do("verify", h=0, a=0)
    assert seen["state", 0] == seen["written", 0] == 3
