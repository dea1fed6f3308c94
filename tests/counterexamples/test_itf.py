"""ITF goes out and comes back; a trace of another tool gets its steps found."""

import json

import pytest

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.files import parse_trace
from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.itf import from_itf, to_itf
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Machine
from kvspec.spec.language import Instance


def test_a_round_trip_loses_nothing(stale: Trace) -> None:
    """A trace exported to ITF, as text, is read as the same trace."""
    document = to_itf(stale)
    assert from_itf(document) == stale
    assert parse_trace(json.dumps(document)) == stale


def test_a_loop_survives(pair: Instance, stale_events) -> None:
    """The loop stands where ITF has it."""
    machine = Machine(pair)
    start = run_events(machine, stale_events[:1])[-1].state
    enter, leave = (
        next(e for e in machine.events() if e.action == name) for name in ("enter", "leave")
    )
    trace = trace_of(machine, run_events(machine, [enter, leave], start), loop=0)
    assert to_itf(trace)["loop"] == 0
    assert from_itf(to_itf(trace)) == trace


def test_values_are_written_as_other_tools_do(stale: Trace) -> None:
    """Numbers are #bigint, tables are #map, options are variants, and each state has its index."""
    document = to_itf(stale)
    first, second = document["states"][:2]
    assert document["vars"][0] == "phase"
    assert first["#meta"] == {"index": 0}
    assert second["#meta"]["action"] == "allocate"
    assert first["version"] == {"#map": [["handle0", {"#bigint": "0"}]]}
    assert first["abi"] == {"#map": [["handle0", {"tag": "None", "value": {"#tup": []}}]]}
    assert second["abi"] == {"#map": [["handle0", {"tag": "Some", "value": "abi0"}]]}
    assert second["owner"] == {"#map": [["block0", {"#map": [["handle0", True]]}]]}


def foreign(stale: Trace) -> dict:
    """The sound part of the stale trace as another tool might write it."""
    states = [
        {k: v for k, v in state.items() if k != "#meta"} for state in to_itf(stale)["states"][:-1]
    ]
    for state in states:
        state["version"] = {"#map": [["handle0", int(state["version"]["#map"][0][1]["#bigint"])]]}
        state["k_end"] = {
            "#map": [
                [{"#tup": [x, layer]}, value]
                for x, row in state["k_end"]["#map"]
                for layer, value in row["#map"]
            ]
        }
        state["action_taken"] = {"#unserializable": "?"}
    return {"#meta": {"format": "ITF"}, "vars": [], "states": states}


def test_the_steps_of_another_tool_are_found(stale: Trace, pair: Instance) -> None:
    """Plain numbers, keys that are tuples and foreign variables are taken; the events are found."""
    trace = from_itf(foreign(stale), instance=pair)
    assert [s.action for s in trace.steps] == [s.action for s in stale.steps[:-1]]
    assert [s.state for s in trace.steps] == [s.state for s in stale.steps[:-1]]
    assert replay(trace).outcome == "agrees"


def test_a_change_that_no_event_makes_is_told(stale: Trace, pair: Instance) -> None:
    """A state left out shows as a step that the system does not have."""
    document = foreign(stale)
    del document["states"][3]
    with pytest.raises(TraceError) as caught:
        from_itf(document, "other.itf.json", instance=pair)
    assert str(caught.value).startswith(
        "other.itf.json, step 3: found a change that no event makes (state[txn1]: IDLE -> OPEN; "
    )


def test_a_trace_of_another_tool_needs_an_instance(stale: Trace) -> None:
    """Without a word on the system nothing can be looked up."""
    with pytest.raises(TraceError, match="name the system and the instance of which it speaks"):
        parse_trace(json.dumps(foreign(stale)), "other.itf.json")


SPOILED = {
    "no states": (lambda d: d.update(states=[]), "found no list of states"),
    "a number that is none": (
        lambda d: d["states"][2]["version"]["#map"][0].__setitem__(1, {"#bigint": "x"}),
        "state 2, version[handle0]: found #bigint 'x', expected an integer",
    ),
    "a set": (
        lambda d: d["states"][2].update(version={"#set": []}),
        "state 2, version: found an object with #set",
    ),
    "a list": (lambda d: d["states"][2].update(version=[]), "state 2, version: found []"),
    "a pair that is none": (
        lambda d: d["states"][2]["version"]["#map"].append(["handle0"]),
        "state 2, version: found ['handle0'], expected [key, value]",
    ),
    "a key twice": (
        lambda d: d["states"][2]["version"]["#map"].append(["handle0", 0]),
        "state 2, version: found the key ['handle0'] twice",
    ),
    "a step without its action": (
        lambda d: d["states"][2]["#meta"].pop("action"),
        "state 2: found #meta",
    ),
    "fields that do not fit": (
        lambda d: d["#meta"]["kvspec"].update(colour="red"),
        "unknown field `colour`",
    ),
    "another version": (
        lambda d: d["#meta"]["kvspec"].update(version=9),
        "found version 9, expected version 1",
    ),
}


@pytest.mark.parametrize("name", SPOILED)
def test_what_does_not_fit_is_refused(stale: Trace, name: str) -> None:
    """Each error names the state and the variable."""
    spoil, message = SPOILED[name]
    document = json.loads(json.dumps(to_itf(stale)))
    spoil(document)
    with pytest.raises(TraceError) as caught:
        from_itf(document, "t.itf.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("t.itf.json")
