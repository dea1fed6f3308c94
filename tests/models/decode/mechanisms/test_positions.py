"""Shifted rows on real K: the atlas replayed, damage in numbers, all that a small instance allows."""

import pytest

from kvspec.counterexamples.atlas_files import trace_of_case
from kvspec.counterexamples.replay import replay
from kvspec.models.concrete import Event
from kvspec.models.decode.mechanisms.positions import FAULTS, Cache, fault_for
from kvspec.properties.atlas.residency import REMOVED_TWICE, ROTATED_ONCE
from kvspec.properties.atlas.run import run_case
from kvspec.properties.positions import positions as claims
from kvspec.properties.stateful import make_plan, run
from kvspec.spec import positions

ALL = {f"{g.name}-{n}": c for g in (REMOVED_TWICE, ROTATED_ONCE) for n, c in enumerate(g.cases, 1)}
SHOWN = {
    "A-B39-1": {"rows", "logits"},
    "A-B39-2": {"rows", "logits"},
    "A-B39-3": {"logits"},
    "A-B40-1": {"logits"},
    "A-B40-2": {"logits"},
}
"""What is measured at the end of each case."""


@pytest.fixture(scope="module")
def traces():
    """The trace of every case that harms rows."""
    return {name: trace_of_case(run_case(ALL[name])) for name in SHOWN}


def test_every_fault_belongs_to_a_case():
    """All cases harm rows but the one in which a shift waits for ever."""
    assert {ALL[name].fault.name for name in SHOWN} == FAULTS.keys()
    assert ALL.keys() - SHOWN.keys() == {"A-B40-3"}
    assert fault_for(ALL["A-B40-3"].fault.name) is None


@pytest.mark.parametrize("name", SHOWN)
def test_the_sound_cache_does_as_specified(traces, name):
    """It takes the steps up to the departing one, and there does what the sound rule does, without damage."""
    found = replay(traces[name], Cache())
    assert found.passed, found.message
    assert not any(step.damage for step in found.steps)


@pytest.mark.parametrize(("name", "kinds"), SHOWN.items())
def test_the_faulty_cache_shows_damage(traces, name, kinds):
    """With the fault it takes all steps of the trace, and what goes wrong is measured at the end."""
    fault = ALL[name].fault
    found = replay(
        traces[name], Cache(faults=(fault.name,)), faulty=True, faulty_system=fault.changed
    )
    assert found.outcome == "damage_shown", found.message
    assert {harm.kind for harm in found.steps[-1].damage} == kinds
    assert all(harm.amount > 1e-4 for harm in found.steps[-1].damage)


@pytest.mark.slow
def test_the_sound_cache_does_what_three_rows_allow():
    """Every transition of three rows goes as specified, without damage."""
    listed = list(claims.by_name.values())
    report = run(
        positions.TRIPLE,
        listed,
        Cache,
        max_examples=60,
        profile="ci",
        plan=make_plan(positions.TRIPLE, listed, most=4_000),
    )
    assert report.holds, report.text()
    assert report.touched == report.transitions


def edited(*told, rows=4, faults=()):
    """A cache of so many rows, told of more."""
    cache = Cache(faults=faults)
    cache.reset(positions.make_instance("SCENARIO", "", 6))
    for action, values in [*(("add", {"c": c}) for c in range(rows)), *told]:
        reply = cache.perform(Event(action, tuple(values.items())))
        assert reply.accepted, f"{action}: {reply.code}"
    return cache


TWICE = (
    ("open_edit", {}),
    ("drop", {"n": 1}),
    ("keep", {"c": 1}),
    ("drop", {"n": 1}),
    ("keep", {"c": 3}),
    ("close_edit", {}),
    ("flush", {}),
)


def test_rows_turned_twice_read_as_if_turned_once():
    """Behind two shifts and a flush the logits to come are those of K turned to its place at once."""
    assert not edited(*TWICE).damage()
    parts = (*TWICE[:2], ("flush", {}), *TWICE[2:])
    assert not edited(*parts).damage()


def test_a_rotation_for_one_of_two_shifts_is_seen_in_logits():
    """The row stands at 1 and is turned for 2: logits of every step that reads it are off."""
    cache = edited(*TWICE, faults=("drop.the-last-shift-alone",))
    (harm,) = cache.damage()
    assert harm.kind == "logits"
    assert harm.amount > 1e-4


def test_a_removal_in_old_coordinates_takes_and_leaves_a_row():
    """One row of K and V is gone that should be there, and one is there that should be gone."""
    cache = edited(*TWICE[:4], faults=("drop.removes-in-old-coordinates",))
    rows = [harm for harm in cache.damage() if harm.kind == "rows"]
    assert [harm.where for harm in rows] == ["cell2", "cell3"]
    assert {harm.amount for harm in rows} == {2 * 2 * 2 * 4 * 8}, (
        "K and V, layers, heads, width, bytes"
    )


def test_an_unknown_fault_is_refused():
    """A fault that the cache does not have is named with those that it has."""
    with pytest.raises(ValueError, match="found the faults forgets-all, expected names out of"):
        Cache(faults=("forgets-all",))
