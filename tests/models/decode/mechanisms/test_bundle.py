"""Companions on real rows: damage in numbers, and all that small instances allow."""

import pytest
import torch
from graph_walks import sample

from kvspec.models.concrete import Event
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.mechanisms.bundle import Cache
from kvspec.models.decode.mechanisms.bundle_companions import PREFIX, Recurrent, draft_model
from kvspec.models.decode.mechanisms.slot_rows import small_model
from kvspec.properties.atlas import bundle as atlas
from kvspec.properties.bundle import bundle as claims
from kvspec.spec import bundle_instances as instances


def test_the_sound_cache_does_what_one_draft_allows():
    """Random walks with a round of one draft go as specified, without damage."""
    report = sample(Cache(), atlas.ONE_DRAFT, claims, walks=200, examples=2)
    assert report.failure is None, report.text()
    assert report.touched > 100


@pytest.mark.slow
@pytest.mark.parametrize(
    ("instance", "examples", "share"),
    [
        (atlas.SWAP, 30, 0.99),
        (atlas.TWICE, 60, 1.0),
        (atlas.BACK_BY_ONE, 120, 0.9),
        (atlas.ONE_DRAFT, 120, 0.9),
    ],
    ids=["SWAP", "TWICE", "BACK_BY_ONE", "ONE_DRAFT"],
)
def test_the_sound_cache_does_what_an_instance_allows(instance, examples, share):
    """Every transition of a continuation, and nearly all of the other instances, go as specified."""
    report = sample(Cache(), instance, claims, walks=40_000, examples=examples)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions


def told(*steps, faults=(), **sizes):
    """A cache with one request of a prompt of one token, told of more."""
    cache = Cache(faults=faults)
    cache.reset(instances.make_instance("SCENARIO", "", **{"longest": 4, "versions": 4, **sizes}))
    for action, values in [("allocate", {"h": 0, "b": 0, "a": 0, "p": 1}), *steps]:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


def appended(start, count, drafts=0):
    """An append up to its publication, or to the verdict on its drafts."""
    yield "begin", {"x": 0, "h": 0, "k": 0, "a": 0, "p": start, "n": count, "d": drafts}
    for part in "kv":
        for place in range(start, start + count):
            yield f"stage_{part}", {"x": 0, "l": 0, "p": place}
    yield "prepare", {"x": 0}
    if not drafts:
        yield "publish", {"x": 0}
        yield "forget", {"x": 0}


def verified(accepted):
    """The verdict on a round, and its publication."""
    yield "verify", {"x": 0, "a": accepted}
    yield "publish", {"x": 0}
    yield "forget", {"x": 0}


def test_a_recurrent_state_goes_back_as_if_it_had_never_gone_on():
    """Three rows in and two of them out again give the state behind one row."""
    run_ = small_model().run((*PREFIX, 5, 9, 7))
    keys, values = run_.keys[-1], run_.values[-1]
    state = Recurrent.behind(keys, values)
    for place in (4, 3):
        state.take_out(keys[:, place], values[:, place])
    before = Recurrent.behind(keys[:, :3], values[:, :3])
    assert state.position == before.position == 1
    assert torch.allclose(state.state, before.state, atol=1e-12)


def test_a_draft_model_catches_up_with_the_row_that_it_lacks():
    """After a round whose drafts were all accepted the next one begins a row earlier."""
    cache = told(*appended(0, 3, 2), *verified(2))
    assert (len(cache.requests[0].tokens), cache.requests[0].drafts.count) == (3, 2)
    more = {"x": 0, "h": 0, "k": 0, "a": 0, "p": 3, "n": 1, "d": 1}
    assert cache.perform(Event("begin", tuple(more.items()))).accepted
    rows = cache.requests[0].drafts
    run_ = draft_model().run(tuple(rows.ids))
    assert rows.count == 3
    assert torch.allclose(rows.rows[0, Part.KEY][0], run_.keys[0], atol=1e-5)
    assert not cache.damage()


def test_rejected_drafts_leave_no_row():
    """A verdict that accepts one of two drafts leaves two rows of the target and of the draft model."""
    cache = told(*appended(0, 3, 2), *verified(1))
    assert len(cache.requests[0].tokens) == cache.requests[0].drafts.count == 2
    assert cache.requests[0].recurrent.position == 2
    assert not cache.damage()


def test_a_wrong_mask_is_measured_in_shares():
    """The share that is off is that of a token which the row's mask forbids, or lets grow."""
    steps = (
        ("attach", {"h": 0}),
        ("enter", {"r": 0, "h": 0}),
        ("reorder", {"source": (1, 0)}),
    )
    fault = "reorder.drop-assignment.row_mask"
    left, moved = told(*steps, rows=2, faults=(fault,)).damage()
    logits = uncached_logits(told(*steps, rows=2))
    own = logits + told(*steps, rows=2).requests[0].grammar.mask()
    off = (logits.softmax(0) - own.softmax(0)).abs().max()
    assert left.amount == 96
    assert moved.amount == pytest.approx(float(off), rel=1e-4)
    assert not told(*steps, rows=2).damage()


def uncached_logits(cache):
    """Logits behind the tokens of the only request, by an uncached run of the cache's own decoder."""
    held = cache._held()
    return held.models[0].run((*PREFIX, *cache.requests[0].tokens)).logits.double()


def test_an_instance_that_outgrows_the_text_is_refused():
    """The text ends; lengths that may reach beyond it are told with those that fit."""
    with pytest.raises(ValueError, match="give an instance of lengths up to 31"):
        Cache().reset(instances.make_instance("LONG", "", longest=32))
