"""Interleavings that violate the specification: one file for each planted fault, found by looking.

Reading order: `format` (the document), `resolve` (held against the core system), `files`.
"""

from __future__ import annotations

import importlib.resources
from pathlib import Path

from kvspec.counterexamples.errors import UnknownNameError

SUFFIX = ".json"


def interleavings() -> list[Path]:
    """The files, by name."""
    root = Path(str(importlib.resources.files(__name__)))
    return sorted(path for path in root.glob(f"*{SUFFIX}") if path.is_file())


def interleaving_path(name: str) -> Path:
    """The file of an interleaving by its name, with or without `.json`, or an error that lists them."""
    wanted = name.removesuffix(SUFFIX)
    known = {path.name.removesuffix(SUFFIX): path for path in interleavings()}
    if wanted not in known:
        raise UnknownNameError("interleaving", name, known, "the library")
    return known[wanted]
