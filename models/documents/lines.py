"""Logs as JSON Lines: a header, then an event a line, read one at a time; every error with line and column.

In a line, fields of an event that are null may be left out; others than those of the format are refused.
A key twice in one object is not told here: the last one counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, Final, get_type_hints

import msgspec

from kvspec.models.documents.codec import DocumentError
from kvspec.spec.documents.canonical import plain
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.event import OPTIONAL, Event
from kvspec.spec.documents.log import LogHeader

KIND: Final = "event-log"
VERSION: Final = 1

_TYPES: Final = get_type_hints(Event)
_FIELDS: Final[list[Any]] = [
    *((name, kind) for name, kind in _TYPES.items() if name not in OPTIONAL),
    *((name, kind, None) for name, kind in _TYPES.items() if name in OPTIONAL),
]
EventLine: Final[Any] = msgspec.defstruct(
    "EventLine", _FIELDS, frozen=True, gc=False, forbid_unknown_fields=True
)
"""An event as it is read from a line: the same fields as `Event`, without Python's cycle collector."""

CLOSING_MARK: Final = b'{"closing"'
"""How the line of a closing begins."""

_PLACE: Final = re.compile(r"\(byte (\d+)\)|`\$\.?([\w.\[\]]*)`|field `([\w]+)`")


class HeaderLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The first line of a log."""

    document: str
    version: int
    header: LogHeader


class ClosingLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The last line of a log that was closed; one of before sources were listed is refused."""

    closing: Closing


def read_events(
    lines: Iterable[bytes],
    where: str,
    first: int = 2,
    closing: list[Closing] | None = None,
    *,
    is_open: bool = False,
) -> Iterator[tuple[int, Event]]:
    """The events of a log after its header, each with the number of its line; blank lines are skipped.

    closing: gets the closing of the log, which must be its last line; by default it is passed over.
    is_open: the log is still being written; a last line that has no end yet is left for later.
    """
    decode = msgspec.json.Decoder(EventLine).decode
    closed = 0
    for number, raw in enumerate(lines, first):
        try:
            event = decode(raw)
        except msgspec.DecodeError as error:
            if not raw.strip():
                continue
            if is_open and not raw.endswith(b"\n"):
                return
            if closed or not raw.startswith(CLOSING_MARK):
                raise _line_error(error, raw, number, where, "an event") from error
            closed = number
            found = read_closing(raw, where, number)
            if closing is not None:
                closing.append(found)
            continue
        if closed:
            raise DocumentError(
                "AFTER_CLOSING", f"{where}, line {number}, column 1", "an event",
                f"nothing after the closing in line {closed}", "begin another log",
            )  # fmt: skip
        yield number, event


def read_closing(raw: bytes, where: str, line: int) -> Closing:
    """The closing in the last line of a log."""
    try:
        return msgspec.json.decode(raw, type=ClosingLine).closing
    except msgspec.DecodeError as error:
        advice = "mend the line; without `sources` it is of an older version: record the log anew"
        raise _line_error(error, raw, line, where, "the closing of a log", advice) from error


def read_header(raw: bytes, where: str, line: int = 1) -> LogHeader:
    """The header in the first line of a log."""
    try:
        found = msgspec.json.decode(raw, type=HeaderLine)
    except msgspec.DecodeError as error:
        raise _line_error(error, raw, line, where, "the header of a log") from error
    for name, value, known in (
        ("document", found.document, KIND),
        ("version", found.version, VERSION),
    ):
        if value != known:
            column = _column(raw, name)
            raise DocumentError(
                "WRONG_KIND" if name == "document" else "WRONG_VERSION",
                f"{where}, line {line}, column {column}",
                repr(value),
                repr(known),
                "name a log of events; a later version of kvspec may read it",
            )
    return found.header


def write_header(header: LogHeader) -> str:
    """The first line of a log."""
    return json.dumps({"document": KIND, "version": VERSION, "header": plain(header)}) + "\n"


def write_closing(closing: Closing) -> str:
    """The last line of a log."""
    return json.dumps({"closing": plain(closing)}, ensure_ascii=False) + "\n"


def write_event(event: Event) -> str:
    """An event as a line, without the fields that are null."""
    fields = {name: value for name, value in plain(event).items() if value is not None}
    return json.dumps(fields, ensure_ascii=False) + "\n"


def _line_error(
    error: msgspec.DecodeError,
    raw: bytes,
    line: int,
    where: str,
    wanted: str,
    advice: str = "mend the line",
) -> DocumentError:
    told = str(error).split(" - at `$")[0]
    if told.startswith("maximum recursion depth"):
        told = "objects or lists that are nested too deep"
    hit = _PLACE.search(str(error))
    byte, path, field = hit.groups() if hit else (None, None, None)
    if byte is not None:
        column = len(raw[: int(byte)].decode("utf-8", errors="replace")) + 1
    elif isinstance(error, msgspec.ValidationError):
        column = _column(raw, field or re.split(r"[.\[]", path or "")[0])
    else:  # it ends too early
        column = len(raw.rstrip(b"\r\n").decode("utf-8", errors="replace")) + 1
    is_form = isinstance(error, msgspec.ValidationError)
    code = "WRONG_TYPE" if is_form else "NOT_JSON"
    if is_form and "missing required field" in told:
        code = "MISSING_FIELD"
    elif is_form and "unknown field" in told:
        code = "UNKNOWN_FIELD"
    place = f"{where}, line {line}, column {column}"
    return DocumentError(code, place, told, f"{wanted} as one JSON object", advice)


def _column(raw: bytes, name: str) -> int:
    """Where a field's name stands in a line, from 1; 1 if it does not."""
    found = raw.find(f'"{name}"'.encode()) if name else -1
    return len(raw[:found].decode("utf-8", errors="replace")) + 1 if found >= 0 else 1
