"""From text to a document and back: JSON read strictly, every error with its place in the document."""

from __future__ import annotations

import json
from typing import Any, Final

import msgspec

from kvspec.models.documents.pointers import changed_paths
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
    """A text is no document of the kind. code: one of `READING`."""

    def __init__(self, code: str, where: str, found: str, expected: str, advice: str) -> None:
        self.code = code
        self.where = where
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__(f"{where}: {code}: found {found}, expected {expected}: {advice}")


def decode(text: str, where: str) -> Any:
    """The JSON value of a text."""

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) < len(found):
            names = [key for key, _ in found]
            twice = sorted({key for key in names if names.count(key) > 1})
            raise DocumentError(
                "NOT_JSON", where, f"the key {', '.join(twice)} twice", "it once", "drop one"
            )
        return result

    def constant(name: str) -> Any:
        raise DocumentError("NOT_JSON", where, name, "a number of JSON", "write null or a number")

    try:
        value = json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
        json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        place = f"{where}, line {error.lineno}, column {error.colno}"
        found = "nothing" if not text.strip() else f"invalid JSON ({error.msg})"
        advice = "check that the file is complete"
        raise DocumentError("NOT_JSON", place, found, "a JSON document", advice) from error
    except UnicodeEncodeError as error:
        found = f"half of a surrogate pair, {error.object[error.start : error.end]!a}"
        advice = "write the whole character"
        raise DocumentError("NOT_JSON", where, found, "Unicode text", advice) from error
    except DocumentError:
        raise
    except (RecursionError, ValueError) as error:
        found = str(error) or type(error).__name__
        raise DocumentError(
            "NOT_JSON", where, found, "a JSON document", "name another file"
        ) from error
    return value


def read(kind: DocumentKind, text: str, where: str) -> Any:
    """The document of a JSON text; `where` names the text in errors."""
    return convert(kind, decode(text, where), where)


def convert(kind: DocumentKind, data: Any, where: str) -> Any:
    """The document of plain data, its fields checked, its contracts not yet."""
    if not isinstance(data, dict):
        found = f"JSON of type {type(data).__name__}"
        raise DocumentError("WRONG_TYPE", where, found, "an object", f"name a {kind.name} document")
    if data.get("document") != kind.name:
        raise DocumentError(
            "WRONG_KIND",
            f"{where} at /document",
            repr(data.get("document")),
            repr(kind.name),
            "name a document of this kind",
        )
    if data.get("version") != kind.version or isinstance(data.get("version"), bool):
        raise DocumentError(
            "WRONG_VERSION",
            f"{where} at /version",
            repr(data.get("version")),
            str(kind.version),
            "a later version of kvspec may read it",
        )
    body = {key: value for key, value in data.items() if key not in ("document", "version")}
    try:
        made = msgspec.convert(body, kind.document)
    except msgspec.ValidationError as error:
        raise _field_error(where, error) from error
    extra = changed_paths(plain(made), body)
    if extra:
        found = ", ".join(extra)
        code = "UNKNOWN_FIELD"
        raise DocumentError(
            code, f"{where} at {extra[0]}", found, "fields of the format", "drop it"
        )
    return made


def _field_error(where: str, error: msgspec.ValidationError) -> DocumentError:
    told, _, place = str(error).partition(" - at `$")
    path = place.rstrip("`").replace("[", "/").replace("]", "").replace(".", "/")
    code = "MISSING_FIELD" if "missing required field" in told else "WRONG_TYPE"
    return DocumentError(
        code, f"{where} at {path or '/'}", told, "a field of the format", "mend it"
    )


def write(kind: DocumentKind, document: Any) -> str:
    """The JSON text of a document, indented, with a newline at its end."""
    data = {"document": kind.name, "version": kind.version, **plain(document)}
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
