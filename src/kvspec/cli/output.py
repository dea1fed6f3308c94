"""Output: one JSON object or text on stdout, JUnit and SARIF files beside it, an exit code."""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
from pathlib import Path
from typing import Annotated, Any

import attrs
from cyclopts import Group, Parameter

from kvspec.cli.errors import UsageError
from kvspec.cli.verdicts import EXIT_CODES, Answer

Flag = Annotated[bool, Parameter(negative="", show_default=False)]
_GROUP = Group("Output", sort_key=10)
_COLOURS = {"holds": "32", "violated": "31", "unknown": "33"}
# A verdict begins a line, or ends one.
_VERDICT = re.compile(rf"^({'|'.join(_COLOURS)})\b|\b({'|'.join(_COLOURS)})$", re.MULTILINE)


@Parameter(name="*", group=_GROUP)
@attrs.frozen
class Output:
    """How an answer is told.

    json: print one JSON object on stdout, and nothing else.
    """

    json: Annotated[
        bool,
        Parameter(negative="", show_default=False, help="print one JSON object, nothing else."),
    ] = False


@Parameter(name="*", group=_GROUP)
@attrs.frozen
class CheckOutput(Output):
    """How an answer that is made of checks is told.

    junit, sarif: files to write for CI.
    """

    junit: Annotated[Path | None, Parameter(help="write a JUnit XML file.")] = None
    sarif: Annotated[Path | None, Parameter(help="write a SARIF 2.1.0 file.")] = None


def deliver(answer: Answer, output: Output) -> int:
    """Print the answer, write the files asked for, and return the exit code."""
    write_files(answer, output)
    if output.json:
        print(json.dumps(encodable(answer.data), indent=2))
    else:
        print(_for_stdout(paint(answer.text)))
    return EXIT_CODES[answer.verdict]


def encodable(value: Any) -> Any:
    """The value with a backslash escape for each half of a surrogate pair in its text.

    A file name that is no UTF-8 has such halves for its bytes; no file can hold them, and no strict
    reader takes them from JSON.
    """
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {encodable(key): encodable(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encodable(item) for item in value]
    return value


def _for_stdout(text: str) -> str:
    """The text with a backslash escape for each character that stdout cannot hold."""
    encoding = sys.stdout.encoding or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def check_writable(path: Path | None, option: str) -> None:
    """Refuse a file that cannot be written before the work is done rather than after it."""
    if path is None:
        return
    folder = path.absolute().parent
    if path.is_dir() or not folder.is_dir():
        found = "a folder" if path.is_dir() else f"no folder {path.parent}"
        raise _unwritable(path, option, found)
    try:
        if path.exists():
            path.open("ab").close()
        else:
            _try_folder(folder)
    except OSError as error:
        raise _unwritable(path, option, error.strerror or type(error).__name__) from error


def check_folder(path: Path | None, option: str) -> None:
    """Refuse a folder in which no file can be written; it need not exist yet."""
    if path is None:
        return
    there = path.absolute()
    while not there.exists() and there != there.parent:
        there = there.parent
    try:
        _try_folder(there)
    except OSError as error:
        raise UsageError(
            f"{option} cannot write to {path}",
            "a file" if path.is_file() else f"{there}: {error.strerror or type(error).__name__}",
            "a folder, or a name that is free",
            option,
            "name another folder",
        ) from error


def _try_folder(folder: Path) -> None:
    """Write a file there, which is gone again: nothing else tells for sure that it can be done."""
    with tempfile.TemporaryFile(dir=folder) as file:
        file.write(b"?")


def _unwritable(path: Path, option: str, found: str) -> UsageError:
    return UsageError(
        f"{option} cannot be written to {path}",
        found,
        "the path of a file in a folder that exists and can be written",
        option,
        "create the folder, or name another file",
    )


def check_outputs(output: Output) -> None:
    """Refuse output files that cannot be written."""
    if isinstance(output, CheckOutput):
        check_writable(output.junit, "--junit")
        check_writable(output.sarif, "--sarif")


def has_colour() -> bool:
    """Whether stdout is a terminal that wants colours."""
    return (
        sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    )


def paint(text: str) -> str:
    """The text with its verdicts in colour, on a terminal; elsewhere as it is."""
    if not has_colour():
        return text
    return _VERDICT.sub(lambda hit: f"\x1b[{_COLOURS[hit.group()]}m{hit.group()}\x1b[0m", text)


def write_files(answer: Answer, output: Output) -> None:
    """Write the files for CI that were asked for."""
    if not isinstance(output, CheckOutput):
        return
    if output.junit is not None:
        from kvspec.cli.junit import junit

        output.junit.write_text(junit(answer), encoding="utf-8")
    if output.sarif is not None:
        from kvspec.cli.sarif import sarif

        output.sarif.write_text(
            json.dumps(encodable(sarif(answer)), indent=2) + "\n", encoding="utf-8"
        )
