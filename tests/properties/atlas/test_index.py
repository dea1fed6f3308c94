"""What the traces of A-B20, A-B76 and the second case of A-B30 show, and what the sound rule says there."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.properties.atlas.index import CHUNKS, OTHER_ADAPTER, SLEEPS
from kvspec.properties.atlas.run import search_faulty


def traced(case):
    """The violation of a case, with machines of the faulty and of the sound rule."""
    (found,) = search_faulty(case).violations
    return found, Machine(case.fault.on(case.instance)), Machine(case.instance)


def actions(found):
    """The actions of a trace."""
    return [step.event.action for step in found.trace[1:]]


def last_read(found, machine):
    """Block and request of the match that ends a trace."""
    values = dict(found.trace[-1].event.values)
    return values["b"], values["h"]


@pytest.mark.parametrize("case", CHUNKS.cases[:2], ids=lambda case: case.fault.name)
def test_the_last_request_reads_what_another_wrote(case):
    """The trace ends with a match of an entry whose block has rows of another prompt (A-B20)."""
    found, faulty, _ = traced(case)
    b, h = last_read(found, faulty)
    end = found.trace[-1].state
    key, rows = (faulty.value(end, name, b) for name in ("entry_key", "content"))
    assert key == faulty.value(end, "prompt", h) != rows
    assert rows is not None


def test_the_rows_of_an_aborted_request_are_used_again():
    """A publishes and is aborted, its block is freed, B fills it, C matches it (A-B20)."""
    found, _, sound = traced(CHUNKS.cases[0])
    told = actions(found)
    wanted = iter(told)
    assert all(
        name in wanted
        for name in (
            "allocate",
            "index_rows",
            "cancel_request",
            "release",
            "evict",
            "allocate",
            "match",
        )
    )
    state = found.trace[0].state
    for step in found.trace[1:]:
        outcome = sound.step(state, step.event)
        state = outcome.state
        if outcome.code is not None:
            break
    assert (step.event.action, outcome.code) == ("evict", "STILL_INDEXED")


def test_a_chunk_of_an_aborted_prefill_is_freed_with_it():
    """A's append is under way when A is aborted; the sound rule keeps the block that A indexed (A-B20)."""
    found, faulty, sound = traced(CHUNKS.cases[5])
    told = actions(found)
    at = told.index("cancel_request")
    before, step = found.trace[at].state, found.trace[at + 1]
    b, _ = last_read(found, faulty)
    assert faulty.value(before, "state", 0) == "OPEN"
    assert faulty.value(before, "phase", 0) == "DECODE_READY"
    assert faulty.value(before, "entry", b) == "COMPLETE"
    assert sound.value(sound.step(before, step.event).state, "kept", b)
    assert not faulty.value(step.state, "kept", b)


def test_a_repair_loads_what_the_tier_has():
    """The tier is of weights 0, the request and the entry of weights 1 (A-B76)."""
    found, faulty, sound = traced(SLEEPS.cases[3])
    b, _ = last_read(found, faulty)
    end = found.trace[-1].state
    assert faulty.value(end, "entry_weights", b) == faulty.value(end, "weights") == 1
    assert faulty.value(end, "content_weights", b) == faulty.value(end, "tier_weights") == 0
    at = actions(found).index("reload")
    assert sound.step(found.trace[at].state, found.trace[at + 1].event).code == "STALE_TIER"


def test_a_leaked_block_stays_withdrawn_for_ever():
    """In the loop of the leak the block is withdrawn, and its only reader is released (A-B20)."""
    found, faulty, _ = traced(CHUNKS.cases[4])
    assert found.kind == "leads_to"
    loop = found.trace[found.loop :]
    assert {faulty.value(step.state, "entry", 0) for step in loop} == {"WITHDRAWN"}
    assert all(faulty.value(step.state, "reader", 0, 0) for step in loop)
    assert {faulty.value(step.state, "phase", 0) for step in loop} == {"RELEASED"}


@pytest.mark.parametrize("case", SLEEPS.cases[:2], ids=lambda case: case.fault.name)
def test_a_request_reads_memory_without_rows(case):
    """The trace goes over a sleep, and its last match is of a block that has no rows (A-B76)."""
    found, faulty, sound = traced(case)
    assert actions(found).count("sleep") == actions(found).count("wake") == 1
    b, _ = last_read(found, faulty)
    assert faulty.value(found.trace[-1].state, "content", b) is None
    state = found.trace[0].state
    for step in found.trace[1:]:
        outcome = sound.step(state, step.event)
        state = outcome.state
    assert outcome.code == "STALE_MEMORY"


def test_an_adapter_is_read_under_another():
    """The matched rows have the prompt's content and another ABI (A-B30)."""
    found, faulty, sound = traced(OTHER_ADAPTER)
    b, h = last_read(found, faulty)
    end = found.trace[-1].state
    assert faulty.value(end, "content", b) == faulty.value(end, "prompt", h)
    assert faulty.value(end, "content_abi", b) != faulty.value(end, "abi", h)
    assert sound.step(found.trace[-2].state, found.trace[-1].event).code == "ABI_MISMATCH"
