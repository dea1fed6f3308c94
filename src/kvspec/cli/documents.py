"""Documents on the command line: read from a file or standard input, and what is told of a broken one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.cli.belongs import other_command
from kvspec.cli.errors import UsageError

if TYPE_CHECKING:
    from kvspec.properties.documents.checking import Checked
    from kvspec.spec.documents.contracts import Broken, DocumentKind, Finding

BIND = {"manifest": "manifest", "byte-trajectory": "ledger", "service": "service"}
"""The command that makes a document of a kind anew, where it has one beside `kvspec check`."""

_OF_FIELDS = ("MISSING_FIELD", "WRONG_TYPE", "UNKNOWN_FIELD")

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
    from kvspec.properties.documents.checking import check_text

    return _read(file, check_text)


def read_bound(file: str) -> Given:
    """The same, with all that follows from its inputs made anew."""
    return _read(file, _bind)


def _bind(text: str, where: str) -> Checked:
    from kvspec.properties.documents.binding import bind_text

    return bind_text(text, where)


def _can_bind(text: str) -> bool:
    """Whether a text has all inputs of a document that can be made from them."""
    from kvspec.models.documents import DocumentError

    try:
        _bind(text, "")
    except DocumentError:
        return False
    return True


def _bind_command(text: str, file: str) -> str:
    from kvspec.models.documents import decode

    command = BIND.get(decode(text, file)["document"], "check")
    return f"kvspec {command} {'FILE' if file == '-' else file} --bind"


def _read(file: str, checked: Callable[[str, str], Checked]) -> Given:
    from kvspec.models.documents import DocumentError

    text, where = read_text(file)
    try:
        return Given(where, None if file == "-" else file, text, checked(text, where))
    except DocumentError as error:
        told = f"{where} is no document that can be checked: {error.code}"
        if error.code in _OF_FIELDS and checked is not _bind and _can_bind(text):
            do = f"`{_bind_command(text, file)}` prints the document with what follows made anew"
            raise UsageError(told, error.found, error.expected, error.where, do) from error
        do = other_command(text, file) or ""
        if not do or do.startswith("`kvspec check"):
            raise
        expected = "one JSON document, whose field `document` names its kind"
        raise UsageError(told, error.found, expected, error.where, do) from error


def read_kind(file: str, kind: DocumentKind, *, bind: bool = False) -> Given:
    """The document in a file, of one kind alone. bind: with what follows made anew."""
    given = read_bound(file) if bind else read_given(file)
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
        "do": advice(given, broken),
    }


def broken_text(given: Given, broken: Broken) -> str:
    """A broken contract for a reader: its code and meaning, then each place."""
    lines = [f"{given.where} breaks {broken.code}: {broken.contract.meaning}"]
    for each in broken.findings[:SHOWN]:
        lines.extend(finding_lines(given, each))
    more = len(broken.findings) - SHOWN
    if more > 0:
        lines.append(f"  and {more} more such places (--json tells all)")
    lines.append(f"  do        {advice(given, broken)}")
    return "\n".join(lines)


def advice(given: Given, broken: Broken) -> str:
    """What to do about a broken contract: the next step, with the command for it."""
    kind, file = given.checked.kind, given.file or "FILE"
    if broken.contract.do:
        return broken.contract.do
    if broken.contract.derived:
        command = f"kvspec {BIND.get(kind.name, 'check')} {file} --bind"
        return f"`{command}` prints the document with this made anew"
    path = broken.findings[0].path
    place = f"{path} in line {given.line(path)}" if path else "it"
    return (
        f"correct {place}, or what it must agree with; `kvspec check --codes {kind.name}` tells "
        "what each contract asks"
    )


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
