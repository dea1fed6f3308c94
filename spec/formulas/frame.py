"""The frame of a formula: what it takes, what unit it gives, and the book of all formulas.

    @formula(BETA, unit=BYTE / TOKEN, takes=(L_CACHE, H_KV, D_H, B_K, B_V), section="0x02")
    def token_bytes(cache_layers: N, kv_heads: N, head_width: N, key_bytes: N, value_bytes: N) -> N:
        "Bytes of one committed token."
        return cache_layers * kv_heads * head_width * (key_bytes + value_bytes)

Called with numbers, a formula first checks that each is legal. Called with expressions or units it
gives an expression or a unit, so its text and its dimension are read from its code.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from fractions import Fraction
from functools import wraps
from itertools import repeat
from typing import Any, TypeVar, cast

import attrs

from kvspec.spec.formulas.folds import Series, symbol
from kvspec.spec.formulas.quantities import Quantity
from kvspec.spec.formulas.units import MS, ONE, Unit, UnitError
from kvspec.spec.language import Bool, DefinitionError, Expr, Symbol, type_of
from kvspec.spec.language.errors import listing

Function = TypeVar("Function", bound=Callable[..., Any])


@attrs.frozen
class Requirement:
    """What must hold between the arguments of a formula; `meaning` says it in words."""

    meaning: str
    holds: Callable[..., Any]


@attrs.frozen
class Formula:
    """A formula of the text.

    symbol: what it defines. unit: of its result. takes: its arguments in order. requires: what holds
    between them. section: where the text derives it. function: computes it, unchecked.
    """

    name: str
    symbol: str
    doc: str
    unit: Unit
    takes: tuple[Quantity, ...]
    requires: tuple[Requirement, ...]
    section: str
    function: Callable[..., Any]

    def text(self) -> str:
        """The formula as its own code writes it, on symbols."""
        return f"{self.symbol} = {_shown(self.function(*map(unknown, self.takes)))}"

    def dimension(self) -> Unit:
        """The unit that the code gives on the units of its arguments."""
        given = [[each.unit] * 2 if each.column else each.unit for each in self.takes]
        try:
            found = self.function(*given)
        except UnitError as error:
            raise UnitError(f"{self.name}: {error}") from error
        if isinstance(found, tuple):
            found = found[0]
        return found if isinstance(found, Unit) else ONE

    def check_dimension(self) -> None:
        """Refuse a formula whose code gives another unit than it declares."""
        found = self.dimension()
        if found != self.unit:
            raise UnitError(
                f"{self.name}: the code gives {found}, and {self.unit} is declared: correct one of them"
            )


def unknown(quantity: Quantity) -> Any:
    """A symbol for a quantity, or a list of any length."""
    if quantity.column:
        return Series(quantity.symbol)
    if quantity.flag:
        return Symbol(type_of(Bool), quantity.symbol, "constant")
    return symbol(quantity.symbol)


def _shown(found: Any) -> str:
    if isinstance(found, tuple):
        return ", ".join(map(_shown, found))
    return repr(found)


class Book:
    """Formulas by name, which can be called as its attributes."""

    def __init__(self, formulas: dict[str, Formula] | None = None) -> None:
        self._formulas = dict(formulas or {})

    def add(self, one: Formula) -> None:
        """Take up a formula."""
        if one.name in self._formulas:
            raise DefinitionError(f"there are two formulas {one.name}: give each its own name")
        self._formulas[one.name] = one

    def altered(self, **changes: Callable[..., Any]) -> Book:
        """A book in which some formulas have another function, to see what notices."""
        return Book(
            self._formulas
            | {name: attrs.evolve(self[name], function=to) for name, to in changes.items()}
        )

    def __getitem__(self, name: str) -> Formula:
        if name not in self._formulas:
            raise KeyError(f"no formula {name!r}; there are {listing(self._formulas)}")
        return self._formulas[name]

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if name.startswith("_") or name not in self._formulas:
            raise AttributeError(f"no formula {name!r}; there are {listing(self._formulas)}")
        return self._formulas[name].function

    def __iter__(self) -> Iterator[Formula]:
        return iter(self._formulas.values())

    def __len__(self) -> int:
        return len(self._formulas)


BOOK = Book()
"""Every formula of the text."""


def formula(
    defines: str,
    *,
    unit: Unit,
    takes: tuple[Quantity, ...],
    section: str,
    requires: tuple[Requirement, ...] = (),
) -> Callable[[Function], Function]:
    """Decorator: the function computes the symbol `defines` from what it takes."""

    def add(function: Function) -> Function:
        signature = inspect.signature(function)
        if len(signature.parameters) != len(takes):
            raise DefinitionError(
                f"{function.__name__} has {len(signature.parameters)} parameters and takes "
                f"{len(takes)} quantities: declare one for each"
            )
        made = Formula(
            function.__name__,
            defines,
            (function.__doc__ or "").strip().splitlines()[0],
            unit,
            takes,
            requires,
            section,
            function,
        )
        BOOK.add(made)
        names = list(signature.parameters)

        @wraps(function)
        def checked(*args: Any, **named: Any) -> Any:
            if named or len(args) != len(names):
                args = tuple(signature.bind(*args, **named).arguments.values())
            given = list(map(_legal, repeat(made), names, takes, args))
            _check_together(made, names, given)
            return function(*given)

        return cast(Function, checked)

    return add


def _is_symbolic(value: object) -> bool:
    if isinstance(value, tuple):
        return any(map(_is_symbolic, value))
    return isinstance(value, Expr | Series | Unit)


def _legal(made: Formula, name: str, quantity: Quantity, value: Any) -> Any:
    """The value, a list as a tuple; a ValueError if it is none of the quantity's."""
    if quantity.column:
        if isinstance(value, Series):
            return value
        members = tuple(value)
        for place, member in enumerate(members):
            _check_number(made, f"{name}[{place}]", quantity, member)
        return members
    _check_number(made, name, quantity, value)
    return value


def _check_number(made: Formula, where: str, quantity: Quantity, value: Any) -> None:
    if _is_symbolic(value):
        return
    if quantity.flag:
        if not isinstance(value, bool):
            raise ValueError(_told(made, where, repr(value), "True or False", quantity))
        return
    is_time = quantity.unit == MS
    if isinstance(value, bool) or not isinstance(value, int | Fraction if is_time else int):
        expected = "an exact number" if is_time else "a whole number"
        raise ValueError(_told(made, where, repr(value), expected, quantity))  # noqa: TRY004
    if value < quantity.least:
        raise ValueError(_told(made, where, str(value), f"at least {quantity.least}", quantity))


def _told(made: Formula, where: str, found: str, expected: str, quantity: Quantity) -> str:
    return (
        f"{made.name}: {where} = {found}, expected {expected}: give {quantity.symbol}, "
        f"{quantity.meaning}, in {quantity.unit}"
    )


def _check_together(made: Formula, names: list[str], given: list[Any]) -> None:
    """Columns are of one length, and the requirements hold; what is not a number is let through."""
    lengths = {
        name: len(value)
        for name, value, each in zip(names, given, made.takes, strict=True)
        if each.column and isinstance(value, tuple)
    }
    if len(set(lengths.values())) > 1:
        found = ", ".join(f"{name} has {length}" for name, length in lengths.items())
        raise ValueError(
            f"{made.name}: {found} members, expected as many in each: give one of each for every row"
        )
    if any(map(_is_symbolic, given)):
        return
    for each in made.requires:
        if not each.holds(*given):
            found = ", ".join(f"{n} = {v}" for n, v in zip(names, given, strict=True))
            raise ValueError(
                f"{made.name}: found {found}, expected that {each.meaning}: correct the arguments"
            )
