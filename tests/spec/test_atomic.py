"""The atomic system, which the core refines: what a reader may ever see (C1, C2)."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import explore, gaps
from kvspec.models.symbolic import prove
from kvspec.properties.refinements import publication_is_atomic
from kvspec.spec import atomic, core
from kvspec.spec.language import Properties, after, forall, implies
from kvspec.spec.language.refinement import Stutter


def test_atomic_has_its_counts():
    """The named instance has its figures, with and without symmetry; nothing in it is void (C1, C7)."""
    expected = atomic.ATOMIC.expected
    result = explore(atomic.ATOMIC)
    assert result.verdict == "holds", result.violations
    found = result.states, result.transitions, result.depth, result.terminal
    assert found == (expected.states, expected.transitions, expected.depth, expected.terminal)
    assert gaps(result) == ()
    small = explore(atomic.ATOMIC, symmetry=True)
    assert small.verdict == "holds", small.violations
    assert (small.states, small.represented) == (expected.symmetric, expected.states)


@pytest.mark.slow
def test_brute_force_gives_the_same_counts():
    """A plain search over the reference engine finds as many states and transitions (C1)."""
    machine = Machine(atomic.ATOMIC)
    seen = dict.fromkeys(machine.initial_states())
    waiting, transitions = list(seen), 0
    for state in waiting:
        for _, outcome in machine.transitions(state):
            transitions += 1
            if outcome.state not in seen:
                seen[outcome.state] = None
                waiting.append(outcome.state)
    assert (len(seen), transitions) == (
        atomic.ATOMIC.expected.states,
        atomic.ATOMIC.expected.transitions,
    )


def test_a_reader_sees_all_layers_alike():
    """What the atomic system is for: K and V of all layers are equal in every state (A1, A4)."""
    claims = Properties(atomic.system)

    @claims.invariant
    def layers_agree():
        """Two layers show the same rows, in K and V."""
        k, v = atomic.seen_k, atomic.seen_v
        return forall(
            atomic.Handle,
            atomic.Layer,
            atomic.Layer,
            lambda h, l, m: (k[h, l] == k[h, m]) & (k[h, l] == v[h, m]),
        )

    @claims.step
    def a_length_changes_with_its_snapshot():
        """A ready request whose length changes has another snapshot."""
        phase, length, version = atomic.seen_phase, atomic.seen_length, atomic.seen_version
        ready = atomic.Phase.DECODE_READY
        return forall(
            atomic.Handle,
            lambda h: implies(
                (phase[h] == ready) & after(phase[h] == ready) & (after(length[h]) != length[h]),
                after(version[h]) == version[h] + 1,
            ),
        )

    assert explore(atomic.ATOMIC, claims.by_name.values()).verdict == "holds"


def test_every_step_of_the_core_is_named():
    """The refinement says of every action, and of every refusal with an effect, what it is (C2)."""
    steps = publication_is_atomic.steps
    wanted = set(core.system.actions)
    for action in core.system.actions.values():
        wanted |= {f"{action.name}!{g.code.name}" for g in action.guards if g.refusal}
    assert set(steps) == wanted
    seen = {name for name, found in steps.items() if not isinstance(found[0], Stutter)}
    assert seen == {
        "allocate",
        "fork",
        "truncate",
        "publish",
        "finish",
        "cancel_request",
        "release",
    }


def test_the_core_refines_the_atomic_system():
    """Each step of the core is one atomic step or a stutter, for any number of everything (A4, C2)."""
    from kvspec.properties.core import properties

    report = prove(core.system, properties, [publication_is_atomic], workers=0, only=["refines:*"])
    assert report.verdict == "holds", report.show()
    assert report.obligations > 0
