"""Spin counts what the engines of this project count, and finds what they find."""

import attrs
import pytest

from kvspec.models.concrete import Machine, show_event
from kvspec.models.explicit import explore as explore_fast
from kvspec.models.export import bench_spin, run_spin, spin_absent
from kvspec.models.export import spin as spin_module
from kvspec.models.export.promela import build
from kvspec.models.export.spin import SpinError
from kvspec.properties.core import properties as claimed
from kvspec.spec import atomic, core, wrapping
from kvspec.spec.examples import peer
from kvspec.spec.language import Instance, Properties

needs_spin = pytest.mark.skipif(spin_absent() is not None, reason=str(spin_absent()))
pytestmark = [pytest.mark.spin]

SMALL_ROWS = ("1,1,1,2,2", "1,1,2,3,4", "2,1,2,3,4", "1,2,2,3,4", "2,2,1,2,2")
CHECKED = peer.properties.of_kind("invariant", "lemma", "step", "end")


def spin(instance, **options):
    """Spin on a small instance, compiled fast."""
    return run_spin(instance, optimize=0, **options)


def counts(result):
    """The figures that are compared."""
    return result.states, result.transitions, result.depth


def faulty(row: str) -> Instance:
    """The row of the peer model with a publish that does not compare generations."""
    publish = peer.system.action("publish")
    guards = tuple(g for g in publish.guards if g.code.name != "STALE_GENERATION")
    actions = peer.system.actions | {"publish": attrs.evolve(publish, guards=guards)}
    return attrs.evolve(peer.ROWS[row], system=attrs.evolve(peer.system, actions=actions))


@needs_spin
@pytest.mark.parametrize("row", SMALL_ROWS)
def test_spin_counts_the_rows_of_the_table(row):
    """Distinct states, transitions and depth are those of the table; Spin prints one more."""
    instance = peer.ROWS[row]
    result = spin(instance)
    expected = instance.expected
    assert counts(result) == (expected.states, expected.transitions, expected.depth)
    assert result.stored == expected.states
    assert result.printed == expected.transitions + 1
    assert result.errors == 0


@needs_spin
@pytest.mark.slow
@pytest.mark.parametrize("row", ["2,2,2,3,2", "2,2,2,3,4"])
def test_spin_counts_the_large_rows(row):
    """The counts agree to the last digit also where Spin would round them."""
    expected = peer.ROWS[row].expected
    result = bench_spin() if row == "2,2,2,3,4" else run_spin(peer.ROWS[row])
    assert counts(result) == (expected.states, expected.transitions, expected.depth)


@needs_spin
def test_claims_that_hold_cost_no_states():
    """With all claims built in the counts are the same, depth first as well as breadth first."""
    expected = peer.ROWS["1,1,2,3,4"].expected
    for bfs in (True, False):
        result = spin(peer.ROWS["1,1,2,3,4"], bfs=bfs, properties=CHECKED)
        assert (result.states, result.transitions) == (expected.states, expected.transitions)
        assert result.violated is None


@needs_spin
@pytest.mark.parametrize(("row", "steps"), [("2,2,1,2,2", 10), ("2,2,2,3,4", 14)])
def test_spin_finds_the_planted_fault(row, steps):
    """The shortest way to a stale publication is found, and the reference engine can walk it."""
    instance = faulty(row)
    result = spin(instance, properties=CHECKED)
    assert result.errors == 1
    assert result.violated == "publication_is_of_the_captured_generation"
    assert len(result.trail) == steps
    machine = Machine(instance)
    (state,) = machine.initial_states()
    for label in result.trail:
        before = state
        taken = {
            show_event(machine, event): (event, end) for event, end in machine.transitions(state)
        }
        event, outcome = taken[label]
        state = outcome.state
    assert not machine.holds(peer.properties[result.violated], before, event, outcome)


@needs_spin
def test_spin_finds_a_broken_invariant_where_it_is_broken():
    """The trail of an invariant ends in the state that breaks it; a witness is found likewise."""
    wrong = Properties(peer.system)

    @wrong.invariant
    def nothing_is_published():
        """No append is ever published."""
        return ~peer.properties["reaches_a_publication"].body

    broken = spin(peer.ROWS["1,1,1,2,2"], properties=[nothing_is_published])
    seen = spin(peer.ROWS["1,1,1,2,2"], properties=peer.properties.of_kind("witness"))
    assert (broken.violated, seen.violated) == ("nothing_is_published", "reaches_a_publication")
    assert broken.trail == seen.trail
    assert [step.split("(")[0] for step in broken.trail] == [
        "begin", "stage_k", "stage_v", "prepare", "publish"
    ]  # fmt: skip


@needs_spin
def test_spin_tells_a_deadlock_from_an_end():
    """Where no step leads on, an end is asked for; the shortest way there is told."""
    wrong = Properties(peer.system)

    @wrong.end
    def every_handle_is_released_empty():
        """The model is said to end only after a publication, which is wrong."""
        released = peer.properties["every_handle_is_released"].body
        return released & peer.properties["reaches_a_publication"].body

    instance = peer.ROWS["1,1,1,2,2"]
    assert spin(instance, properties=peer.properties.of_kind("end")).violated is None
    result = spin(instance, properties=[every_handle_is_released_empty])
    assert result.violated == "deadlock"
    machine = Machine(instance)
    (state,) = machine.initial_states()
    for label in result.trail:
        taken = {show_event(machine, event): end for event, end in machine.transitions(state)}
        state = taken[label].state
    assert all(outcome.state == state for _, outcome in machine.transitions(state))


@needs_spin
def test_spin_counts_every_corner_of_the_language(tiny, explore):
    """On each tiny system the counts are those of the reference engine, initial choices apart."""
    found = explore(tiny)
    result = spin(tiny)
    model = build(tiny)
    assert (result.states, result.transitions) == (found.states, found.transitions)
    assert result.depth == found.depth
    assert result.errors == 0
    assert result.stored == found.states + model.before
    assert result.printed == found.transitions + model.first + 1


def named_instances():
    """The instances that modules of the specification name, those with many states marked slow."""
    for module in (core, atomic):
        for name, found in vars(module).items():
            if isinstance(found, Instance):
                states = found.expected.states if found.expected else 0
                marks = [pytest.mark.slow] if states > 200_000 else []
                if states <= 20_000_000:
                    label = f"{module.__name__.rsplit('.', 1)[-1]}.{name}"
                    yield pytest.param(found, id=label, marks=marks)


@needs_spin
@pytest.mark.parametrize("instance", list(named_instances()))
def test_spin_counts_the_named_instances(instance):
    """States, transitions and depth are what the instance expects, else what our own search finds."""
    found = instance.expected or explore_fast(instance)
    assert counts(spin(instance)) == (found.states, found.transitions, found.depth)


@needs_spin
def test_spin_counts_a_wrapping_generation():
    """The system with a counter that wraps around is counted alike."""
    instance = wrapping.make_instance(1, 1)
    found = explore_fast(instance)
    assert counts(spin(instance)) == (found.states, found.transitions, found.depth)
    assert found.states > 1


@needs_spin
@pytest.mark.slow
def test_spin_agrees_with_every_claim_about_the_core_system():
    """All invariants and step claims hold in Spin too, at no state more, on two requests."""
    instance = core.make_instance("pair", "two requests", handles=2, txns=1, layers=1, rows=1)
    claims = claimed.of_kind("invariant", "lemma", "step", "end")
    found = explore_fast(instance)
    result = spin(instance, properties=claims)
    assert len(claims) > 80
    assert counts(result) == (found.states, found.transitions, found.depth)
    assert result.violated is None


@needs_spin
def test_a_search_that_does_not_finish_counts_nothing():
    """Too little depth or time is an error, and no smaller count."""
    with pytest.raises(SpinError, match=r"not complete .max search depth too small"):
        spin(peer.ROWS["1,1,2,3,4"], bfs=False, depth_at_most=9)
    with pytest.raises(SpinError, match="ended by signal 9 before it was complete"):
        spin(peer.ROWS["2,2,2,3,4"], seconds=0.2)
    with pytest.raises(SpinError, match="not complete"):
        spin(peer.ROWS["2,2,2,3,2"], memory_mb=140)


def test_without_spin_the_error_says_what_to_install(monkeypatch):
    """Spin or gcc that is absent is named, with what installs it."""
    monkeypatch.setenv("PATH", "")
    assert spin_module.spin_absent() is not None
    with pytest.raises(SpinError, match=r"spin is not on the path: install it .Debian: apt-get"):
        spin(peer.ROWS["1,1,1,2,2"])
