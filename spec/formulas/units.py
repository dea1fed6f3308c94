"""Units: products of powers of base units, and the arithmetic that a formula may do with them.

A formula that is run on units gives the unit of its result, or fails where it adds or compares
unlike things. A plain number takes the unit of what it is added to, and none where it multiplies.
"""

from __future__ import annotations

import attrs


class UnitError(ValueError):
    """A formula adds, compares or declares unlike units."""


@attrs.frozen
class Unit:
    """A unit. powers: base unit and exponent, none of them 0, in order of name."""

    powers: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        over = [_power(name, power) for name, power in self.powers if power > 0]
        under = [_power(name, -power) for name, power in self.powers if power < 0]
        top = "*".join(over) or "1"
        if not under:
            return top
        return f"{top}/{under[0]}" if len(under) == 1 else f"{top}/({'*'.join(under)})"

    def __mul__(self, other: Unit | int) -> Unit:
        if isinstance(other, int):
            return self
        found = dict(self.powers)
        for name, power in other.powers:
            found[name] = found.get(name, 0) + power
        return Unit(tuple(sorted((name, power) for name, power in found.items() if power)))

    __rmul__ = __mul__

    def __pow__(self, power: int) -> Unit:
        return Unit(tuple((name, each * power) for name, each in self.powers) if power else ())

    def __truediv__(self, other: Unit | int) -> Unit:
        return self if isinstance(other, int) else self * other**-1

    def __rtruediv__(self, other: int) -> Unit:
        del other
        return self**-1

    __floordiv__ = __truediv__

    def __add__(self, other: Unit | int) -> Unit:
        if isinstance(other, Unit) and other != self:
            raise UnitError(
                f"found {self} beside {other} in a sum, a difference or a comparison: both sides must "
                "have one unit"
            )
        return self

    __radd__ = __sub__ = __rsub__ = __add__

    def _compared(self, other: Unit | int) -> Unit:
        return (self + other) ** 0

    __lt__ = __le__ = __gt__ = __ge__ = _compared

    def __and__(self, other: Unit | bool) -> Unit:
        return self + int(other) if isinstance(other, bool) else self + other

    __rand__ = __and__


def _power(name: str, power: int) -> str:
    return name if power == 1 else f"{name}^{power}"


def base(name: str) -> Unit:
    """A base unit."""
    return Unit(((name, 1),))


ONE = Unit()
"""The unit of plain counts and of truth values."""

BYTE = base("byte")
TOKEN = base("token")
LAYER = base("layer")
HEAD = base("head")
SCALAR = base("scalar")
REQUEST = base("request")
MS = base("ms")
SECOND = base("s")
PAIR = TOKEN**2
"""A legal pair of a query token and a key token."""
