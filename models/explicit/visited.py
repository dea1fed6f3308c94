"""Visited: the set of states seen, which grows by doubling in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kvspec.models.explicit import kernels

Words = npt.NDArray[np.int64]

_FULL = 0.85
_SMALLEST = 1 << 10


class OutOfRoom(Exception):  # noqa: N818
    """The visited set would outgrow the memory limit."""


class Visited:
    """A set of packed states; `insert` tells which of a batch are new."""

    def __init__(self, words: int, expected: int = 0, max_bytes: int | None = None) -> None:
        self.words = words
        self.max_bytes = max_bytes
        self.count = 0
        size = _SMALLEST
        while size * _FULL < expected:
            size *= 2
        self._smallest = size
        self._table: Words = np.zeros(size * words, np.int64)
        self._measure()

    @property
    def bytes(self) -> int:
        """Bytes of the table."""
        return self._table.nbytes

    def warm(self) -> None:
        """Compile what the set calls."""
        nothing = np.empty(0, np.int64)
        self.insert(nothing, 0, 0, nothing, 0)
        self._double()
        kernels.partition(nothing, 0, self.words, nothing, np.zeros(1, np.int64))

    @property
    def slots(self) -> int:
        """Slots of the table."""
        return int(self._table.shape[0]) // self.words

    def slice(self, low: int, high: int) -> Words:
        """Slots of the table, empty ones included."""
        return self._table[low * self.words : high * self.words]

    def release(self) -> None:
        """Give up the table."""
        self._table = np.zeros(_SMALLEST * self.words, np.int64)
        self._measure()

    def clear(self) -> None:
        """Forget all states, keeping the first size."""
        if self._table.shape[0] > self._smallest * self.words:
            self._table = np.zeros(self._smallest * self.words, np.int64)
            self._measure()
        else:
            self._table.fill(0)
        self.count = 0

    def insert(self, keys: Words, start: int, stop: int, out: Words, used: int) -> tuple[int, int]:
        """Insert keys[start:stop], writing new ones to `out` from `used` on.

        Gives the first key not looked at (`stop` unless `out` is full) and the new `used`.
        """
        room = out.shape[0] // self.words
        while True:
            limit = min(room, used + self._limit - self.count)
            if self.words == 1:
                found = kernels.insert(
                    self._table, self._shift, keys, start, stop, out, used, limit
                )
            else:
                found = kernels.insert_wide(
                    self._table, self.words, self._shift, keys, start, stop, out, used, limit
                )
            start, now = found
            self.count += now - used
            used = now
            if start >= stop or used >= room:
                return int(start), int(used)
            self._double()

    def _measure(self) -> None:
        size = self._table.shape[0] // self.words
        self._shift = 64 - (size.bit_length() - 1)
        self._limit = int(size * _FULL)

    def _double(self) -> None:
        if self.max_bytes is not None and 2 * self._table.nbytes > self.max_bytes:
            raise OutOfRoom(
                f"{self.count:,} states fill a table of {self._table.nbytes:,} bytes, and twice that "
                f"is more than max_bytes = {self.max_bytes:,}: raise it or choose a smaller instance"
            )
        table: Any = self._table
        del self._table
        table.resize(2 * table.shape[0], refcheck=False)
        self._table = table
        self._measure()
        if self.words == 1:
            kernels.grow(self._table, self._shift)
        else:
            kernels.grow_wide(self._table, self.words, self._shift)
