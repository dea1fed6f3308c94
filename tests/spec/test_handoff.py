"""Hand-offs as short runs: tokens that go on, handshakes, clients that leave, consumers that never come."""

import pytest
from observed import Observed

from kvspec.spec import handoff

P, D = 0, 1
ALL = (True, True)


def workers(**sizes):
    """A request on the prefill handle and a fresh one on the decode handle."""
    sizes = {"layers": 2, "formats": 2, "tokens": 2, **sizes}
    seen = Observed(handoff.make_instance("SCENARIO", "", **sizes))
    return seen.do("allocate", h=P, b=0, a=0).do("allocate", h=D, b=1, a=0)


def retained(emits="ORDINARY", **sizes):
    """The prefill has emitted one token and finished."""
    return workers(**sizes).do("emit", h=P, s=emits).do("finish", h=P)


def moving(emits="ORDINARY", **sizes):
    """The rows are on their way, with both layers in their place."""
    seen = retained(emits, **sizes).do("offer", k=0, h=P, o=(0, 1), filled=ALL, f=0)
    return seen.do("accept", k=0, g=D, m=(0, 1), f=0)


def taken(emits="ORDINARY", **sizes):
    """The decode handle has taken over."""
    return moving(emits, **sizes).do("complete", k=0).do("take_over", k=0)


def test_an_output_goes_on_where_it_was():
    """The consumer counts from the tokens that came with the rows, up to the limit of the request."""
    seen = taken()
    assert (seen["emitted", D], seen["told", D], seen["retained", P]) == (1, 1, False)
    seen.do("emit", h=D, s="ORDINARY").refuse("emit", "OUTPUT_STOPPED", h=D, s="ORDINARY")
    assert seen["told", D] == 2


@pytest.mark.parametrize(("emits", "tokens"), [("END", 2), ("ORDINARY", 1)])
def test_a_first_token_may_be_the_last(emits, tokens):
    """The stop predicate is asked at the hand-off: by the token and by the limit."""
    taken(emits, tokens=tokens).refuse("emit", "OUTPUT_STOPPED", h=D, s="ORDINARY")


def test_nothing_is_emitted_before_the_rows_are_there():
    """While rows are on their way their request neither emits nor finishes nor is released."""
    seen = (
        moving().refuse("emit", "ROWS_MOVE", h=D, s="ORDINARY").refuse("finish", "ROWS_MOVE", h=D)
    )
    seen.do("cancel_request", h=D).refuse("release", "ROWS_MOVE", h=D)


@pytest.mark.parametrize(("order", "filled"), [((1, 0), ALL), ((0, 1), (True, False))])
def test_other_layers_are_refused(order, filled):
    """Layers in another order, or not the same ones, are refused before any byte moves."""
    seen = retained().do("offer", k=0, h=P, o=order, filled=filled, f=0)
    seen.refuse("accept", "LAYERS_MISMATCH", k=0, g=D, m=(0, 1), f=0)
    assert seen["ticket", 0] == "OFFERED"


def test_an_offer_without_a_layer_is_refused():
    """A sender that has no layer of the request has nothing to offer."""
    nothing = (False, False)
    retained().refuse("offer", "NO_LAYER", k=0, h=P, o=(0, 1), filled=nothing, f=0)


def test_an_order_of_ones_own_is_looked_up():
    """Layers may stand in any order at the sender, if the receiver looks for them where they are."""
    seen = (
        retained()
        .do("offer", k=0, h=P, o=(1, 0), filled=ALL, f=0)
        .do("accept", k=0, g=D, m=(1, 0), f=0)
    )
    assert [seen["reads", D, layer] for layer in range(2)] == [0, 1]


def test_another_format_is_refused():
    """Element type and block size of both ends must be equal."""
    seen = retained().do("offer", k=0, h=P, o=(0, 1), filled=ALL, f=0)
    seen.refuse("accept", "FORMAT_MISMATCH", k=0, g=D, m=(0, 1), f=1)


def test_a_cancel_after_the_finish_still_releases():
    """A client that leaves a finished request frees its rows, and the first reason stays."""
    seen = retained().refuse("release", "RETAINED", h=P).refuse("withdraw", "CLIENT_PRESENT", h=P)
    seen.do("hang_up", h=P).refuse("cancel_request", "HANDLE_TERMINAL", h=P)
    seen.do("withdraw", h=P).do("release", h=P)
    assert seen["reason", P] == "FINISHED"


def test_nothing_is_retained_for_a_client_that_has_gone():
    """A result that is there before the cancel was read retains nothing."""
    seen = workers().do("hang_up", h=P).do("finish", h=P)
    assert not seen["retained", P]
    seen.refuse("offer", "NOT_RETAINED", k=0, h=P, o=(0, 1), filled=ALL, f=0).do("release", h=P)


def test_an_offer_is_called_back_at_once_and_moving_rows_are_not():
    """A client that leaves voids an offer; rows that move are waited for."""
    seen = (
        retained()
        .do("offer", k=0, h=P, o=(0, 1), filled=ALL, f=0)
        .do("hang_up", h=P)
        .do("withdraw", h=P)
    )
    assert seen["ticket", 0] == "IDLE"
    seen = moving().do("hang_up", h=P)
    seen.refuse("withdraw", "ROWS_MOVE", h=P).refuse("expire", "ROWS_MOVE", h=P)
    seen.do("fail", k=0).do("withdraw", h=P).do("release", h=P)


def test_a_client_that_left_is_known_to_who_takes_over():
    """A client that leaves while rows move has left the request that goes on."""
    seen = moving().do("hang_up", h=P).do("complete", k=0).do("take_over", k=0)
    assert seen["gone", D]
    seen.do("cancel_request", h=D).do("release", h=D).do("release", h=P)


def test_a_consumer_that_never_comes_is_not_waited_for():
    """The lease ends, an offer with it, and the rows are released."""
    seen = retained().do("offer", k=0, h=P, o=(0, 1), filled=ALL, f=0).do("expire", h=P)
    seen.refuse("accept", "NOT_OFFERED", k=0, g=D, m=(0, 1), f=0).do("release", h=P)


def test_rows_for_a_request_that_has_ended_are_offered_again():
    """A consumer that ended takes nothing over, and the prefill still has the rows."""
    seen = moving().do("cancel_request", h=D).do("complete", k=0)
    seen.refuse("take_over", "CONSUMER_GONE", changes=True, k=0)
    assert (seen["retained", P], seen["ticket", 0]) == (True, "IDLE")
    seen.do("offer", k=0, h=P, o=(0, 1), filled=ALL, f=0)


def test_a_request_with_rows_of_its_own_takes_no_ticket():
    """Neither an open append nor a committed row is written over by rows that come."""
    seen = retained(layers=1, txns=1, longest=1).do("offer", k=0, h=P, o=(0,), filled=(True,), f=0)
    call = {"k": 0, "g": D, "m": (0,), "f": 0}
    seen.do("begin", x=0, h=D, k=0, a=0, p=0, n=1).refuse("accept", "CONSUMER_HAS_ROWS", **call)
    seen.do("stage_k", x=0, l=0, p=0).do("stage_v", x=0, l=0, p=0).do("prepare", x=0).do(
        "publish", x=0
    )
    seen.refuse("accept", "CONSUMER_HAS_ROWS", **call)


def test_nothing_is_appended_and_nobody_forked_where_rows_move():
    """Until it has taken over, a request has its block to itself, and no append begins."""
    seen = moving(handles=3, txns=1, longest=1, without=())
    append = {"x": 0, "h": D, "k": 0, "a": 0, "p": 0, "n": 1}
    child = {"p": D, "children": (False, False, True), "n": 0}
    seen.refuse("begin", "ROWS_MOVE", **append).refuse("fork", "ROWS_MOVE", **child)
    seen.do("complete", k=0).do("take_over", k=0).do("fork", **child).do("begin", **append)


def test_a_request_that_shares_its_block_takes_no_ticket():
    """Rows do not move into a block that a fork reads."""
    seen = retained(handles=3, layers=1, without=()).do(
        "offer", k=0, h=P, o=(0,), filled=(True,), f=0
    )
    seen.do("fork", p=D, children=(False, False, True), n=0)
    seen.refuse("accept", "CONSUMER_SHARES", k=0, g=D, m=(0,), f=0)
    seen.do("cancel_request", h=2).do("release", h=2).do("accept", k=0, g=D, m=(0,), f=0)
