"""The Promela text: ground steps are the reference engine's, writes are simultaneous, names are free."""

import math
import re

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.concrete import Machine
from kvspec.models.export import terms, to_promela
from kvspec.models.export.ground import Ground, Write, number
from kvspec.models.export.promela import build, in_sequence
from kvspec.models.export.terms import Apply, Cell, Num, Temporary
from kvspec.spec import core
from kvspec.spec.examples import peer
from kvspec.spec.language import TRUE, Instance, Variant
from kvspec.spec.language.expr import lift

BINARY = {
    "eq": lambda a, b: a == b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: math.trunc(a / b),  # as C does it
}


def value(term, cells, aside=()):
    """The value of a ground term where `cells` maps tables to lists of integers."""
    match term:
        case Num(value=found):
            return found
        case Temporary(number=place):
            return aside[place]
        case Cell(table=table, place=place):
            return cells[table][value(place, cells, aside)]
    parts = [value(arg, cells, aside) for arg in term.args]
    match term.op:
        case "not":
            return int(not parts[0])
        case "and" | "or":
            return int(all(parts) if term.op == "and" else any(parts))
        case "ite":
            return parts[1] if parts[0] else parts[2]
        case "the":
            return max(0, parts[0] - 1)
        case "some":
            return parts[0] + 1
    return int(BINARY[term.op](*parts))


def encoded(state, instance: Instance):
    """A state of the reference engine as integers."""
    variables = instance.system.variables.values()
    return {
        variable.name: [number(variable.type, found).value for found in table]
        for variable, table in zip(variables, state.tables, strict=True)
    }


def assert_same_steps(instance, found, ground):
    """In every state the ground steps that are possible are the transitions, and lead as far."""
    steps = ground.steps()
    for state, transitions in found.steps:
        cells = encoded(state, instance)
        mine = []
        for step in steps:
            if value(step.guard, cells):
                after = {name: list(table) for name, table in cells.items()}
                for write in step.writes:
                    after[write.table][value(write.place, cells)] = value(write.value, cells)
                mine.append((step.event, step.code, after))
        theirs = [(event, end.code, encoded(end.state, instance)) for event, end in transitions]
        assert sorted(map(repr, mine)) == sorted(map(repr, theirs))


def test_ground_steps_are_the_transitions_of_the_reference_engine(tiny, explore):
    """On each tiny system, in each state, step by step."""
    assert_same_steps(tiny, explore(tiny), Ground(tiny))


@pytest.mark.parametrize("instance", [core.TINY, peer.ROWS["1,1,1,2,2"]], ids=repr)
def test_ground_steps_of_real_systems(instance, explore):
    """The core system and the peer model likewise."""
    assert_same_steps(instance, explore(instance), Ground(instance))


def test_the_tiny_systems_have_what_they_are_there_for(explore, request):
    """There are cut steps, refusals with an effect, several initial states, and a system without."""
    zoo = {name: make() for name, make in request.getfixturevalue("zoo").items()}
    found = {name: explore(instance) for name, instance in zoo.items()}
    assert found["anywhere"].initial == 36
    assert found["anywhere"].cuts
    assert found["refusals"].cuts
    codes = {end.code for _, taken in found["refusals"].steps for _, end in taken}
    assert codes == {None, "NO", "LATE", "LAST"}
    assert found["nowhere"].states == 0
    assert all(found[name].states > 1 for name in zoo if name != "nowhere")


def mutated() -> Instance:
    """The smallest row of the peer model; in mutant 7 release asks nothing."""
    release = peer.system.action("release")
    guard = attrs.evolve(
        release.guards[0],
        condition=Variant(TRUE.type, 7, release.guards[0].condition, TRUE),
    )
    actions = peer.system.actions | {"release": attrs.evolve(release, guards=(guard,))}
    return attrs.evolve(
        peer.ROWS["1,1,1,2,2"], system=attrs.evolve(peer.system, actions=actions), expected=None
    )


def test_a_mutant_is_exported_by_its_number():
    """Variant 7 is read where mutant 7 is asked for, and nowhere else."""
    plain, altered = to_promela(mutated()), to_promela(mutated(), variant=7)
    assert plain == to_promela(mutated(), variant=6)
    assert plain != altered
    (state,) = Machine(mutated(), 7).initial_states()
    cells = encoded(state, mutated())
    (release,) = (s for s in Ground(mutated(), 7).steps() if s.event.action == "release")
    assert value(release.guard, cells) == 1


@given(st.data())
def test_writes_one_after_the_other_are_simultaneous(data):
    """Whatever reads whatever, known cells or computed ones, all values are from the state before."""
    size = 3
    place = st.one_of(
        st.integers(0, size - 1).map(Num),
        st.integers(0, size - 1).map(lambda n: Cell("a", Num(n), size - 1)),
    )
    read = st.tuples(st.sampled_from("ab"), place).map(lambda t: Cell(t[0], t[1], size - 1))
    cells = {name: data.draw(st.lists(st.integers(0, 2), min_size=3, max_size=3)) for name in "ab"}
    writes = []
    taken = set()
    for _ in range(data.draw(st.integers(0, 4))):
        write = Write(data.draw(st.sampled_from("ab")), data.draw(place), data.draw(read))
        target = write.table, value(write.place, cells)
        if target not in taken:
            taken.add(target)
            writes.append(write)
    expected = {name: list(table) for name, table in cells.items()}
    for write in writes:
        expected[write.table][value(write.place, cells)] = value(write.value, cells)
    aside = [0] * 8
    for target, term in in_sequence(tuple(writes)):
        found = value(term, cells, aside)
        if isinstance(target, Temporary):
            aside[target.number] = found
        else:
            cells[target.table][value(target.place, cells, aside)] = found
    assert cells == expected


@given(st.data())
def test_folding_keeps_the_value(data):
    """What the builders fold has the value of what was asked for, in every state."""
    cells = {"a": data.draw(st.lists(st.integers(0, 2), min_size=2, max_size=2))}
    numbers = st.one_of(
        st.integers(-2, 3).map(Num), st.integers(0, 1).map(lambda n: Cell("a", Num(n), 2))
    )
    builders = {
        "eq": terms.equals, "lt": terms.less, "le": terms.at_most, "add": terms.sum_of,
        "sub": terms.difference, "mul": terms.product_of, "div": terms.quotient,
    }  # fmt: skip

    def draw(depth):
        if depth == 0 or data.draw(st.booleans()):
            return data.draw(numbers)
        op = data.draw(st.sampled_from(["add", "sub", "mul", "div", "ite"]))
        if op == "div":
            return checked(op, draw(depth - 1), Num(data.draw(st.integers(1, 3))))
        if op == "ite":
            return terms.choice(formula(depth - 1), draw(depth - 1), draw(depth - 1))
        return checked(op, draw(depth - 1), draw(depth - 1))

    def checked(op, left, right):
        found = builders[op](left, right)
        expected = value(Apply(op, (left, right)), cells)
        if op == "div":  # rounds down, whatever C does
            expected = value(left, cells) // right.value
        assert value(found, cells) == expected
        low, high = terms.span(found)
        assert low <= value(found, cells) <= high
        return found

    def formula(depth):
        left = checked(data.draw(st.sampled_from(["eq", "lt", "le"])), draw(depth), draw(depth))
        right = checked(data.draw(st.sampled_from(["eq", "lt", "le"])), draw(depth), draw(depth))
        for op, joined in (("and", terms.conjunction), ("or", terms.disjunction)):
            found = joined(left, terms.negation(right))
            plain = Apply(op, (left, Apply("not", (right,))))
            assert value(found, cells) == value(plain, cells)
        return found

    formula(2)


def test_words_of_promela_c_and_spin_are_stepped_around(request):
    """A variable called len, bool or register is declared under a name that is free."""
    text = to_promela(request.getfixturevalue("zoo")["anywhere"]())
    declared = re.findall(r"^(?:byte|bool) (\w+)\[", text, re.MULTILINE)
    assert declared == ["len_", "register_", "bool_", "Len"]


def test_the_text_reads_like_the_action():
    """publish of the peer model: its guards in order, bounds behind them, one step."""
    lines = to_promela(peer.ROWS["1,1,1,2,2"]).splitlines()
    at = next(n for n, line in enumerate(lines) if "publish(" in line)
    assert [line.strip() for line in lines[at : at + 3]] == [
        ":: d_step { /* publish(t=txn0) */",
        (
            "status[0] == Status_PREPARED && phase[0] == Phase_READY && gen[0] == base_gen[0] "
            "&& gen[0] < 2 && len_[0] < 2 ->"
        ),
        "status[0] = Status_PUBLISHED; gen[0] = gen[0] + 1; len_[0] = len_[0] + 1 }",
    ]


def test_initial_choices_are_counted(request):
    """The states before all cells are chosen: one, then as many as there were choices so far."""
    model = build(request.getfixturevalue("zoo")["anywhere"]())
    assert model.choices == (3, 3, 2, 2)
    assert model.before == 1 + 3 + 9 + 18
    assert model.first == 3 + 9 + 18 + 36


def test_leads_to_is_refused_with_what_to_do():
    """Spin has no fairness of actions, so the claim is not silently left out."""
    with pytest.raises(
        ValueError, match=r"every_begun_append_ends is a leads_to.*check it with TLC"
    ):
        to_promela(peer.ROWS["1,1,1,2,2"], peer.properties.of_kind("leads_to"))


def test_an_initial_value_out_of_bounds_is_told():
    """As in the reference engine, such an instance is refused."""
    wrong = attrs.evolve(peer.ROWS["1,1,1,2,2"], initial={"gen": lift(9)})
    with pytest.raises(ValueError, match="gen starts at 9, which is no value of Generation"):
        to_promela(wrong)
