"""A trace as a picture: lanes, per-layer lengths, the publication point, and no line too long."""

import re

import msgspec
import pytest

from kvspec.counterexamples.diagram import diagram_of
from kvspec.counterexamples.format import Departure, Trace
from kvspec.counterexamples.lanes import lanes
from kvspec.counterexamples.pictures import dot, mermaid
from kvspec.counterexamples.record import run_events, trace_of
from kvspec.models.concrete import Event, Machine
from kvspec.spec.core import make_instance, system
from kvspec.spec.examples import peer
from kvspec.spec.language import Bool, ErrorCode, Module, Open, Step, System, instance


def walk_of(machine: Machine, *actions: str) -> Trace:
    """A run that takes the first enabled event of each action."""
    state = machine.initial_states()[0]
    events = []
    for action in actions:
        found = machine.system.action(action)
        for event in machine.events_of(found):
            outcome = machine.step(state, event)
            if outcome.kind == "accepted":
                events.append(event)
                state = outcome.state
                break
    assert len(events) == len(actions)
    return trace_of(machine, run_events(machine, events), sound=machine.system)


def test_the_stale_publication_can_be_read_off(stale: Trace) -> None:
    """Lanes for the handle and both appends; K and V of both layers; two publication points."""
    lines = lanes(stale).splitlines()
    assert lines[0] == "core/PAIR"
    heads = next(line for line in lines if "handle0" in line and "txn1" in line).split()
    assert heads == ["handle0", "txn0", "txn1"]
    text = "\n".join(lines)
    assert re.search(r"^ 14 publish\(x=txn0\) +#=+# +\|$", text, re.MULTILINE)
    assert re.search(r"publication point +\| DECODE_READY g0 v1 +\| PUBLISHED of handle0", text)
    assert re.search(r"\| len 1 K 1,1 V 1,1 ", text)
    assert re.search(r"^  4 stage_k\(x=txn0, +\| +\* at 0 \+1 K 1,0 V 0,0 +\|$", text, re.MULTILINE)
    assert re.search(r"^ 15 publish\(x=txn1\) +#=+\|=+#$", text, re.MULTILINE)
    assert re.search(r"^      ! specification: .*\n +refused STALE_SNAPSHOT ", text, re.MULTILINE)


@pytest.mark.parametrize("width", [100, 80, 60])
def test_no_line_is_too_long(stale: Trace, width: int) -> None:
    """The picture fits where it is shown, and no line ends in a blank."""
    text = lanes(stale, width=width)
    assert max(map(len, text.splitlines())) <= width
    assert not re.search(r" $", text, re.MULTILINE)
    assert ("lanes 1 to" in text) is (width < 78)


def test_lanes_that_do_not_fit_go_below() -> None:
    """Every lane that takes part is drawn, in parts of as many as fit."""
    wide = make_instance("W", "", handles=6, txns=1, layers=3, rows=0, blocks=6)
    trace = walk_of(Machine(wide), *["allocate"] * 6, "begin")
    text = lanes(trace)
    assert "lanes 1 to 4 of 7" in text
    assert "lanes 5 to 7 of 7" in text
    assert max(map(len, text.splitlines())) <= 100
    assert "layers 0 to 2" in text


def test_lanes_without_a_step_are_left_out() -> None:
    """A handle that nobody uses has no lane."""
    machine = Machine(make_instance("W", "", handles=3, txns=2, layers=1))
    names = [lane.name for lane in diagram_of(walk_of(machine, "allocate", "finish")).lanes]
    assert names == ["handle0"]


def test_a_fork_joins_all_its_handles() -> None:
    """Of a set of handles those in it take part."""
    machine = Machine(make_instance("W", "", handles=3, txns=1, layers=1))
    events = [e for e in machine.events() if e.action in ("allocate", "fork")]
    fork = Event("fork", (("p", 0), ("children", (False, True, True)), ("n", 0)))
    diagram = diagram_of(trace_of(machine, run_events(machine, [events[0], fork])))
    assert [diagram.lanes[place].name for place in diagram.rows[-1].lanes] == [
        "handle0",
        "handle1",
        "handle2",
    ]


def test_a_refusal_is_marked(pair, stale_events) -> None:
    """A refused step has crosses and its code."""
    machine = Machine(pair)
    text = lanes(trace_of(machine, run_events(machine, stale_events)))
    assert re.search(r"^ 15 publish\(x=txn1\) +\| +\| +x REJECTED g0 v0$", text, re.MULTILINE)
    assert "refused STALE_SNAPSHOT" in text
    assert "txn1 -x" not in mermaid(trace_of(machine, run_events(machine, stale_events)))


def test_the_peer_model_has_its_own_names() -> None:
    """Other names of the same variables are found; truth values of layers are 1 and 0."""
    machine = Machine(peer.ROWS["1,1,2,3,4"])
    trace = walk_of(
        machine, "begin", "stage_k", "stage_k", "stage_v", "stage_v", "prepare", "publish"
    )
    text = lanes(trace)
    assert "READY g0" in text
    assert "K 1,1 V 1,0" in text
    assert "publication point" in text


class Lamp(Open):
    """A lamp."""


class Bulb(Open):
    """A bulb."""


toy = Module("toy", "Lamps.")
lit = toy.variable("lit", Lamp, Bulb, to=Bool, init=False, meaning="it burns")
power = toy.variable("power", to=Bool, init=False, meaning="there is power")
NO_POWER = ErrorCode("NO_POWER", "there is no power")


@toy.action
def light(step: Step, l: Lamp, b: Bulb) -> None:
    """Light a bulb of a lamp."""
    step.require(power.value, NO_POWER)
    step.assign(lit[l, b], True)


@toy.action
def switch(step: Step) -> None:
    """Switch the power."""
    step.assign(power.value, ~power.value)


TOYS = System.of("toy", "Lamps.", toy)
HOUSE = instance("HOUSE", TOYS, {Lamp: 2, Bulb: 1})


def test_any_system_has_lanes() -> None:
    """Open sorts that are parameters give the lanes; what is in none stands beside the step."""
    trace = walk_of(Machine(HOUSE), "switch", "light")
    text = lanes(trace, system=TOYS)
    assert text == (
        "toy/HOUSE\n"
        "\n"
        "                              lamp0                   bulb0\n"
        "  0 initial state             |                       |\n"
        "  1 switch()                  |                       |\n"
        "      power=true              |                       |\n"
        "  2 light(l=lamp0, b=bulb0)   *-----------------------*\n"
        "                              | lit[bulb0]=true       |\n"
    )


def test_a_system_without_lanes_is_drawn_too() -> None:
    """Steps alone are a picture as well, in every form."""
    trace = walk_of(Machine(HOUSE), "switch", "switch")
    looped = msgspec.structs.replace(trace, loop=0)
    text = lanes(looped, system=TOYS)
    assert "  1 switch()\n      power=true\n" in text
    assert text.endswith("back to state 0: steps 1 to 2 repeat for ever\n")
    assert "participant system" in mermaid(looped, system=TOYS)
    assert "Note over system: back to state 0, for ever" in mermaid(looped, system=TOYS)
    assert "step_2" in dot(looped, system=TOYS)
    stays = msgspec.structs.replace(trace, loop=2)
    assert lanes(stays, system=TOYS).endswith("state 2 stays for ever\n")


def test_mermaid_is_well_formed(stale: Trace) -> None:
    """Participants are declared before use, blocks are closed, no sign ends a line early."""
    text = mermaid(stale)
    lines = [line.strip() for line in text.splitlines()]
    assert lines[0] == "sequenceDiagram"
    declared = {line.split()[1] for line in lines if line.startswith("participant")}
    assert declared == {"handle0", "txn0", "txn1"}
    depth = 0
    for line in lines[1:]:
        depth += line.startswith("rect ")
        depth -= line == "end"
        arrow = re.match(r"(\w+)(->>|-x)(\w+): .+", line)
        note = re.match(r"Note over (\w+)(?:,(\w+))?: .+", line)
        assert arrow or note or line == "end" or line.startswith(("rect ", "participant "))
        used = arrow.group(1, 3) if arrow else note.groups() if note else ()
        assert {name for name in used if name} <= declared
        assert ";" not in line
    assert depth == 0
    assert "txn1->>handle0: 15. publish(x=txn1) (publication point)" in lines
    assert "Note over handle0,txn1: the specification: refused STALE_SNAPSHOT" in lines


def test_signs_of_mermaid_are_escaped(stale: Trace) -> None:
    """A semicolon and a hash are written as entities."""
    from kvspec.counterexamples.pictures import _mermaid_text

    assert _mermaid_text("a; b #1") == "a#59; b #35;1"


def test_dot_is_well_formed(stale: Trace) -> None:
    """Quotes and brackets are closed, and every node in an edge or a rank is declared."""
    text = dot(stale)
    bare = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert '"' not in bare
    assert bare.count("{") == bare.count("}")
    assert bare.count("[") == bare.count("]")
    declared = set(re.findall(r"^  (\w+) \[", bare, re.MULTILINE)) - {"node", "edge"}
    used = set(re.findall(r"(?:step|lane|at)_\w+", bare))
    assert used == declared
    assert text.count("peripheries=2") == 4
    assert 'label="15. publish(x=txn1) (publication point)\\lspecification: refused STALE' in text


def test_a_departure_without_a_code_is_told(stale: Trace) -> None:
    """Where the specification accepts and does otherwise, the picture says so."""
    other = msgspec.structs.replace(stale, sound=Departure(step=2, outcome="accepted", code=None))
    assert "! specification:" in lanes(other)
    assert diagram_of(other).rows[2].departs == "accepted, otherwise"


def test_every_action_of_the_core_system_can_be_drawn() -> None:
    """Each event of each action is drawn, whatever its parameters are."""
    machine = Machine(make_instance("W", "", handles=2, txns=1, layers=1, rows=2))
    for action in system.actions.values():
        event = next(iter(machine.events_of(action)))
        trace = trace_of(machine, run_events(machine, [event]))
        for draw in (lanes, mermaid, dot):
            assert action.name in draw(trace)
