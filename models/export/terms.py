"""Ground terms: formulas of an instance with all quantifiers and parameters unrolled.

Every value is a small integer, the same one for the same value everywhere, so that two states are
equal if and only if their integers are: a truth value is 0 or 1; a natural itself; a member of an
enumeration or of an open sort its place; an option 0 for none and one more than its member
otherwise. The builders here fold: what is known without a state never reaches the checker.
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs


@attrs.frozen
class Num:
    """A known value; `text` is the name under which a reader knows it."""

    value: int
    text: str | None = attrs.field(default=None, eq=False)


@attrs.frozen
class Cell:
    """The value in a table at a place; `top` is the largest value that the table holds."""

    table: str
    place: Term
    top: int = attrs.field(eq=False)


@attrs.frozen
class Temporary:
    """A value set aside within a step, before the cells that it was read from are overwritten."""

    number: int
    top: int


@attrs.frozen
class Apply:
    """An operator: not and or eq lt le add sub mul div ite the some."""

    op: str
    args: tuple[Term, ...]


Term = Num | Cell | Temporary | Apply

YES = Num(1, "true")
NO = Num(0, "false")


def truth(value: bool) -> Num:
    """A truth value as a term."""
    return YES if value else NO


def span(term: Term) -> tuple[int, int]:
    """Bounds within which the value of the term always lies."""
    match term:
        case Num(value=value):
            return value, value
        case Cell(top=top) | Temporary(top=top):
            return 0, top
    spans = [span(arg) for arg in term.args]
    match term.op:
        case "add":
            return spans[0][0] + spans[1][0], spans[0][1] + spans[1][1]
        case "sub":
            return spans[0][0] - spans[1][1], spans[0][1] - spans[1][0]
        case "mul":
            ends = [one * other for one in spans[0] for other in spans[1]]
            return min(ends), max(ends)
        case "div":
            return spans[0][0] // spans[1][0], spans[0][1] // spans[1][0]
        case "ite":
            return min(spans[1][0], spans[2][0]), max(spans[1][1], spans[2][1])
        case "the":
            return 0, max(0, spans[0][1] - 1)
        case "some":
            return spans[0][0] + 1, spans[0][1] + 1
    return 0, 1


def negation(term: Term) -> Term:
    """Not the term."""
    match term:
        case Num(value=value):
            return truth(not value)
        case Apply(op="not", args=(inner,)):
            return inner
        case Apply(op="lt", args=(left, right)):
            return at_most(right, left)
        case Apply(op="le", args=(left, right)):
            return less(right, left)
    return Apply("not", (term,))


def _joined(op: str, terms: list[Term], unit: Num) -> Term:
    """The terms joined by `and` (unit: true) or `or` (unit: false), each once."""
    found: list[Term] = []
    for term in terms:
        for part in term.args if isinstance(term, Apply) and term.op == op else (term,):
            if isinstance(part, Num):
                if part != unit:
                    return part
            elif part not in found:
                found.append(part)
    if any(negation(part) in found for part in found):
        return truth(not unit.value)
    if len(found) <= 1:
        return found[0] if found else unit
    return Apply(op, tuple(found))


def conjunction(*terms: Term) -> Term:
    """All of the terms."""
    return _joined("and", list(terms), YES)


def disjunction(*terms: Term) -> Term:
    """One of the terms."""
    return _joined("or", list(terms), NO)


def equals(left: Term, right: Term) -> Term:
    """Whether the two have one value."""
    if left == right:
        return YES
    (low, high), (bottom, top) = span(left), span(right)
    if high < bottom or top < low:
        return NO
    for one, other in ((left, right), (right, left)):
        if other == YES and span(one) == (0, 1) and _is_boolean(one):
            return one
        if other == NO and span(one) == (0, 1) and _is_boolean(one):
            return negation(one)
    match left, right:
        case Apply(op="some", args=(one_member,)), Apply(op="some", args=(other_member,)):
            return equals(one_member, other_member)
    return Apply("eq", (left, right))


def _is_boolean(term: Term) -> bool:
    """Whether the term is a formula by its form, and no number that happens to be 0 or 1."""
    if isinstance(term, Apply):
        if term.op == "ite":
            return all(_is_boolean(arg) for arg in term.args[1:])
        return term.op in ("not", "and", "or", "eq", "lt", "le")
    return False


def less(left: Term, right: Term) -> Term:
    """Whether left < right."""
    (low, high), (bottom, top) = span(left), span(right)
    if high < bottom:
        return YES
    if low >= top or left == right:
        return NO
    return Apply("lt", (left, right))


def at_most(left: Term, right: Term) -> Term:
    """Whether left <= right."""
    match left, right:
        case Apply(op="add", args=(inner, Num(value=more))), Num(value=value):
            return at_most(inner, Num(value - more))
        case _, Num(value=value):
            return less(left, Num(value + 1))
        case Num(value=value), _:
            return less(Num(value - 1), right)
    (low, high), (bottom, top) = span(left), span(right)
    if high <= bottom or left == right:
        return YES
    if low > top:
        return NO
    return Apply("le", (left, right))


def sum_of(left: Term, right: Term) -> Term:
    """left + right."""
    match left, right:
        case Num(value=one), Num(value=other):
            return Num(one + other)
        case _, Num(value=0):
            return left
        case Num(value=0), _:
            return right
    return Apply("add", (left, right))


def scaled(term: Term, factor: int) -> Term:
    """The term, no less than 0, times a known factor."""
    if isinstance(term, Num):
        return Num(term.value * factor)
    return term if factor == 1 else Apply("mul", (term, Num(factor)))


def difference(left: Term, right: Term) -> Term:
    """left - right, an integer."""
    match left, right:
        case Num(value=one), Num(value=other):
            return Num(one - other)
        case _, Num(value=0):
            return left
    return Num(0) if left == right else Apply("sub", (left, right))


def product_of(left: Term, right: Term) -> Term:
    """left * right."""
    match left, right:
        case Num(value=one), Num(value=other):
            return Num(one * other)
        case (Num(value=0), _) | (_, Num(value=0)):
            return Num(0)
        case _, Num(value=1):
            return left
        case Num(value=1), _:
            return right
    return Apply("mul", (left, right))


def quotient(left: Term, divisor: Term) -> Term:
    """left / divisor, rounded down; what is divided in the end is never negative."""
    if not isinstance(divisor, Num):
        raise TypeError(f"found the divisor {divisor}, expected a number: divide by a literal")
    low, high = span(Apply("div", (left, divisor)))
    if low == high:
        return Num(low)
    if low >= 0:
        return left if divisor.value == 1 else Apply("div", (left, divisor))
    moved = Apply("div", (sum_of(left, Num(-low * divisor.value)), divisor))
    return Apply("sub", (moved, Num(-low)))


def choice(condition: Term, then: Term, otherwise: Term) -> Term:
    """`then` if the condition holds, else `otherwise`."""
    if isinstance(condition, Num):
        return then if condition.value else otherwise
    if then == otherwise:
        return then
    if (then, otherwise) in ((YES, NO), (NO, YES)) and then in (YES, NO):
        formula = all(
            isinstance(side, Num) and side.text in ("true", "false") for side in (then, otherwise)
        )
        if formula:
            return condition if then == YES else negation(condition)
    return Apply("ite", (condition, then, otherwise))


def some(term: Term) -> Term:
    """A member as an option."""
    if isinstance(term, Num):
        return Num(term.value + 1, f"SOME({term.value})")
    return Apply("some", (term,))


def member_of(term: Term) -> Term:
    """The member that an option holds, of none member 0."""
    match term:
        case Num(value=value):
            return Num(max(0, value - 1))
        case Apply(op="some", args=(inner,)):
            return inner
        case Apply(op="ite", args=(condition, then, otherwise)):
            return choice(condition, member_of(then), member_of(otherwise))
    if span(term)[1] <= 1:
        return Num(0)
    return Apply("the", (term,))


def within(term: Term, top: int) -> Term:
    """Whether 0 <= term <= top."""
    return conjunction(at_most(Num(0), term), at_most(term, Num(top)))


def cells(term: Term) -> Iterator[Cell]:
    """Every cell that the term reads, those in places included."""
    match term:
        case Cell(place=place):
            yield term
            yield from cells(place)
        case Apply(args=args):
            for arg in args:
                yield from cells(arg)
