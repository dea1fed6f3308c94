"""Owners of a shared prefix: {A, B}, {B}, none, and only then eviction (A8)."""

from scenario import ready


def shared():
    """A request A on handle 0 and its child B on handle 1, with one block."""
    return ready().appended().do("fork", p=0, children=(False, True, False), n=1)


def test_a_block_is_evicted_only_without_owners():
    """{A, B} -> {B} -> {}: each release gives up one claim, and eviction waits for the last (A8)."""
    cache = shared()
    assert cache.owners(0) == {0, 1}
    refusal = cache.refuse("evict", "STILL_OWNED", b=0)
    assert refusal.found == "owner[block0, handle0] = true, b = block0"
    cache.do("finish", h=0).refuse("evict", "STILL_OWNED", b=0)
    cache.do("release", h=0)
    assert cache.owners(0) == {1}
    refusal = cache.refuse("evict", "STILL_OWNED", b=0)
    assert refusal.found == "owner[block0, handle1] = true, b = block0"
    cache.do("cancel_request", h=1).do("release", h=1)
    assert cache.owners(0) == set()
    assert cache["filled", 0] is True
    cache.do("evict", b=0)
    assert cache["filled", 0] is False


def test_finish_release_and_free_are_three_facts():
    """The phase, the claim and the block each change in a step of their own (A8)."""
    cache = ready().appended()
    facts = []

    def note():
        facts.append((cache["phase", 0], cache.owners(0), cache["filled", 0], cache.shows(0)[0]))

    note()
    for action, values in (("finish", {"h": 0}), ("release", {"h": 0}), ("evict", {"b": 0})):
        cache.do(action, **values)
        note()
    assert facts == [
        ("DECODE_READY", {0}, True, (1, 1)),
        ("FINISHED", {0}, True, (1, 1)),
        ("RELEASED", set(), True, (0, 0)),
        ("RELEASED", set(), False, (0, 0)),
    ]


def test_a_child_still_reads_after_its_parent_is_released():
    """The prefix belongs to the child as well: release of the parent takes nothing from it (A8)."""
    cache = shared().do("finish", h=0).do("release", h=0)
    assert cache.shows(1) == [(1, 1)] * 2
    cache.do("forget", x=0).appended(txn=0, handle=1)
    assert cache["length", 1] == 2


def test_an_empty_block_is_not_evicted_twice():
    """There is nothing to free in a block that holds nothing (A8)."""
    cache = ready().do("finish", h=0).do("release", h=0).do("evict", b=0)
    refusal = cache.refuse("evict", "BLOCK_EMPTY", b=0)
    assert refusal.found == "filled[block0] = false, b = block0"


def test_a_block_is_filled_again_only_after_eviction():
    """Until it is evicted, a block without owners is not given away (A8)."""
    cache = ready().do("finish", h=0).do("release", h=0)
    cache.refuse("allocate", "BLOCK_IN_USE", h=1, b=0, a=0)
    cache.do("evict", b=0).do("allocate", h=1, b=0, a=1)
    assert cache.owners(0) == {1}


def test_a_grandchild_owns_the_block_of_its_grandparent():
    """Claims are inherited along a line of forks (A6, A8)."""
    cache = shared().do("fork", p=1, children=(False, False, True), n=0)
    assert cache.owners(0) == {0, 1, 2}
    assert cache.owners(1) == set()
