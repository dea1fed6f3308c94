"""Errors of the embedded language: each tells where a definition went wrong and what to do.

A definition is ordinary Python, so a mistake in it should point at the line that made it, not at
the line of this package which noticed it.
"""

from __future__ import annotations

import sys
from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def caller() -> tuple[str, int]:
    """File and line of the innermost frame outside this package (and outside attrs' generated code)."""
    frame = sys._getframe(1)  # noqa: SLF001 - the documented way to a caller's line is far slower
    while frame.f_back is not None:
        name = frame.f_code.co_filename
        if not name.startswith("<") and Path(name).resolve().parent != _PACKAGE:
            break
        frame = frame.f_back
    return frame.f_code.co_filename, frame.f_lineno


class DefinitionError(Exception):
    """A specification, property or instance is not well formed.

    The message says what was found, what was expected and what to do; `file` and `line` name the
    place in the definition.
    """

    def __init__(self, message: str, place: tuple[str, int] | None = None) -> None:
        self.file, self.line = caller() if place is None else place
        super().__init__(f"{self.file}:{self.line}: {message}")


def listing(names: object) -> str:
    """What exists, for the message of a look-up that failed."""
    return ", ".join(sorted(str(name) for name in names)) or "none"  # type: ignore[attr-defined]
