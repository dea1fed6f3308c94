"""A scheduler ahead of a real decoder: its groups replayed on it, their damage, all that it can do."""

from copy import deepcopy

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event, Machine
from kvspec.models.decode.mechanisms.run_ahead import FAULTS, Cache, fault_for
from kvspec.models.explicit import explore
from kvspec.properties.atlas.run import run_case
from kvspec.properties.atlas.run_ahead import GROUPS
from kvspec.spec import run_ahead

CASES = {
    f"{group.name}-{number}": case for group in GROUPS for number, case in enumerate(group.cases, 1)
}
SHOWN = {
    "A-B06-1": {"layers"},
    "A-B06-2": {"logits", "layers"},
    "A-B06-3": {"logits", "layers"},
    "A-B49-1": {"rows", "logits"},
    "A-B49-2": {"layers"},
    "A-B49-3": {"rows"},
    "A-B61-1": {"owner"},
    "A-B61-2": {"rows", "owner"},
    "A-B61-3": {"layers"},
}


@pytest.fixture(scope="module")
def traces():
    """The trace of every case."""
    return {name: trace_of_case(run_case(case)) for name, case in CASES.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_sound_cache_does_as_specified(traces, name):
    """At the departing step it refuses with the same code, or does what the sound rule does, undamaged."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize("name", SHOWN)
def test_the_faulty_cache_shows_damage(traces, name):
    """With the fault it takes every step of the trace, and the harm is measured at the end."""
    fault = CASES[name].fault
    cache = Cache(faults=(fault_for(fault.name),))
    found = replay(traces[name], cache, faulty=True, faulty_system=fault.changed)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == SHOWN[name]
    assert all(harm.amount > 0 for harm in found.steps[-1].damage)


def test_every_fault_is_one_of_the_groups():
    """Each switch belongs to a case; preemption for ever leaves no number behind, and has none."""
    named = {case.fault.name for case in CASES.values()}
    assert named - set(FAULTS) == {"preempt.drop-guard.PROTECTED"}
    assert set(FAULTS) <= named
    assert fault_for("preempt.drop-guard.PROTECTED") is None


def test_an_unknown_fault_is_refused():
    """The message lists the faults there are."""
    with pytest.raises(
        ValueError,
        match=r"the faults nothing, expected names out of settle\.drop-guard\.STALE_STEP",
    ):
        Cache(faults=("nothing",))


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


def test_the_sound_cache_does_all_that_a_small_instance_allows():
    """Every event in every state, with one step ahead of another, is taken or refused as specified."""
    small = run_ahead.make_instance("ONE_AHEAD", "", outputs=1, incarnations=1)
    assert driven(small) == (101, 321)


@pytest.mark.slow
@pytest.mark.parametrize(
    "instance",
    [
        run_ahead.AHEAD,
        run_ahead.make_instance("OTHERS", "", handles=2, frames=1, outputs=1, slots=1),
    ],
    ids=lambda made: made.name,
)
def test_the_sound_cache_does_all_that_an_instance_allows(instance):
    """Every event in every state, two incarnations or two requests among them."""
    found = explore(instance, [])
    assert driven(instance) == (found.states, found.transitions)


def test_a_preempted_request_goes_on_with_the_same_outputs():
    """The tokens after a preemption are those of an uncached run, though every row was computed twice."""

    def outputs(events):
        cache = Cache()
        cache.reset(run_ahead.make_instance("LIFE", "", slots=5, outputs=4, rows_a_step=2))
        for action, values in events:
            reply = cache.perform(Event(action, tuple(values.items())))
            assert reply.accepted, (action, reply)
        assert cache.damage() == []
        (request,) = cache.requests
        return request.client

    def steps(*rows, tag):
        begin = [("start", {"h": 0, "i": tag})]
        return begin + [
            event
            for n in rows
            for event in (
                ("dispatch", {"h": 0, "f": 0, "n": n}),
                ("settle", {"f": 0, "t": "ORDINARY"}),
            )
        ]

    submit = [("submit", {"h": 0, "p": 2})]
    straight = outputs([*submit, *steps(2, 1, 1, 1, tag=0)])
    late = ("dispatch", {"h": 0, "f": 1, "n": 1})
    off = [*steps(2, 1, tag=0), late, ("preempt", {"h": 0}), *steps(2, 1, 1, 1, tag=1)]
    assert outputs([*submit, *off, ("drain", {"f": 1})]) == straight
    assert len(straight) == 4
