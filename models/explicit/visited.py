"""Visited: the set of states seen, which grows by doubling in place."""

from __future__ import annotations

import mmap
import os
import sys

import numpy as np
import numpy.typing as npt

from kvspec.models.explicit import kernels

Words = npt.NDArray[np.int64]

_FULL = 0.85
_SMALLEST = 1 << 10
_LARGE = 1 << 22
_NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class OutOfRoom(Exception):  # noqa: N818
    """The visited set would outgrow the memory limit."""


class Room:
    """Words that can become more without moving.

    A large room is a reservation of address space as large as the machine's memory, of which pages
    are taken as they are touched, huge ones where the system gives them: a table is read all over.
    """

    def __init__(self, words: int) -> None:
        self._reserved: Words | None = None
        self.words = self._make(words)

    def extend(self, words: int) -> None:
        """Have so many words; those there stay, the others are 0."""
        old = self.words
        if self._reserved is not None and words <= self._reserved.shape[0]:
            self.words = self._reserved[:words]
            return
        self.words = self._make(words)
        self.words[: old.shape[0]] = old

    def _make(self, words: int) -> Words:
        if 8 * words < _LARGE or sys.platform != "linux":
            return np.zeros(words, np.int64)
        whole = max(8 * words, os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NO_RESERVE
        try:
            area = mmap.mmap(-1, whole // mmap.PAGESIZE * mmap.PAGESIZE, flags=flags)
            if hasattr(mmap, "MADV_HUGEPAGE"):
                area.madvise(mmap.MADV_HUGEPAGE)
        except (OSError, ValueError):
            return np.zeros(words, np.int64)
        self._reserved = np.frombuffer(area, np.int64)
        return self._reserved[:words]


class Visited:
    """A set of packed states; `insert` tells which of a batch are new."""

    def __init__(self, words: int, expected: int = 0, max_bytes: int | None = None) -> None:
        self.words = words
        self.max_bytes = max_bytes
        self.count = 0
        self._smallest = _SMALLEST
        while self._smallest * _FULL < expected:
            self._smallest *= 2
        self._room = Room(self._smallest * words)
        self._measure()

    @property
    def bytes(self) -> int:
        """Bytes of the table."""
        return self._room.words.nbytes

    @property
    def slots(self) -> int:
        """Slots of the table."""
        return int(self._room.words.shape[0]) // self.words

    def warm(self) -> None:
        """Compile what the set calls."""
        nothing = np.empty(0, np.int64)
        self.insert(nothing, 0, 0, nothing, 0)
        self._double()
        kernels.partition(nothing, 0, self.words, nothing, np.zeros(1, np.int64))

    def slice(self, low: int, high: int) -> Words:
        """Slots of the table, empty ones included."""
        return self._room.words[low * self.words : high * self.words]

    def release(self) -> None:
        """Give up the table."""
        self._room = Room(_SMALLEST * self.words)
        self._measure()

    def insert(self, keys: Words, start: int, stop: int, out: Words, used: int) -> tuple[int, int]:
        """Insert keys[start:stop], writing new ones to `out` from `used` on.

        Gives the first key not looked at (`stop` unless `out` is full) and the new `used`.
        """
        room = out.shape[0] // self.words
        while True:
            limit = min(room, used + self._limit - self.count)
            table = self._room.words
            if self.words == 1:
                found = kernels.insert(table, self._shift, keys, start, stop, out, used, limit)
            else:
                found = kernels.insert_wide(
                    table, self.words, self._shift, keys, start, stop, out, used, limit
                )
            start, now = found
            self.count += now - used
            used = now
            if start >= stop or used >= room:
                return int(start), int(used)
            self._double()

    def _measure(self) -> None:
        self._shift = 64 - (self.slots.bit_length() - 1)
        self._limit = int(self.slots * _FULL)

    def _double(self) -> None:
        size = self.bytes
        if self.max_bytes is not None and 2 * size > self.max_bytes:
            raise OutOfRoom(
                f"{self.count:,} states fill a table of {size:,} bytes, and twice that is more than "
                f"max_bytes = {self.max_bytes:,}: raise it or choose a smaller instance"
            )
        self._room.extend(2 * self._room.words.shape[0])
        self._measure()
        if self.words == 1:
            kernels.grow(self._room.words, self._shift)
        else:
            kernels.grow_wide(self._room.words, self.words, self._shift)
