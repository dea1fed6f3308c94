"""Speculative rounds of a real decoder: their groups replayed on it, their damage, all that it can do."""

from copy import deepcopy

import pytest
import torch

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event, Machine
from kvspec.models.decode.agreement import TOLERANCES, disagreement
from kvspec.models.decode.mechanisms.drafting import FAULTS, Cache, fault_for
from kvspec.models.explicit import explore
from kvspec.properties.atlas.drafting import GROUPS
from kvspec.properties.atlas.run import run_case
from kvspec.spec import drafting

CASES = {
    f"{group.name}-{number}": case for group in GROUPS for number, case in enumerate(group.cases, 1)
}
SHOWN = {
    "A-B41-1": {"logits"},
    "A-B41-2": {"logits"},
    "A-B44-1": {"rows", "logits"},
    "A-B44-2": {"rows", "logits"},
    "A-B53-1": {"rows", "logits"},
    "A-B53-2": {"rows"},
}


@pytest.fixture(scope="module")
def traces():
    """The trace of every case."""
    return {name: trace_of_case(run_case(case)) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_sound_cache_does_as_specified(traces, name):
    """At the departing step it does what the sound rule does, and no step of it is damaged."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize("name", CASES)
def test_the_faulty_cache_shows_damage(traces, name):
    """With the fault it takes every step of the trace, and the harm is measured at the end."""
    fault = CASES[name].fault
    cache = Cache(faults=(fault_for(fault.name),))
    found = replay(traces[name], cache, faulty=True, faulty_system=fault.changed)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == SHOWN[name]
    assert all(harm.amount > 0 for harm in found.steps[-1].damage)


def test_every_fault_is_one_of_the_groups():
    """Each switch belongs to a case, and each case has one."""
    assert {case.fault.name for case in CASES.values()} == set(FAULTS)
    assert fault_for("verify.drop-guard.TOO_MANY_DRAFTS") is None


def test_an_unknown_fault_is_refused():
    """The message lists the faults there are."""
    with pytest.raises(
        ValueError, match=r"the faults nothing, expected names out of close\.one-token-a-round"
    ):
        Cache(faults=("nothing",))


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


def driven(instance):
    """How many transitions a cache was taken through: all events in all states, each on a copy of it."""
    machine, cache = Machine(instance), Cache()
    cache.reset(instance)
    (initial,) = machine.initial_states()
    waiting, taken = {initial: cache}, 0
    known = {initial}
    while waiting:
        state, cache = waiting.popitem()
        assert cache.observe() == state
        assert cache.damage() == []
        for event in machine.events():
            wanted, copy = (
                machine.step(state, event),
                deepcopy(cache, {id(cache.model): cache.model}),
            )
            reply = copy.perform(event)
            assert (reply.accepted, reply.code) == (wanted.kind == "accepted", wanted.code), event
            assert copy.observe() == wanted.state, event
            taken += reply.accepted
            if wanted.state not in known:
                known.add(wanted.state)
                waiting[wanted.state] = copy
    return len(known), taken


@pytest.mark.parametrize("longest", [4, pytest.param(6, marks=pytest.mark.slow)])
def test_the_sound_cache_does_all_that_an_instance_allows(longest):
    """Every event in every state of one request: taken or refused as specified, undamaged."""
    made = drafting.make_instance("ALL", "", longest=longest)
    found = explore(made, [])
    assert driven(made) == (found.states, found.transitions)
