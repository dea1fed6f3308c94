"""The library: counterexample traces as JSON files, one a file, found by looking, named by their files."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path

from kvspec.counterexamples.errors import UnknownNameError
from kvspec.counterexamples.files import read_trace
from kvspec.counterexamples.format import Trace

SUFFIX = ".json"


def library(folder: Path | None = None) -> list[Path]:
    """The trace files of the library (or of another folder) and of the folders in it, by name."""
    root = Path(str(files(__name__))) if folder is None else folder
    return sorted(path for path in root.rglob(f"*{SUFFIX}") if path.is_file())


def library_path(name: str, folder: Path | None = None) -> Path:
    """The file of a trace by its name, with or without `.json`, or an error that lists the names."""
    wanted = name.removesuffix(SUFFIX)
    known = {path.name.removesuffix(SUFFIX): path for path in library(folder)}
    if wanted not in known:
        raise UnknownNameError("trace", name, known, "the library")
    return known[wanted]


def library_trace(name: str, folder: Path | None = None) -> Trace:
    """A trace of the library by its name."""
    return read_trace(library_path(name, folder))
