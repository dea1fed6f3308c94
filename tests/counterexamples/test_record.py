"""A recorded trace is what plain Python finds too, and says where the specification departs."""

import attrs
import pytest

from kvspec.counterexamples.claims import broken_at
from kvspec.counterexamples.errors import ReplayError, UnknownNameError
from kvspec.counterexamples.format import Broken, Departure, Mutation, Trace
from kvspec.counterexamples.record import Entry, run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.resolve import is_initial, resolve
from kvspec.models.concrete import Event, Machine
from kvspec.properties.core import properties
from kvspec.spec import core
from kvspec.spec.language import (
    Bool,
    ErrorCode,
    Module,
    Open,
    Properties,
    Step,
    System,
    Variant,
    instance,
)


def test_the_departure_is_found(stale: Trace) -> None:
    """The specification refuses the second publication, and none of the steps before."""
    assert stale.sound == Departure(step=15, outcome="refused", code="STALE_SNAPSHOT")
    assert [step.outcome for step in stale.steps] == ["accepted"] * 15
    assert stale.property == Broken(name="publication_is_of_the_captured_snapshot", kind="step")
    assert (stale.system, stale.instance.name, stale.seed) == ("core", "PAIR", 7)


def test_a_run_of_the_specification_has_no_departure(pair, stale_events) -> None:
    """Refusals with an effect are steps like others."""
    machine = Machine(pair)
    trace = trace_of(machine, run_events(machine, stale_events))
    assert (trace.sound, trace.mutation, trace.property) == (None, None, None)
    assert (trace.steps[-1].outcome, trace.steps[-1].code) == ("refused", "STALE_SNAPSHOT")
    assert replay(trace).outcome == "agrees"


def test_a_mutant_inside_a_system_is_recorded(pair, stale_events) -> None:
    """A machine that reads a system with variants as one of them departs from the known system."""
    publish = core.system.action("publish")
    from kvspec.spec.language import TRUE

    guards = tuple(
        attrs.evolve(g, condition=Variant(TRUE.type, 5, g.condition, TRUE))
        if g.code.name == "STALE_SNAPSHOT"
        else g
        for g in publish.guards
    )
    mutated = attrs.evolve(
        core.system,
        actions={**core.system.actions, "publish": attrs.evolve(publish, guards=guards)},
    )
    machine = Machine(attrs.evolve(pair, system=mutated), variant=5)
    trace = trace_of(
        machine,
        run_events(machine, stale_events),
        mutation=Mutation(name="m", description="d"),
    )
    assert trace.sound == Departure(step=15, outcome="refused", code="STALE_SNAPSHOT")


def test_an_engine_that_errs_makes_no_trace(pair, stale_events) -> None:
    """A result that plain Python does not find is an error, and no trace."""
    machine = Machine(pair)
    run = list(run_events(machine, stale_events[:3]))
    wrong = [
        ([*run[:3], attrs.evolve(run[3], outcome="refused", code="TXN_IN_USE")], "step 3, begin"),
        ([*run[:3], attrs.evolve(run[3], state=run[2].state)], "and another state"),
        (run[1:], "begins with an entry without event"),
        ([], "begins with an entry without event"),
        ([*run, run[0]], "step 4 has no event"),
    ]
    for steps, message in wrong:
        with pytest.raises(ReplayError, match=message):
            trace_of(machine, steps)


def test_a_claim_that_the_run_keeps_makes_no_trace(pair, stale_events) -> None:
    """The claim is evaluated on the run before a trace says that it is broken."""
    machine = Machine(pair)
    run = run_events(machine, stale_events)
    with pytest.raises(ReplayError, match="breaks the claim publication_is_of_the_captured"):
        trace_of(machine, run, properties["publication_is_of_the_captured_snapshot"])
    with pytest.raises(ReplayError, match="reaches the witness reaches_a_publication"):
        trace_of(machine, run[:3], properties["reaches_a_publication"])
    reached = trace_of(machine, run, properties["reaches_a_publication"])
    assert replay(reached).message.endswith("reaches_a_publication is reached in state 14")
    with pytest.raises(ReplayError, match="so it is no deadlock"):
        trace_of(machine, run, Broken(name="deadlock", kind="deadlock"))


def test_a_step_outside_the_bounds_is_not_run(pair, stale_events) -> None:
    """A step that is cut is no step."""
    small = core.make_instance("S", "", handles=1, txns=1, layers=1, versions=0, rows=1)
    machine = Machine(small)
    steps = list(stale_events[:1])
    run = run_events(machine, steps)[-1].state
    cut = next(e for e in machine.events() if machine.step(run, e).kind == "cut")
    with pytest.raises(ReplayError, match=r"step 1: truncate.* leaves the bounds of core/S"):
        run_events(machine, [cut], run)


def test_an_instance_of_a_taken_name_is_recorded_by_its_sizes(stale_events) -> None:
    """The name of a known instance with other sizes would be a lie."""
    other = core.make_instance("TINY", "", handles=1, txns=1, layers=2, rows=1)
    machine = Machine(other)
    trace = trace_of(machine, run_events(machine, stale_events[:2]))
    assert trace.instance.name is None
    tiny = Machine(core.TINY)
    assert trace_of(tiny, run_events(tiny, stale_events[:2])).instance.name == "TINY"


class Lamp(Open):
    """A lamp."""


toy = Module("toy", "Lamps.")
lit = toy.variable("lit", Lamp, to=Bool, init=False, meaning="the lamp burns")
LIT = ErrorCode("LIT", "it burns")
DARK = ErrorCode("DARK", "it is dark")


@toy.action
def light(step: Step, l: Lamp) -> None:
    """Light a lamp."""
    step.require(~lit[l], LIT)
    step.assign(lit[l], True)


@toy.action
def quench(step: Step, l: Lamp) -> None:
    """Quench a lamp."""
    step.require(lit[l], DARK)
    step.assign(lit[l], False)


toys = System.of("toy", "Lamps.", toy)
claims = Properties(toys)


@claims.leads_to()
def a_lamp_burns_again(l: Lamp) -> tuple:
    """A dark lamp burns later."""
    return ~lit[l], lit[l]


@claims.invariant
def no_lamp_burns() -> object:
    """All is dark."""
    from kvspec.spec.language import forall

    return forall(Lamp, lambda l: ~lit[l])


def calls(*names: str) -> list[Event]:
    """Events such as `light0`."""
    return [Event(name[:-1], (("l", int(name[-1])),)) for name in names]


@pytest.fixture
def lamps() -> Machine:
    """Two lamps."""
    return Machine(instance("TWO", toys, {Lamp: 2}))


def test_a_lasso_is_recorded(lamps: Machine) -> None:
    """Lamp 0 goes on and off for ever while lamp 1 stays dark."""
    run = run_events(lamps, calls("light0", "quench0"))
    trace = trace_of(lamps, run, a_lamp_burns_again, loop=0)
    assert (trace.loop, trace.property.kind) == (0, "leads_to")
    assert resolve(trace, system=toys).states[0] == run[-1].state
    with pytest.raises(ReplayError, match="breaks the claim a_lamp_burns_again"):
        trace_of(
            lamps,
            run_events(lamps, calls("light0", "light1", "quench0", "light0")),
            a_lamp_burns_again,
            loop=2,
        )


def test_a_goal_within_the_loop_counts(lamps: Machine) -> None:
    """A state of the loop comes again after the end of the trace, and so does its goal."""
    run = run_events(lamps, calls("light1", "quench1", "light0", "light1", "quench1", "quench0"))
    states = [entry.state for entry in run]
    moves = [(entry.event, entry.code) for entry in run[1:]]
    assert broken_at(lamps, states, moves, a_lamp_burns_again, loop=0) is None
    assert broken_at(lamps, states, moves, a_lamp_burns_again) == 6
    assert broken_at(lamps, states, moves, no_lamp_burns) == 1
    assert broken_at(lamps, states[:1], [], no_lamp_burns) is None


def test_a_system_of_ones_own_is_recorded_and_replayed(lamps: Machine) -> None:
    """A system that is not registered is given; with a mutation the specification must be, too."""
    run = run_events(lamps, calls("light0"))
    trace = trace_of(lamps, run, no_lamp_burns)
    assert replay(trace, system=toys).message == (
        "the specification takes every step so; no_lamp_burns is not at hand and was not evaluated"
    )
    with pytest.raises(UnknownNameError, match="found no system 'toy'"):
        trace_of(lamps, run, mutation=Mutation(name="m", description="d"))


def test_initial_states_are_told_apart(lamps: Machine) -> None:
    """Only the state in which all lamps are dark is initial."""
    run = run_events(lamps, calls("light0"))
    assert is_initial(lamps, run[0].state)
    assert not is_initial(lamps, run[1].state)


def test_entries_are_what_engines_give() -> None:
    """The explicit engine's steps have the same four parts."""
    from kvspec.models.explicit.results import TraceStep

    names = {field.name for field in attrs.fields(Entry)}
    assert names == {field.name for field in attrs.fields(TraceStep)}
