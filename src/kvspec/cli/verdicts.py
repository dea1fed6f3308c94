"""What a command found: a verdict, single checks for CI, data for machines, text for people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import attrs

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "unknown"
SKIPPED = "skipped"
"""Of a single check that was not made, for a reason that its message gives; no verdict of a command."""
EXIT_CODES = {HOLDS: 0, VIOLATED: 1, UNKNOWN: 3}
USAGE = 2
INTERNAL = 3
INTERRUPTED = 130
BROKEN_PIPE = 141


@attrs.frozen
class Check:
    """One claim that was checked.

    group: what it belongs to (`explore core/TINY`). place: file and line of the claim. message: why
    it does not hold, in a line or a few. detail: the trace or counterexample as text. rule: what CI
    groups findings by, where that is not the name.
    """

    group: str
    name: str
    verdict: str
    seconds: float = 0.0
    message: str = ""
    detail: str = ""
    place: tuple[str, int] | None = None
    rule: str = ""


@attrs.frozen
class Answer:
    """What a command answers.

    data: the JSON object. text: the same for a reader. checks: its parts, for JUnit and SARIF.
    """

    command: str
    verdict: str
    data: dict[str, Any]
    text: str
    checks: tuple[Check, ...] = ()


def worst(verdicts: Iterable[str]) -> str:
    """`violated` before `unknown` before `holds`; nothing at all is unknown."""
    found = set(verdicts)
    if VIOLATED in found:
        return VIOLATED
    return HOLDS if found == {HOLDS} else UNKNOWN
