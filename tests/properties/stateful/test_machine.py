"""What pytest sees: state machines, test functions, factories by name, and failures that are saved."""

import unittest
from collections.abc import Callable

import pytest

from kvspec.counterexamples import Broken, dump_trace, parse_trace, trace_of
from kvspec.models.concrete import Machine
from kvspec.properties.stateful import (
    Failure,
    Mismatch,
    MutantBackend,
    Plan,
    SpecBackend,
    machine_for,
    run,
    stateful_test,
)
from kvspec.properties.stateful.machine import load_factory, split
from kvspec.spec.examples import peer
from kvspec.spec.language import Instance, Property


def unguarded() -> MutantBackend:
    """A backend that lets an incomplete append be prepared."""
    return MutantBackend("prepare.drop-guard.LAYER_INCOMPLETE")


def result_of(case: type[unittest.TestCase]) -> unittest.TestResult:
    """The result of a state machine's test case."""
    result = unittest.TestResult()
    case("runTest").run(result)
    return result


def test_a_state_machine_passes_on_a_sound_backend(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """`machine_for(...).TestCase` is a test that passes."""
    backend = SpecBackend()
    case = machine_for(row, claims, lambda: backend, plan=plan).TestCase
    case.settings = type(case.settings)(case.settings, max_examples=10, derandomize=True)
    assert result_of(case).wasSuccessful()


def test_a_state_machine_fails_on_a_faulty_backend(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """The failure is the mismatch, with the shrunk run inside."""
    backend = unguarded()
    case = machine_for(row, claims, lambda: backend, plan=plan).TestCase
    case.settings = type(case.settings)(
        case.settings, max_examples=30, derandomize=True, database=None
    )
    with pytest.raises(Mismatch, match="expected: refused with LAYER_INCOMPLETE") as caught:
        case("runTest").debug()
    assert [step.event.action for step in caught.value.steps[1:]] == ["begin", "prepare"]


test_the_peer_model_holds = stateful_test(
    peer.ROWS["1,1,1,2,2"], peer.properties.by_name.values(), SpecBackend, profile="ci"
)


def test_a_test_function_fails_with_the_report(row: Instance, claims: list[Property]) -> None:
    """A test made by `stateful_test` raises what a reader needs."""
    test: Callable[[], None] = stateful_test(row, claims, unguarded, profile="ci")
    with pytest.raises(AssertionError, match=r"violated: the backend differs \(accepted\)"):
        test()


def test_a_backend_is_found_by_name() -> None:
    """A name is `package.module:factory`; what it does not name is said."""
    name = "kvspec.properties.stateful.reference:SpecBackend"
    assert load_factory(name) is SpecBackend
    with pytest.raises(ValueError, match=r"expected package\.module:factory"):
        load_factory("kvspec.properties")
    with pytest.raises(TypeError, match="has no function or class Nobody"):
        load_factory("kvspec.properties.stateful.reference:Nobody")


def test_a_failure_is_saved_as_a_trace_and_found_again(
    row: Instance, claims: list[Property], plan: Plan
) -> None:
    """E3: the shrunk run makes a trace of the specification's steps, which fails the backend again."""
    kept = []

    def save(failure: Failure) -> str:
        trace = trace_of(
            Machine(row),
            failure.steps,
            Broken(name=failure.kind, kind="conformance"),
            seed=failure.seed,
        )
        kept.append(dump_trace(trace))
        return "stale.json"

    factory = "kvspec.properties.stateful.reference:SpecBackend"
    assert run(row, claims, factory, max_examples=3, seed=0, plan=plan, save=save).saved is None
    assert not kept
    report = run(row, claims, unguarded, profile="ci", plan=plan, save=save)
    assert report.saved == "stale.json"
    assert "saved as stale.json" in report.text()
    (text,) = kept
    trace = parse_trace(text, "stale.json")
    assert [(step.action, step.outcome) for step in trace.steps] == [
        ("begin", "accepted"),
        ("prepare", "refused"),
    ]
    backend = unguarded()
    backend.reset(row)
    replies = [backend.perform(event) for event in report.failure.events]
    assert [reply.accepted for reply in replies] == [True, True]


def test_walks_are_split_evenly_and_in_order() -> None:
    """No part is larger than asked, none is empty, and together they are the walks."""
    walks = [(n,) for n in range(10)]
    parts = split(walks, 4)
    assert [len(part) for part in parts] == [3, 3, 4]
    assert [walk for part in parts for walk in part] == walks
    assert split([], 4) == []
