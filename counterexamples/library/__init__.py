"""The library: counterexample traces as JSON files, one a file, found by looking, named by their files."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from pathlib import Path

import msgspec

from kvspec.counterexamples.errors import UnknownNameError
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.format import Trace

SUFFIX = ".json"


def library(folder: Path | None = None) -> list[Path]:
    """The trace files of the library (or of another folder) and of the folders in it, by name."""
    root = Path(str(files(__name__))) if folder is None else folder
    return sorted(path for path in root.rglob(f"*{SUFFIX}") if path.is_file())


def library_path(name: str, folder: Path | None = None) -> Path:
    """The file of a trace by its name, with or without `.json`, or an error that lists the names.

    Where two systems have a trace of one name, the system's name and `/` come before it; without it the
    name is the core's, if the core has one.
    """
    wanted = name.removesuffix(SUFFIX)
    root = Path(str(files(__name__))) if folder is None else folder
    known: dict[str, list[Path]] = {}
    for path in library(folder):
        short = path.name.removesuffix(SUFFIX)
        known.setdefault(short, []).append(path)
        known.setdefault(f"{path.parent.name}/{short}", []).append(path)
    found = known.get(wanted, [])
    of_core = [path for path in found if path.parent == root]
    for chosen in (found, of_core):
        if len(chosen) == 1:
            return chosen[0]
    names = [f"{path.parent.name}/{wanted}" for path in found] or [n for n in known if "/" not in n]
    raise UnknownNameError("trace" if not found else "single trace", name, names, "the library")


@cache
def library_traces() -> dict[Path, Trace]:
    """All traces of the library by their files, as they are stored: `read_trace` checks one as well."""
    return {path: msgspec.json.decode(path.read_bytes(), type=Trace) for path in library()}


def library_trace(name: str, folder: Path | None = None) -> Trace:
    """A trace of the library by its name."""
    return read_trace(library_path(name, folder))
