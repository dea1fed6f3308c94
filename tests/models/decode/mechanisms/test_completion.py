"""Pins and releases on real blocks: damage that is found by trying, and all that an instance allows."""

import pytest
import torch
from graph_walks import sample

from kvspec.models.backend import Reply
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.completion import Cache
from kvspec.models.decode.mechanisms.completion_damage import bytes_lost
from kvspec.properties.completion import completion as claims
from kvspec.spec.completion import NEXT_REQUEST, SIBLINGS, WITH_APPEND

READ = ("allocate", {"h": 0, "b": 0, "a": 0}), ("hold", {"h": 0, "p": 0})
MET = ("register", {"h": 0, "p": 0}), ("land", {"h": 0, "p": 0}), ("arrive", {"h": 0, "p": 0})
CANCEL = ("cancel_request", {"h": 0})
GONE = CANCEL, ("release", {"h": 0})


def driven_by(cache, *steps, instance=NEXT_REQUEST):
    """The cache after these events, each of them accepted."""
    cache.reset(instance)
    for action, values in steps:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


def found(cache):
    """Kind and place of each damage."""
    return [(harm.kind, harm.where) for harm in cache.damage()]


def size(cache):
    """Bytes of the block."""
    return 2 * cache.pool.keys[:, 0].nbytes


class Lost(Cache):
    """Its records are right, and yet the block of a released request is not given to anybody."""

    def perform(self, event):  # noqa: D102  # as the cache does
        if event.action == "evict":
            return Reply(accepted=False, code="NOT_FREED")
        return super().perform(event)


class Stale(Cache):
    """A released request is on record as one that owes its rows and stands in the queue twice."""

    def _release(self, release, h):
        super()._release(release, h)
        self.told = ("HELD", 2)

    def observe(self):  # noqa: D102  # as the cache does, and with what it has on record
        pin, asked = getattr(self, "told", ("NONE", 0))
        seen = super().observe()
        return type(seen)((*seen.tables[:-5], (pin,), *seen.tables[-4:-1], (asked,)))


class Foreign(Cache):
    """While a peer reads the block of a request, the rows of another one are written over it."""

    def _hold(self, h, p):
        super()._hold(h, p)
        with torch.inference_mode():
            self.pool.keys[:, 0] += 1.0


def test_a_lost_block_is_told_by_what_a_new_request_gets():
    """With right records and a block that nobody is given, bytes are lost."""
    assert found(driven_by(Cache(), *READ, *MET, *GONE)) == []
    cache = driven_by(Lost(), *READ, *MET, *GONE)
    assert cache.observe() == driven_by(Cache(), *READ, *MET, *GONE).observe()
    (harm,) = cache.damage()
    assert (harm.kind, harm.where, harm.amount) == ("owner", "block0", size(cache))


def test_wrong_records_without_harm_are_no_damage():
    """A pin and two releases on record harm nobody, as long as the next request is served and released."""
    cache = driven_by(Stale(), *READ, *MET, *GONE)
    assert cache.observe() != driven_by(Cache(), *READ, *MET, *GONE).observe()
    assert cache.damage() == []


def test_foreign_rows_are_told_by_their_bytes():
    """Records are right, and the peer reads bytes that it did not come for; none is lost."""
    cache = driven_by(Foreign(), *READ)
    assert cache.observe() == driven_by(Cache(), *READ).observe()
    harms = found(cache)
    assert ("rows", "handle0, part0") in harms
    assert list(bytes_lost(cache)) == []


def test_what_can_still_end_is_not_lost():
    """A peer at work, one that stalls, and one that is lost hold the block until they end or are fenced."""
    cache = driven_by(Cache(), *READ)
    assert cache.damage() == []
    before = cache.observe()
    for action in ("stall", "crash"):
        assert cache.perform(Event(action, (("h", 0), ("p", 0)))).accepted
        assert cache.damage() == []
    assert cache.observe() != before


def test_a_report_that_is_ignored_loses_the_block():
    """The pin of an ended request stays, and no request can be given its block; to try it changes nothing."""
    cache = driven_by(
        Cache(faults=("arrive.reports-of-ended-requests-are-ignored",)),
        *READ,
        *MET[:2],
        CANCEL,
    )
    assert cache.damage() == []
    assert cache.perform(Event("arrive", (("h", 0), ("p", 0)))).accepted
    before = cache.observe()
    assert found(cache) == [("owner", "block0")]
    assert cache.observe() == before


def test_a_peer_reads_another_request_after_a_release_that_came_too_early():
    """The block can be given away under the peer, and no harm is there before it can."""
    cache = driven_by(Cache(faults=("cancel_request.the-cancel-releases",)), *READ)
    assert cache.damage() == []
    for action, values in GONE:
        assert cache.perform(Event(action, tuple(values.items()))).accepted
    assert ("rows", "handle0, part0") in found(cache)


def test_a_release_that_is_left_over_falls_on_the_next_request():
    """Two releases stand in the queue: the peers of the next request of the handle lose its rows."""
    cache = driven_by(
        Cache(faults=("cancel_request.the-cancel-releases",)),
        *READ,
        MET[0],
        CANCEL,
        *MET[1:],
    )
    assert found(cache) == [("rows", "handle0")]


def test_the_sound_cache_does_what_two_requests_allow():
    """Walks over two requests of one handle go as specified, without damage."""
    report = sample(Cache(), NEXT_REQUEST, claims, walks=4_000, examples=10)
    assert report.holds, report.text()


@pytest.mark.slow
@pytest.mark.parametrize("made", [SIBLINGS, WITH_APPEND], ids=lambda made: made.name)
def test_the_sound_cache_does_what_an_instance_allows(made):
    """Walks over siblings, and beside an append, go as specified, without damage."""
    report = sample(Cache(), made, claims, walks=4_000, examples=10)
    assert report.holds, report.text()
