"""Lassos are held against fairness in plain Python: an unfair one shows nothing."""

import attrs
import msgspec
import pytest

from kvspec.counterexamples.errors import ReplayError
from kvspec.counterexamples.fairness import unfair, with_limits
from kvspec.counterexamples.format import Mutation
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event, Machine
from kvspec.models.explicit import explore
from kvspec.properties.faults import loosen
from kvspec.spec import core
from kvspec.spec.examples import livelock
from kvspec.spec.language import FALSE

WEAK = livelock.properties["weakly_fair_visits_succeed"]
STRONG = livelock.properties["strongly_fair_visits_succeed"]
OPEN, SHUT = Event("open_door"), Event("shut_door")


def run(*events):
    """The states and moves of a run of the house, and the machine."""
    machine = Machine(livelock.HOUSE)
    steps = run_events(machine, events)
    return machine, [s.state for s in steps], [(s.event, s.code) for s in steps[1:]], steps


def test_a_door_that_opens_and_shuts_is_weakly_fair() -> None:
    """Going in is not possible all the time, so that weak fairness does not ask for it."""
    machine, states, moves, _ = run(OPEN, SHUT)
    assert unfair(machine, states, moves, WEAK, 0) is None


def test_a_door_that_opens_and_shuts_is_not_strongly_fair() -> None:
    """Going in comes back for ever, and strong fairness asks for it."""
    machine, states, moves, _ = run(OPEN, SHUT)
    told = unfair(machine, states, moves, STRONG, 0)
    assert told == "go_in() comes back for ever and is never taken"


@pytest.mark.parametrize(
    ("events", "loop", "action"), [((), None, "open_door"), ((OPEN,), None, "shut_door")]
)
def test_standing_still_where_a_step_stays_possible_is_unfair(events, loop, action) -> None:
    """A run that stops keeps weak fairness only where nothing fair is possible."""
    machine, states, moves, _ = run(*events)
    assert (
        unfair(machine, states, moves, WEAK, loop)
        == f"{action}() stays possible and is never taken"
    )


def test_an_unfair_lasso_makes_no_trace() -> None:
    """What an engine finds is no counterexample if plain Python sees that it is not fair."""
    machine, _, _, steps = run(OPEN, SHUT)
    with pytest.raises(ReplayError, match="not fair: go_in"):
        trace_of(machine, steps, STRONG, loop=0)
    assert trace_of(machine, steps, WEAK, loop=0).loop == 0


def test_the_lasso_of_the_search_is_fair() -> None:
    """Both engines agree on the lasso that the search finds."""
    found = explore(livelock.HOUSE, [WEAK])
    (violation,) = found.violations
    trace = trace_of(Machine(livelock.HOUSE), violation.trace, WEAK, loop=violation.loop)
    assert trace.property.name == WEAK.name


def test_a_trace_without_limits_gets_those_of_its_system() -> None:
    """A step beyond the bounds of the instance is not one that stays possible."""
    bare = attrs.evolve(core.TINY, limits=())
    assert with_limits(Machine(bare)).instance.limits == core.LIMITS
    assert with_limits(Machine(core.TINY)).instance is core.TINY


def locked_out(claim):
    """The trace of a house whose visitor never may go in, and that house."""
    fault = loosen(
        livelock.system,
        livelock.go_in,
        livelock.IN,
        lambda: FALSE,
        name="never",
        says="lets nobody in",
    )
    machine = Machine(fault.on(livelock.HOUSE))
    steps = run_events(machine, [OPEN, SHUT])
    mutation = Mutation(name=fault.name, description=fault.description)
    trace = trace_of(machine, steps, claim, mutation=mutation, sound=livelock.system, loop=0)
    return trace, fault.changed


def test_a_lasso_that_the_specification_takes_must_be_unfair_there() -> None:
    """Every step is as specified; what is wrong is that going in is never taken."""
    trace, faulty = locked_out(STRONG)
    assert trace.sound is None
    result = replay(trace, faulty_system=faulty)
    assert (result.outcome, result.passed) == ("agrees", True)


def test_a_lasso_that_the_specification_has_itself_shows_no_fault() -> None:
    """Under weak fairness the sound house has this run too, so that the trace is refused."""
    trace, faulty = locked_out(WEAK)
    result = replay(trace, faulty_system=faulty)
    assert (result.outcome, result.passed) == ("disagrees", False)
    assert "breaks weakly_fair_visits_succeed in the specification as well" in result.message


def test_a_stored_lasso_that_is_unfair_is_refused() -> None:
    """A trace whose cycle leaves out what is fair does not show its claim."""
    trace, faulty = locked_out(STRONG)
    changed = msgspec.structs.replace(trace, steps=trace.steps[:1], loop=None)
    result = replay(changed, faulty_system=faulty)
    assert (result.outcome, result.passed) == ("disagrees", False)
    assert "not fair: shut_door() stays possible" in result.message
