"""Sums and maxima: a start and a step each, which run as a loop on numbers and are shown as a symbol.

A `Series` stands for a list of any length. A fold over it is one symbol, and over the series with a
member more it is the step taken from that symbol: the two halves of an induction are the same
formula run on no member at all, and run on one member more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any, TypeVar

import attrs

from kvspec.spec.formulas.units import MS, SECOND, TOKEN, Unit
from kvspec.spec.language import Const, DefinitionError, Expr, Op, Symbol, walk, where
from kvspec.spec.language.expr import INTEGER, lift

N = TypeVar("N", int, Expr)
"""Numbers and expressions: a formula is one text for both."""


def symbol(name: str) -> Symbol:
    """A number that is not known."""
    return Symbol(INTEGER, name, "constant")


@attrs.frozen(eq=False)
class Series:
    """A list of any length, and members that follow it. member: what one of the former is called."""

    member: str
    more: tuple[Expr, ...] = ()

    def extended(self, member: Expr) -> Series:
        """The list with a member more."""
        return Series(self.member, (*self.more, member))

    def __iter__(self) -> Iterator[Expr]:
        raise TypeError(
            f"{self.member} is a list of any length and cannot be walked: use a fold of {__name__}"
        )


def fold(
    columns: tuple[Any, ...],
    start: tuple[int, ...],
    step: Callable[..., tuple[Any, ...]],
    name: Callable[..., tuple[str, ...]],
) -> tuple[Any, ...]:
    """`step(state, *members)` from `start` over lists of one length.

    name: of the result's parts, for members of those names.
    """
    if any(isinstance(each, Series) for each in columns):
        whole = [each if isinstance(each, Series) else _refuse(each) for each in columns]
        members = [symbol(each.member) for each in whole]
        state: tuple[Any, ...] = tuple(symbol(text) for text in name(*members))
        rows = zip(*(each.more for each in whole), strict=True)
    else:
        state, rows = start, zip(*columns, strict=True)
    for row in rows:
        state = step(state, *row)
    return state


def _refuse(found: object) -> Series:
    raise TypeError(f"found {found!r} beside a list of any length: give series for all columns")


def total(term: Callable[..., Any], *columns: Iterable[N]) -> N:
    """The sum of `term(*members)`."""

    def step(state: tuple[Any, ...], *row: Any) -> tuple[Any, ...]:
        return (state[0] + term(*row),)

    def name(*row: Expr) -> tuple[str, ...]:
        return (f"sum({term(*row)!r})",)

    found: N = fold(columns, (0,), step, name)[0]
    return found


def largest(column: Iterable[N]) -> N:
    """The largest member, and 0 of none."""
    found: N = fold(
        (column,), (0,), lambda state, each: (larger(state[0], each),), lambda x: (f"max({x!r})",)
    )[0]
    return found


def count(column: Iterable[N]) -> N:
    """How many members there are."""
    found: N = fold(
        (column,), (0,), lambda state, _: (state[0] + 1,), lambda x: (f"count({x!r})",)
    )[0]
    return found


def first(column: Iterable[N]) -> N:
    """The first member, and 0 of none."""
    found: N = fold(
        (column,),
        (0, 0),
        lambda state, each: (state[0] + 1, _choose(state[0] == 0, each, state[1])),
        lambda x: (f"count({x!r})", f"first({x!r})"),
    )[1]
    return found


def last(column: Iterable[N]) -> N:
    """The last member, and 0 of none."""
    found: N = fold((column,), (0,), lambda _, each: (each,), lambda x: (f"last({x!r})",))[0]
    return found


def total_between(term: Callable[[Any, Any], Any], column: Iterable[N]) -> N:
    """The sum of `term(member, next member)`."""

    def step(state: tuple[Any, ...], each: Any) -> tuple[Any, ...]:
        number, before, found = state
        return number + 1, each, found + _choose(number == 0, 0, term(before, each))

    def name(each: Expr) -> tuple[str, ...]:
        text = f"sum({term(symbol(f'previous {each!r}'), each)!r})"
        return f"count({each!r})", f"last({each!r})", text

    found: N = fold((column,), (0, 0, 0), step, name)[2]
    return found


def neighbours(column: Iterable[N]) -> list[tuple[N, N]]:
    """Each member with the next; of a list of any length, one such pair."""
    given: Any = column
    if isinstance(given, Series):
        each: Any = symbol(given.member)
        before: Any = symbol(f"previous {given.member}")
        return [(before, each)]
    return list(pairwise(column))


def _choose(condition: Any, one: Any, other: Any) -> Any:
    """`one` if the condition holds, else `other`."""
    if isinstance(condition, Expr):
        return where(condition, lift(one), lift(other))
    return one if condition else other


def larger(one: Any, other: Any) -> Any:
    """The larger of two."""
    if isinstance(one, Unit) or isinstance(other, Unit):
        return one + other
    if isinstance(one, Expr) or isinstance(other, Expr):
        return where(lift(one) < lift(other), lift(other), lift(one))
    return max(one, other)


def summation(start: int, stop: N, term: Callable[[N], N], index: str) -> N:
    """The sum of `term` from `start` up to and not including `stop`, which is no less."""
    given: Any = stop
    given = given.value if isinstance(given, Const) else given
    function: Callable[[Any], Any] = term
    if isinstance(given, Unit):
        found: Any = function(given)
    elif isinstance(given, Expr):
        match given:
            case Op(op="add", args=(before, Const(value=1))):
                found = summation(start, before, function, index) + function(before)
            case _:
                place = symbol(index)
                summand = lift(function(place))
                _refuse_twice(index, place, summand)
                found = symbol(f"sum({index}={start}..{given - 1!r}: {summand!r})")
    else:
        found = sum(function(place) for place in range(start, given))
    result: N = found
    return result


def _refuse_twice(index: str, place: Symbol, summand: Expr) -> None:
    """Refuse an index that is also the name of something else: two sums would have one name."""
    for node in walk(summand):
        if isinstance(node, Symbol) and node.name == index and node is not place:
            raise DefinitionError(
                f"the index {index} of a sum is also a symbol in `{summand!r}`: give it another name"
            )


def repeated(times: N, each: N) -> N:
    """`times` equal parts: a count of them, which has no unit, times one of them."""
    given: Any = each
    result: Any = given if isinstance(given, Unit) else times * given
    found: N = result
    return found


def per_second(each: N) -> N:
    """A rate for a second, of a rate for a millisecond."""
    given: Any = each
    found: N = given * (MS / SECOND if isinstance(given, Unit) else 1000)
    return found


def of_one_query(keys: N) -> N:
    """The pairs that one query makes with these keys."""
    given: Any = keys
    result: Any = given * TOKEN if isinstance(given, Unit) else given
    found: N = result
    return found


@attrs.frozen(eq=False)
class Quotient:
    """A ratio of expressions; its divisor is positive where it is used."""

    over: Expr
    under: Expr

    def __eq__(self, other: object) -> Any:
        other = _quotient(other)
        return self.over * other.under == other.over * self.under

    def __le__(self, other: object) -> Any:
        other = _quotient(other)
        return self.over * other.under <= other.over * self.under

    def __hash__(self) -> int:
        return id(self)

    def __mul__(self, other: object) -> Quotient:
        other = _quotient(other)
        return Quotient(self.over * other.over, self.under * other.under)

    def __repr__(self) -> str:
        from kvspec.spec.language.show import show_expr

        return f"{show_expr(self.over, 7)} / {show_expr(self.under, 8)}"


def _quotient(value: object) -> Quotient:
    return value if isinstance(value, Quotient) else Quotient(lift(value), lift(1))


def ratio(over: Any, under: Any) -> Any:
    """The exact ratio: a fraction of numbers, a quotient of expressions."""
    if isinstance(over, Unit) or isinstance(under, Unit):
        return over / under
    if isinstance(over, Expr) or isinstance(under, Expr):
        return Quotient(lift(over), lift(under))
    return Fraction(over, under)
