"""Errors of an adapter that is not as the contract asks: found, expected, where, what to do."""

from __future__ import annotations


class AdapterError(Exception):
    """The adapter, or a file beside it, cannot be used; no verdict about the cache was reached.

    found, expected, where, do: as every error of this project tells them.
    """

    def __init__(self, message: str, *, found: str, expected: str, where: str, do: str) -> None:
        self.message = message
        self.found = found
        self.expected = expected
        self.where = where
        self.do = do
        super().__init__(
            f"{message}\n  found: {found}\n  expected: {expected}\n  where: {where}\n  do: {do}"
        )
