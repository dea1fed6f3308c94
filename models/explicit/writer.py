"""Writer: Python source line by line, with names for terms that occur more than once.

A term is named where it is first needed and known from there to the end of its block, so that the
generated source stays small, which is what compiling it costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Writer:
    """Lines of generated source at a current depth, and the terms that have names there."""

    def __init__(self, depth: int = 0) -> None:
        self.lines: list[str] = []
        self.depth = depth
        self._names: list[dict[str, str]] = [{}]
        self._aside: dict[str, str] = {}
        self._count = 0

    def put(self, text: str) -> None:
        """Write a line at the current depth."""
        self.lines.append("    " * self.depth + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """Write a line that opens a block and what is written inside, deeper."""
        self.put(head)
        self.depth += 1
        self._names.append({})
        start = len(self.lines)
        yield
        if len(self.lines) == start:
            self.put("pass")
        self._names.pop()
        self.depth -= 1

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Names given inside are forgotten after, where their terms may have changed."""
        self._names.append({})
        yield
        self._names.pop()

    def fresh(self, stem: str = "x") -> str:
        """A name not used before."""
        self._count += 1
        return f"{stem}{self._count}"

    def named(self, text: str) -> str:
        """A name for the term, given now unless it has one here."""
        for names in self._names:
            if text in names:
                return names[text]
        name = self.fresh()
        self.put(f"{name} = {text}")
        self._names[-1][text] = name
        return name

    @contextmanager
    def aside(self) -> Iterator[list[str]]:
        """Collect what is written into a list of its own, to be kept (`keep`, `adopt`) or dropped."""
        lines, self.lines = self.lines, []
        self._names.append({})
        yield self.lines
        self._aside = self._names.pop()
        self.lines = lines

    def adopt(self, lines: list[str]) -> None:
        """Write the lines collected last, here, with the names they give."""
        self.lines.extend(lines)
        self._names[-1].update(self._aside)

    def keep(self, lines: list[str], deeper: int = 0) -> None:
        """Write lines collected aside."""
        self.lines.extend("    " * deeper + line for line in lines)

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines) + "\n"
