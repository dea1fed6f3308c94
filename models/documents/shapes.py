"""What the class of a document asks of plain data: where data does not fit it, and what belongs there."""

from __future__ import annotations

import json
import types
import typing
from typing import Any, Final

import attrs
import msgspec

from kvspec.models.documents.pointers import below

_NAMES: Final[dict[Any, str]] = {
    int: "a whole number",
    float: "a number",
    str: "text",
    bool: "true or false",
    type(None): "null",
}
_BLANKS: Final[dict[Any, Any]] = {int: 0, float: 0, str: "", bool: False}


@attrs.frozen
class Misfit:
    """A place where data does not fit. path: a JSON pointer. code: one of those of reading."""

    code: str
    path: str
    found: str
    expected: str


def fields_of(hint: Any) -> dict[str, Any]:
    """The fields of a class of a document, each with its type; nothing for any other type."""
    one = _object_of(hint)
    if one is None:
        return {}
    hints = typing.get_type_hints(one, include_extras=True)
    return {field.name: hints[field.name] for field in attrs.fields(one)}


def describe(hint: Any) -> str:
    """What values a type has, in words. A text in `Annotated` says it better than the type."""
    if typing.get_origin(hint) is typing.Annotated:
        return next((n for n in hint.__metadata__ if isinstance(n, str)), describe(hint.__origin__))
    if _is_union(hint):
        return ", or ".join(describe(part) for part in _parts(hint))
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return f"one of {', '.join(map(str, typing.get_args(hint)))}"
    if origin is tuple:
        first, *rest = typing.get_args(hint)
        many = rest == [...]
        return f"a list, each item {describe(first)}" if many else f"a list of {1 + len(rest)}"
    if origin is dict:
        return f"an object, each value {describe(typing.get_args(hint)[1])}"
    if attrs.has(hint):
        return f"an object with the fields {', '.join(fields_of(hint))}"
    return _NAMES.get(hint, getattr(hint, "__name__", str(hint)))


def misfit(hint: Any, data: Any, path: str = "") -> Misfit | None:
    """The first place at which plain data is not of a type; fields that are too many are not told."""
    fields = fields_of(hint)
    if fields and isinstance(data, dict):
        for name, inner in fields.items():
            if name not in data:
                there = f"no field {name}; there are {', '.join(data) or 'none'}"
                told = f"the field {name}: {describe(inner)}"
                return Misfit("MISSING_FIELD", path, there, told)
        return _first((inner, data[name], below(path, name)) for name, inner in fields.items())
    items = _items_of(hint, data, path)
    if items:
        return _first(items)
    try:
        msgspec.convert(data, hint)
    except msgspec.ValidationError:
        shown = json.dumps(data, ensure_ascii=False)
        found = shown if len(shown) <= 60 else f"{shown[:57]}..."
        return Misfit("WRONG_TYPE", path, found, describe(hint))
    return None


def blank(hint: Any) -> Any:
    """Plain data of a type that says nothing: zeros, empty lists, null where that is allowed."""
    if typing.get_origin(hint) is typing.Annotated:
        return blank(hint.__origin__)
    if _is_union(hint):
        parts = _parts(hint)
        return None if type(None) in parts else blank(parts[0])
    origin = typing.get_origin(hint)
    if origin is typing.Literal:
        return typing.get_args(hint)[0]
    if origin is tuple:
        return []
    if attrs.has(hint):
        return {name: blank(inner) for name, inner in fields_of(hint).items()}
    return _BLANKS.get(hint, {})


def hint_at(hint: Any, steps: list[str]) -> Any:
    """The type at a pointer whose steps are given, `*` for an item; None if there is no such place."""
    for step in steps:
        fields = fields_of(hint)
        inner = _item_of(hint)
        hint = fields.get(step) if fields else inner
        if hint is None:
            return None
    return hint


def _first(places: typing.Iterable[tuple[Any, Any, str]]) -> Misfit | None:
    found = (misfit(hint, data, path) for hint, data, path in places)
    return next((each for each in found if each is not None), None)


def _items_of(hint: Any, data: Any, path: str) -> list[tuple[Any, Any, str]]:
    """The items of a list or an object of any names, each with its type and pointer."""
    inner = _item_of(hint)
    if inner is None:
        return []
    if isinstance(data, list):
        return [(inner, item, below(path, n)) for n, item in enumerate(data)]
    if isinstance(data, dict) and not fields_of(hint):
        return [(inner, item, below(path, name)) for name, item in data.items()]
    return []


def _item_of(hint: Any) -> Any:
    """The type of the items of a list of any length, or of an object of any names; None for others."""
    for part in _parts(hint):
        origin, arguments = typing.get_origin(part), typing.get_args(part)
        if origin is tuple and arguments[1:] == (...,):
            return arguments[0]
        if origin is dict:
            return arguments[1]
    return None


def _object_of(hint: Any) -> Any:
    return next((part for part in _parts(hint) if attrs.has(part)), None)


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _parts(hint: Any) -> tuple[Any, ...]:
    """The types of a union, or the type itself, without what is annotated."""
    if typing.get_origin(hint) is typing.Annotated:
        return _parts(hint.__origin__)
    return typing.get_args(hint) if _is_union(hint) else (hint,)
