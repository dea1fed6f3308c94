"""Memory that is bounded: the last entries of a table, and the count of outputs of one request.

A `Recent` of size N remembers at least the last N entries that were put and at most 2 N. What it no longer
knows is told apart from what never was by `forgot`: whether anything was dropped so far.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Generic, TypeVar

Key = TypeVar("Key")
Entry = TypeVar("Entry")


class Recent(Generic[Key, Entry]):
    """The last entries of a table: two dictionaries, of which the older one is dropped as a whole."""

    __slots__ = ("forgot", "new", "old", "size")

    def __init__(self, size: int) -> None:
        if size < 1:
            raise ValueError(f"the size is {size}: at least one entry must be remembered")
        self.size = size
        self.new: dict[Key, Entry] = {}
        self.old: dict[Key, Entry] = {}
        self.forgot = False

    def get(self, key: Key) -> Entry | None:
        """The entry, or None where it is not known (any more)."""
        found = self.new.get(key)
        return found if found is not None else self.old.get(key)

    def put(self, key: Key, entry: Entry) -> bool:
        """Remember an entry; true if older ones were dropped for it."""
        self.new[key] = entry
        if len(self.new) < self.size:
            return False
        dropped = bool(self.old)
        self.forgot = self.forgot or dropped
        self.old, self.new = self.new, {}
        return dropped

    def pop(self, key: Key) -> Entry | None:
        """Take an entry out."""
        found = self.new.pop(key, None)
        other = self.old.pop(key, None)
        return found if found is not None else other

    def items(self) -> Iterator[tuple[Key, Entry]]:
        """All entries that are known."""
        yield from {**self.old, **self.new}.items()

    def __len__(self) -> int:
        return len(self.new) + len(self.old)


class Outputs:
    """How many tokens a request has put out: between `least` and `most`, which a first output settles.

    The events of a log do not tell how long a prompt is, so that after a fork or a truncate it is known
    only that no output was added. Where the length of the prompt is known, `spec/frontier.py` tells the
    number exactly, and this class can give way to it.
    """

    __slots__ = ("least", "most")

    def __init__(self, least: int = 0, most: int = 0) -> None:
        self.least = least
        self.most = most

    def emit(self, index: int) -> str | None:
        """Put out a token of that index; the text of what was expected, where it is another."""
        if not self.least <= index <= self.most:
            return f"{self.least}" if self.least == self.most else f"{self.least} to {self.most}"
        self.least = self.most = index + 1
        return None

    def cut(self) -> Outputs:
        """The outputs of a prefix."""
        return Outputs(0, self.most)
