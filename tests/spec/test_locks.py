"""Locks of components that come and go: scenarios of receipts."""

from observed import Observed

from kvspec.spec import locks

ROWS, STATE = 0, 1


def node(*present, locks_=2):
    """A node with some of its two components."""
    seen = Observed(locks.make_instance("SCENARIO", "", components=2, locks=locks_))
    for c in present:
        seen.do("load", n=0, c=c)
    return seen


def test_a_component_that_came_later_is_not_given_back():
    """A lock of the rows gives back the rows alone, though the state is there by then."""
    seen = node(ROWS).do("lock", k=0, n=0).do("load", n=0, c=STATE)
    seen.refuse("unlock", "NOT_THE_RECEIPT", k=0, back=(True, True))
    seen.refuse("unlock", "NOT_THE_RECEIPT", k=0, back=(False, False))
    seen.do("unlock", k=0, back=(True, False))
    assert not seen["short", 0, STATE]


def test_a_locked_component_is_not_dropped():
    """What no lock took can be dropped under a lock, and what it took cannot."""
    seen = node(ROWS).do("lock", k=0, n=0).do("load", n=0, c=STATE)
    seen.refuse("drop", "COMPONENT_LOCKED", n=0, c=ROWS).do("drop", n=0, c=STATE)


def test_the_last_unlock_lets_a_component_be_dropped():
    """Two locks took the rows, one of them the state as well: each gives back its own."""
    seen = node(ROWS).do("lock", k=0, n=0).do("load", n=0, c=STATE).do("lock", k=1, n=0)
    seen.do("unlock", k=1, back=(True, True)).do("drop", n=0, c=STATE)
    seen.refuse("drop", "COMPONENT_LOCKED", n=0, c=ROWS)
    seen.do("unlock", k=0, back=(True, False)).do("drop", n=0, c=ROWS)


def test_a_receipt_is_used_once():
    """A lock is taken once and given back once."""
    seen = node(ROWS).do("lock", k=0, n=0).refuse("lock", "LOCK_IN_USE", k=0, n=0)
    seen.do("unlock", k=0, back=(True, False))
    seen.refuse("unlock", "NOT_LOCKED", k=0, back=(True, False))
