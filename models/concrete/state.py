"""States of an instance: one table of values for each variable.

A table is flat, row-major over the variable's domain: `k_rows: Txn x Layer` with two layers keeps
`k_rows[x, l]` at position `2 * x + l`. Members of open sorts are indices from 0, members of
enumerations their names; an enumeration as a domain counts in the order of its members.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import attrs

from kvspec.spec.language import Instance, Type, Variable

Value = bool | int | str | None
Index = tuple[Value, ...]


@attrs.frozen
class State:
    """Values of all variables, in the order of the system's variables. Hashable and comparable."""

    tables: tuple[tuple[Value, ...], ...]


def values_of(kind: Type, instance: Instance) -> list[Value]:
    """All values of a type in an instance, in a fixed order (an option begins with none)."""
    if kind.kind == "bool":
        return [False, True]
    if kind.kind == "enum":
        return list(kind.members)
    if kind.kind == "open":
        return list(range(instance.sizes[kind.name]))
    if kind.kind == "option" and kind.of is not None:
        return [None, *range(instance.sizes[kind.of.name])]
    return list(range(instance.bounds[kind.name] + 1))


def indices(variable: Variable, instance: Instance) -> Iterator[Index]:
    """The indices of a variable's table, in order."""
    return product(*(values_of(kind, instance) for kind in variable.domain))


def position(variable: Variable, index: Index, instance: Instance) -> int:
    """Where an index stands in the variable's flat table."""
    place = 0
    for kind, value in zip(variable.domain, index, strict=True):
        offset = kind.members.index(str(value)) if kind.kind == "enum" else int(value or 0)
        place = place * instance.members(kind) + offset
    return place
