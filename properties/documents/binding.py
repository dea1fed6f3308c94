"""Documents made from their inputs: what follows from the rest is computed, whether it stood there or not.

What is asked of the inputs is asked first, so that nothing is computed of what cannot be.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

from kvspec.models.documents import DocumentError, blank, convert, decode, hint_at, with_line
from kvspec.properties.documents.checking import Checked, kind_of
from kvspec.properties.documents.registry import kinds
from kvspec.spec.documents.contracts import Binding, DocumentKind


def bindable() -> list[str]:
    """The kinds of which documents can be made."""
    return [name for name, kind in kinds().items() if kind.binding is not None]


def bind_text(text: str, where: str) -> Checked:
    """The document of a text with all that follows made anew, or the contract that its inputs break."""
    data = decode(text, where)
    try:
        return bind(data, where)
    except DocumentError as error:
        raise with_line(error, text) from error


def bind(data: Any, where: str) -> Checked:
    """The same of plain data."""
    kind = kind_of(data, where)
    if kind.binding is None:
        known = f"one of {', '.join(bindable())}"
        advice = "nothing in it is made from the rest"
        raise DocumentError("WRONG_KIND", where, repr(kind.name), known, advice, "/document")
    document = kind.binding.prepare(convert(kind, _blanked(kind, kind.binding, data), where))
    broken = kind.first_broken(document, derived=False)
    if broken is not None:
        return Checked(kind, document, broken)
    made = kind.binding.complete(document)
    return Checked(kind, made, kind.first_broken(made))


def _blanked(kind: DocumentKind, binding: Binding, data: Any) -> Any:
    """A copy in which nothing stands that follows, and null where something was left out."""
    data = copy.deepcopy(data)
    for path in binding.paths:
        *above, name = path.split("/")[1:]
        for inner in _objects(data, above):
            inner[name] = blank(hint_at(kind.document, [*above, name]))
    for path in binding.nullable:
        *above, name = path.split("/")[1:]
        for inner in _objects(data, above):
            inner.setdefault(name, None)
    return data


def _objects(data: Any, steps: list[str]) -> Iterator[dict[str, Any]]:
    """The objects at the places of a pattern."""
    return (inner for inner in _places(data, steps) if isinstance(inner, dict))


def _places(data: Any, steps: list[str]) -> Iterator[Any]:
    if not steps:
        yield data
    elif steps[0] == "*" and isinstance(data, list):
        for item in data:
            yield from _places(item, steps[1:])
    elif isinstance(data, dict) and steps[0] in data:
        yield from _places(data[steps[0]], steps[1:])
