"""Speculative rounds of a real decoder: damage for every accepted count, and all that it can do."""

import pytest
import torch
from graph_walks import answer_everything

from kvspec.models.concrete import Event
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms.drafting import Cache
from kvspec.models.explicit import explore
from kvspec.spec import drafting


def after_round(accepted, faults=()):
    """A cache after one round of three drafts, of which so many were accepted."""
    cache = Cache(faults)
    cache.reset(drafting.make_instance("ROUND", "", longest=9))
    events = [
        ("admit", {"h": 0, "p": 2}),
        ("draft", {"h": 0, "d": 3}),
        ("verify", {"h": 0, "a": accepted}),
        *[("deliver", {"h": 0, "t": "ORDINARY"})] * (accepted + 1),
        ("close", {"h": 0}),
    ]
    for action, values in events:
        assert cache.perform(Event(action, tuple(values.items()))).accepted
    return cache


@pytest.mark.parametrize("accepted", range(4))
def test_one_token_a_round_is_wrong_for_every_accepted_draft(accepted):
    """Logits are off exactly where a draft was accepted; counted by the round they never are."""
    assert after_round(accepted).damage() == []
    damage = after_round(accepted, ("close.one-token-a-round",)).damage()
    assert {harm.kind for harm in damage} == ({"logits"} if accepted else set())


def test_a_measurement_changes_no_row():
    """The next logits are measured beside the rows: before and after, rows and logits are the same."""
    cache = after_round(2)
    (request,) = cache.requests
    every = request.slots[:-1]
    before = [cell.clone() for pair in cache.rows.layers(every) for cell in pair]
    assert cache.damage() == []
    after = [cell for pair in cache.rows.layers(every) for cell in pair]
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))
    last, table = request.client[-1], [*request.slots[: request.written], request.slots[-1]]
    logits = cache.rows.compute([last], request.position, table)[-1]
    right = cache.model.run(tuple(request.client)).logits
    assert disagreement(logits, right) <= TOLERANCES[right.dtype]


def test_right_counts_with_wrong_rows_are_told_apart():
    """A row that is changed under the key of an ended request is measured, though no count is wrong."""
    cache = after_round(2)
    assert cache.perform(Event("cancel", (("h", 0),))).accepted
    assert cache.damage() == []
    counted = cache.observe()
    (request,) = cache.requests
    cache.rows.compute([request.client[1] ^ 1], 1, request.slots[:2])
    assert cache.observe() == counted
    assert {"rows", "logits"} == {
        harm.kind for harm in cache.damage() if harm.where.endswith("key")
    }


@pytest.mark.parametrize(
    ("longest", "values"), [(4, 4), (5, 2), pytest.param(6, 6, marks=pytest.mark.slow)]
)
def test_the_sound_cache_does_all_that_an_instance_allows(longest, values):
    """Every event in every state of one request: taken or refused as specified, undamaged."""
    made = drafting.make_instance("ALL", "", longest=longest, values=values)
    found = explore(made, [])
    cache = Cache()
    assert answer_everything(cache, made, cache.model) == (found.states, found.transitions)
