"""Any document at all: what kind it says it is, and whether it keeps the contracts of that kind."""

from __future__ import annotations

from typing import Any

import attrs

from kvspec.models.documents import DocumentError, convert, decode, with_line
from kvspec.properties.documents.registry import kinds
from kvspec.spec.documents.contracts import Broken, DocumentKind


@attrs.frozen
class Checked:
    """A document that could be read. broken: the first contract that it breaks, if any."""

    kind: DocumentKind
    document: Any
    broken: Broken | None


def check_text(text: str, where: str) -> Checked:
    """Read and check a document of any kind; `where` names the text in errors."""
    data = decode(text, where)
    try:
        kind = kind_of(data, where)
        document = convert(kind, data, where)
    except DocumentError as error:
        raise with_line(error, text) from error
    return Checked(kind, document, kind.first_broken(document))


def kind_of(data: Any, where: str) -> DocumentKind:
    """The kind that plain data says it is."""
    if not isinstance(data, dict):
        found = f"JSON of type {type(data).__name__}"
        advice = "name a file with a document"
        raise DocumentError("WRONG_TYPE", where, found, "an object", advice)
    name = data.get("document")
    if isinstance(name, str) and name in kinds():
        return kinds()[name]
    found = repr(name) if "document" in data else "no such field"
    raise DocumentError(
        "WRONG_KIND",
        where,
        found,
        f"one of {', '.join(kinds())}",
        "say of which kind the document is",
        "/document" if "document" in data else "",
    )
