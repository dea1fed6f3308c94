"""Errors of this package: each says what was found, what was expected, where, and what to do."""

from __future__ import annotations

from collections.abc import Iterable


class TraceError(ValueError):
    """A trace cannot be read, or does not fit the system it speaks of: an error of input."""

    def __init__(self, where: str, found: str, expected: str, advice: str) -> None:
        self.where = where
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__(f"{where}: found {found}, expected {expected}: {advice}")


class UnknownNameError(LookupError):
    """A name that nothing has; the message lists the names that exist."""

    def __init__(self, kind: str, name: str, known: Iterable[str], of: str = "") -> None:
        self.kind = kind
        self.name = name
        self.known = tuple(known)
        listed = ", ".join(self.known) or "none"
        super().__init__(
            f"found no {kind} {name!r}{f' of {of}' if of else ''}; there are: {listed}"
        )


class ReplayError(RuntimeError):
    """An engine's result is not what the plain-Python machine finds: a fault of this project."""
