"""Tests of the machine that follows an engine, on events made up for it."""

import attrs
import pytest

from kvspec.models.concrete.machine import Event, Machine
from kvspec.models.decode import DecodeError
from kvspec.models.decode.engine_follow import Follower, Rules
from kvspec.spec import serving
from kvspec.spec.handles import length

INSTANCE = serving.make_instance("FOLLOWED", "", layers=1, longest=4, versions=3, generations=2)
BEGIN = {"h": 0, "k": 0, "a": 0, "p": 0, "n": 2, "d": 0}


@pytest.fixture(scope="module")
def rules():
    """The serving system with one request of up to four rows."""
    return Rules(INSTANCE)


def event(action, **values):
    """An event by the names of its parameters."""
    return Event(action, tuple(values.items()))


ALLOCATE = event("allocate", h=0, b=0, a=0, p=2)


def behind(state, *events):
    """The state behind accepted events."""
    machine = Machine(INSTANCE)
    for each in events:
        outcome = machine.step(state, each)
        assert outcome.kind == "accepted"
        state = outcome.state
    return state


def test_what_was_carried_out_as_specified_holds(rules):
    """Events that are accepted, and states that are those of the machine, have no finding."""
    follower = Follower(rules)
    assert follower.verdict == "unknown"
    state = behind(rules.initial, ALLOCATE)
    follower.take([ALLOCATE], state)
    both = [event("begin", x=0, **BEGIN), event("stage_k", x=0, l=0, p=0)]
    follower.take(both, behind(state, *both))
    assert (follower.verdict, follower.finding, follower.events) == ("holds", None, 3)


def test_the_order_of_an_events_values_does_not_matter(rules):
    """Values go to their parameters by name."""
    follower = Follower(rules)
    turned = Event("allocate", tuple(reversed(ALLOCATE.values)))
    follower.take([turned], behind(rules.initial, ALLOCATE))
    assert follower.verdict == "holds"


def test_a_refused_event_is_told_with_its_code(rules):
    """The finding names the event and the guard's code, and later ones do not replace it."""
    follower = Follower(rules)
    follower.take([event("emit", h=0)], rules.initial)
    first = follower.finding
    assert first == (
        "event 1: emit(h=handle0) was carried out, and is refused with HANDLE_TERMINAL"
    )
    follower.take([event("publish", x=0)], rules.initial)
    follower.report("something else")
    assert (follower.verdict, follower.finding, follower.events) == ("violated", first, 1)


def test_a_state_that_differs_is_told_by_its_variables(rules):
    """The finding names each variable with what was found and expected."""
    follower = Follower(rules)
    follower.take([ALLOCATE], rules.initial)
    assert follower.verdict == "violated"
    assert "after allocate(h=handle0" in follower.finding
    assert "phase = ['VACANT'], expected ['DECODE_READY']" in follower.finding
    assert "prompt = [0], expected [2]" in follower.finding
    assert "length" not in follower.finding


def test_a_change_without_an_event_is_seen(rules):
    """A state that moved although nothing was told differs from the machine's."""
    follower = Follower(rules)
    follower.take([], behind(rules.initial, ALLOCATE))
    assert follower.verdict == "violated"
    assert "after nothing: phase" in follower.finding


def test_a_step_out_of_bounds_is_no_accepted_step(rules):
    """An instance that is too small says so; it does not pass for the specification's word."""
    small = Rules(attrs.evolve(INSTANCE, bounds={**INSTANCE.bounds, "Version": 0}))
    events = [
        ALLOCATE,
        event("begin", x=0, **{**BEGIN, "n": 1}),
        event("stage_k", x=0, l=0, p=0),
        event("stage_v", x=0, l=0, p=0),
        event("prepare", x=0),
    ]
    follower = Follower(small)
    follower.take(events, behind(small.initial, *events))
    assert follower.verdict == "holds"
    follower.take([event("publish", x=0)], behind(small.initial, *events))
    assert follower.verdict == "violated"
    assert "leaves the bounds" in follower.finding


def test_a_step_can_be_asked_for_without_being_taken(rules):
    """What a variable would be behind a step is told, and so is the code of a refusal (A10)."""
    state = behind(rules.initial, ALLOCATE)
    assert rules.after(state, "count", 0, "begin", x=0, **BEGIN) == 2
    assert rules.refusal(state, ALLOCATE) == "HANDLE_LIVE"
    assert rules.refusal(state, event("begin", x=0, **BEGIN)) is None
    with pytest.raises(DecodeError, match="refused with NO_LOGITS") as refusal:
        rules.after(state, "emitted", 0, "emit", h=0)
    assert (refusal.value.code, refusal.value.refusal) == ("REFUSED", "NO_LOGITS")
    assert behind(rules.initial, ALLOCATE) == state


def test_facts_are_formulas_of_the_observed_state(rules):
    """Formulas of a handle are read in the state that is given, and the answer cannot be written to."""
    formulas = {"rows": lambda h: length[h] + 1, "phase": serving.service_phase}
    before, after = (
        rules.facts(state, formulas, 0)
        for state in (rules.initial, behind(rules.initial, ALLOCATE))
    )
    assert dict(before) == {"rows": 1, "phase": "NO_REQUEST"}
    assert dict(after) == {"rows": 1, "phase": "WAITING_PREFILL"}
    with pytest.raises(TypeError):
        after["rows"] = 2
    other = rules.facts(rules.initial, {"rows": lambda h: length[h] + 5}, 0)
    assert dict(other) == {"rows": 5}
