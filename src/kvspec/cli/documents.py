"""Documents on the command line: read from a file or standard input, and what is told of a broken one."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.cli.errors import UsageError

if TYPE_CHECKING:
    from kvspec.properties.documents.checking import Checked
    from kvspec.spec.documents.contracts import Broken, DocumentKind, Finding

SHOWN = 8
"""Places of one broken contract that are told to a reader; a program gets all."""


@attrs.frozen
class Given:
    """A document as it was given. file: its path, or None for standard input."""

    where: str
    file: str | None
    text: str
    checked: Checked

    def line(self, path: str) -> int:
        """The line of the text on which the value at a pointer begins."""
        from kvspec.models.documents import line_of

        return line_of(self.text, path)


def read_text(file: str) -> tuple[str, str]:
    """The text of a file, or of standard input for `-`, and what to call it."""
    where = "standard input" if file == "-" else file
    data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
    try:
        return data.decode(), where
    except UnicodeDecodeError as error:
        raise UsageError(
            f"{where} is no text",
            f"byte {data[error.start]:#04x} at offset {error.start}",
            "JSON in UTF-8",
            where,
            "name a document, or convert it to UTF-8",
        ) from error


def read_given(file: str) -> Given:
    """The document in a file, or in standard input for `-`, of whatever kind."""
    from kvspec.models.documents import DocumentError
    from kvspec.properties.documents.checking import check_text

    text, where = read_text(file)
    try:
        checked = check_text(text, where)
    except DocumentError as error:
        if error.code != "NOT_JSON" or not _is_lines(text):
            raise
        raise UsageError(
            f"{where} is no one document",
            "a JSON value a line",
            "one JSON document",
            error.where,
            f"kvspec audit {file} takes a log of events, one a line",
        ) from error
    return Given(where, None if file == "-" else file, text, checked)


def _is_lines(text: str) -> bool:
    """Whether the first of several lines is a JSON object by itself."""
    from kvspec.models.documents import DocumentError, decode

    first, newline, rest = text.partition("\n")
    try:
        return bool(newline and rest.strip()) and isinstance(decode(first, "line 1"), dict)
    except DocumentError:
        return False


def read_kind(file: str, kind: DocumentKind) -> Given:
    """The same, of one kind alone."""
    given = read_given(file)
    if given.checked.kind is not kind:
        raise UsageError(
            f"{given.where} is no {kind.name}",
            f"a document of kind {given.checked.kind.name!r}",
            f"one of kind {kind.name!r}",
            given.where,
            f"kvspec check {file} checks it",
        )
    return given


def broken_data(given: Given, broken: Broken) -> dict[str, Any]:
    """A broken contract for a program."""
    return {
        "code": broken.code,
        "meaning": broken.contract.meaning,
        "findings": [
            {
                "path": each.path,
                "line": given.line(each.path),
                "expected": plain_value(each.expected),
                "found": plain_value(each.found),
            }
            for each in broken.findings
        ],
    }


def broken_text(given: Given, broken: Broken) -> str:
    """A broken contract for a reader: its code and meaning, then each place."""
    lines = [f"{given.where} breaks {broken.code}: {broken.contract.meaning}"]
    for each in broken.findings[:SHOWN]:
        lines.extend(finding_lines(given, each))
    more = len(broken.findings) - SHOWN
    if more > 0:
        lines.append(f"  and {more} more such places (--json tells all)")
    return "\n".join(lines)


def finding_lines(given: Given, finding: Finding) -> list[str]:
    """One place at which a contract is broken."""
    line = given.line(finding.path)
    return [
        f"  at        {finding.path or '/'} (line {line})",
        f"  expected  {told(finding.expected)}",
        f"  found     {told(finding.found)}",
    ]


def plain_value(value: object) -> Any:
    """A value of a finding as JSON can tell it."""
    from kvspec.spec.documents.canonical import plain

    made = plain(value)
    simple = made is None or isinstance(made, bool | int | str | list | dict)
    return made if simple else str(made)


def told(value: object) -> str:
    """A value of a finding for a reader."""
    import json

    made = plain_value(value)
    return made if isinstance(made, str) and made else json.dumps(made, ensure_ascii=False)
