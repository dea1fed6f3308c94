"""Two numberings of one state, and that both fence the same publications (A2)."""

import pytest
from observed import Observed

from kvspec.models.explicit import explore
from kvspec.models.symbolic import prove
from kvspec.properties.numbering import numbering as claims
from kvspec.spec import numbering
from kvspec.spec.append import Txn
from kvspec.spec.language import Symbol, type_of

X = Symbol(type_of(Txn), "x", "parameter")
FENCES = (
    numbering.fenced_by_serial(X),
    numbering.fenced_by_snapshot(X),
    numbering.fenced_by_state(X),
)


def request(**sizes):
    """A ready request on handle 0, in an instance with room for its life."""
    sizes = {"txns": 2, "versions": 3, **sizes}
    return Observed(numbering.make_instance("SCENARIO", "", **sizes)).do("allocate", h=0, b=0, a=0)


def prepared(seen, txn):
    """An append of the one row that fits, complete."""
    seen.do("begin", x=txn, h=0, k=0, a=0, p=0, n=1)
    return seen.do("stage_k", x=txn, l=0, p=0).do("stage_v", x=txn, l=0, p=0).do("prepare", x=txn)


def numbers(seen):
    """Serial, generation and snapshot of handle 0."""
    return seen["serial", 0], seen["generation", 0], seen["snapshot", 0]


def fences(seen, txn):
    """What each fence says of an append."""
    return [seen.tells(fence, x=txn) for fence in FENCES]


def test_the_numbers_of_a_life():
    """Append, truncate, finish and release count in the first; finish does not in the second (A2)."""
    seen = request()
    found = [numbers(seen)]
    prepared(seen, 0).do("publish", x=0)
    found.append(numbers(seen))
    for action, values in (
        ("truncate", {"h": 0, "n": 0}),
        ("finish", {"h": 0}),
        ("release", {"h": 0}),
    ):
        seen.do(action, **values)
        found.append(numbers(seen))
    assert found == [(0, 0, 0), (1, 0, 1), (2, 0, 2), (3, 0, 2), (4, 1, 3)]


def test_a_delayed_append_is_held_back_by_both_fences():
    """After finish, release and the handle's next request no fence lets it through (A2, A9)."""
    seen = prepared(request(), 0)
    assert fences(seen, 0) == [True, True, True]
    seen.do("finish", h=0)
    assert fences(seen, 0) == [False, False, False]
    assert (seen["generation", 0], seen["snapshot", 0]) == (0, seen["base_snapshot", 0])
    seen.do("release", h=0).do("evict", b=0).do("allocate", h=0, b=0, a=0)
    assert seen["serial", 0] == seen["base_serial", 0], "the serial alone would let it through"
    assert fences(seen, 0) == [False, False, False]
    seen.refuse("publish", "STALE_GENERATION", changes=True, x=0)


def test_a_competitor_is_held_back_by_both_fences():
    """Of two appends of one snapshot, the second is stale in both numberings (A2, A4)."""
    seen = prepared(prepared(request(), 0), 1).do("publish", x=0)
    assert fences(seen, 1) == [False, False, False]
    seen.refuse("publish", "STALE_SNAPSHOT", changes=True, x=1)
    assert [seen[f"base_{name}", 1] for name in ("incarnation", "serial", "snapshot")] == [0, 0, 0]


@pytest.mark.parametrize("made", numbering.INSTANCES, ids=lambda made: made.name)
def test_every_state_of_an_instance_keeps_the_claims(made):
    """The search is complete, has the expected counts, and reaches the cases that differ (A2)."""
    found = explore(made, claims.by_name.values())
    assert found.verdict == "holds"
    counts = made.expected
    assert (found.states, found.transitions, found.depth, found.terminal) == (
        counts.states,
        counts.transitions,
        counts.depth,
        counts.terminal,
    )
    assert {w.property for w in found.witnesses} == {w.name for w in claims.of_kind("witness")}


def test_the_fences_are_the_same_for_any_number_of_handles_and_appends():
    """Z3 proves it of open sorts and all numbers (A2, C2)."""
    names = (
        "*both_numberings_fence_the_same_appends*",
        "*the_fences_are_the_guards_of_publication*",
        "*is_a_projection*",
    )
    report = prove(numbering.system, claims, only=names, workers=0)
    assert report.verdict == "holds"
    assert sum(item.how == "solver" for item in report.items) >= 10


def test_without_the_phase_the_second_fence_is_too_wide():
    """A fence of generation and snapshot alone lets an append to a finished request through (A2)."""
    seen = prepared(request(), 0).do("finish", h=0)
    base = (seen["base_generation", 0], seen["base_snapshot", 0])
    assert (seen["generation", 0], seen["snapshot", 0]) == base
    assert seen["serial", 0] != seen["base_serial", 0]
