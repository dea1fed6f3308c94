"""Sessions of real rows: damage in numbers, and all that small instances allow."""

import pytest
import torch

from kvspec.models.concrete import Event, Machine
from kvspec.models.decode.agreement import TOLERANCES
from kvspec.models.decode.mechanisms.sessions import Cache
from kvspec.properties.atlas.sessions import (
    A_ROW,
    AN_IMAGE,
    NO_WAY_BACK,
    SAVED_ROW,
    TWO_SESSIONS,
)
from kvspec.properties.sessions import sessions as claims
from kvspec.properties.stateful import make_plan, run
from kvspec.spec.sessions import NEIGHBOURS, RESUMED, make_instance

OF_TWO_ROWS = make_instance("OF_TWO_ROWS", "turns of two rows", handles=2, longest=3, versions=6)
"""For scenarios: no search is made of it."""


def taken(instance, most):
    """The states that at most so many walks come to, and the plan of these.

    What a state refuses without effect is asked for when it is first come to.
    """
    machine, cache, plan = Machine(instance), Cache(), make_plan(instance, most=most)
    events, (first,) = machine.events(), machine.initial_states()
    seen = set()
    for walk in plan.walks:
        cache.reset(instance)
        state = first
        for event in (None, *(events[number] for number in walk)):
            if event is not None:
                state = answered(machine, cache, state, event)
            if state in seen:
                continue
            seen.add(state)
            assert not cache.damage(), str(event)
            for other in events:
                want = machine.step(state, other)
                if want.kind == "refused" and want.state == state:
                    answered(machine, cache, state, other)
    return seen, plan


def answered(machine, cache, state, event):
    """The state after an event, to which the reply and what is observed were as specified."""
    want, reply = machine.step(state, event), cache.perform(event)
    assert (reply.accepted, reply.code) == (want.kind == "accepted", want.code), str(event)
    assert cache.observe() == want.state, str(event)
    return want.state


WHOLE = [NO_WAY_BACK, AN_IMAGE, pytest.param(A_ROW, marks=pytest.mark.slow)]


@pytest.mark.parametrize("made", WHOLE, ids=lambda made: made.name)
def test_the_sound_cache_answers_every_event_in_every_state(made):
    """A turn, an image, and two turns with a row: accepted and refused as specified, without damage."""
    seen, plan = taken(made, 10_000)
    assert len(seen) == made.expected.states
    assert plan.planned == plan.transitions == made.expected.transitions


@pytest.mark.slow
@pytest.mark.parametrize(
    "made", [TWO_SESSIONS, SAVED_ROW, NEIGHBOURS, RESUMED], ids=lambda made: made.name
)
def test_the_sound_cache_goes_as_specified_on_walks(made):
    """Branches of two sessions, and rows that are saved, restored and carried in a batch."""
    _, plan = taken(made, 30)
    assert plan.planned > 300


@pytest.mark.slow
@pytest.mark.parametrize("made", [A_ROW, RESUMED], ids=lambda made: made.name)
def test_a_reader_inside_a_publication_sees_rows_and_tokens_together(made):
    """Walks with a reader inside each publication, who sees the state before it or the one after it."""
    listed = list(claims.by_name.values())
    plan = make_plan(made, listed, most=300)
    report = run(made, listed, Cache, max_examples=20, profile="ci", plan=plan)
    assert report.holds, report.text()
    assert "publish" not in report.never_taken


def call(cache, action, **values):
    """The reply to an event."""
    return cache.perform(Event(action, tuple(values.items())))


def take(cache, *steps):
    """Events, each of them accepted."""
    for action, values in steps:
        reply = call(cache, action, **values)
        assert reply.accepted, f"{action}: {reply.code}"


def a_turn(h, p, n, end="complete"):
    """The steps of a turn of `n` rows behind the first `p` ones."""
    rows = range(p, p + n)
    staged = [(part, {"x": 0, "l": 0, "p": row}) for row in rows for part in ("stage_k", "stage_v")]
    return [
        ("submit", {"h": h}),
        ("start_turn", {"h": h}),
        ("begin", {"x": 0, "h": h, "k": 0, "a": 0, "p": p, "n": n}),
        *staged,
        ("prepare", {"x": 0}),
        ("publish", {"x": 0}),
        ("forget", {"x": 0}),
        (end, {"h": h}),
    ]


OPENED = ("allocate", {"h": 0, "b": 0, "a": 0})
SAVED = (OPENED, *a_turn(0, 0, 2), ("save", {"h": 0, "i": 0}))
CHILD = ("fork", {"p": 0, "children": (False, True), "n": 0})
RESTORED = (
    ("begin_restore", {"h": 1, "i": 0}),
    ("write_row", {"h": 1}),
    ("write_row", {"h": 1}),
)


def begun(*faults):
    """A cache of an instance with room for turns of two rows."""
    cache = Cache(faults=faults)
    cache.reset(OF_TWO_ROWS)
    return cache


def amounts(cache):
    """Damage by kind, of handle 1."""
    return {harm.kind: harm.amount for harm in cache.damage() if harm.where == "handle1"}


def test_a_restored_session_goes_on_like_the_one_that_was_saved():
    """Rows, tokens and the logits of the next turn are those of the saved session, bit by bit."""
    cache = begun()
    take(cache, *SAVED, CHILD, *RESTORED, ("check_image", {"h": 1}), ("publish_restore", {"h": 1}))
    assert cache.sessions[0].tokens == cache.sessions[1].tokens
    assert torch.equal(cache.logits(0), cache.logits(1))
    take(cache, *a_turn(1, 2, 1))
    assert len(cache.sessions[1].tokens) == 4
    assert not cache.damage()


def test_a_session_that_is_saved_without_its_last_token_goes_on_off_by_one():
    """It gives its last token a second row, at the next position: its logits are far from right ones."""
    cache = begun("save.as-many-tokens-as-rows")
    take(cache, *SAVED, CHILD, *RESTORED, ("check_image", {"h": 1}), ("publish_restore", {"h": 1}))
    found = amounts(cache)
    assert found.keys() == {"logits"}
    assert found["logits"] > 1_000 * TOLERANCES[torch.float32]
    take(cache, *a_turn(1, 2, 1))
    found = amounts(cache)
    assert found["rows"] == 1
    assert found["logits"] > 1_000 * TOLERANCES[torch.float32]


def test_every_row_that_a_failed_restore_leaves_is_counted():
    """Both rows of a damaged image are read by the next turn with the fault; nothing is left without it."""
    failed = (*SAVED, CHILD, *RESTORED, ("damage", {"i": 0}))
    left = begun("undo_restore.drop-assignment.written")
    for cache in (left, begun()):
        take(cache, *failed)
        assert call(cache, "check_image", h=1).code == "IMAGE_DAMAGED"
        take(cache, ("undo_restore", {"h": 1}))
        found = amounts(cache)
        assert found.get("rows", 0) == (2 if cache is left else 0)
        assert bool(found) == (cache is left)


def test_the_rows_of_an_aborted_turn_are_cut_and_its_late_append_is_stale():
    """The next turn begins with the completed snapshot, and computes other rows in the same positions."""
    cache = begun()
    take(cache, OPENED, *a_turn(0, 0, 1), *a_turn(0, 1, 2, end="abort"))
    gone = cache.logits(0)
    assert len(cache.sessions[0].tokens) == 4
    assert call(cache, "truncate", h=0, n=2).code == "NOT_COMPLETED"
    take(cache, ("truncate", {"h": 0, "n": 1}), *a_turn(0, 1, 2))
    assert not torch.equal(cache.logits(0), gone)
    assert not cache.damage()


def test_a_turn_that_is_too_long_is_refused_and_leaves_nothing():
    """An append beyond what can be taken back is refused, and the state stays as it was."""
    cache = Cache()
    cache.reset(make_instance("SHORT", "", longest=2, rewinds=1, versions=3))
    take(cache, OPENED, ("submit", {"h": 0}), ("start_turn", {"h": 0}))
    before = cache.observe()
    assert call(cache, "begin", x=0, h=0, k=0, a=0, p=0, n=2).code == "TURN_TOO_LONG"
    assert cache.observe() == before


def test_an_image_that_lost_bytes_stays_damaged():
    """To damage it a second time makes nothing whole, whatever the image holds."""
    cache = begun()
    take(cache, OPENED, ("save", {"h": 0, "i": 0}))
    for _ in range(2):
        take(cache, ("damage", {"i": 0}))
        assert cache.images[0].is_damaged
    take(cache, ("save", {"h": 0, "i": 0}))
    assert not cache.images[0].is_damaged


def test_what_an_image_loses_after_its_check_is_not_restored():
    """Tokens and rows were read before: the session is whole, and the image is damaged."""
    cache = begun()
    take(cache, *SAVED, CHILD, *RESTORED, ("check_image", {"h": 1}))
    take(cache, ("damage", {"i": 0}), ("publish_restore", {"h": 1}))
    assert cache.images[0].is_damaged
    assert not cache.damage()
