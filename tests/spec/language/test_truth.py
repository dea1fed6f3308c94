"""An expression is never true or false by itself: Python's own connectives are refused."""

import pytest
from language_toys import Colour, Node, refuses, toy

from kvspec.spec.language import Bool, DefinitionError, MapSymbol, Symbol, forall, type_of

HINTS = ("used as a Python truth value", "use & | ~, one_of(), where(), implies()")


def test_and_is_refused():
    """`and` would drop its left side; it is an error that names & (A12)."""

    def define():
        t = toy()
        forall(Node, lambda n: (t.size[n] == 1) and (t.size[n] == 2))  # fault

    refuses(define, "`size[n] = 1`", *HINTS)


def test_or_is_refused():
    """`or` would drop its right side; it is an error that names |."""

    def define():
        t = toy()
        forall(Node, lambda n: (t.size[n] == 1) or (t.size[n] == 2))  # fault

    refuses(define, *HINTS)


def test_not_is_refused():
    """`not` would give a Python bool; it is an error that names ~."""

    def define():
        t = toy()
        forall(Node, lambda n: not (t.size[n] <= 1))  # fault

    refuses(define, *HINTS)


def test_a_variable_without_index_is_no_truth_value():
    """`not flag` and `flag == True` are errors that say how the value is written."""

    def negated():
        t = toy()
        forall(Node, lambda n: not t.mark)  # fault

    def compared():
        t = toy()
        forall(Node, lambda n: t.flag == True)  # noqa: E712 # fault

    refuses(negated, "the variable mark was used as a Python truth value", "mark[node, edge]")
    refuses(compared, "the variable flag itself was compared with True", "flag.value")


def test_a_map_without_argument_is_no_truth_value():
    """A function-valued parameter is used by its values alone."""

    def truth():
        toy()
        bool(MapSymbol("f", type_of(Node), type_of(Node)))  # fault

    def compared():
        toy()
        MapSymbol("f", type_of(Node), type_of(Node)) == 1  # noqa: B015 # fault

    refuses(truth, "the map f was used as a Python truth value: apply it, f[...]")
    refuses(compared, "the map f was compared with 1")


def test_if_is_refused():
    """`if` would choose while the specification is defined; it is an error that names where()."""

    def define():
        t = toy()
        _ = 1 if t.flag.value else 0  # fault

    refuses(define, "`flag`", *HINTS)


def test_chained_comparisons_are_refused():
    """`0 <= n <= 3` would keep the second half alone; it is an error that asks for two."""

    def define():
        t = toy()
        forall(Node, lambda n: 0 <= t.size[n] <= 3)  # fault

    refuses(define, "separate comparisons joined by &", *HINTS)


def test_membership_in_a_tuple_is_refused():
    """`x in (a, b)` compares with Python's truth; it is an error that names one_of()."""

    def define():
        t = toy()
        forall(Node, lambda n: t.colour[n] in (Colour.RED, Colour.BLUE))  # fault

    refuses(define, *HINTS)


def test_membership_in_an_expression_is_refused():
    """`x in variable[...]` builds no formula."""

    def define():
        t = toy()
        1 in t.flag.value  # noqa: B015 # fault

    refuses(define, "`in` does not build a formula on `flag`", "one_of()")


def test_iteration_is_refused():
    """A for loop over an expression is an error that names forall()."""

    def define():
        t = toy()
        list(t.flag.value)  # fault

    refuses(define, "`flag` cannot be iterated", "forall() or exists()")


def test_a_while_loop_and_bool_are_refused():
    """bool() and everything that calls it raise for every kind of expression."""
    t = toy()
    for expr in (t.flag.value, t.size[Symbol(type_of(Node), "n", "bound")] + 1, Colour.RED):
        with pytest.raises(DefinitionError, match="used as a Python truth value"):
            bool(expr)


def test_an_expression_can_be_a_key():
    """Expressions hash by identity, so that a refusal's effects can be a dict of targets."""
    t = toy()
    node = Symbol(type_of(Node), "n", "bound")
    one, two = t.size[node], t.size[node]
    assert {one: 1, two: 2}[two] == 2
    assert len({one, two, one}) == 2


def test_a_truth_value_may_stand_on_either_side():
    """`True & x` is `x & True` with the sides in that order, and no number passes for a truth value."""
    x = Symbol(type_of(Bool), "x", "constant")
    assert repr(True & x) == "true and x"
    assert repr(False | x) == "false or x"
    with pytest.raises(DefinitionError, match="each side of and takes Bool"):
        1 & x
