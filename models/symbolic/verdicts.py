"""What a proof says: one verdict for each obligation, and the sum of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase

import attrs

from kvspec.models.symbolic.counterexample import Counterexample

PROVED, FAILED, UNKNOWN = "proved", "failed", "unknown"
SYNTACTIC = ("frame", "syntax", "extension")

Progress = Callable[[int, int, str], None]
"""Called with how many obligations are done, of how many, and the name of the last."""


@attrs.frozen
class Item:
    """The verdict on one obligation.

    verdict: "proved", "failed" or "unknown" (never a pass; `reason` tells why). how: "solver";
    "model" (a small model shows that something is possible); "frame" (the transition writes
    nothing that the property reads); "syntax" (a sum of naturals is one).
    """

    name: str
    kind: str
    verdict: str
    how: str
    seconds: float
    reason: str = ""
    counterexample: Counterexample | None = None


@attrs.frozen
class ProofReport:
    """The verdicts on all obligations of a system, in order."""

    system: str
    solver: str
    seconds: float
    items: tuple[Item, ...]

    @property
    def obligations(self) -> int:
        """How many obligations there are, those that need no solver included."""
        return len(self.items)

    @property
    def proved(self) -> int:
        """How many a solver proved, or a small model witnessed."""
        return sum(i.verdict == PROVED and i.how not in SYNTACTIC for i in self.items)

    @property
    def trivial(self) -> int:
        """How many hold by their form alone; they are not in `proved`."""
        return sum(i.verdict == PROVED and i.how in SYNTACTIC for i in self.items)

    @property
    def failed(self) -> int:
        """How many are refuted."""
        return sum(i.verdict == FAILED for i in self.items)

    @property
    def unknown(self) -> int:
        """How many are undecided."""
        return sum(i.verdict == UNKNOWN for i in self.items)

    @property
    def verdict(self) -> str:
        """`holds`, `violated` or `unknown`; nothing to prove is unknown."""
        if self.failed:
            return "violated"
        return "unknown" if self.unknown or not self.items else "holds"

    def __getitem__(self, name: str) -> Item:
        for item in self.items:
            if item.name == name:
                return item
        raise KeyError(f"no obligation {name!r}; there are {', '.join(i.name for i in self.items)}")

    def show(self) -> str:
        """One line for each kind, then each obligation that did not pass."""
        counts = (
            f"{self.proved} proved, {self.trivial} by form, {self.failed} failed, "
            f"{self.unknown} unknown"
        )
        lines = [f"{self.system}: {self.verdict} ({counts}; {self.solver}, {self.seconds:.1f} s)"]
        for kind in dict.fromkeys(i.kind for i in self.items):
            of_kind = [i for i in self.items if i.kind == kind]
            passed = sum(i.verdict == PROVED for i in of_kind)
            lines.append(f"  {kind:<12} {passed} of {len(of_kind)}")
        for item in self.items:
            if item.verdict != PROVED:
                why = f": {item.reason}" if item.reason else ""
                lines.append(f"{item.verdict} {item.name}{why}")
                if item.counterexample is not None:
                    lines.extend(f"  {line}" for line in item.counterexample.show().splitlines())
        return "\n".join(lines)


def matches(name: str, only: Sequence[str] | None) -> bool:
    """Whether a name is chosen: none chosen is all; `*` in a pattern stands for anything."""
    return only is None or any(fnmatchcase(name, pattern) for pattern in only)
