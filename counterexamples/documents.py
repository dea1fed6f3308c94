"""From text to the fields of a trace: JSON read strictly, fields checked, errors with their place."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import FORMAT, VERSION, StepRecord, Trace
from kvspec.models.documents.strict import JsonError, strict_loads


def parse_json(text: str, where: str) -> Any:
    """The JSON value of a text; a key that occurs twice in an object is an error."""
    if not text.strip():
        raise TraceError(where, "an empty file", "a trace", "check that it was written")
    try:
        return strict_loads(text)
    except JsonError as fault:
        found, expected, advice = _ASKED[fault.reason]
        told = found.format(fault.found)
        raise TraceError(where + fault.place, told, expected, advice) from fault


_ASKED: Final = {
    "twice": ("{} in an object", "it once", "drop one"),
    "constant": ("{}", "a number of JSON", "write an integer"),
    "syntax": ("{}", "a JSON document", "check that the file is complete"),
    "depth": ("JSON nested too deeply", "a trace", "name a trace file"),
    "value": ("{}", "a JSON document", "write smaller numbers"),
    "surrogate": ("{}", "Unicode text", "write the whole character"),
}
"""What is told of a text that is no JSON: what was found, what is expected, what to do."""


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
