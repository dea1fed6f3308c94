"""The value of every formula is what the same formula written as Python gives.

Formulas are drawn together with a Python function of a world of plain dicts, made beside each operator
and by no code of the engine.
"""

import attrs
import pytest
from garden import Colour, Node, Size, colour, flag, link, make, mark, most, size
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.concrete import Machine, State, evaluate
from kvspec.spec.language import (
    TRUE,
    Bijective,
    Const,
    MapSymbol,
    Op,
    Symbol,
    Variant,
    after,
    bijective,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    the,
    type_of,
    where,
)

NODES, LARGEST, MOST = 3, 3, 2
COLOURS = ["RED", "BLUE"]
MACHINE = Machine(make(NODES, LARGEST))
N = Symbol(type_of(Node), "n", "parameter")
K = Symbol(type_of(Size), "k", "parameter")
F = MapSymbol("f", type_of(Node), type_of(Node))
S = MapSymbol("s", type_of(Node), type_of(Size))


@attrs.frozen
class World:
    """A state before, one after, and what every symbol (by identity) and map stands for."""

    now: dict
    then: dict
    symbols: dict
    f: tuple
    s: tuple
    fired: tuple
    variant: int

    def with_member(self, symbol, value):
        """This world with a member under a name."""
        return attrs.evolve(self, symbols={**self.symbols, id(symbol): value})


def tables(draw):
    """Random tables of the garden as plain dicts."""
    node, number = st.integers(0, NODES - 1), st.integers(0, LARGEST)
    return {
        "colour": [draw(st.sampled_from(COLOURS)) for _ in range(NODES)],
        "size": [draw(number) for _ in range(NODES)],
        "link": [draw(st.none() | node) for _ in range(NODES)],
        "mark": {(n, c): draw(st.booleans()) for n in range(NODES) for c in COLOURS},
        "flag": draw(st.booleans()),
    }


@st.composite
def worlds(draw):
    """A random world."""
    node = st.integers(0, NODES - 1)
    return World(
        tables(draw),
        tables(draw),
        {id(N): draw(node), id(K): draw(st.integers(0, LARGEST))},
        tuple(draw(node) for _ in range(NODES)),
        tuple(draw(st.integers(0, LARGEST)) for _ in range(NODES)),
        draw(st.sampled_from([("grow", None), ("grow", "TOO_LARGE"), ("jump", None)])),
        draw(st.integers(0, 2)),
    )


def state_of(found):
    """The engine's state of plain tables."""
    marks = tuple(found["mark"][n, c] for n in range(NODES) for c in COLOURS)
    rest = (tuple(found[name]) for name in ("colour", "size", "link"))
    return State((*rest, marks, (found["flag"],)))


def environment(world):
    """The engine's environment of a world."""
    names = {"n": world.symbols[id(N)], "k": world.symbols[id(K)], "f": world.f, "s": world.s}
    env = MACHINE.environment(
        state_of(world.now), after=state_of(world.then), names=names, fired=world.fired
    )
    return attrs.evolve(env, variant=world.variant)


def node(draw, depth, bound):
    """A member, as an expression and as a function of a world."""
    kind = draw(st.sampled_from(["symbol", "the", "map"])) if depth else "symbol"
    if kind == "the":
        option, value = optional(draw, depth - 1, bound)
        return the(option), lambda w: 0 if value(w) is None else value(w)
    if kind == "map":
        inner, value = node(draw, depth - 1, bound)
        return F[inner], lambda w: w.f[value(w)]
    symbol = draw(st.sampled_from([N, *bound]))
    return symbol, lambda w: w.symbols[id(symbol)]


def optional(draw, depth, bound):
    """A member or none."""
    inner, value = node(draw, depth, bound)
    return link[inner], lambda w: w.now["link"][value(w)]


def natural(draw, depth, bound):
    """A number."""
    kinds = ["k", "most", "literal"]
    kinds += ["size", "map", "add", "sub", "mul", "div", "where"] if depth else []
    kind = draw(st.sampled_from(kinds))
    if kind == "k":
        return K, lambda w: w.symbols[id(K)]
    if kind == "most":
        return most, lambda _: MOST
    if kind == "literal":
        number = draw(st.integers(0, 4))
        return Const(K.type, number), lambda _: number
    if kind in ("size", "map"):
        inner, at = node(draw, depth - 1, bound)
        if kind == "size":
            return size[inner], lambda w: w.now["size"][at(w)]
        return S[inner], lambda w: w.s[at(w)]
    (one, left), (two, right) = (natural(draw, depth - 1, bound) for _ in range(2))
    if kind == "add":
        return one + two, lambda w: left(w) + right(w)
    if kind == "sub":
        return one - two, lambda w: left(w) - right(w)
    if kind == "mul":
        return one * two, lambda w: left(w) * right(w)
    if kind == "div":
        divisor = draw(st.integers(1, 3))
        return (one - two) // divisor, lambda w: (left(w) - right(w)) // divisor
    condition, chosen = formula(draw, depth - 1, bound)
    return where(condition, one, two), lambda w: left(w) if chosen(w) else right(w)


def painted(draw, depth, bound):
    """A colour."""
    if draw(st.booleans()):
        inner, at = node(draw, depth, bound)
        return colour[inner], lambda w: w.now["colour"][at(w)]
    name = draw(st.sampled_from(COLOURS))
    return Colour.__dict__[name], lambda _: name


def compared(draw, depth, bound, kind):
    """A comparison."""
    if kind == "linked":
        (one, left), (two, right) = optional(draw, depth, bound), node(draw, depth, bound)
        return one == two, lambda w: left(w) is not None and left(w) == right(w)
    if kind == "some":
        one, left = optional(draw, depth, bound)
        return is_some(one), lambda w: left(w) is not None
    if kind == "colour":
        (one, left), (two, right) = (painted(draw, depth, bound) for _ in range(2))
        return one == two, lambda w: left(w) == right(w)
    if kind == "node":
        (one, left), (two, right) = (node(draw, depth, bound) for _ in range(2))
        return one != two, lambda w: left(w) != right(w)
    (one, left), (two, right) = (natural(draw, depth, bound) for _ in range(2))
    return {
        "lt": lambda: (one < two, lambda w: left(w) < right(w)),
        "le": lambda: (one <= two, lambda w: left(w) <= right(w)),
        "gt": lambda: (one > two, lambda w: left(w) > right(w)),
        "ge": lambda: (one >= two, lambda w: left(w) >= right(w)),
        "eq": lambda: (one == two, lambda w: left(w) == right(w)),
        "one_of": lambda: (one_of(one, two, 1), lambda w: left(w) in (right(w), 1)),
    }[kind]()


def quantified(draw, depth, bound, kind):
    """A formula for all or for some node or colour."""
    value = []

    def member(x):
        expr, inner = formula(draw, depth, (*bound, x))
        value.extend((x, inner))
        return expr

    def painting(c):
        at, place = node(draw, depth, bound)
        value.extend((c, lambda w: w.now["mark"][place(w), w.symbols[id(c)]]))
        return mark[at, c]

    quantifier, over = kind.split()
    build = forall if quantifier == "forall" else exists
    if over == "node":
        expr, members = build(Node, member), range(NODES)
    else:
        expr, members = build(Colour, painting), COLOURS
    symbol, inner = value
    fold = all if quantifier == "forall" else any
    return expr, lambda w: fold(inner(w.with_member(symbol, m)) for m in members)


COMPARISONS = ["linked", "some", "colour", "node", "lt", "le", "gt", "ge", "eq", "one_of"]
QUANTIFIERS = ["forall node", "exists node", "forall colour", "exists colour"]
CONNECTIVES = ["not", "and", "or", "implies", "variant", "iff", "where"]


def formula(draw, depth, bound=()):
    """A formula."""
    kind = draw(st.sampled_from(["flag", "bijective", *COMPARISONS]))
    if depth:
        kind = draw(st.sampled_from([*COMPARISONS, *QUANTIFIERS, *CONNECTIVES, "flag"]))
    if kind == "flag":
        return flag.value, lambda w: w.now["flag"]
    if kind == "bijective":
        return bijective(F), lambda w: sorted(w.f) == list(range(NODES))
    if kind in COMPARISONS:
        return compared(draw, max(0, depth - 1), bound, kind)
    if kind in QUANTIFIERS:
        return quantified(draw, depth - 1, bound, kind)
    (one, left), (two, right) = (formula(draw, depth - 1, bound) for _ in range(2))
    if kind == "variant":
        number = draw(st.integers(1, 2))
        return Variant(one.type, number, one, two), (
            lambda w: right(w) if w.variant == number else left(w)
        )
    if kind == "where":
        condition, chosen = formula(draw, depth - 1, bound)
        return where(condition, one, two), lambda w: right(w) if not chosen(w) else left(w)
    return {
        "not": lambda: (~one, lambda w: not left(w)),
        "and": lambda: (one & two, lambda w: left(w) and right(w)),
        "or": lambda: (one | two, lambda w: left(w) or right(w)),
        "implies": lambda: (implies(one, two), lambda w: right(w) if left(w) else True),
        "iff": lambda: (one == two, lambda w: left(w) is right(w)),
    }[kind]()


@st.composite
def state_formulas(draw):
    """A formula of one state and its Python."""
    return formula(draw, draw(st.integers(0, 4)))


@st.composite
def step_formulas(draw):
    """A formula of a step: parts before it, parts after it, and which step it is."""
    before, old = formula(draw, 2)
    behind, new = formula(draw, 2)
    code = draw(st.sampled_from([None, "TOO_LARGE"]))
    expr = implies(before & fired("grow", code), after(behind)) | after(size[N] == K)

    def value(w):
        later = attrs.evolve(w, now=w.then)
        grown = w.fired == ("grow", code)
        return (
            not (old(w) and grown)
            or new(later)
            or later.now["size"][w.symbols[id(N)]] == w.symbols[id(K)]
        )

    return expr, value


@given(state_formulas(), worlds())
def test_a_formula_means_what_its_python_means(pair, world):
    """Random formulas of a state have the value that the same Python has."""
    expr, value = pair
    found = evaluate(expr, environment(world))
    assert isinstance(found, bool)
    assert found == value(world), repr(expr)


@given(step_formulas(), worlds())
def test_a_formula_of_a_step_means_what_its_python_means(pair, world):
    """after() reads the state after the step, and fired() compares action and code."""
    expr, value = pair
    assert evaluate(expr, environment(world)) == value(world), repr(expr)


@given(worlds())
def test_arithmetic_is_of_integers(world):
    """A difference goes below zero and comes back."""
    env = environment(world)
    number = world.symbols[id(K)]
    assert evaluate(K - 5, env) == number - 5
    assert evaluate(K - 5 + 5 == K, env) is True
    assert evaluate(K - number >= 0, env) is True


def plain(names=(), **sizes):
    """An environment of the first initial state."""
    machine = Machine(make(**sizes))
    state = machine.initial_states()[0]
    return machine.environment(state, names=dict(names))


def test_the_member_of_none_is_the_first():
    """the(none) is member 0, so that every formula has a value; `link = none` tells it apart."""
    env = plain({"n": 2, "k": 0})
    assert evaluate(the(link[N]), env) == 0
    assert evaluate(size[the(link[N])] == 0, env) is True
    assert evaluate(link[N] == the(link[N]), env) is False


def test_sorts_without_members_make_forall_true_and_exists_false():
    """Over a sort of size 0 everything holds for all and nothing for some."""
    env = plain(nodes=0)
    assert evaluate(forall(Node, lambda n: size[n] != size[n]), env) is True
    assert evaluate(exists(Node, lambda n: size[n] == size[n]), env) is False
    machine = Machine(make(nodes=0))
    assert [event.action for event in machine.events()] == ["shuffle"]
    assert len(machine.initial_states()) == 2
    for state in machine.initial_states():
        (event,) = machine.events()
        assert machine.step(state, event).state == state


def test_a_bound_name_hides_nothing_outside():
    """A helper's member and its caller's, both called n, stay two."""

    def is_alone(x):
        return forall(Node, lambda n: link[n] != x)

    machine = Machine(make())
    state = State((("RED",) * 3, (0, 0, 0), (1, None, None), (False,) * 6, (False,)))
    claim = exists(Node, lambda n: ~is_alone(n))
    assert machine.holds(claim, state)
    assert machine.holds(exists(Node, lambda n: is_alone(n)), state)  # noqa: PLW0108


def test_what_has_no_value_is_refused():
    """A step property without a step, a map where a member is meant, and a strange node say so."""
    env = plain({"n": (0, 1), "f": 3, "k": 0})
    with pytest.raises(
        ValueError, match=r"flag' speaks of the state after a step, and there is no"
    ):
        evaluate(after(flag.value), env)
    with pytest.raises(TypeError, match=r"n is no map parameter, found the value \(0, 1\)"):
        evaluate(N, env)
    with pytest.raises(TypeError, match="f is a map parameter, found the value 3"):
        evaluate(Bijective(TRUE.type, F), env)
    with pytest.raises(TypeError, match="no meaning for a node of type"):
        evaluate(3, env)
    strange = Op(TRUE.type, "xor", (K, K))
    with pytest.raises(TypeError, match="no meaning for the operator xor"):
        evaluate(strange, env)
