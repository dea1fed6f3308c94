"""Replay notices every way in which a cache can differ from the specification."""

import attrs
import msgspec
import pytest

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import Broken, Departure, Mutation, Trace
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete import Machine
from kvspec.spec.core import system


def changed(machine, state, variable, value):
    """The state with the first value of a variable set to another."""
    place = list(machine.system.variables).index(variable)
    table = (value, *state.tables[place][1:])
    return attrs.evolve(state, tables=(*state.tables[:place], table, *state.tables[place + 1 :]))


def test_the_specification_refuses_the_stale_publication(stale: Trace) -> None:
    """Every step up to the fault agrees; the fault is refused with its code and has its effect."""
    found = replay(stale, where="stale.json")
    assert found.outcome == "refused_as_specified"
    assert found.passed
    assert found.message == (
        "the specification refuses step 15 with STALE_SNAPSHOT; "
        "publication_is_of_the_captured_snapshot fails in step 15"
    )
    assert [step.agrees for step in found.steps] == [True] * 15
    assert found.steps[-1].found == (
        "refused STALE_SNAPSHOT: expected version[target[x]] = base_version[x]; "
        "found version[handle0] = 1, target[txn1] = handle0, x = txn1, base_version[txn1] = 0"
    )
    assert "state[txn1]: PREPARED -> REJECTED" in found.steps[-1].changes


def test_the_text_shows_steps_changes_and_outcome(stale: Trace) -> None:
    """The text of a replay names trace, mutation and claim, and shows each change."""
    lines = replay(stale, where="stale.json").show().splitlines()
    assert lines[:4] == [
        "replay of stale.json against the specification",
        "system core, instance PAIR",
        "mutation publish.drop-guard.STALE_SNAPSHOT: publish does not check STALE_SNAPSHOT",
        "shows publication_is_of_the_captured_snapshot (step)",
    ]
    at = lines.index(" 14. publish(x=txn0)  accepted")
    assert "       version[handle0]: 0 -> 1" in lines[at:]
    assert any(
        line.startswith(" 15. publish(x=txn1)  refused STALE_SNAPSHOT: expected") for line in lines
    )
    assert lines[-1].startswith("refused as specified: ")


def test_a_sound_backend_refuses_and_changes_no_more(stale: Trace, backend) -> None:
    """A cache that is the specification's own machine passes."""
    found = replay(stale, backend())
    assert found.outcome == "refused_as_specified"
    assert found.message == "step 15 is refused with STALE_SNAPSHOT, and nothing else changes"
    assert found.target == "the backend MachineBackend"


def test_a_faulty_backend_shows_damage_in_numbers(stale: Trace, faulty_backend) -> None:
    """A cache with the fault takes every step, and the harm is measured after the last one."""
    found = replay(stale, faulty_backend(), faulty=True)
    assert found.outcome == "damage_shown"
    assert found.damage == (Damage("rows", "handle0", 1, "publications whose rows are not there"),)
    assert found.message == "rows at handle0: 1 (publications whose rows are not there)"
    assert "     * damage: rows at handle0: 1 (publ" in found.show()
    assert not any(step.damage for step in found.steps[:-1])


def test_a_backend_that_accepts_is_noticed(stale: Trace, faulty_backend) -> None:
    """A cache with the fault that is held to be sound disagrees at the faulty step."""
    found = replay(stale, faulty_backend())
    assert found.outcome == "disagrees"
    assert not found.passed
    assert found.message.startswith("step 15: expected refused STALE_SNAPSHOT, found accepted; ")
    assert "state[txn1]: expected REJECTED, found PUBLISHED" in found.message
    assert "damage: rows at handle0: 1" in found.message
    assert "     ! expected refused STALE_SNAPSHOT: version" in found.show()


def test_a_backend_that_refuses_with_another_code_is_noticed(stale: Trace, backend) -> None:
    """The code of a refusal is compared."""

    def wrong(event, reply):
        return reply if reply.accepted else Reply(False, "STALE_GENERATION", "generation 0, not 1")

    found = replay(stale, backend(reply=wrong))
    assert found.outcome == "disagrees"
    assert found.message == (
        "step 15: expected refused STALE_SNAPSHOT, found refused STALE_GENERATION"
    )
    assert found.steps[-1].found == "refused STALE_GENERATION: generation 0, not 1"


def test_a_backend_that_refuses_without_a_code_is_noticed(stale: Trace, backend) -> None:
    """A refusal has to have a code."""

    def silent(event, reply):
        return Reply(reply.accepted)

    found = replay(stale, backend(reply=silent))
    assert found.message == (
        "step 15: expected refused STALE_SNAPSHOT, found refused without a code"
    )


def test_a_backend_that_changes_state_on_refusal_is_noticed(pair, backend, stale_events) -> None:
    """A refusal without an effect leaves everything as it was."""
    run = run_events(Machine(pair), [*stale_events[:2], stale_events[1]])
    trace = trace_of(Machine(pair), run)
    assert trace.steps[-1].outcome == "refused"
    assert replay(trace, backend()).outcome == "agrees"

    def leaky(machine, event, state):
        return changed(machine, state, "version", 1) if state == run[-1].state and state else state

    calls = []

    def late(machine, event, state):
        calls.append(event)
        return leaky(machine, event, state) if len(calls) == 3 else state

    found = replay(trace, backend(observed=late))
    assert found.outcome == "disagrees"
    assert found.message == "step 3: the refusal changed the state: version[handle0]: 0 -> 1"


def test_a_refusal_that_forgets_its_effect_is_noticed(stale: Trace, backend) -> None:
    """A stale publish ends the append; a cache that leaves it prepared differs."""
    before: list[object] = []

    def keeps(machine, event, state):
        before.append(state)
        return before[-2] if len(before) == 15 else state

    found = replay(stale, backend(observed=keeps))
    assert found.outcome == "disagrees"
    assert "state[txn1]: expected REJECTED, found PREPARED" in found.message


def test_a_backend_that_drifts_before_the_fault_is_noticed(stale: Trace, faulty_backend) -> None:
    """Up to the fault a faulty cache must do what the specification does, too."""

    def drifts(machine, event, state):
        return changed(machine, state, "version", 1) if event.action == "allocate" else state

    for faulty in (False, True):
        found = replay(stale, faulty_backend(observed=drifts), faulty=faulty)
        assert found.outcome == "disagrees"
        assert found.message == "step 1: version[handle0]: expected 0, found 1" or (
            faulty and found.message.endswith("; version[handle0]: expected 0, found 1")
        )


def test_a_backend_with_damage_is_not_sound(stale: Trace, backend) -> None:
    """A cache that answers well and comes to harm disagrees."""

    def hurt(machine, state):
        return [Damage("logits", "handle0", 0.5, "largest difference to an uncached run")]

    found = replay(stale, backend(harm=hurt))
    assert found.message == (
        "step 1: damage: logits at handle0: 0.5 (largest difference to an uncached run)"
    )


def test_a_fault_that_does_no_damage_does_not_pass(stale: Trace, faulty_backend) -> None:
    """No number, no pass."""
    found = replay(stale, faulty_backend(harm=None), faulty=True)
    assert found.outcome == "no_damage"
    assert not found.passed


def test_a_sound_backend_is_not_taken_for_a_faulty_one(stale: Trace, backend) -> None:
    """A fault that is not switched on is noticed."""
    found = replay(stale, backend(), faulty=True)
    assert found.outcome == "disagrees"
    assert "step 15: expected accepted, found refused STALE_SNAPSHOT" in found.message


def test_a_backend_that_begins_elsewhere_is_noticed(stale: Trace, backend) -> None:
    """The state after reset is compared with the trace's."""

    class Late(backend):
        def reset(self, instance):
            super().reset(instance)
            self.state = changed(self.machine, self.state, "generation", 1)

    found = replay(stale, Late())
    assert (found.outcome, found.steps) == ("disagrees", ())
    assert found.message == "after reset generation[handle0]: expected 0, found 1"


def test_a_trace_from_the_middle_is_not_for_backends(pair, backend, stale_events) -> None:
    """A step of a proof may begin anywhere; a cache begins empty, and the result says so."""
    machine = Machine(pair)
    start = run_events(machine, stale_events[:3])[-1].state
    trace = trace_of(machine, run_events(machine, stale_events[3:5], start))
    assert replay(trace).outcome == "agrees"
    found = replay(trace, backend())
    assert found.outcome == "not_replayable"
    assert not found.passed


def test_an_exception_of_a_backend_names_the_step(stale: Trace, backend) -> None:
    """What a cache raises is not swallowed, and is told with its step."""

    def fails(event, reply):
        raise RuntimeError("out of blocks")

    with pytest.raises(RuntimeError, match="out of blocks") as caught:
        replay(stale, backend(reply=fails), where="stale.json")
    assert caught.value.__notes__ == [
        (
            "raised by the backend MachineBackend in step 1, "
            "allocate(h=handle0, b=block0, a=abi0), of stale.json"
        )
    ]


@pytest.mark.parametrize(
    ("sound", "message"),
    [
        (
            Departure(step=15, outcome="refused", code="STALE_GENERATION"),
            "step 15: expected refused STALE_GENERATION, found refused STALE_SNAPSHOT",
        ),
        (
            Departure(step=14, outcome="refused", code="STALE_SNAPSHOT"),
            "step 14: expected refused STALE_SNAPSHOT, found a step just as in the trace",
        ),
        (None, "step 15 is not what the specification does"),
    ],
)
def test_a_wrong_word_about_the_specification_is_noticed(stale, backend, sound, message) -> None:
    """Where and how the specification refuses is checked, not believed."""
    wrong = msgspec.structs.replace(stale, sound=sound)
    assert (replay(wrong).outcome, replay(wrong).message) == ("disagrees", message)
    found = replay(wrong, backend())
    assert found.outcome == "disagrees"
    assert found.message == f"the specification no longer agrees with this trace: {message}"


def test_a_wrong_state_is_noticed(stale: Trace) -> None:
    """Every value of every state is compared."""
    steps = list(stale.steps)
    state = {**steps[4].state, "version": {"handle0": 1}}
    steps[4] = msgspec.structs.replace(steps[4], state=state)
    found = replay(msgspec.structs.replace(stale, steps=steps))
    assert found.outcome == "disagrees"
    assert found.steps[-1].differences == ("version[handle0]: expected 1, found 0",)
    assert "     (10 more in the trace, not run)" in found.show()


def test_a_claim_that_the_trace_does_not_break_is_noticed(stale: Trace) -> None:
    """A trace has to show what it says it shows."""
    kept = msgspec.structs.replace(
        stale, property=Broken(name="an_ended_request_is_frozen", kind="step")
    )
    found = replay(kept)
    assert found.outcome == "disagrees"
    assert found.message == (
        "no state or step of the trace shows an_ended_request_is_frozen to fail"
    )


def test_a_claim_that_does_not_exist_is_an_error_of_input(stale: Trace) -> None:
    """The error lists the claims that exist."""
    unknown = msgspec.structs.replace(stale, property=Broken(name="nonsense", kind="step"))
    with pytest.raises(TraceError, match=r"property: found 'nonsense', expected one of .*frozen"):
        replay(unknown)


def test_a_rule_that_does_something_else_is_told_apart(pair, backend) -> None:
    """Where the specification accepts and assigns other values, the outcome says so."""
    action = system.action("allocate")
    less = tuple(a for a in action.assignments if a.variable.name != "owner")
    other = attrs.evolve(action, assignments=less)
    mutant = attrs.evolve(system, actions={**system.actions, "allocate": other})
    machine = Machine(attrs.evolve(pair, system=mutant))
    named = Mutation(name="allocate.drop-assignment.owner", description="owner keeps its value")
    run = run_events(machine, [next(iter(Machine(pair).events_of(action)))])
    trace = trace_of(machine, run, mutation=named)
    assert trace.sound == Departure(step=1, outcome="accepted", code=None)
    assert replay(trace).outcome == "differs_as_specified"
    assert replay(trace, backend()).outcome == "differs_as_specified"
    assert replay(trace, backend(mutant)).message.startswith("step 1: owner[block0, handle0]: exp")


def test_the_result_is_plain_data_too(stale: Trace, faulty_backend) -> None:
    """`as_json` can be written as JSON and keeps the numbers."""
    found = msgspec.json.decode(msgspec.json.encode(replay(stale, faulty_backend()).as_json()))
    assert found["outcome"] == "disagrees"
    assert found["steps"][-1]["damage"][0]["amount"] == 1
