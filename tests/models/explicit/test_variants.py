"""Mutants in one program: each variant number is the system with that mutation and no other."""

import attrs
import pytest

from kvspec.models.explicit import compile_instance, explore
from kvspec.spec.examples import peer
from kvspec.spec.language import Const, System, Variant
from kvspec.spec.language.expr import TRUE, select_variant

ROW = peer.ROWS["1,1,2,3,4"]
CLAIMS = tuple(peer.properties.by_name.values())


def mutate(instance, change):
    """The instance of a system whose actions went through `change`."""
    system = instance.system
    actions = {name: change(action) for name, action in system.actions.items()}
    mutated = System(system.name, system.doc, system.variables, system.constants, actions)
    return attrs.evolve(instance, system=mutated, expected=None)


def with_variants(action, number):
    """Every guard dropped, and every value replaced, each under a number of its own."""
    guards, assignments = [], []
    for guard in action.guards:
        number[0] += 1
        guards.append(
            attrs.evolve(guard, condition=Variant(TRUE.type, number[0], guard.condition, TRUE))
        )
    for done in action.assignments:
        kind = done.variable.type
        other = {"natural": 1, "enum": kind.members and kind.members[-1], "bool": True}.get(
            kind.kind
        )
        number[0] += 1
        altered = Variant(kind, number[0], done.value, Const(kind, other))
        assignments.append(attrs.evolve(done, value=altered))
    return attrs.evolve(action, guards=tuple(guards), assignments=tuple(assignments))


def selected(action, number):
    """The action of one mutant."""
    return attrs.evolve(
        action,
        guards=tuple(
            attrs.evolve(g, condition=select_variant(g.condition, number)) for g in action.guards
        ),
        assignments=tuple(
            attrs.evolve(a, value=select_variant(a.value, number)) for a in action.assignments
        ),
    )


def summary(result):
    """What is compared of two explorations."""
    failed = [(v.property, len(v.trace)) for v in result.violations]
    return result.states, result.transitions, result.depth, result.cut, result.terminal, failed


def test_each_variant_is_the_system_with_that_mutation():
    """One program explores all mutants of the peer model as programs of their own do."""
    number = [0]
    schema = mutate(ROW, lambda action: with_variants(action, number))
    program = compile_instance(schema, CLAIMS)
    assert number[0] > 50
    killed = 0
    for mutant in range(0, number[0] + 1, 3):
        alone = mutate(schema, lambda action, n=mutant: selected(action, n))
        one = program.explore(variant=mutant, stop_at_first=False, max_graph=0)
        two = explore(alone, CLAIMS, coverage=False, stop_at_first=False, max_graph=0)
        assert summary(one) == summary(two), mutant
        killed += bool(one.violations)
    assert killed >= 3


def test_the_plain_system_is_variant_zero():
    """Variant 0 has the counts of the peer model."""
    number = [0]
    schema = mutate(ROW, lambda action: with_variants(action, number))
    result = compile_instance(schema, CLAIMS).explore(variant=0)
    assert result.verdict == "holds"
    assert (result.states, result.transitions, result.depth) == (828, 3_188, 27)


def test_a_member_beyond_the_instance_is_named():
    """A mutant that names a member which an instance lacks is refused with its name."""

    def far(action):
        if action.name != "begin":
            return action
        kind = peer.base.type
        assignments = tuple(
            attrs.evolve(a, value=Variant(kind, 1, a.value, Const(kind, 5)))
            if a.variable is peer.base
            else a
            for a in action.assignments
        )
        return attrs.evolve(action, assignments=assignments)

    with pytest.raises(ValueError, match="found member 5 of"):
        compile_instance(mutate(ROW, far)).explore()
