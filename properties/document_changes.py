"""One change of one place of a document: whatever it is, its contracts must catch it.

Modelled: another value of a scalar, a field or item taken out, an item doubled, two items swapped.
Left out: two changes at once, by which a document can become another valid one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from kvspec.models.documents import (
    below,
    changed_paths,
    containers,
    leaves,
    removed,
    replaced,
)

_EMPTY: Final[tuple[Any, ...]] = ([0], ["?"], [None], [{}], {"?": 0})
_ABSENT: Final[tuple[Any, ...]] = (0, 1, "", "?", False, [], {})


@attrs.frozen
class Change:
    """A document with one place changed. what: `value`, `removed`, `doubled` or `swapped`.

    path: the place, for an item doubled or two swapped that of their list. data: the whole document.
    """

    what: str
    path: str
    data: Any

    def is_one(self, base: Any) -> bool:
        """Whether anything differs from the document that was changed."""
        return bool(changed_paths(base, self.data))


def values(data: Any) -> Iterator[Change]:
    """Each scalar replaced by values near it, by those found elsewhere in the document, by null."""
    found = list(leaves(data))
    for path, value in found:
        others = [other for _, other in found if type(other) is type(value) and other != value]
        for other in (*_near(value), *_spread(others)):
            yield Change("value", path, replaced(data, path, other))


def rearranged(data: Any) -> Iterator[Change]:
    """Each field and item removed, each item doubled, each pair of neighbours swapped."""
    for path, inner in containers(data):
        steps = inner if isinstance(inner, dict) else range(len(inner))
        for step in steps:
            place = below(path, step)
            yield Change("removed", place, removed(data, place))
        if isinstance(inner, list):
            for n, item in enumerate(inner):
                longer = [*inner[: n + 1], item, *inner[n + 1 :]]
                yield Change("doubled", path, replaced(data, path, longer))
            for n in range(len(inner) - 1):
                yield _swap(data, path, inner, n, n + 1)


def every_change(data: Any) -> Iterator[Change]:
    """All rearrangements, and a few other values for each scalar: always the same changes."""
    changes = (*rearranged(data), *values(data))
    yield from (change for change in changes if change.is_one(data))


def changes(data: Any) -> st.SearchStrategy[Change]:
    """Any value of its type for any scalar, any two items of a list swapped, and all rearrangements."""
    scalars = st.sampled_from(list(leaves(data))).flatmap(
        lambda leaf: _any_like(leaf[1]).map(
            lambda value: Change("value", leaf[0], replaced(data, leaf[0], value))
        )
    )
    options = [scalars, st.sampled_from(list(rearranged(data)))]
    lists = [
        (path, inner)
        for path, inner in containers(data)
        if isinstance(inner, list) and len(inner) > 1
    ]
    if lists:
        options.append(st.sampled_from(lists).flatmap(lambda found: _any_swap(data, *found)))
    return st.one_of(options).filter(lambda change: change.is_one(data))


def other_values(value: Any) -> tuple[Any, ...]:
    """Some other values of the type of a scalar, and null."""
    return tuple(other for other in _near(value) if changed_paths(value, other))


def _near(value: Any) -> tuple[Any, ...]:
    if isinstance(value, bool):
        return (not value, None)
    if isinstance(value, int):
        return (value + 1, value - 1, 2 * value, -value, 0, None)
    if isinstance(value, str):
        last = "1" if value.endswith("0") else "0"
        return (f"{value[:-1]}{last}", f"{value}?", value.upper(), "", None)
    return _ABSENT if value is None else _EMPTY


def _spread(found: list[Any]) -> list[Any]:
    """At most four of the values, each once, from all over the document."""
    once = list(dict.fromkeys(map(_hashable, found)))
    return once[:: max(1, -(-len(once) // 4))]


def _hashable(value: Any) -> Any:
    return value if not isinstance(value, dict | list) else None


def _any_like(value: Any) -> st.SearchStrategy[Any]:
    if isinstance(value, bool) or value is None or isinstance(value, dict | list):
        return st.sampled_from(_near(value))
    if isinstance(value, int):
        wide = st.integers(min_value=-(2**40), max_value=2**40)
        return st.one_of(st.integers(value - 9, value + 9), wide)
    return st.one_of(st.sampled_from(_near(value)), st.text(max_size=9))


def _any_swap(data: Any, path: str, inner: list[Any]) -> st.SearchStrategy[Change]:
    places = st.integers(0, len(inner) - 1)
    return st.tuples(places, places).map(lambda two: _swap(data, path, inner, *two))


def _swap(data: Any, path: str, inner: list[Any], one: int, two: int) -> Change:
    made = list(inner)
    made[one], made[two] = made[two], made[one]
    return Change("swapped", path, replaced(data, path, made))
