"""Errors of histories: what was found, what was expected, where, and what to do."""

from __future__ import annotations


class HistoryError(ValueError):
    """A history cannot be read, or says what no history can."""

    def __init__(self, where: str, found: str, expected: str, advice: str) -> None:
        self.where = where
        self.found = found
        self.expected = expected
        self.advice = advice
        super().__init__(f"{where}: found {found}, expected {expected}: {advice}")
