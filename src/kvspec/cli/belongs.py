"""Where a file belongs that another command was given: a document, a trace, or a log of lines."""

from __future__ import annotations

from typing import Any


def other_command(text: str, file: str) -> str | None:
    """What to do with a text that is no document, no trace or no log, if it is one of the others."""
    from kvspec.models.documents import DocumentError, decode

    name = "FILE" if file == "-" else file
    audits = f"`kvspec audit {name}` takes a log of events, one a line"
    try:
        data = decode(text, file)
    except DocumentError:
        return audits if _is_lines(text) else None
    if not isinstance(data, dict):
        return None
    if _is_log_line(data):
        return audits
    if "document" in data:
        return f"`kvspec check {name}` checks documents"
    if data.get("format") == "kvspec-interleaving":
        return f"`kvspec interleave replay {name}` runs an order of clients again"
    if _is_trace(data):
        return f"`kvspec replay {name}` runs a trace again"
    return None


def _is_lines(text: str) -> bool:
    """Whether the first of several lines is a JSON object by itself."""
    from kvspec.models.documents import DocumentError, decode

    first, newline, rest = text.strip().partition("\n")
    try:
        return bool(newline and rest.strip()) and isinstance(decode(first, "line 1"), dict)
    except DocumentError:
        return False


def _is_log_line(data: dict[str, Any]) -> bool:
    """Whether an object is the header of a log of lines, or an event of one."""
    header = data.get("document") == "event-log" and "header" in data and "events" not in data
    return header or ("event_type" in data and "document" not in data)


def _is_trace(data: dict[str, Any]) -> bool:
    """Whether an object is a trace of ours, or one in the Informal Trace Format."""
    from kvspec.counterexamples.format import FORMAT

    return data.get("format") == FORMAT or {"states", "vars"} <= set(data)
