"""One formula with values: `kvspec formulas rows_saved 2048 128`."""

from __future__ import annotations

import inspect
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from kvspec.cli.errors import MOST_DIGITS, UsageError, shortened, unknown
from kvspec.cli.verdicts import HOLDS, Answer

if TYPE_CHECKING:
    from kvspec.spec.formulas import Formula
    from kvspec.spec.formulas.quantities import Quantity

WHERE = "kvspec formulas"


def evaluated(name: str, words: tuple[str, ...]) -> Answer:
    """The value of a formula, given a word for each argument: in order, or as `G=128` or `outputs=128`."""
    from kvspec.spec import formulas
    from kvspec.spec.formulas import BOOK

    known = {each.name: each for each in BOOK}
    if name not in known:
        raise unknown("formula", name, known, WHERE, "kvspec formulas lists all of them")
    made = known[name]
    given = _given(made, words)
    try:
        value = getattr(formulas, name)(*given)
    except ValueError as error:
        told = str(error).removeprefix(f"{name}: ")
        found, _, expected = told.removeprefix("found ").partition(", expected ")
        do = f"kvspec formulas {usage(made)}"
        raise UsageError(f"{name} takes other values", found, expected, WHERE, do) from error
    said = {p: _plain(v) for p, v in zip(names_of(made), given, strict=True)}
    data = {
        "formula": name,
        "text": made.text(),
        "arguments": said,
        "value": _plain(value),
        "unit": str(made.unit),
    }
    unit = "" if value is None or str(made.unit) == "1" else f" {made.unit}"
    text = f"{made.text()}\n{made.symbol} = {show(value)}{unit}"
    return Answer("formulas", HOLDS, data, text)


def names_of(made: Formula) -> list[str]:
    """The names of a formula's arguments, in order."""
    return list(inspect.signature(made.function).parameters)


def usage(made: Formula) -> str:
    """How the formula is called: its name, and its arguments in order by their symbols."""
    return " ".join((made.name, *(f"{each.symbol}={_sample(each)}" for each in made.takes)))


def _sample(quantity: Quantity) -> str:
    if quantity.flag:
        return "yes"
    return "4,5" if quantity.column else str(max(2, quantity.least))


def show(value: Any) -> str:
    """A value for a reader: with separators, an exact ratio with two decimals beside it."""
    if value is None:
        return "undefined"
    if isinstance(value, tuple):
        return f"[{', '.join(map(show, value))}]"
    if isinstance(value, Fraction) and value.denominator != 1:
        return f"{value.numerator:,}/{value.denominator:,} ({float(value):,.2f})"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{int(value):,}"


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(each) for each in value]
    if isinstance(value, Fraction):
        return int(value) if value.denominator == 1 else str(value)
    return value


def _given(made: Formula, words: tuple[str, ...]) -> list[Any]:
    names = names_of(made)
    symbols = {each.symbol: name for name, each in zip(names, made.takes, strict=True)}
    placed: dict[str, str] = {}
    for word in words:
        key, sign, rest = word.partition("=")
        key = symbols.get(key, key)
        name = key if sign else next((each for each in names if each not in placed), "")
        if name not in names or name in placed:
            raise _wrong(
                made, f"{word!r}" if sign else "more values", "one value for each argument"
            )
        placed[name] = rest if sign else word
    missing = [name for name in names if name not in placed]
    if missing:
        lacking = [f"{s} ({name})" for s, name in symbols.items() if name in missing]
        raise _wrong(made, f"no {', '.join(lacking)}", "one value for each argument")
    pairs = zip(names, made.takes, strict=True)
    return [
        _value(made, name, placed[name], column=each.column, flag=each.flag) for name, each in pairs
    ]


def _value(made: Formula, name: str, word: str, *, column: bool, flag: bool) -> Any:
    if column:
        parts = [part for part in word.split(",") if part]
        return tuple(
            _value(made, f"a part of {name}", part, column=False, flag=False) for part in parts
        )
    if flag and word.lower() in ("yes", "no", "true", "false"):
        return word.lower() in ("yes", "true")
    if flag:
        raise _wrong(made, f"{name} = {word!r}", "yes or no")
    digits = word.removeprefix("-")
    if not (digits.isascii() and digits.isdecimal() and len(digits) <= MOST_DIGITS):
        expected = f"a whole number of at most {MOST_DIGITS} digits"
        raise _wrong(made, f"{name} = {shortened(word)!r}", expected)
    return int(word)


def _wrong(made: Formula, found: str, expected: str) -> UsageError:
    told = f"{made.name} cannot be computed"
    return UsageError(told, found, expected, WHERE, f"kvspec formulas {usage(made)}")
