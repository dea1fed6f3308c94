"""States and events as text and as JSON, back again, and what is said of JSON that is wrong."""

import json

import pytest
from garden import MACHINE, event, make, state
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.concrete import (
    Machine,
    parse_event,
    parse_state,
    show_event,
    show_state,
    state_json,
)
from kvspec.models.concrete.text import parameter_json
from kvspec.spec import core

nodes, colours = st.integers(0, 2), st.sampled_from("RB")
states = st.builds(
    state,
    st.text("RB", min_size=3, max_size=3),
    st.tuples(*[st.integers(0, 3)] * 3),
    st.tuples(*[st.none() | nodes] * 3),
    st.sets(st.tuples(nodes, st.sampled_from(["RED", "BLUE"]))),
    st.booleans(),
)


@given(states)
def test_a_state_goes_to_json_and_back(found):
    """JSON text of a state gives the state again, also through a file's text."""
    given_ = json.loads(json.dumps(state_json(MACHINE, found)))
    assert parse_state(MACHINE, given_, "here") == found


@given(st.sampled_from(MACHINE.events()))
def test_an_event_goes_to_json_and_back(found):
    """JSON text of an event's parameters gives the event again."""
    given_ = json.loads(json.dumps(parameter_json(MACHINE, found)))
    assert parse_event(MACHINE, found.action, given_, "here") == found


@given(states, states)
def test_a_difference_names_the_cells_that_changed(one, two):
    """show_state with a state before has a line for each value that differs, and no others."""
    lines = show_state(MACHINE, two, one).splitlines()
    changed = sum(
        a != b
        for old, new in zip(one.tables, two.tables, strict=True)
        for a, b in zip(old, new, strict=True)
    )
    assert len(lines) == changed
    assert all(" -> " in line for line in lines)
    assert len(show_state(MACHINE, two).splitlines()) == 3 + 3 + 3 + 6 + 1


def test_a_state_as_json_and_text():
    """Members in lower case with their index, none as null, nested objects for two indices."""
    found = state("RBR", (0, 1, 3), (None, 2, None), {(2, "RED")}, lit=True)
    assert state_json(MACHINE, found) == {
        "colour": {"node0": "RED", "node1": "BLUE", "node2": "RED"},
        "size": {"node0": 0, "node1": 1, "node2": 3},
        "link": {"node0": None, "node1": "node2", "node2": None},
        "mark": {
            "node0": {"RED": False, "BLUE": False},
            "node1": {"RED": False, "BLUE": False},
            "node2": {"RED": True, "BLUE": False},
        },
        "flag": True,
    }
    text = show_state(MACHINE, found).splitlines()
    for line in ("link[node0] = none", "link[node1] = node2", "mark[node2, RED] = true"):
        assert line in text
    assert "flag = true" in text
    assert show_state(MACHINE, found, state("RBR", (0, 1, 2), (None, 2, None), {(2, "RED")})) == (
        "size[node2]: 2 -> 3\nflag: false -> true"
    )


def test_events_as_text():
    """An event reads as a call with names; a map as pairs."""
    assert show_event(MACHINE, event("connect", n=0, o=None)) == "connect(n=node0, o=none)"
    assert show_event(MACHINE, event("shuffle", f=(1, 0, 2), s=(True, False, False))) == (
        "shuffle(f={node0->node1, node1->node0, node2->node2}, "
        "s={node0->true, node1->false, node2->false})"
    )


def test_a_sort_without_members_has_empty_tables():
    """A state over no nodes has an empty object for each table, and is read back."""
    machine = Machine(make(nodes=0))
    found = machine.initial_states()[1]
    assert state_json(machine, found) == {
        "colour": {},
        "size": {},
        "link": {},
        "mark": {},
        "flag": True,
    }
    assert parse_state(machine, state_json(machine, found), "here") == found


def test_a_table_over_a_sort_without_members_is_empty():
    """A table over handles and no layers is an empty object, though there are handles, and is read back."""
    machine = Machine(
        core.make_instance("NO_LAYER", "", handles=2, txns=0, layers=0, longest=0, versions=0)
    )
    (found,) = machine.initial_states()
    given_ = state_json(machine, found)
    assert (given_["k_rows"], set(given_["phase"])) == ({}, {"handle0", "handle1"})
    assert parse_state(machine, given_, "here") == found
    with pytest.raises(ValueError, match="k_rows: found handle0, expected nothing"):
        parse_state(machine, {**given_, "k_rows": {"handle0": {}}}, "here")


@pytest.mark.parametrize(
    ("action", "parameters", "message"),
    [
        (
            "groww",
            {},
            "step 3: found action 'groww', expected one of connect, grow, jump, shuffle",
        ),
        ("jump", {"n": "node0", "k": 1}, "step 3: jump has no parameter k; it has n"),
        ("grow", {"n": "node0"}, "step 3: grow needs the parameter k"),
        (
            "jump",
            {"n": "node3"},
            "step 3, parameter n: found 'node3', expected a Node: one of node0, node1, node2",
        ),
        ("jump", {"n": 0}, "step 3, parameter n: found 0, expected a Node"),
        (
            "grow",
            {"n": "node0", "k": 4},
            "step 3, parameter k: found 4, expected a Size: one of 0, 1, 2, 3",
        ),
        ("grow", {"n": "node0", "k": True}, "step 3, parameter k: found True, expected a Size"),
        ("grow", {"n": "node0", "k": 1.0}, "step 3, parameter k: found 1.0, expected a Size"),
        (
            "connect",
            {"n": "node0", "o": "nobody"},
            "parameter o: found 'nobody', expected a Option[Node]: one of none, node0",
        ),
        (
            "shuffle",
            {"f": {"node0": "node1"}, "s": {}},
            "parameter f: found {'node0': 'node1'}, expected an object with node0, node1, node2",
        ),
        (
            "shuffle",
            {"f": "node0", "s": {}},
            "parameter f: found 'node0', expected an object with node0, node1, node2",
        ),
        (
            "shuffle",
            {
                "f": {"node0": "node0", "node1": "node1", "node2": "node2"},
                "s": {"node0": True, "node1": 1, "node2": False},
            },
            "parameter s[node1]: found 1, expected a Bool: one of false, true",
        ),
    ],
)
def test_a_wrong_event_says_where_and_what_exists(action, parameters, message):
    """Unknown actions and parameters, missing ones and wrong values name the place and what there is."""
    with pytest.raises(ValueError, match="step 3") as caught:
        parse_event(MACHINE, action, parameters, "step 3")
    assert message in str(caught.value)


def changed(path, value):
    """The JSON of a state with one part replaced (by None: taken out if the value is KeyError)."""
    found = state_json(MACHINE, state())
    level = found
    for key in path[:-1]:
        level = level[key]
    if value is KeyError:
        del level[path[-1]]
    else:
        level[path[-1]] = value
    return found


@pytest.mark.parametrize(
    ("given_", "message"),
    [
        ([], "here: expected an object with every variable of garden"),
        (changed(["colours"], 1), "unknown: ['colours']; missing: none"),
        (changed(["flag"], KeyError), "unknown: none; missing: ['flag']"),
        (changed(["size", "node1"], KeyError), "here, size[node1]: missing"),
        (changed(["size", "node1"], 9), "here, size[node1]: found 9, expected a Size: one of 0, 1"),
        (changed(["size"], 9), "here, size[node0]: missing"),
        (
            changed(["colour", "node2"], "GREEN"),
            "here, colour[node2]: found 'GREEN', expected a Colour: one of RED, BLUE",
        ),
        (changed(["mark", "node0", "RED"], None), "here, mark[node0][RED]: found None"),
        (changed(["link", "node0"], "node7"), "here, link[node0]: found 'node7'"),
        (
            changed(["flag"], "true"),
            "here, flag: found 'true', expected a Bool: one of false, true",
        ),
        (changed(["size", "node7"], 1), "here, size: found node7, expected node0, node1, node2"),
        (
            changed(["mark", "node0", "GREEN"], True),
            "here, mark[node0]: found GREEN, expected RED, BLUE",
        ),
    ],
)
def test_a_wrong_state_says_where_and_what_exists(given_, message):
    """Unknown, missing and wrong parts of a state name the variable at its index and what there is."""
    with pytest.raises(ValueError, match="here") as caught:
        parse_state(MACHINE, given_, "here")
    assert message in str(caught.value)
