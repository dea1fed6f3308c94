"""Cache: generated source as modules on disk, named by their content, compiled once by numba.

The folder is $KVSPEC_CACHE, or kvspec in $XDG_CACHE_HOME (by default ~/.cache). A module is written
once and never changed, so that numba's own cache beside it stays valid from run to run.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba

_PROLOGUE = '''"""Generated from a specification; named by its content."""

import numba


@numba.njit(cache=True, nogil=True, error_model="numpy")
'''


def folder() -> Path:
    """Where generated modules are kept; a temporary folder if the cache cannot be written."""
    given = os.environ.get("KVSPEC_CACHE")
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    place = Path(given) if given else base / "kvspec"
    try:
        place.mkdir(parents=True, exist_ok=True)
    except OSError:
        place = Path(tempfile.mkdtemp(prefix="kvspec-"))
    return place


def load(source: str) -> Callable[..., Any]:
    """The compiled function of a source text that defines one function."""
    text = _PROLOGUE + source
    digest = hashlib.sha256(f"{numba.__version__}\n{text}".encode()).hexdigest()[:20]
    name = f"kvspec_generated_{digest}"
    function = source.split("(", 1)[0].removeprefix("def ").strip()
    module = sys.modules.get(name)
    if module is None:
        path = folder() / f"{name}.py"
        if not path.exists():
            _write(path, text)
        spec = importlib.util.spec_from_file_location(name, path)
        if spec is None or spec.loader is None:
            raise ImportError(f"{path} cannot be loaded as a module: remove it and run again")
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
    found: Callable[..., Any] = getattr(module, function)
    return found


def _write(path: Path, text: str) -> None:
    """Write in one step, so that another process never reads half a module."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
    with os.fdopen(handle, "w", encoding="utf-8") as file:
        file.write(text)
    Path(temporary).replace(path)
