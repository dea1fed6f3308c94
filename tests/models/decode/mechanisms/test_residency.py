"""Windowed layers on real rows: damage in numbers, and all that a small instance allows."""

import pytest
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.residency import Cache
from kvspec.properties.residency import residency as claims
from kvspec.spec import residency


@pytest.mark.slow
def test_the_sound_cache_does_what_bursts_allow():
    """Most transitions of bursts behind a window of two go as specified, without damage."""
    report = sample(Cache(), residency.BURST, claims, walks=20_000, examples=250)
    assert report.holds, report.text()
    assert report.touched >= 0.75 * report.transitions


def told(cache, *steps):
    """The cache after more steps, all of which it takes."""
    for action, values in steps:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


def begun(cache, start, stop):
    """An append of rows, whose K and V are staged."""
    told(cache, ("begin", {"x": 0, "h": 0, "k": 0, "a": 0, "p": start, "n": stop - start}))
    for p in range(start, stop):
        for layer, part in ((0, "k"), (0, "v"), (1, "k"), (1, "v")):
            told(cache, (f"stage_{part}", {"x": 0, "l": layer, "p": p}))
    return cache


def request(window, faults=()):
    """A request of four rows in two layers."""
    cache = Cache(faults=faults)
    made = residency.make_instance(
        "SCENARIO", "", layers=2, windows=window, longest=8, versions=6, rewinds=1
    )
    cache.reset(made)
    begun(told(cache, ("allocate", {"h": 0, "b": 0, "a": 0})), 0, 4)
    return told(cache, ("prepare", {"x": 0}), ("publish", {"x": 0}), ("forget", {"x": 0}))


def test_resident_rows_give_the_logits_of_all_rows():
    """Of four rows two are left to a window of two, and the next logits are the same."""
    cache = request(2)
    assert cache.first == [[2, 2]]
    assert not cache.damage()


def test_a_burst_under_a_narrow_mask_has_logits_that_are_off():
    """The third query of a burst sees a row that its window hides, for which the mask has no column."""
    cache = begun(request(3, ("stage_k.window-and-query-alone",)), 4, 7)
    assert cache.columns == [[3, 3]]
    assert {harm.kind for harm in cache.damage()} == {"logits"}
    sound = begun(request(3), 4, 7)
    assert sound.columns == [[6, 6]]
    assert not sound.damage()


def test_a_burst_taken_back_leaves_a_gap_where_rows_were_let_go():
    """The next logits lack rows of the window; where nothing is let go before publication they do not."""
    for faults, kinds in ((), set()), (("stage_k.lets-go-while-open",), {"logits", "rows"}):
        cache = told(begun(request(3, faults), 4, 7), ("cancel_txn", {"x": 0}))
        assert {harm.kind for harm in cache.damage()} == kinds
