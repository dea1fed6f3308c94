"""Mutants: every operator gives what its line in the module's text says, at every place (C3)."""

import re

import attrs
import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import compile_instance, explore
from kvspec.properties import mutation
from kvspec.properties.core import properties
from kvspec.properties.mutation import mutate
from kvspec.spec import core
from kvspec.spec.language import (
    ANY,
    Bool,
    Enum,
    ErrorCode,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    Variant,
    instance,
    member,
    none,
    same,
    walk,
    where,
)
from kvspec.spec.language.actions import expressions


class Node(Open):
    """A node."""


class Size(Natural):
    """A size."""


class Colour(Enum):
    """A colour."""

    RED = member()
    GREEN = member()
    BLUE = member()


CLOSED = ErrorCode("CLOSED", "closed")
FULL = ErrorCode("FULL", "full")


def small():
    """One action with an assignment of each kind, in a refusal, of a choice, and of all members."""
    module = Module("small", "Small.")
    size = module.variable("size", to=Size, init=0, meaning="a size")
    spare = module.variable("spare", to=Size, init=0, meaning="another")
    least = module.variable("least", to=Size, init=0, meaning="a third")
    lit = module.variable("lit", to=Bool, init=False, meaning="a flag")
    tone = module.variable("tone", to=Colour, init=Colour.RED, meaning="a colour")
    link = module.variable("link", to=Option[Node], init=none(Node), meaning="a link")
    loose = module.variable("loose", to=Option[Node], init=none(Node), meaning="another")
    count = module.variable("count", Node, to=Size, init=0, meaning="counts")
    last = module.variable("last", to=Node, init=ANY, meaning="a node")

    @module.action
    def act(step: Step, n: Node, k: Size) -> None:
        """Do everything."""
        step.require(~lit.value, CLOSED)
        step.require(k <= 2, FULL, refused={lit.value: True})
        step.assign(size.value, k)
        step.assign(spare.value, where(lit.value, size.value + 1, spare.value))
        step.assign(least.value, 0)
        step.assign(lit.value, True)
        step.assign(tone.value, Colour.BLUE)
        step.assign(link.value, n)
        step.assign(loose.value, None)
        for m in step.every(Node):
            step.assign(count[m], k)
        step.assign(last.value, n)

    return System.of("small", "Small.", module)


EXPECTED = {
    "act.drop-guard.CLOSED": "<1: not lit | true>",
    "act.drop-guard.FULL": "<2: k <= 2 | true>",
    "act.drop-assignment.FULL.lit": "true -> lit",
    "act.negate.FULL.lit": "true -> not true",
    "act.drop-assignment.size": "k -> size",
    "act.plus-one.size": "k -> k + 1",
    "act.minus-one.size": "k -> (k - 1 if 1 <= k else k)",
    "act.drop-assignment.spare": "(size + 1 if lit else spare) -> spare",
    "act.plus-one.spare": "(size + 1 if lit else spare) -> (size + 1 + 1 if lit else spare)",
    "act.minus-one.spare": "(size + 1 if lit else spare) -> "
    "((size + 1 - 1 if 1 <= size + 1 else size + 1) if lit else spare)",
    "act.drop-assignment.least": "0 -> least",
    "act.plus-one.least": "0 -> 0 + 1",
    "act.drop-assignment.lit": "true -> lit",
    "act.negate.lit": "true -> not true",
    "act.drop-assignment.tone": "BLUE -> tone",
    "act.next-member.tone": "BLUE -> RED",
    "act.drop-assignment.link": "n -> link",
    "act.nobody.link": "n -> none",
    "act.drop-assignment.loose": "none -> loose",
    "act.somebody.loose": "none -> #0",
    "act.drop-assignment.count": "k -> count[node_0]",
    "act.plus-one.count": "k -> k + 1",
    "act.minus-one.count": "k -> (k - 1 if 1 <= k else k)",
    "act.skip-first.count": "k -> (count[node_0] if node_0 = #0 else k)",
    "act.drop-assignment.last": "n -> last",
}


def variants(system):
    """Every variant of a system by its number."""
    return {
        node.number: node
        for action in system.actions.values()
        for expr in expressions(action)
        for node in walk(expr)
        if isinstance(node, Variant)
    }


def plain(expr):
    """An expression without the variants around its own plain part."""
    while isinstance(expr, Variant):
        expr = expr.plain
    return expr


def test_the_mutants_of_a_small_system_are_these():
    """Each operator at each place where it fits, in the order of the text, with what it gives."""
    mutated = mutate(small())
    found = variants(mutated.system)
    shown = {}
    for mutant in mutated.mutants:
        node = found[mutant.number]
        if mutant.operator == "drop-guard":
            shown[mutant.name] = repr(node)
        else:
            shown[mutant.name] = f"{plain(node)!r} -> {node.altered!r}"
    normal = {name: text.replace("(", "").replace(")", "") for name, text in shown.items()}
    wanted = {name: text.replace("(", "").replace(")", "") for name, text in EXPECTED.items()}
    assert normal == wanted
    assert list(shown) == list(EXPECTED)


def test_every_operator_is_in_the_module_text():
    """The list of operators in the text of the module is the list of those that make mutants."""
    listed = set(re.findall(r"^([a-z]+(?:-[a-z]+)?)  +\S", mutation.__doc__, re.MULTILINE))
    assert listed == {mutant.operator for mutant in mutate(small()).mutants}
    assert listed >= {mutant.operator for mutant in mutate(core.system).mutants}


@pytest.mark.parametrize("system", [small(), core.system], ids=["small", "core"])
def test_mutants_are_numbered_and_named_once(system):
    """Numbers run from 1 without a gap, names are unique, and each number is one variant."""
    mutated = mutate(system)
    numbers = [mutant.number for mutant in mutated.mutants]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len({mutant.name for mutant in mutated.mutants}) == len(numbers)
    assert sorted(variants(mutated.system)) == numbers
    for mutant in mutated.mutants:
        assert mutated.named(mutant.name) is mutant


def test_every_guard_and_assignment_of_the_core_has_a_mutant():
    """No guard and no assigned value of the core is left out (C3)."""
    mutated = mutate(core.system)
    places = {(m.action, m.code, m.variable) for m in mutated.mutants}
    for action in core.system.actions.values():
        for guard in action.guards:
            assert (action.name, guard.code.name, None) in places
            for done in guard.refusal:
                assert (action.name, guard.code.name, done.variable.name) in places
        for done in action.assignments:
            assert (action.name, None, done.variable.name) in places


def test_a_selected_mutant_differs_in_one_place():
    """Free of variants, a mutant is the specification but for one guard or one value."""
    original = core.system
    mutated = mutate(original)
    for mutant in mutated.mutants[::7]:
        chosen = mutated.select(mutant)
        assert not variants(chosen)
        differing = []
        for name, action in chosen.actions.items():
            pairs = zip(expressions(action), expressions(original.actions[name]), strict=True)
            differing += [name for one, two in pairs if not same(one, two)]
        assert differing == [mutant.action], mutant.name


def test_number_zero_is_the_specification():
    """The system with all mutants inside has the counts of the specification as number 0 (C3)."""
    mutated = mutate(core.system)
    for found in (core.TINY, core.REUSE):
        result = compile_instance(mutated.on(found)).explore(variant=0)
        expected = found.expected
        assert result.complete
        assert (result.states, result.transitions) == (expected.states, expected.transitions)
        assert (result.depth, result.terminal) == (expected.depth, expected.terminal)
        assert mutated.on(found).expected is None


def test_a_mutant_by_number_is_the_selected_system():
    """Reading a number and selecting its system give the same search (C3)."""
    mutated = mutate(core.system)
    claims = properties.of_kind("invariant", "step")
    program = compile_instance(mutated.on(core.TINY), claims)
    for mutant in mutated.mutants[::120]:
        alone = attrs.evolve(core.TINY, system=mutated.select(mutant), expected=None)
        one = program.explore(variant=mutant.number, stop_at_first=False, coverage=False)
        two = explore(alone, claims, stop_at_first=False, coverage=False)
        assert (one.states, one.transitions, one.depth, one.cut) == (
            two.states,
            two.transitions,
            two.depth,
            two.cut,
        ), mutant.name
        broken = [[(v.property, len(v.trace)) for v in run.violations] for run in (one, two)]
        assert broken[0] == broken[1], mutant.name


def test_mutants_do_in_the_reference_engine_what_they_say():
    """One step of the small system, by each mutant: the altered value and no other is different."""
    mutated = mutate(small())
    machine = Machine(instance("two", mutated.system, {Node: 2, Size: 4}))
    start = machine.initial_states()[1]
    events = {e.names["k"]: e for e in machine.events() if e.names["n"] == 1}
    normal = Machine(machine.instance).step(start, events[2]).state

    def cells(number, rows=2):
        after = Machine(machine.instance, number).step(start, events[rows]).state
        names = list(mutated.system.variables)
        return {
            name: new
            for name, new, old in zip(names, after.tables, normal.tables, strict=True)
            if new != old
        }

    assert cells(0) == {}
    found = {m.name: cells(m.number) for m in mutated.mutants if m.code is None}
    assert found["act.plus-one.size"] == {"size": (3,)}
    assert found["act.minus-one.count"] == {"count": (1, 1)}
    assert found["act.skip-first.count"] == {"count": (0, 2)}
    assert found["act.next-member.tone"] == {"tone": ("RED",)}
    assert found["act.nobody.link"] == {"link": (None,)}
    assert found["act.somebody.loose"] == {"loose": (0,)}
    assert found["act.negate.lit"] == {"lit": (False,)}
    assert found["act.drop-assignment.last"] == {}
    assert mutated.named("act.drop-guard.FULL").code == "FULL"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("act.drop-guard.FULL", "act does not check FULL"),
        ("act.drop-assignment.FULL.lit", "act refused with FULL: lit keeps its value"),
        ("act.plus-one.size", "act: size gets one more"),
        ("act.minus-one.size", "act: size gets one less"),
        ("act.negate.lit", "act: lit gets the opposite"),
        ("act.next-member.tone", "act: tone gets the next member of its enumeration"),
        ("act.nobody.link", "act: link gets none"),
        ("act.somebody.loose", "act: loose gets the first member instead of none"),
        ("act.skip-first.count", "act: count is not assigned for the first member"),
    ],
)
def test_a_mutant_is_described(name, text):
    """The description says what is changed, and where."""
    assert mutate(small()).named(name).description == text


def test_a_mutant_that_does_not_exist_is_named_with_its_neighbours():
    """A look-up that fails lists the mutants of the same action."""
    with pytest.raises(KeyError, match=r"no mutant 'act.drop-guard.OPEN' of small; near it: act"):
        mutate(small()).named("act.drop-guard.OPEN")
