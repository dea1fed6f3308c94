"""A formula is one text for numbers, expressions and units, and its own text is read from its code."""

from fractions import Fraction
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.models.concrete.evaluate import Environment, evaluate
from kvspec.spec import formulas as f
from kvspec.spec.formulas.folds import (
    Quotient,
    Series,
    count,
    first,
    largest,
    last,
    summation,
    symbol,
    total,
    total_between,
)
from kvspec.spec.formulas.frame import Book, formula
from kvspec.spec.formulas.identities import IDENTITIES
from kvspec.spec.formulas.quantities import BETA, LENGTHS, P
from kvspec.spec.formulas.units import BYTE, TOKEN
from kvspec.spec.language import DefinitionError
from kvspec.spec.language.expr import BOOL as BOOLEAN
from kvspec.spec.language.expr import INTEGER, Const, Expr

NUMBERS = st.integers(1, 6)


def number(expr):
    """The value of an expression of constants."""
    if isinstance(expr, Quotient):
        return Fraction(number(expr.over), number(expr.under))
    if isinstance(expr, tuple):
        return tuple(map(number, expr))
    return evaluate(expr, Environment(None, {}, None)) if isinstance(expr, Expr) else expr


@given(st.data())
@pytest.mark.parametrize("each", tuple(f.BOOK), ids=lambda each: each.name)
def test_numbers_and_expressions_agree(each, data):
    """On constants of the language, the value is that of the same numbers."""
    size = data.draw(st.integers(1, 4))
    plain, lifted = [], []
    for quantity in each.takes:
        if quantity.flag:
            value = data.draw(st.booleans())
            plain.append(value)
            lifted.append(Const(BOOLEAN, value))
        elif quantity.column:
            values = tuple(sorted(data.draw(NUMBERS) for _ in range(size)))
            plain.append(values)
            lifted.append(tuple(Const(INTEGER, value) for value in values))
        else:
            value = data.draw(NUMBERS)
            plain.append(value)
            lifted.append(Const(INTEGER, value))
    assert number(each.function(*lifted)) == each.function(*plain)


def test_texts_are_read_from_the_code():
    """A formula prints as it is computed, and another code as another text."""
    assert f.BOOK["token_bytes"].text() == "B_token = L_cache * H_kv * d_h * (b_K + b_V)"
    assert f.BOOK["rectangular_bytes"].text() == "B_rectangular = B_token * count(T_i) * max(T_i)"
    assert f.BOOK["tpot"].text() == "TPOT = (last(y_j) - first(y_j)) / (count(y_j) - 1)"
    altered = f.BOOK.altered(rows_cached=lambda P, G: P + G)
    assert altered["rows_cached"].text() == "N_rows,cached = P + G"
    assert "- 1" in f.BOOK["rows_cached"].text()


def test_a_series_is_a_symbol_and_a_step():
    """A fold of a list of any length is one symbol; with a member more, one step from it."""
    members, more = Series("T_i"), symbol("x")
    assert repr(total(lambda t: t * 2, members)) == "sum(T_i * 2)"
    assert repr(total(lambda t: t * 2, members.extended(more))) == "sum(T_i * 2) + x * 2"
    assert repr(count(members.extended(more))) == "count(T_i) + 1"
    assert repr(largest(members.extended(more))) == "(x if max(T_i) < x else max(T_i))"


@given(st.lists(st.integers(0, 9), max_size=5))
def test_folds_are_what_python_computes(values):
    """On numbers, folds are sum, len, max, the ends, and the sum of differences."""
    assert total(lambda v: v * v, values) == sum(v * v for v in values)
    assert (count(values), largest(values)) == (len(values), max(values, default=0))
    assert (first(values), last(values)) == ((values[0], values[-1]) if values else (0, 0))
    gaps = [abs(b - a) for a, b in pairwise(values)]
    assert total_between(lambda a, b: abs(b - a), values) == sum(gaps)


def test_sums_over_numbers_unfold_from_above():
    """A sum up to n + 1 is the sum up to n and one term more."""
    n = symbol("n")
    assert summation(1, 4, lambda q: q * q, "q") == 14
    assert repr(summation(0, n, lambda q: q * q, "q")) == "sum(q=0..n - 1: q * q)"
    assert repr(summation(0, n + 1, lambda q: q * q, "q")) == "sum(q=0..n - 1: q * q) + n * n"


def test_a_list_of_any_length_is_not_walked():
    """Python's own loops and sums are refused, since they would need a length."""
    with pytest.raises(TypeError, match="T_i is a list of any length"):
        sum(Series("T_i"))
    with pytest.raises(TypeError, match="beside a list of any length"):
        total(lambda a, b: a * b, Series("T_i"), [1])


def test_look_ups_list_what_exists():
    """A formula that does not exist is told with those that do."""
    with pytest.raises(KeyError, match="no formula 'tokens'; there are allocator_bytes"):
        f.BOOK["tokens"]
    with pytest.raises(AttributeError, match="no formula 'tokens'"):
        f.BOOK.tokens(1)


def test_a_definition_that_does_not_fit_is_refused():
    """Two formulas of one name, and another number of parameters than quantities."""
    with pytest.raises(DefinitionError, match="there are two formulas token_bytes"):
        f.BOOK.add(f.BOOK["token_bytes"])
    with pytest.raises(DefinitionError, match="1 parameters and takes 2 quantities"):

        @formula("B", unit=BYTE, takes=(LENGTHS, BETA), section="0x02")
        def bad(lengths):
            """Not a formula."""

    with pytest.raises(DefinitionError, match="there are two identities a_row_adds_one_token"):
        IDENTITIES.identity(P)(IDENTITIES.by_name["a_row_adds_one_token"].holds)


def test_every_formula_says_what_it_is():
    """Each has a sentence, a section of the text, and quantities with a meaning."""
    assert len(f.BOOK) >= 40
    assert isinstance(f.BOOK, Book)
    for each in f.BOOK:
        assert each.doc.endswith("."), each.name
        assert all(part.startswith("0x0") for part in each.section.split(", ")), each.name
        assert all(quantity.meaning for quantity in each.takes)
    meanings = {}
    for quantity in (quantity for each in f.BOOK for quantity in each.takes):
        meanings.setdefault(quantity.symbol, set()).add(quantity.unit)
    assert all(len(units) == 1 for units in meanings.values()), meanings
    assert meanings["P"] == {TOKEN}
