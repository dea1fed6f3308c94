"""What an adapter shows, checked: known variables, a value at each index, values of the right kind.

A value outside the bounds of the instance, a length of 7 say, is no error of the adapter: it is what the
cache shows, and it will differ from the specification.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kvspec.models.concrete.state import Value, indices
from kvspec.properties.conformance.errors import AdapterError
from kvspec.spec.language import Instance, Type, Variable

Shown = Mapping[str, tuple[Value, ...]]


class Shape:
    """How observations of an instance look. The variables shown first are those shown always."""

    def __init__(self, instance: Instance, where: str) -> None:
        self.instance = instance
        self.where = where
        self._variables = instance.system.variables
        self._sizes = {n: len(list(indices(v, instance))) for n, v in self._variables.items()}
        self._names: frozenset[str] | None = None
        self._fine: dict[str, set[tuple[Value, ...]]] = {name: set() for name in self._variables}

    def check(self, shown: Any) -> Shown:
        """The observation with tuples as values, or an AdapterError that says what is wrong."""
        if not isinstance(shown, Mapping):
            raise self._error(
                f"a {type(shown).__name__}", "a mapping from variable names to tuples of values",
                "return {'length': (0, 0), ...}",
            )  # fmt: skip
        strange = sorted(str(name) for name in shown if name not in self._variables)
        if strange:
            raise self._error(
                f"unknown variables: {', '.join(strange)}",
                f"names among {', '.join(self._variables)}",
                "correct the names, or leave them out (kvspec show core lists the variables)",
            )
        names = frozenset(shown)
        if self._names is None:
            self._names = names
        if names != self._names:
            differ = ", ".join(sorted(names ^ self._names))
            raise self._error(
                f"another set of variables than before: {differ} came or went",
                "the same variables at every call",
                "show a variable always or never; a part that is gone has a value, too",
            )
        return {name: self._known(name, shown[name]) for name in shown}

    def _known(self, name: str, given: Any) -> tuple[Value, ...]:
        """The table, looked at once for each value that it has."""
        fine = self._fine[name]
        try:
            if isinstance(given, tuple) and given in fine:
                return given
        except TypeError:  # it holds what has no hash, and is looked at for the message
            pass
        table = self._table(self._variables[name], given)
        fine.add(table)
        return table

    def _table(self, variable: Variable, given: Any) -> tuple[Value, ...]:
        size = self._sizes[variable.name]
        over = " and ".join(kind.name for kind in variable.domain) or "nothing"
        if not isinstance(given, tuple | list):
            raise self._error(
                f"{variable.name} is a {type(given).__name__}",
                f"a tuple of {size} value(s), one for each {over}",
                f"give {variable.name} as a tuple",
            )
        if len(given) != size:
            raise self._error(
                f"{variable.name} has {len(given)} values: {tuple(given)!r}",
                f"{size}, one for each {over} of {self.instance!r}",
                "take the numbers from the instance that reset() was given (instance.sizes)",
            )
        for place, value in enumerate(given):
            wanted = _expected(variable.type, value)
            if wanted:
                raise self._error(
                    f"{variable.name} has {value!r} ({type(value).__name__}) at place {place}",
                    wanted,
                    f"convert the value in observe(): {variable.meaning}",
                )
        return tuple(given)

    def _error(self, found: str, expected: str, do: str) -> AdapterError:
        return AdapterError(
            "what the cache shows cannot be read",
            found=found, expected=expected, where=self.where, do=do,
        )  # fmt: skip


def _expected(kind: Type, value: Any) -> str:
    """What a value of the type is, where this is none; else empty."""
    is_number = isinstance(value, int) and not isinstance(value, bool)
    if kind.kind == "bool":
        return "" if isinstance(value, bool) else "True or False"
    if kind.kind == "enum":
        is_member = isinstance(value, str) and value in kind.members
        return "" if is_member else f"one of {', '.join(kind.members)}, as a str"
    if kind.kind == "option":
        name = kind.of.name if kind.of is not None else kind.name
        return "" if value is None or is_number else f"None, or the number of a {name} (an int)"
    if kind.kind == "open":
        return "" if is_number else f"the number of a {kind.name} (an int)"
    return "" if is_number else "a whole number (an int)"
