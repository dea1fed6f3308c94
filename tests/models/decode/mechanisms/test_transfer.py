"""Transfers of real rows: damage that is found by trying, and all that an instance allows."""

import pytest
from graph_walks import sample

from kvspec.models.backend import Reply
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.tiers_rows import copy, rows_of, size_of
from kvspec.models.decode.mechanisms.transfer import Cache
from kvspec.properties.atlas.transfer import NEXT_REQUEST, NOTHING_MOVES, TWO_ATTEMPTS
from kvspec.properties.transfer import transfer as claims
from kvspec.spec.transfer import APPENDS

LOADING = (
    ("allocate", {"h": 0, "b": 0, "a": 0}),
    ("place", {"e": 0}),
    ("queue_load", {"t": 0, "h": 0, "b": 0, "e": 0}),
    ("push", {"t": 0}),
    ("register", {"t": 0}),
)
GONE = ("cancel_request", {"h": 0}), ("release", {"h": 0})


def driven_by(cache, *steps, instance=NEXT_REQUEST):
    """The cache after these events, each of them accepted."""
    cache.reset(instance)
    for action, values in steps:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


class Lost(Cache):
    """Its records are right, and yet a block that is pinned by nobody is not given to anybody."""

    def perform(self, event):  # noqa: D102  # as the cache does
        if event.action == "evict" and self.moves[0].stage == "DRAINED":
            return Reply(accepted=False, code="NOT_FREED")
        return super().perform(event)


class Stale(Cache):
    """A block counts as pinned for ever, and is given to whoever wants it all the same."""

    def _drain(self, t):
        super()._drain(t)
        self.moves[t].block_pin = True

    def _pins(self, b):
        return super()._pins(b) and self.moves[0].stage != "DRAINED"


class Unwritten(Cache):
    """A block is given to a new request, and what is in it stays that of another one."""

    def _allocate(self, allocate, h, b, a):
        super()._allocate(allocate, h, b, a)
        if self.moves[0].stage == "DRAINED":
            copy(self.blocks[b].buffer, rows_of((0,)))


ENDED = (*LOADING, ("give_up", {"t": 0}), ("end_lease", {"t": 0}), ("drain", {"t": 0}), *GONE)


def test_bytes_are_lost_that_no_request_can_be_given():
    """What counts is whether a new request gets the block, not what the record of the transfer says."""
    assert driven_by(Cache(), *ENDED).damage() == []
    assert driven_by(Stale(), *ENDED).damage() == []
    cache = driven_by(Lost(), *ENDED)
    assert not cache.moves[0].block_pin
    (harm,) = cache.damage()
    assert (harm.kind, harm.where) == ("owner", "block0")
    assert harm.amount == size_of(cache.blocks[0].buffer)


def test_a_block_with_rows_of_another_request_is_no_gift():
    """If a new request finds rows that are not its own in the block, the bytes that are wrong are counted."""
    harms = driven_by(Unwritten(), *ENDED).damage()
    assert [(harm.kind, harm.where) for harm in harms] == [("rows", "block0")]


def test_what_can_still_end_is_not_lost():
    """A running load, one that was given up, and a silent sender hold bytes only until the lease ends."""
    cache = driven_by(Cache(), *LOADING, *GONE)
    assert cache.damage() == []
    before = cache.observe()
    for action in ("give_up", "crash"):
        assert cache.perform(Event(action, (("t", 0),))).accepted
        assert cache.damage() == []
    assert cache.observe() != before


def test_a_closed_wait_loses_the_block_when_its_request_has_ended():
    """While the request is ready nothing is lost; with the cancel the block is, before the release."""
    cache = driven_by(
        Cache(faults=("cancel_request.closes-the-transport",)), *LOADING, instance=NOTHING_MOVES
    )
    assert cache.damage() == []
    assert cache.perform(Event("cancel_request", (("h", 0),))).accepted
    before = cache.observe()
    assert [harm.kind for harm in cache.damage()] == ["owner"]
    assert cache.observe() == before


def test_a_pin_that_is_dropped_early_harms_the_next_request():
    """The block can be given away at once, and the sender then writes to rows of the one who got it."""
    cache = driven_by(
        Cache(faults=("give_up.unpins-at-once",)), *LOADING, ("give_up", {"t": 0}), *GONE
    )
    assert "rows" in {harm.kind for harm in cache.damage()}
    assert driven_by(Cache(), *LOADING, ("give_up", {"t": 0}), *GONE).damage() == []


@pytest.mark.slow
@pytest.mark.parametrize("made", [NEXT_REQUEST, TWO_ATTEMPTS, APPENDS], ids=lambda made: made.name)
def test_the_sound_cache_does_what_an_instance_allows(made):
    """Walks over two requests of a block, two attempts, and an append go as specified, without damage."""
    report = sample(Cache(), made, claims, walks=4_000, examples=40)
    assert report.holds, report.text()


def test_an_append_to_rows_that_are_still_coming_leaves_nothing():
    """An append is refused while a load of its block is queued, and the state stays as it was."""
    cache = driven_by(Cache(), *LOADING[:3], instance=APPENDS)
    before = cache.observe()
    call = {"x": 0, "h": 0, "k": 0, "a": 0, "p": 0, "n": 1}
    assert cache.perform(Event("begin", tuple(call.items()))).code == "ROWS_ARRIVING"
    assert cache.observe() == before
