"""Nothing in a trace is believed: each edit of a trace of the library is refused, or disagrees."""

import copy
from collections.abc import Callable
from typing import Any

import attrs
import msgspec
import pytest

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import Broken, Departure, Mutation, Trace, plain
from kvspec.counterexamples.library import library_trace
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Machine
from kvspec.models.explicit import explore
from kvspec.spec.core import system
from kvspec.spec.examples import peer

NAME = "publish.drop-guard.STALE_SNAPSHOT"
Document = dict[str, Any]


def edited(change: Callable[[Document], object]) -> Trace:
    """The library's trace of a stale publication with something changed."""
    document = copy.deepcopy(plain(library_trace(NAME)))
    change(document)
    return msgspec.convert(document, Trace)


def invented(document: Document) -> None:
    """Another value in the last state."""
    document["steps"][-1]["state"]["generation"] = {"handle0": 1}


def other_outcome(document: Document) -> None:
    """The departing step as a refusal with a code that the mutant does not give."""
    document["steps"][-1].update(outcome="refused", code="STALE_GENERATION")


def made_up_at_three(document: Document) -> None:
    """A state at step 3 that breaks the claim, where the specification is said to differ."""
    document["steps"][2]["state"].update(receipt={"txn0": 2, "txn1": 0}, acked={"txn0": True})
    document["steps"][2]["state"]["acked"]["txn1"] = False
    document["sound"] = {"step": 3, "outcome": "accepted", "code": None}


def one_more(document: Document) -> None:
    """The last step again, as if it had been accepted again."""
    document["steps"].append(document["steps"][-1])


def mutation(name: str) -> Callable[[Document], object]:
    """The trace under the name of another mutation."""
    return lambda document: document["mutation"].update(name=name)


def test_the_trace_is_sound_before_it_is_edited() -> None:
    """Without an edit the trace passes."""
    assert replay(edited(lambda document: None)).outcome == "refused_as_specified"


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (invented, f"is not what {NAME} does: generation[handle0]: expected 1, found 0"),
        (other_outcome, "does: expected refused STALE_GENERATION, found accepted"),
        (
            mutation("publish.drop-guard.STALE_GENERATION"),
            (
                "is not what publish.drop-guard.STALE_GENERATION does: "
                "expected accepted, found refused STALE_SNAPSHOT; "
            ),
        ),
        (
            mutation("allocate.drop-assignment.owner"),
            "step 1 is not what allocate.drop-assignment.owner does: owner[block0, handle0]: exp",
        ),
        (made_up_at_three, f"step 3 is not what {NAME} does: "),
        (one_more, f"is not what {NAME} does: expected accepted, found refused"),
    ],
)
def test_an_edited_step_disagrees(change: Callable[[Document], object], message: str) -> None:
    """Every step is taken by the machine with the mutation; the first that differs is named."""
    found = replay(edited(change))
    assert (found.outcome, found.passed) == ("disagrees", False)
    assert message in found.message
    assert found.message.startswith("step ")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            mutation("publish.drop-guard.NONSENSE"),
            (
                "the trace, mutation: found 'publish.drop-guard.NONSENSE', expected a mutation of core, "
                "near to it publish.drop-guard."
            ),
        ),
        (
            lambda document: document.update(mutation=None),
            "mutation: found null, and a departure from the specification at step",
        ),
        (
            lambda document: document.update(mutation=None, property=None),
            "mutation: found null, and a departure from the specification at step",
        ),
        (
            lambda document: document["property"].update(kind="step"),
            "after_the_base of kind step, expected kind invariant: give the claim the kind",
        ),
        (
            lambda document: document["property"].update(kind="deadlock"),
            "after_the_base of kind deadlock, expected kind invariant",
        ),
        (
            lambda document: document.update(
                mutation=None, property={**document["property"], "kind": "conformance"}
            ),
            "after_the_base of kind conformance, expected kind invariant",
        ),
        (
            lambda document: document["property"].update(name="nonsense"),
            "property: found 'nonsense', expected one of ",
        ),
    ],
)
def test_an_edited_name_is_refused(change: Callable[[Document], object], message: str) -> None:
    """A mutation or a claim that does not exist is an error of input, which says what exists."""
    with pytest.raises(TraceError) as caught:
        replay(edited(change))
    assert message in str(caught.value)
    assert caught.value.advice


def test_three_steps_are_no_deadlock() -> None:
    """The last state is looked at."""

    def shortened(document: Document) -> None:
        document.update(mutation=None, sound=None, steps=document["steps"][:3])
        document["property"] = {"name": "deadlock", "kind": "deadlock"}

    found = replay(edited(shortened))
    assert found.outcome == "disagrees"
    assert found.message == "the last state of the trace is no deadlock"


def test_a_deadlock_is_one() -> None:
    """A state without a transition is one, and told with its number, unless it is an end."""
    row = peer.ROWS["1,1,1,2,2"]
    (violation,) = explore(row, deadlock=True, stop_at_first=False).violations
    trace = trace_of(Machine(row), violation.trace, Broken(name="deadlock", kind="deadlock"))
    assert replay(trace).message == "the last state of the trace is no deadlock"
    own = attrs.evolve(peer.system)  # without the claim that says which states are ends
    found = replay(trace, system=own)
    assert found.outcome == "agrees"
    assert found.message.endswith(f"; state {len(trace.steps)} has no transition")


def test_steps_after_the_departure_are_shown() -> None:
    """What the mutant does after its departure can be told, and is run again."""
    trace = library_trace(NAME)

    machine = Machine(attrs.evolve(_resolved(trace).machine.instance, expected=None))
    last = _resolved(trace).states[-1]
    event = next(e for e in machine.events_of(machine.system.action("allocate")))
    more = trace_of(machine, run_events(machine, [event], last)).steps
    found = replay(msgspec.structs.replace(trace, steps=[*trace.steps, *more]))
    assert found.outcome == "refused_as_specified"
    assert found.steps[-1].found.endswith(f", by {NAME}")
    assert "not run" not in found.show()


def _resolved(trace: Trace) -> Any:
    from kvspec.counterexamples.resolve import resolve

    return resolve(trace)


def test_what_a_backend_did_goes_on_as_specified() -> None:
    """A trace of conformance may depart without a mutation; the steps after it are run again."""

    def of_a_backend(document: Document) -> None:
        document.update(mutation=None, property={"name": "state", "kind": "conformance"})

    assert replay(edited(of_a_backend)).outcome == "refused_as_specified"

    def and_more(document: Document) -> None:
        of_a_backend(document)
        one_more(document)

    found = replay(edited(and_more))
    assert found.outcome == "disagrees"
    assert "is not what the specification does: expected accepted, found refused" in found.message


def test_a_fault_of_ones_own_is_given(pair, stale_events) -> None:
    """A fault that is no mutation is run again on the system that the caller gives, or refused."""
    publish = system.action("publish")
    kept = tuple(g for g in publish.guards if g.code.name != "STALE_SNAPSHOT")
    planted = attrs.evolve(
        system, actions={**system.actions, "publish": attrs.evolve(publish, guards=kept)}
    )
    machine = Machine(attrs.evolve(pair, system=planted))
    named = Mutation(name="planted", description="publish does not compare snapshots")
    trace = trace_of(machine, run_events(machine, stale_events), mutation=named)
    with pytest.raises(TraceError, match=r"found 'planted', .* given as `faulty_system=`"):
        replay(trace)
    assert replay(trace, faulty_system=planted).outcome == "refused_as_specified"
    found = replay(trace, faulty_system=system)
    assert found.message.startswith(
        "step 15 is not what planted does: expected accepted, found ref"
    )
    assert trace.sound == Departure(step=15, outcome="refused", code="STALE_SNAPSHOT")


def test_a_backend_that_does_more_than_the_mutation_is_told(stale: Trace, faulty_backend) -> None:
    """At the departure a difference to the mutant's state does not fail, and is not hidden."""

    def more(machine, event, state):
        if event != last:
            return state
        place = list(machine.system.variables).index("generation")
        tables = (*state.tables[:place], (1,), *state.tables[place + 1 :])
        return attrs.evolve(state, tables=tables)

    last = _resolved(stale).steps[-1].event
    found = replay(stale, faulty_backend(observed=more), faulty=True)
    assert found.outcome == "damage_shown"
    assert found.differs_from_mutant
    assert found.as_json()["differs_from_mutant"] is True
    assert "the state is not that of the mutation" in found.steps[-1].found
    assert "~ generation[handle0]: expected 0, found 1" in found.show()
    plain_fault = replay(stale, faulty_backend(), faulty=True)
    assert not plain_fault.differs_from_mutant
