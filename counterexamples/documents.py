"""From text to the fields of a trace: JSON read strictly, fields checked, errors with their place."""

from __future__ import annotations

import json
from typing import Any

import msgspec

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import FORMAT, VERSION, StepRecord, Trace


def parse_json(text: str, where: str) -> Any:
    """The JSON value of a text; a key that occurs twice in an object is an error."""
    if not text.strip():
        raise TraceError(where, "an empty file", "a trace", "check that it was written")

    def pairs(found: list[tuple[str, Any]]) -> dict[str, Any]:
        result = dict(found)
        if len(result) < len(found):
            twice = sorted({k for k, _ in found if sum(k == other for other, _ in found) > 1})
            raise TraceError(
                where, f"the key {', '.join(twice)} twice in an object", "it once", "drop one"
            )
        return result

    def constant(name: str) -> Any:
        raise TraceError(where, name, "a number of JSON", "write an integer")

    try:
        return json.loads(text, object_pairs_hook=pairs, parse_constant=constant)
    except json.JSONDecodeError as error:
        raise TraceError(
            f"{where}, line {error.lineno}, column {error.colno}",
            f"invalid JSON ({error.msg})",
            "a JSON document",
            "check that the file is complete",
        ) from error
    except RecursionError as error:
        raise TraceError(where, "JSON nested too deeply", "a trace", "name a trace file") from error
    except ValueError as error:
        if isinstance(error, TraceError):
            raise
        raise TraceError(where, str(error), "a JSON document", "write smaller numbers") from error


def from_plain(document: Any, where: str) -> Trace:
    """The trace of a document, its fields checked, its names not yet looked up."""
    if not isinstance(document, dict):
        kind = type(document).__name__
        raise TraceError(where, f"JSON of type {kind}", "an object", "name a trace file")
    if document.get("format") != FORMAT:
        raise TraceError(
            where,
            f"format {document.get('format')!r}",
            f"{FORMAT!r}",
            "name a trace file; one in ITF has `states` and `vars`",
        )
    version = document.get("version")
    if version != VERSION or isinstance(version, bool):
        raise TraceError(
            where,
            f"version {version!r}",
            f"version {VERSION}",
            "a later version of kvspec may read it; otherwise make the trace again",
        )
    try:
        return msgspec.convert(document, Trace)
    except msgspec.ValidationError as error:
        raise _field_error(document, where, error) from error


def _field_error(
    document: dict[str, Any], where: str, error: msgspec.ValidationError
) -> TraceError:
    """The error of a field with the number of its step, which the library does not tell."""
    steps = document.get("steps")
    message, _, path = str(error).partition(" - at ")
    if path.startswith("`$.steps[") and isinstance(steps, list):
        for number, step in enumerate(steps, 1):
            try:
                msgspec.convert(step, StepRecord)
            except msgspec.ValidationError as inner:
                message, _, path = str(inner).partition(" - at ")
                where = f"{where}, step {number}"
                break
    place = path.strip("`").removeprefix("$").removeprefix(".")
    if place:
        where = f"{where}, {place}"
    return TraceError(
        where,
        f"a field that does not fit ({message})",
        f"what the format says ({FORMAT} version {VERSION})",
        "see counterexamples/schema.json",
    )
