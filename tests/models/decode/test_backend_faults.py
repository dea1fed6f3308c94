"""Every fault of the decode backend: the sound one refuses, the faulty one comes to harm in numbers."""

import attrs
import pytest

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode import FAULTS, LAYOUT_KINDS, DecodeBackend, fault_for, make_backend
from kvspec.properties.mutation import mutate
from kvspec.spec import core

WITNESS = core.make_instance(
    "WITNESS",
    "room for every fault to show itself",
    handles=2,
    txns=2,
    layers=2,
    abis=2,
    keys=2,
    blocks=2,
    rows=2,
    longest=2,
    versions=3,
    generations=2,
    rewinds=1,
)
MACHINE = Machine(WITNESS)


@attrs.frozen
class Witness:
    """How a fault is brought out.

    before: events that lead to it. event: the one that a sound backend refuses with `code`, or, for
    an update that goes wrong, the last accepted one. after: what a faulty backend does next. shows:
    kinds of damage that it must have then; "state" when it is told by the observed state, "answer"
    when by the answer alone.
    """

    fault: str
    before: str
    event: str
    code: str | None
    shows: str
    after: str = ""


def staged(x: int, h: int, p: int, n: int, a: int = 0) -> str:
    """An append of key 0 with all its rows staged."""
    rows = [f"stage_{part} {x} {l} {p + i}" for l in (0, 1) for part in "kv" for i in range(n)]
    return "; ".join([f"begin {x} {h} 0 {a} {p} {n}", *rows])


def appended(x: int, h: int, p: int, n: int) -> str:
    """An append, published."""
    return f"{staged(x, h, p, n)}; prepare {x}; publish {x}"


BORN = "allocate 0 0 0"
TWO = f"{BORN}; allocate 1 1 1"
FORKED = f"{BORN}; {appended(0, 0, 0, 1)}; fork 0 01 0; enter 0 0; enter 1 1"
CHILD = f"{BORN}; {appended(0, 0, 0, 1)}; fork 0 01 1"
READY = f"{BORN}; {staged(0, 0, 0, 1)}; prepare 0"
ONE_ROW = f"{BORN}; {appended(0, 0, 0, 1)}"
REUSED = f"{READY}; finish 0; release 0; allocate 0 1 0"
HALF = f"{BORN}; begin 0 0 0 0 0 1; stage_k 0 0 0; stage_v 0 0 0"

DROPPED = (
    Witness("evict.drop-guard.BLOCK_EMPTY", "", "evict 0", "BLOCK_EMPTY", "owner"),
    Witness("evict.drop-guard.STILL_OWNED", ONE_ROW, "evict 0", "STILL_OWNED", "owner logits"),
    Witness(
        "enter.drop-guard.HANDLE_TERMINAL",
        f"{BORN}; finish 0; release 0",
        "enter 0 0",
        "HANDLE_TERMINAL",
        "order",
    ),
    Witness("enter.drop-guard.ROW_TAKEN", f"{TWO}; enter 0 0", "enter 0 1", "ROW_TAKEN", "state"),
    Witness("enter.drop-guard.IN_BATCH", f"{BORN}; enter 0 0", "enter 1 0", "IN_BATCH", "order"),
    Witness(
        "leave.drop-guard.NOT_IN_BATCH", f"{TWO}; enter 1 0", "leave 1", "NOT_IN_BATCH", "state"
    ),
    Witness(
        "reorder.drop-guard.NOT_A_PERMUTATION",
        f"{TWO}; enter 0 0; enter 1 1",
        "reorder 00",
        "NOT_A_PERMUTATION",
        "order",
    ),
    Witness(
        "begin.drop-guard.TXN_IN_USE",
        f"{BORN}; begin 0 0 0 0 0 1; stage_k 0 0 0",
        "begin 0 0 1 0 0 2",
        "TXN_IN_USE",
        "state",
    ),
    Witness(
        "begin.drop-guard.HANDLE_TERMINAL",
        f"{BORN}; finish 0",
        "begin 0 0 0 0 0 1",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness(
        "begin.drop-guard.ABI_MISMATCH",
        BORN,
        "begin 0 0 0 1 0 1",
        "ABI_MISMATCH",
        "rows logits",
        "stage_k 0 0 0; stage_v 0 0 0; stage_k 0 1 0; stage_v 0 1 0; prepare 0; publish 0",
    ),
    Witness(
        "begin.drop-guard.POSITION_MISMATCH",
        BORN,
        "begin 0 0 0 0 1 1",
        "POSITION_MISMATCH",
        "rows logits",
        "stage_k 0 0 1; stage_v 0 0 1; stage_k 0 1 1; stage_v 0 1 1; prepare 0; publish 0",
    ),
    Witness(
        "begin.drop-guard.EMPTY_APPEND",
        BORN,
        "begin 0 0 0 0 0 0",
        "EMPTY_APPEND",
        "state",
        "prepare 0; publish 0",
    ),
    Witness(
        "begin.drop-guard.CONTEXT_FULL",
        f"{BORN}; {appended(0, 0, 0, 2)}",
        "begin 1 0 0 0 2 1",
        "CONTEXT_FULL",
        "state",
        "stage_k 1 0 2; stage_v 1 0 2; stage_k 1 1 2; stage_v 1 1 2; prepare 1; publish 1",
    ),
    Witness(
        "stage_k.drop-guard.TXN_CLOSED",
        f"{BORN}; begin 0 0 0 0 0 1; cancel_txn 0",
        "stage_k 0 0 0",
        "TXN_CLOSED",
        "state",
    ),
    Witness(
        "stage_v.drop-guard.TXN_CLOSED",
        f"{BORN}; begin 0 0 0 0 0 1; cancel_txn 0",
        "stage_v 0 1 0",
        "TXN_CLOSED",
        "state",
    ),
    Witness(
        "stage_k.drop-guard.POSITION_MISMATCH",
        f"{BORN}; begin 0 0 0 0 0 2",
        "stage_k 0 0 1",
        "POSITION_MISMATCH",
        "rows logits",
        "stage_v 0 0 0; stage_v 0 0 1; stage_k 0 1 0; stage_k 0 1 1; stage_v 0 1 0; stage_v 0 1 1; "
        "prepare 0; publish 0",
    ),
    Witness(
        "stage_v.drop-guard.POSITION_MISMATCH",
        f"{BORN}; begin 0 0 0 0 0 2",
        "stage_v 0 1 1",
        "POSITION_MISMATCH",
        "rows logits",
        "stage_k 0 0 0; stage_k 0 0 1; stage_v 0 0 0; stage_v 0 0 1; stage_k 0 1 0; stage_k 0 1 1; "
        "prepare 0; publish 0",
    ),
    Witness(
        "stage_k.drop-guard.INTERVAL_FULL",
        f"{BORN}; begin 0 0 0 0 0 1; stage_k 0 0 0",
        "stage_k 0 0 1",
        "INTERVAL_FULL",
        "state",
    ),
    Witness(
        "stage_v.drop-guard.INTERVAL_FULL",
        f"{BORN}; begin 0 0 0 0 0 1; stage_v 0 0 0",
        "stage_v 0 0 1",
        "INTERVAL_FULL",
        "state",
    ),
    Witness("prepare.drop-guard.TXN_CLOSED", "", "prepare 0", "TXN_CLOSED", "state"),
    Witness(
        "prepare.drop-guard.K_INCOMPLETE",
        f"{HALF}; stage_v 0 1 0",
        "prepare 0",
        "K_INCOMPLETE",
        "layers logits",
        "publish 0",
    ),
    Witness(
        "prepare.drop-guard.V_INCOMPLETE",
        f"{HALF}; stage_k 0 1 0",
        "prepare 0",
        "V_INCOMPLETE",
        "layers logits",
        "publish 0",
    ),
    Witness("publish.drop-guard.NOT_PREPARED", HALF, "publish 0", "NOT_PREPARED", "layers logits"),
    Witness(
        "publish.drop-guard.STALE_GENERATION",
        REUSED,
        "publish 0",
        "STALE_GENERATION",
        "rows logits",
    ),
    Witness(
        "publish.drop-guard.STALE_SNAPSHOT",
        f"{READY}; {appended(1, 0, 0, 1)}",
        "publish 0",
        "STALE_SNAPSHOT",
        "rows logits",
    ),
    Witness(
        "publish.drop-guard.HANDLE_TERMINAL",
        f"{READY}; finish 0",
        "publish 0",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness("retry.drop-guard.NOT_PUBLISHED", READY, "retry 0 0 0 0 1", "NOT_PUBLISHED", "receipt"),
    Witness(
        "retry.drop-guard.HANDLE_CONFLICT", ONE_ROW, "retry 0 1 0 0 1", "HANDLE_CONFLICT", "receipt"
    ),
    Witness("retry.drop-guard.KEY_CONFLICT", ONE_ROW, "retry 0 0 1 0 1", "KEY_CONFLICT", "receipt"),
    Witness(
        "retry.drop-guard.BASE_CONFLICT", ONE_ROW, "retry 0 0 0 1 1", "BASE_CONFLICT", "receipt"
    ),
    Witness(
        "retry.drop-guard.INTERVAL_CONFLICT",
        ONE_ROW,
        "retry 0 0 0 0 2",
        "INTERVAL_CONFLICT",
        "receipt",
    ),
    Witness("forget.drop-guard.TXN_LIVE", HALF, "forget 0", "TXN_LIVE", "state"),
    Witness(
        "allocate.drop-guard.HANDLE_LIVE", ONE_ROW, "allocate 0 1 0", "HANDLE_LIVE", "layers rows"
    ),
    Witness(
        "allocate.drop-guard.BLOCK_IN_USE", BORN, "allocate 1 0 0", "BLOCK_IN_USE", "owner logits"
    ),
    Witness(
        "fork.drop-guard.HANDLE_TERMINAL",
        f"{BORN}; finish 0",
        "fork 0 01 0",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness("fork.drop-guard.NO_CHILD", BORN, "fork 0 00 0", "NO_CHILD", "answer"),
    Witness("fork.drop-guard.BEYOND_COMMITTED", BORN, "fork 0 01 1", "BEYOND_COMMITTED", "logits"),
    Witness("fork.drop-guard.CHILD_IN_USE", TWO, "fork 0 01 0", "CHILD_IN_USE", "state"),
    Witness(
        "truncate.drop-guard.HANDLE_TERMINAL",
        f"{ONE_ROW}; finish 0",
        "truncate 0 0",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness(
        "truncate.drop-guard.BEYOND_COMMITTED", BORN, "truncate 0 1", "BEYOND_COMMITTED", "logits"
    ),
    Witness(
        "truncate.drop-guard.CANNOT_REWIND",
        f"{BORN}; {appended(0, 0, 0, 2)}",
        "truncate 0 0",
        "CANNOT_REWIND",
        "state",
    ),
    Witness("cancel_txn.drop-guard.TXN_CLOSED", ONE_ROW, "cancel_txn 0", "TXN_CLOSED", "state"),
    Witness(
        "cancel_request.drop-guard.HANDLE_TERMINAL",
        f"{BORN}; finish 0",
        "cancel_request 0",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness(
        "finish.drop-guard.HANDLE_TERMINAL",
        f"{BORN}; cancel_request 0",
        "finish 0",
        "HANDLE_TERMINAL",
        "state",
    ),
    Witness("release.drop-guard.NOT_TERMINAL", BORN, "release 0", "NOT_TERMINAL", "state"),
    Witness(
        "release.drop-guard.ROW_HOLDS_HANDLE",
        f"{BORN}; enter 0 0; finish 0",
        "release 0",
        "ROW_HOLDS_HANDLE",
        "order",
    ),
)

UPDATES = (
    Witness(
        "publish.drop-assignment.row_position", f"{READY}; enter 0 0", "publish 0", None, "order"
    ),
    Witness(
        "truncate.drop-assignment.row_position",
        f"{ONE_ROW}; enter 0 0",
        "truncate 0 0",
        None,
        "order",
    ),
    Witness("truncate.layer-local", ONE_ROW, "truncate 0 0", None, "layers"),
    Witness("truncate.drop-assignment.version", ONE_ROW, "truncate 0 0", None, "state"),
    *(
        Witness(f"{action}.drop-assignment.{companion}", before, event, None, "order")
        for action, before, event in (
            ("enter", CHILD, "enter 0 1"),
            ("leave", f"{CHILD}; enter 0 1", "leave 1"),
            ("reorder", FORKED, "reorder 10"),
        )
        for companion in ("row_cache", "row_tokens", "row_sampler", "row_ancestry", "row_position")
    ),
    Witness("publish.drop-assignment.k_rows", READY, "publish 0", None, "layers logits"),
    Witness("publish.drop-assignment.v_rows", READY, "publish 0", None, "layers logits"),
    Witness("allocate.drop-assignment.owner", BORN, "evict 0", "STILL_OWNED", "owner logits"),
    Witness(
        "fork.shared-rows",
        f"{BORN}; fork 0 01 0; {appended(0, 1, 0, 1)}; {staged(1, 0, 0, 1)}; prepare 1",
        "publish 1",
        None,
        "rows logits",
    ),
    Witness(
        "fork.drop-assignment.owner",
        f"{BORN}; fork 0 01 0; finish 0; release 0",
        "evict 0",
        "STILL_OWNED",
        "owner logits",
    ),
    Witness(
        "release.keeps-rows",
        f"{ONE_ROW}; finish 0",
        "release 0",
        None,
        "layers rows",
        "allocate 0 1 0",
    ),
    Witness(
        "release.drop-assignment.generation",
        REUSED,
        "publish 0",
        "STALE_GENERATION",
        "rows logits",
    ),
    Witness("release.drop-assignment.owner", f"{BORN}; finish 0", "release 0", None, "state"),
    Witness("cancel_request.drop-assignment.state", HALF, "cancel_request 0", None, "state"),
    Witness("retry.appends-again", ONE_ROW, "retry 0 0 0 0 1", None, "logits"),
)
ELSEWHERE = {"publish.torn", "publish.unwritten"}
"""Faults that show themselves between two events; see the tests of readers."""

ALL = DROPPED + UPDATES


def parsed(script: str) -> list[Event]:
    """The events of a script: an action and its arguments, a map as the digits of its values."""
    events = []
    for words in (line.split() for line in script.split(";") if line.strip()):
        action = WITNESS.system.action(words[0])
        (event,) = [
            event
            for event in MACHINE.events_of(action)
            if [written(value) for _, value in event.values] == words[1:]
        ]
        events.append(event)
    return events


def written(value: object) -> str:
    """A value of an event as in a script."""
    if isinstance(value, tuple):
        return "".join(str(int(item)) for item in value)
    return str(value)


def started(layout: str, *faults: str) -> DecodeBackend:
    """A backend on the instance."""
    backend = make_backend(layout, faults)
    backend.reset(WITNESS)
    return backend


def test_every_dropped_guard_has_a_fault() -> None:
    """Each mutant of the core system that drops a guard is a fault by the same name."""
    names = {
        mutant.name for mutant in mutate(core.system).mutants if mutant.operator == "drop-guard"
    }
    assert names <= FAULTS.keys()
    assert all(fault_for(name) == name for name in names)


def test_other_faults_name_mutants_or_explain_themselves() -> None:
    """What `fault_for` maps are mutants of the core system, and it maps nothing to a missing fault."""
    mutants = {mutant.name for mutant in mutate(core.system).mutants}
    mapped = {name: fault_for(name) for name in mutants}
    assert {fault for fault in mapped.values() if fault} <= FAULTS.keys()
    assert mapped["release.drop-assignment.k_rows"] == "release.keeps-rows"
    assert mapped["publish.plus-one.version"] is None
    own = {name for name in FAULTS if ".drop-" in name}
    assert own <= mutants


def test_every_fault_has_a_witness() -> None:
    """No fault is without a trace that brings it out."""
    assert {witness.fault for witness in ALL} | ELSEWHERE == FAULTS.keys()


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize("witness", ALL, ids=lambda witness: witness.fault)
def test_a_sound_backend_refuses_and_is_unharmed(witness: Witness, layout: str) -> None:
    """The sound backend refuses the event with the guard's code, and is as the machine says."""
    backend, state = started(layout), MACHINE.initial_states()[0]
    for event in parsed(witness.before):
        assert backend.perform(event).accepted
        state = MACHINE.step(state, event).state
    (event,) = parsed(witness.event)
    outcome, reply = MACHINE.step(state, event), backend.perform(event)
    assert reply.code == outcome.code == witness.code
    assert backend.observe() == outcome.state
    assert outcome.effect or witness.code is None or backend.observe() == state
    assert backend.damage() == []


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
@pytest.mark.parametrize("witness", ALL, ids=lambda witness: witness.fault)
def test_a_faulty_backend_accepts_and_comes_to_harm(witness: Witness, layout: str) -> None:
    """The faulty backend accepts the event, and shows the harm that its witness names."""
    backend, state = started(layout, witness.fault), MACHINE.initial_states()[0]
    for event in parsed(witness.before):
        assert backend.perform(event).accepted
        state = MACHINE.step(state, event).state
    # A wrong update may show before the event that a sound backend refuses because of it.
    if ".drop-guard." in witness.fault or witness.code is None:
        assert backend.observe() == state
    for event in [*parsed(witness.event), *parsed(witness.after)]:
        reply = backend.perform(event)
        assert reply.accepted, reply
        state = MACHINE.step(state, event).state
    damage = backend.damage()
    if witness.shows == "answer":
        assert backend.observe() == state
        assert damage == []
    elif witness.shows == "state":
        assert backend.observe() != state
    else:
        assert set(witness.shows.split()) <= {harm.kind for harm in damage}, damage
        assert all(harm.amount > 0.001 for harm in damage)


def test_rows_are_told_by_whose_they_are() -> None:
    """A stale publication's rows are named as those of the append that outlived its request."""
    backend = started("dynamic", "publish.drop-guard.STALE_GENERATION")
    for event in parsed(f"{REUSED}; publish 0"):
        assert backend.perform(event).accepted
    (rows,) = [harm for harm in backend.damage() if harm.kind == "rows"]
    # K and V of the second layer; those of the first depend on token and position alone.
    assert rows.amount == 2
    assert "txn0 on handle0, request 1" in rows.text
    (logits,) = [harm for harm in backend.damage() if harm.kind == "logits"]
    assert logits.amount > 0.01


def test_an_unknown_fault_is_refused_with_a_list() -> None:
    """A fault by a wrong name is refused, and the message lists those there are."""
    with pytest.raises(ValueError, match=r"found the faults publish\.sloppily, expected names out"):
        make_backend(faults=("publish.sloppily",))
