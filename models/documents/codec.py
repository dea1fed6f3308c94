"""From text to a document and back: JSON read strictly, every error with its place in the document."""

from __future__ import annotations

import json
from difflib import get_close_matches
from typing import Any, Final

import msgspec

from kvspec.models.documents.places import line_of
from kvspec.models.documents.pointers import changed_paths, steps_of
from kvspec.models.documents.shapes import Misfit, fields_of, hint_at, misfit
from kvspec.models.documents.strict import JsonError, strict_loads
from kvspec.spec.documents.canonical import plain
from kvspec.spec.documents.contracts import DocumentKind

READING: Final = {
    "NOT_JSON": "the text is one JSON document, in which no object has a key twice",
    "WRONG_KIND": "the field `document` names the kind of the document",
    "WRONG_VERSION": "the field `version` names a version of the format that is known",
    "UNKNOWN_FIELD": "every field is one of the format",
    "MISSING_FIELD": "no field of the format is left out",
    "WRONG_TYPE": "every field has a value of its type",
}
"""The codes with which reading fails, for every kind of document, and what each of them asks."""


class DocumentError(ValueError):
    """A text is no document of the kind. code: one of `READING`. path: a pointer to the place, if known."""

    def __init__(
        self, code: str, where: str, found: str, expected: str, advice: str, path: str = ""
    ) -> None:
        self.code = code
        self.path = path
        where = f"{where} at {path}" if path else where
        self.where = where
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__()

    def __str__(self) -> str:
        told = f"found {self.found}, expected {self.expected}: {self.advice}"
        return f"{self.where}: {self.code}: {told}"


def decode(text: str, where: str) -> Any:
    """The JSON value of a text."""
    try:
        return strict_loads(text)
    except JsonError as fault:
        found = fault.found if text.strip() else "nothing"
        expected, advice = _ASKED[fault.reason]
        raise DocumentError("NOT_JSON", where + fault.place, found, expected, advice) from fault


_ASKED: Final = {
    "twice": ("it once", "drop one"),
    "constant": ("a number of JSON", "write null or a number"),
    "syntax": ("a JSON document", "check that the file is complete"),
    "depth": ("a JSON document", "name another file"),
    "value": ("a JSON document", "name another file"),
    "surrogate": ("Unicode text", "write the whole character"),
}
"""What is expected where JSON cannot be read, and what to do."""


def read(kind: DocumentKind, text: str, where: str) -> Any:
    """The document of a JSON text; `where` names the text in errors."""
    data = decode(text, where)
    try:
        return convert(kind, data, where)
    except DocumentError as error:
        raise with_line(error, text) from error


def with_line(error: DocumentError, text: str) -> DocumentError:
    """The error with the line of the text on which its place is, if the place is known."""
    if error.path:
        error.where += f" (line {line_of(text, error.path.removesuffix('/'))})"
    return error


def convert(kind: DocumentKind, data: Any, where: str) -> Any:
    """The document of plain data, its fields checked, its contracts not yet."""
    if not isinstance(data, dict):
        found = f"JSON of type {type(data).__name__}"
        raise DocumentError(
            "WRONG_TYPE", where, found, "an object", f"name a document of the kind {kind.name}"
        )
    if data.get("document") != kind.name:
        raise DocumentError(
            "WRONG_KIND",
            where,
            repr(data.get("document")),
            repr(kind.name),
            "name a document of this kind; `kvspec check` takes any",
            "/document",
        )
    if data.get("version") != kind.version or isinstance(data.get("version"), bool):
        raise DocumentError(
            "WRONG_VERSION",
            where,
            repr(data.get("version")),
            str(kind.version),
            "a later version of kvspec may read it",
            "/version",
        )
    body = {key: value for key, value in data.items() if key not in ("document", "version")}
    try:
        made = msgspec.convert(body, kind.document)
    except msgspec.ValidationError as error:
        raise _field_error(kind, body, where, error) from error
    extra = changed_paths(plain(made), body)
    if extra:
        raise _extra_error(kind, extra, where)
    return made


def _field_error(
    kind: DocumentKind, body: Any, where: str, error: msgspec.ValidationError
) -> DocumentError:
    """The first place that does not fit the class, with what belongs there."""
    found = misfit(kind.document, body) or Misfit("WRONG_TYPE", "", str(error), "its type")
    missing = found.code == "MISSING_FIELD"
    advice = f"{'add it' if missing else 'write that'}; {_schema(kind)}"
    return DocumentError(found.code, where, found.found, found.expected, advice, found.path or "/")


def _extra_error(kind: DocumentKind, extra: list[str], where: str) -> DocumentError:
    """Fields that the format does not have, with those that it has there."""
    parent, _, name = extra[0].rpartition("/")
    steps = ["*" if step.isdigit() else step for step in steps_of(parent)]
    known = list(fields_of(hint_at(kind.document, steps)))
    near = get_close_matches(name, known, n=1)
    advice = f"did you mean {near[0]}? {_schema(kind)}" if near else f"drop it; {_schema(kind)}"
    expected = f"one of {', '.join(known)}" if known else "fields of the format"
    return DocumentError("UNKNOWN_FIELD", where, ", ".join(extra), expected, advice, extra[0])


def _schema(kind: DocumentKind) -> str:
    return f"`kvspec check --schema {kind.name}` prints the format"


def write(kind: DocumentKind, document: Any) -> str:
    """The JSON text of a document, indented, with a newline at its end."""
    data = {"document": kind.name, "version": kind.version, **plain(document)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
