"""Reading and writing of traces: a file is checked whole before it is used, and never half written."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path

from kvspec.counterexamples.documents import from_plain, parse_json
from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.format import Trace, plain
from kvspec.counterexamples.itf import from_itf, is_itf
from kvspec.counterexamples.resolve import resolve
from kvspec.counterexamples.writing import to_text
from kvspec.spec.language import System

LARGEST_FILE = 64 * 2**20
_PATH = re.compile(r"(?:^|[\s\"'=(])(/[\w.-]+/|~/|[A-Za-z]:\\)")


def read_trace(path: str | os.PathLike[str], system: System | None = None) -> Trace:
    """The trace in a file, of this format or in ITF, checked against its system.

    Raises TraceError for anything that is not a well-formed trace of a known system.
    """
    return parse_trace(read_text(path), where=str(path), system=system)


def read_text(path: str | os.PathLike[str], kind: str = "trace") -> str:
    """The text of a file of some kind, or a TraceError that says why it cannot be read."""
    file, where = Path(path), str(path)
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            raise TraceError(where, "a folder", f"a {kind} file", "name a file in it")
        if not stat.S_ISREG(status.st_mode):
            raise TraceError(where, "no regular file", f"a {kind} file", "name a file")
        if status.st_size > LARGEST_FILE:
            raise TraceError(
                where,
                f"{status.st_size:,} bytes",
                f"at most {LARGEST_FILE:,}",
                f"shorten the {kind}, or record it on a smaller instance",
            )
        return file.read_bytes().decode()
    except FileNotFoundError as error:
        raise TraceError(where, "no such file", f"a {kind} file", "check the path") from error
    except UnicodeDecodeError as error:
        raise TraceError(
            where, f"byte {error.start}, which is not UTF-8", "text in UTF-8", "check the file"
        ) from error
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TraceError(where, reason, "a file that can be read", "check the path") from error


def parse_trace(text: str, where: str = "the trace", system: System | None = None) -> Trace:
    """The trace in a text, of this format or in ITF, checked against its system."""
    document = parse_json(text, where)
    if is_itf(document):
        return from_itf(document, where=where, system=system)
    trace = from_plain(document, where)
    resolve(trace, where, system)
    return trace


def dump_trace(trace: Trace) -> str:
    """The canonical text of a trace: equal traces give equal texts."""
    return to_text(plain(trace))


def write_trace(trace: Trace, path: str | os.PathLike[str], system: System | None = None) -> None:
    """Write a trace that has been checked; on any failure the file is as it was before."""
    resolve(trace, "the trace to be written", system)
    if _PATH.search(trace.provenance):
        raise TraceError(
            "the trace to be written, provenance",
            repr(trace.provenance),
            "no path of this machine",
            "name the command and the engine, with relative paths",
        )
    write_text(dump_trace(trace), path)


def write_text(text: str, path: str | os.PathLike[str]) -> None:
    """Put a text into a file in one step: readers find the old text or the new one."""
    file = Path(path)
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("w", encoding="utf-8", newline="\n") as out:
            out.write(text)
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as error:
        reason = error.strerror or type(error).__name__
        raise TraceError(
            str(path), reason, "a file that can be written", "check the folder"
        ) from error
    finally:
        part.unlink(missing_ok=True)
