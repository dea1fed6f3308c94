"""Laws of the functions over trees, on random well-typed formulas."""

from functools import cache

from hypothesis import given
from hypothesis import strategies as st
from language_toys import Colour, Node, Size, toy

from kvspec.spec.language import (
    Const,
    Expr,
    Op,
    Quantifier,
    Read,
    Symbol,
    Variant,
    exists,
    forall,
    implies,
    is_some,
    same,
    the,
    type_of,
    walk,
    where,
)
from kvspec.spec.language.expr import (
    children,
    free_symbols,
    key,
    quantifier,
    rewrite,
    select_variant,
    substitute,
)

TOY = toy()
N = Symbol(type_of(Node), "n", "parameter")
K = Symbol(type_of(Size), "k", "parameter")


def nodes(depth, bound=()):
    """Random expressions of Node."""
    leaves = [st.just(symbol) for symbol in (N, *bound)]
    if depth:
        leaves.append(nodes(depth - 1, bound).map(lambda n: the(TOY.link[n])))
    return st.one_of(leaves)


def naturals(depth, bound=()):
    """Random expressions of Size."""
    leaves = [st.just(K), st.just(TOY.most), st.integers(0, 3).map(lambda i: Const(K.type, i))]
    if depth:
        two = st.tuples(naturals(depth - 1, bound), naturals(depth - 1, bound))
        leaves += [
            nodes(depth - 1, bound).map(lambda n: TOY.size[n]),
            two.map(lambda pair: pair[0] + pair[1]),
            two.map(lambda pair: pair[0] - pair[1]),
            st.tuples(formulas(depth - 1, bound), two).map(lambda t: where(t[0], *t[1])),
        ]
    return st.one_of(leaves)


def formulas(depth, bound=()):
    """Random formulas."""
    leaves = [st.just(TOY.flag.value)]
    if depth:
        two = st.tuples(formulas(depth - 1, bound), formulas(depth - 1, bound))
        leaves += [
            two.map(lambda pair: pair[0] & pair[1]),
            two.map(lambda pair: pair[0] | pair[1]),
            two.map(lambda pair: implies(*pair)),
            formulas(depth - 1, bound).map(lambda f: ~f),
            st.tuples(naturals(depth - 1, bound), naturals(depth - 1, bound)).map(
                lambda pair: pair[0] <= pair[1]
            ),
            nodes(depth - 1, bound).map(lambda n: TOY.colour[n] == Colour.RED),
            nodes(depth - 1, bound).map(lambda n: is_some(TOY.link[n])),
            quantified(depth - 1, bound),
        ]
    return st.one_of(leaves)


@st.composite
def quantified(draw, depth, bound):
    """A formula for all or for some node, whose name is n or m: names come up more than once."""
    which, name = draw(st.sampled_from(["forall", "exists"])), draw(st.sampled_from(["n", "m"]))
    symbol = Symbol(type_of(Node), name, "bound")
    return quantifier(which, (symbol,), draw(formulas(depth, (*bound, symbol))))


@cache
def any_formula():
    """Formulas up to a depth of three."""
    return formulas(3)


@st.composite
def with_variants(draw):
    """A formula with some of its truth values replaced by variants, and how many there are."""
    number = 0
    formula = draw(any_formula())

    def change(node: Expr) -> Expr:
        nonlocal number
        if node.type.kind != "bool" or not draw(st.booleans()):
            return node
        number += 1
        return Variant(node.type, number, node, Const(node.type, draw(st.booleans())))

    return rewrite(formula, change), number


def is_closed_by_name(formula, known=("n", "k")):
    """Every name means one thing: no quantifier binds a name that is bound around it or free in it."""
    if isinstance(formula, Quantifier):
        names = {found.name for found in free_symbols(formula.body, formula.bound)}
        if names & {symbol.name for symbol in formula.bound}:
            return False
    return all(is_closed_by_name(child, known) for child in children(formula))


@given(any_formula(), any_formula())
def test_same_is_an_equivalence_by_structure(one, two):
    """`same` holds of a tree and itself and of a rebuilt copy, and agrees with equality of keys."""
    copy = rewrite(one, lambda node: node)
    assert same(one, one)
    assert same(one, copy)
    assert same(copy, one)
    assert same(one, two) == same(two, one) == (key(one) == key(two))
    assert hash(key(one)) == hash(key(copy))


@given(any_formula())
def test_same_tells_trees_apart(one):
    """A negated tree is another one, and so is one whose kind of quantifier differs."""
    assert not same(one, ~one)
    for node in walk(one):
        if isinstance(node, Quantifier):
            other = "exists" if node.kind == "forall" else "forall"
            assert not same(node, Quantifier(node.type, other, node.bound, node.body))
        if isinstance(node, Read):
            assert not same(node, Read(node.type, node.variable, node.index, primed=True))


@given(any_formula())
def test_rewriting_with_the_identity_is_the_same(one):
    """A rewrite that changes nothing gives the same tree, and keeps every free symbol itself."""
    copy = rewrite(one, lambda node: node)
    assert same(copy, one)
    assert [id(s) for s in free_symbols(copy)] == [id(s) for s in free_symbols(one)]


@given(any_formula())
def test_a_rewrite_sees_every_node_once(one):
    """The change is applied once to each node, children before parents."""
    seen = []
    rewrite(one, lambda node: seen.append(type(node)) or node)
    assert sorted(map(str, seen)) == sorted(str(type(node)) for node in walk(one))
    assert seen[-1] is type(one)


@given(any_formula(), st.integers(0, 3))
def test_a_tree_without_variants_is_the_same_in_every_mutant(one, number):
    """select_variant changes nothing where there is no variant."""
    assert same(select_variant(one, number), one)


@given(with_variants())
def test_a_selected_tree_has_no_variants(given_):
    """Every selection is free of variants, and selecting again changes nothing."""
    formula, count = given_
    for number in range(count + 2):
        chosen = select_variant(formula, number)
        assert not any(isinstance(node, Variant) for node in walk(chosen))
        assert same(select_variant(chosen, number), chosen)


@given(any_formula(), st.data())
def test_the_plain_tree_is_number_zero(one, data):
    """Variants put in by a rewrite leave number 0, and numbers nobody has, as the tree was."""
    count = [0]

    def change(node: Expr) -> Expr:
        if node.type.kind != "bool" or not data.draw(st.booleans()):
            return node
        count[0] += 1
        return Variant(node.type, count[0], node, Const(node.type, True))

    varied = rewrite(one, change)
    assert same(select_variant(varied, 0), one)
    assert same(select_variant(varied, count[0] + 1), one)
    if count[0]:
        assert not same(varied, one)


@given(any_formula())
def test_substituting_a_symbol_for_itself_is_the_same(one):
    """Nothing is renamed without need."""
    assert same(substitute(one, {N: N, K: K}), one)


@given(any_formula())
def test_substitution_replaces_free_symbols_alone(one):
    """After replacing n and k neither is free any more, and back again it is the same tree."""
    other, number = (
        Symbol(N.type, "other", "parameter"),
        Symbol(K.type, "number", "parameter"),
    )
    there = substitute(one, {N: other, K: number})
    free = list(free_symbols(there))
    assert not any(found is N or found is K for found in free)
    assert {found.name for found in free} <= {"other", "number"}
    assert same(substitute(there, {other: N, number: K}), one)


@given(any_formula())
def test_no_quantifier_catches_what_is_substituted(one):
    """A symbol named as a bound one comes in free: the bound one gives way."""
    outer = Symbol(N.type, "m", "parameter")
    there = substitute(one, {N: outer})
    before = sum(found is N for found in free_symbols(one))
    assert sum(found is outer for found in free_symbols(there)) == before
    assert is_closed_by_name(there)


@given(any_formula())
def test_every_name_means_one_thing(one):
    """Quantifiers are renamed as they are made, so that engines may look members up by name."""
    assert is_closed_by_name(one)


def test_a_helper_may_use_the_name_of_its_argument():
    """The inner of two members called n is renamed, and the text shows both."""

    def has_follower(x):
        return exists(Node, lambda n: TOY.link[n] == x)

    formula = forall(Node, lambda n: has_follower(n))  # noqa: PLW0108 - the name is the point
    assert repr(formula) == "for all n in Node: for some n_1 in Node: link[n_1] = n"


def test_connectives_are_flat():
    """a & b & c is one conjunction of three, however it is bracketed; so is a disjunction."""
    a, b, c = (TOY.flag.value for _ in range(3))
    for formula, op in (
        ((a & b) & c, "and"),
        (a & (b & c), "and"),
        ((a | b) | c, "or"),
        (a | (b | c), "or"),
    ):
        assert isinstance(formula, Op)
        assert (formula.op, len(formula.args)) == (op, 3)
    assert same((a & b) & c, a & (b & c))
    assert not same((a | b) & c, a | (b & c))
