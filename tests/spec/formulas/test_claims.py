"""The frame of identities: claims on numbers and on lists of any length, in an order that holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.spec.formulas import BOOK
from kvspec.spec.formulas.claims import Claims, follows, joined, one_more
from kvspec.spec.formulas.folds import Series, count, summation, symbol
from kvspec.spec.formulas.identities import IDENTITIES
from kvspec.spec.formulas.quantities import BETA, LENGTHS, G, P
from kvspec.spec.language import DefinitionError


def anything(*_):
    """It is so."""
    return True


def test_an_identity_knows_how_it_is_shown():
    """Lists are shown by induction over the rows, `over` by one over that number, all else at once."""
    claims = Claims()
    made = [claims.identity(P, G)(anything)]
    made.append(Claims().identity(P, G, over=G)(anything))
    made.append(Claims().identity(BETA, LENGTHS)(anything))
    assert [one.method for one in made] == [
        "for all values at once", "induction over G", "induction over the rows",
    ]  # fmt: skip
    assert {one.claim for one in made} == {"It is so."}


def test_what_is_used_is_shown_before():
    """An identity cannot use a later one, so no proof goes in a circle."""
    with pytest.raises(DefinitionError, match="uses other, which is not shown before it"):
        Claims().identity(P, uses=(("other", lambda p: (p,)),))(anything)


def test_names_and_symbols_are_told_apart():
    """Two identities of a name are refused, in one module or in two, and a symbol that comes twice."""
    one, two = Claims(), Claims()
    one.identity(P)(anything)
    two.identity(G)(anything)
    with pytest.raises(DefinitionError, match="two identities anything"):
        joined(one, two)
    with pytest.raises(DefinitionError, match="takes P, P, expected every symbol once"):
        Claims().identity(P, P)(anything)


def test_an_index_is_not_the_name_of_something_else():
    """A sum whose index is also free in its summand would have the name of another sum."""
    with pytest.raises(DefinitionError, match="the index g of a sum is also a symbol"):
        summation(0, symbol("n"), lambda g: g * symbol("g"), "g")


def test_a_list_with_one_more():
    """Of numbers a longer tuple, of any length a longer series."""
    assert one_more((1, 2), 3) == (1, 2, 3)
    assert repr(count(one_more(Series("T_i"), symbol("x")))) == "count(T_i) + 1"


@pytest.mark.parametrize("given_", [False, True])
@pytest.mark.parametrize("then", [False, True])
def test_follows_is_implication(given_, then):
    """On truth values it is one; with a formula it is a formula."""
    assert follows(given_, then) is (not given_ or then)
    assert repr(follows(symbol("x") == 1, then)) == f"x = 1 => {str(then).lower()}"


@given(st.data())
@pytest.mark.parametrize("identity", tuple(IDENTITIES.by_name.values()), ids=lambda i: i.name)
def test_identities_hold_of_numbers(identity, data):
    """What Z3 proves for all values is true of drawn ones, by plain Python."""
    size = data.draw(st.integers(0, 4))
    values = []
    for quantity in identity.takes:
        if quantity.flag:
            values.append(data.draw(st.booleans()))
        elif not quantity.column:
            values.append(data.draw(st.integers(quantity.least, 20)))
        else:
            values.append(tuple(data.draw(st.integers(quantity.least, 3)) for _ in range(size)))
    rows = [
        [value[row] if q.column else value for q, value in zip(identity.takes, values, strict=True)]
        for row in range(size)
    ]
    if identity.each is None or all(identity.each(*row) for row in rows):
        assert identity.holds(BOOK, *values)
