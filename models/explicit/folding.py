"""Folding: values with their ranges and formulas with what is known of them."""

from __future__ import annotations

from collections.abc import Iterable

import attrs

Formula = str | bool
_LARGEST = 2**62
"""Compiled code has integers of 64 bits; a factor of 2 is left for sums."""


@attrs.frozen
class Val:
    """Source text of an integer, and the range of its value."""

    text: str
    low: int
    high: int

    @property
    def known(self) -> int | None:
        """The value, if there is only one."""
        return self.low if self.low == self.high else None


def constant(value: int) -> Val:
    """A known value."""
    return Val(str(value) if value >= 0 else f"({value})", value, value)


def negate(formula: Formula) -> Formula:
    """Not the formula."""
    if isinstance(formula, bool):
        return not formula
    return formula[5:-1] if formula.startswith("(not ") else f"(not {formula})"


def join(op: str, formulas: Iterable[Formula]) -> Formula:
    """The conjunction (op `&`) or disjunction (op `|`) of formulas."""
    unit = op == "&"
    parts: list[str] = []
    for formula in formulas:
        if isinstance(formula, bool):
            if formula is not unit:
                return formula
        elif formula not in parts:
            if negate(formula) in parts:
                return not unit
            parts.append(formula)
    if not parts:
        return unit
    return parts[0] if len(parts) == 1 else "(" + f" {op} ".join(parts) + ")"


def arithmetic(op: str, one: Val, two: Val) -> Val:
    """The sum (op `add`), difference (`sub`), product (`mul`) or, rounded down, quotient (`div`)."""
    if op == "div":
        return _quotient(one, two.low)
    if op == "add":
        low, high, sign = one.low + two.low, one.high + two.high, "+"
    elif op == "sub":
        low, high, sign = one.low - two.high, one.high - two.low, "-"
    else:
        ends = [a * b for a in (one.low, one.high) for b in (two.low, two.high)]
        low, high, sign = min(ends), max(ends), "*"
        if max(-low, high) >= _LARGEST:
            raise ValueError(
                f"the product of {one.text} and {two.text} may reach {max(-low, high)}, which is more "
                f"than the {_LARGEST} that compiled code can hold: lower the bounds of the instance"
            )
    if low == high:
        return constant(low)
    return Val(f"({one.text} {sign} {two.text})", low, high)


def _quotient(one: Val, divisor: int) -> Val:
    """LLVM's division rounds towards 0, so it is given a number that is not negative."""
    low, high = one.low // divisor, one.high // divisor
    if low == high:
        return constant(low)
    if low >= 0:
        return Val(f"({one.text} // {divisor})", low, high)
    return Val(f"(({one.text} + {-low * divisor}) // {divisor} - {-low})", low, high)


def compare(op: str, one: Val, two: Val) -> Formula:
    """One equals (`eq`), is less than (`lt`) or is at most (`le`) the other."""
    if op == "eq":
        if one.text == two.text:
            return True
        if one.high < two.low or two.high < one.low:
            return False
        if one.known is not None:
            one, two = two, one
        return f"({one.text} == {two.text})"
    if op == "lt":
        if one.high < two.low:
            return True
        return (
            False if one.low >= two.high or one.text == two.text else f"({one.text} < {two.text})"
        )
    if one.high <= two.low or one.text == two.text:
        return True
    return False if one.low > two.high else f"({one.text} <= {two.text})"
