"""What the traces of A-B37, A-B45, A-B47 and A-B74 show, and what the sound rule says there."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.properties.atlas.bundle import DRAFTS_BEHIND, GRAMMAR_LEFT, MASK_LEFT, STATE_AHEAD
from kvspec.properties.atlas.run import search_faulty


def traced(case):
    """The violation of a case, its last state, and machines of the faulty and of the sound rule."""
    (found,) = search_faulty(case).violations
    return found, Machine(case.fault.on(case.instance)), Machine(case.instance)


def refusal(case):
    """The code with which the sound rule refuses a step of the faulty trace; None if it takes them all."""
    found, _, sound = traced(case)
    state = found.trace[0].state
    for step in found.trace[1:]:
        outcome = sound.step(state, step.event)
        if outcome.code is not None:
            return outcome.code
        state = outcome.state
    return None


def test_the_second_request_meets_the_mask_of_the_first():
    """Two requests stand in two rows, and both rows have the mask of the one with a grammar (A-B37)."""
    found, faulty, _ = traced(MASK_LEFT.cases[0])
    end = found.trace[-1].state
    constrained = [faulty.value(end, "constrained", h) for h in range(2)]
    assert sorted(constrained) == [False, True]
    masks = {faulty.value(end, "row_mask", r) for r in range(2)}
    assert masks == {constrained.index(True)}
    assert {faulty.value(end, "row_cache", r) for r in range(2)} == {0, 1}


@pytest.mark.parametrize(
    ("case", "code"),
    [
        (STATE_AHEAD.cases[2], "NO_ROLLBACK"),
        (STATE_AHEAD.cases[3], None),
        (STATE_AHEAD.cases[4], "NO_ROLLBACK"),
        (GRAMMAR_LEFT.cases[1], "NO_REPLAY"),
        (GRAMMAR_LEFT.cases[2], "NOT_A_REPLAY"),
    ],
    ids=lambda value: value.fault.name if hasattr(value, "fault") else str(value),
)
def test_what_the_sound_rule_says(case, code):
    """It refuses what cannot be done to all companions, each with its own code (A-B45, A-B74)."""
    assert refusal(case) == code


def test_a_rejected_draft_costs_the_draft_model_two_rows():
    """Of two drafts the second is rejected: the draft model loses the two rows that it has (A-B47)."""
    found, faulty, sound = traced(DRAFTS_BEHIND.cases[0])
    verdict, publication = (step.event for step in found.trace[-2:])
    assert (verdict.action, publication.action) == ("verify", "publish")
    before = found.trace[-3].state
    assert faulty.value(before, "drafts", 0) == 2
    assert dict(verdict.values)["a"] == 1
    state = found.trace[0].state
    for step in found.trace[1:]:
        state = sound.step(state, step.event).state
    end = found.trace[-1].state
    assert faulty.value(end, "length", 0) == sound.value(state, "length", 0)
    assert [sound.value(state, "draft_rows", 0), faulty.value(end, "draft_rows", 0)] == [2, 0]


def test_a_request_that_cannot_move_is_never_let_go():
    """From some state on the request is lost in all of them, and its handle stays taken (A-B74)."""
    found, faulty, _ = traced(GRAMMAR_LEFT.cases[4])
    assert found.loop is not None
    assert all(faulty.value(step.state, "lost", 0) for step in found.trace[found.loop :])
