"""Tickets of clients on the decode backend: what calls with a stale one reach, and all that they can do."""

from importlib.resources import files
from pathlib import Path

import pytest
from graph_walks import sample

from kvspec.counterexamples import library
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.mutants import file_name
from kvspec.counterexamples.replay import replay
from kvspec.counterexamples.targets import faulty_backend, sound_backend
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.tickets import FAULTS, Cache
from kvspec.properties.tickets import tickets as claims
from kvspec.spec import tickets as spec

LIBRARY = Path(str(files(library))) / "tickets"
# A ticket for another handle has no request of its own in these traces, whose logits could be compared.
KINDS = {
    "begin.drop-guard.STALE_TICKET": {"rows", "logits"},
    "fork.drop-guard.STALE_TICKET": {"rows", "logits"},
    # There are no rows to cut, and the snapshot is another.
    "truncate.drop-guard.STALE_TICKET": {"receipt"},
    "truncate.drop-guard.OTHER_HANDLE": {"receipt"},
}
REPLACED = [
    ("allocate", 0, 0, 0),
    ("take_ticket", 0, 0),
    ("cancel_request", 0, 0),
    ("release", 0, 0),
    ("evict", 0),
    ("allocate", 0, 0, 0),
    ("take_ticket", 1, 0),
]
"""Ticket 0 is of a request that is gone, and ticket 1 of the next one in its handle."""


def event(action, *values):
    """An event with its parameters in order."""
    names = [parameter.name for parameter in spec.system.action(action).parameters]
    return Event(action, tuple(zip(names, values, strict=True)))


def driven(*steps, faults=()):
    """A cache that took these steps."""
    cache = Cache(faults)
    cache.reset(spec.STALE_CLIENT)
    for step in steps:
        reply = cache.perform(event(*step))
        assert reply.accepted, f"{step}: {reply.code}"
    return cache


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_shows_damage_on_its_mutant(fault):
    """The sound cache refuses the call, and the faulty one tells what it did to another's request."""
    trace = read_trace(LIBRARY / file_name(fault))
    assert replay(trace, sound_backend("tickets")).outcome == "refused_as_specified"
    found = replay(trace, faulty_backend("tickets", fault), faulty=True)
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == KINDS.get(fault, {"rows"})


def test_a_row_of_the_next_request_is_cut_with_a_stale_ticket():
    """The client of the first request takes back a row that the second one has committed."""
    appended = [
        ("begin", 0, 0, 0, 0, 0, 1, 1),
        ("stage_k", 0, 0, 0),
        ("stage_v", 0, 0, 0),
        ("prepare", 0),
        ("publish", 0),
    ]
    cache = driven(*REPLACED, *appended, faults=("truncate.drop-guard.STALE_TICKET",))
    assert cache.damage() == []
    assert cache.perform(event("truncate", 0, 0, 0)).accepted
    assert [(harm.kind, harm.where, harm.amount) for harm in cache.damage()] == [
        ("rows", "ticket0", 1)
    ]
    sound = driven(*REPLACED, *appended)
    assert sound.perform(event("truncate", 0, 0, 0)).code == "STALE_TICKET"
    assert sound.perform(event("truncate", 0, 0, 1)).accepted
    assert sound.damage() == []


def test_the_check_of_a_ticket_stands_where_its_class_does():
    """A stale ticket is told before a full context, another handle behind it, a bad position first."""
    cache = driven(*REPLACED)
    assert cache.perform(event("begin", 0, 0, 0, 0, 0, 2, 0)).code == "STALE_TICKET"
    assert cache.perform(event("begin", 0, 0, 0, 0, 0, 2, 1)).code == "CONTEXT_FULL"
    assert cache.perform(event("begin", 0, 0, 0, 0, 1, 1, 0)).code == "POSITION_MISMATCH"
    blank = driven(("allocate", 0, 0, 0))
    assert blank.perform(event("begin", 0, 0, 0, 0, 0, 2, 0)).code == "CONTEXT_FULL"
    assert blank.perform(event("begin", 0, 0, 0, 0, 0, 1, 0)).code == "OTHER_HANDLE"


@pytest.mark.parametrize(
    ("instance", "walks", "examples", "share"),
    [
        pytest.param(spec.STALE_CLIENT, 8_000, 150, 0.7, marks=pytest.mark.slow),
        pytest.param(
            spec.make_instance("ONE_TICKET", "two requests, one ticket"),
            500,
            20,
            0.9,
        ),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_sound_cache_does_as_specified(instance, walks, examples, share):
    """Most transitions of an instance go as specified, and refusals as well, without damage."""
    report = sample(Cache(), instance, claims, walks=walks, examples=examples)
    assert report.holds, report.text()
    assert report.touched >= share * report.transitions


def test_a_call_that_does_nothing_harms_nobody():
    """What a stale ticket did is told of a call that changed something, and of no other."""
    amounts = []
    for is_lazy in (False, True):
        cache = driven(*REPLACED, faults=("finish.drop-guard.STALE_TICKET",))
        if is_lazy:
            cache._actions["finish"] = cache._by_ticket("finish", lambda **_: None)
        assert cache.perform(event("finish", 0, 0)).accepted
        amounts.append(len(cache.damage()))
    assert amounts[0] > 0
    assert amounts[1] == 0
