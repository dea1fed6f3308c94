"""Report: what became of each rule, and the whole as text and as data."""

from __future__ import annotations

from collections import Counter
from typing import Any

import attrs

from kvspec.properties.conformance.confirm import Trace
from kvspec.properties.conformance.judge import SILENT
from kvspec.properties.conformance.rules import CLAIM, UNDAMAGED, Rule

KEPT, BREAKS, NOT_ENFORCED, NOT_OFFERED, UNKNOWN, OUT_OF_REACH = (
    "kept",
    "breaks",
    "not enforced",
    "not offered",
    "unknown",
    "out of reach",
)
BROKEN = (BREAKS, NOT_ENFORCED)
VERDICTS = {
    BREAKS: "its own normal path does what it must not do",
    NOT_ENFORCED: "a wrong call is accepted in silence",
    UNKNOWN: "could not be judged; this is no pass",
    NOT_OFFERED: "the cache has not what the rule speaks of",
    OUT_OF_REACH: "the case does not arise in what was tried, whatever the cache",
    KEPT: "tried and never broken",
}


@attrs.frozen(eq=False)
class RuleResult:
    """What became of one rule.

    verdict: kept, breaks, not enforced, not offered, unknown or out of reach. reason: why it was not
    judged. tried, broken: how often. manners: how it was broken, with counts. untold: refusals that came
    without a code. alone: tries of a guard where no other one fails. known: the reason for which a list
    of known failures excuses it, or None. is_cut: it is unknown since the time was up, which nothing excuses.
    hidden: cases of a kept rule that were not tried. behind: the broken rule that most of them lie behind.
    """

    rule: Rule
    verdict: str
    reason: str = ""
    tried: int = 0
    broken: int = 0
    manners: dict[str, int] = attrs.field(factory=dict)
    untold: int = 0
    alone: int = 0
    trace: Trace | None = None
    known: str | None = None
    is_cut: bool = False
    hidden: int = 0
    behind: str = ""

    @property
    def is_broken(self) -> bool:
        """The cache breaks the rule, or does not enforce it."""
        return self.verdict in BROKEN

    @property
    def is_failure(self) -> bool:
        """Broken or unknown, and not excused."""
        return self.known is None and (self.is_broken or self.verdict == UNKNOWN)

    @property
    def note(self) -> str:
        """A remark for the table."""
        if self.is_broken and self.trace is not None:
            if self.rule.kind == CLAIM:
                return f"by {self.cause}"
            how = ", ".join(f"{manner} ({n})" for manner, n in self.manners.items())
            return f"{how}; {len(self.trace.calls)} calls on {self.trace.instance}"
        if self.verdict == KEPT and self.untold:
            told = f"the code was not told ({self.untold:,} of {self.tried:,})"
            told = told if self.alone else f"{told}, and some other guard failed each time"
            return "; ".join(part for part in (told, self._out_of_sight) if part)
        return self._out_of_sight or self.reason

    @property
    def _out_of_sight(self) -> str:
        cases = "1 case lies" if self.hidden == 1 else f"{self.hidden:,} cases lie"
        return f"{cases} behind {self.behind}, which is broken" if self.hidden else ""

    @property
    def cause(self) -> str:
        """The rule of an action that the last call of the trace breaks: of it a broken claim comes."""
        broken = self.trace.calls[-1].broken if self.trace is not None and self.trace.calls else ()
        return next((name for name in broken if not name.startswith("claim/")), "")

    def data(self) -> dict[str, Any]:
        """For a program."""
        found: dict[str, Any] = {
            "rule": self.rule.id,
            "sentence": self.rule.sentence,
            "verdict": self.verdict,
            "reason": self.reason,
            "tried": self.tried,
            "broken": self.broken,
            "manners": self.manners,
            "code_not_told": self.untold,
            "alone": self.alone,
            "known": self.known,
            "hidden": self.hidden,
            "behind": self.behind,
            "trace": None,
        }
        if self.trace is not None:
            found["trace"] = {
                "instance": self.trace.instance,
                "calls": [
                    {"call": call.text, "answer": str(call.answer)} for call in self.trace.calls
                ],
                "found": self.trace.finding.found,
                "expected": self.trace.finding.expected,
                "manner": self.trace.finding.manner,
                "repeats": self.trace.repeats,
                "past": list(self.trace.past),
                "damage": self.trace.damage,
            }
        return found


@attrs.frozen(eq=False)
class PartResult:
    """What was tried on one instance."""

    name: str
    doc: str
    told: str
    states: int
    transitions: int
    calls: int
    runs: int


@attrs.frozen(eq=False)
class Report:
    """What a run of the suite found.

    stale: entries of the list of known failures that excuse nothing, with the reason. declined: calls
    that the adapter said it cannot try, by action. filled: variables that it does not show.
    """

    name: str
    target: str
    results: dict[str, RuleResult]
    parts: tuple[PartResult, ...]
    declined: dict[str, int]
    not_offered: dict[str, str]
    filled: tuple[str, ...]
    seconds: float
    pages: dict[str, str]
    stale: dict[str, str] = attrs.field(factory=dict)
    hidden: dict[str, int] = attrs.field(factory=dict)

    @property
    def verdict(self) -> str:
        """`violated` where a rule is broken or an excuse is stale, `unknown` where one is unknown."""
        found = list(self.results.values())
        if self.stale or any(r.is_broken and r.is_failure for r in found):
            return "violated"
        is_open = any(r.is_failure for r in found)
        judged = any(r.verdict == KEPT or (r.is_broken and r.known is not None) for r in found)
        return "unknown" if is_open or not judged else "holds"

    def of(self, *verdicts: str) -> list[RuleResult]:
        """The results with these verdicts."""
        return [found for found in self.results.values() if found.verdict in verdicts]

    @property
    def broken(self) -> list[RuleResult]:
        """The rules that are broken, excused or not."""
        return self.of(*BROKEN)

    @property
    def summary(self) -> str:
        """One line."""
        parts = [f"{len(self.of(v))} {v}" for v in VERDICTS if self.of(v)]
        known = sum(found.known is not None for found in self.results.values())
        parts += [f"{known} known"] if known else []
        parts += [f"{len(self.stale)} stale excuses"] if self.stale else []
        partly = sum(found.hidden > 0 for found in self.results.values())
        more = f"; for {partly} of those kept cases lie behind broken rules" if partly else ""
        return f"{self.name}: {self.verdict}: {', '.join(parts)} of {len(self.results)} rules{more}"

    def data(self) -> dict[str, Any]:
        """For a program."""
        return {
            "cache": self.name,
            "target": self.target,
            "verdict": self.verdict,
            "counts": {v: len(self.of(v)) for v in VERDICTS},
            "instances": [attrs.asdict(part) for part in self.parts],
            "not_offered": self.not_offered,
            "declined": self.declined,
            "not_observed": list(self.filled),
            "stale": self.stale,
            "hidden": self.hidden,
            "seconds": self.seconds,
            "rules": [found.data() for found in self.results.values()],
        }

    def text(self, *, every: bool = False, pages: bool = True) -> str:
        """The report for a reader: a page for each break, then the table; every: kept rules, too.

        A claim has no page here: it is broken by a call that breaks a rule of an action as well.
        """
        told = [r for r in self.broken if r.known is None and r.rule.kind != CLAIM]
        parts = [self.pages[r.rule.id] for r in told] if pages else []
        return "\n\n\n".join([*parts, self.table(every=every)])

    def table(self, *, every: bool = False) -> str:
        """A line for each action, and for each rule in it that is not simply kept."""
        lines = [f"{self.name} ({self.target}) against the core system"]
        lines += [
            f"  {p.name}: {p.doc}; {p.told}: {p.calls:,} calls in {p.runs:,} runs "
            f"({p.states:,} states, {p.transitions:,} transitions)"
            for p in self.parts
        ]  # fmt: skip
        groups: dict[str, list[RuleResult]] = {}
        for found in self.results.values():
            groups.setdefault(found.rule.group, []).append(found)
        for name, results in groups.items():
            lines.append("")
            lines += _group(name, results, self.not_offered.get(name), every=every)
        lines += ["", *self._remarks(), self.summary]
        return "\n".join(lines)

    def _remarks(self) -> list[str]:
        lines = []
        for action, count in sorted(self.declined.items()):
            lines.append(
                f"{action}: {count:,} calls were not made, since can_try() says they cannot be"
            )
        if self.filled:
            listed = ", ".join(self.filled)
            lines.append(f"not observed, and taken from the specification for claims: {listed}")
        for rule, count in self.hidden.items():
            lines.append(f"behind {rule}, which is broken: {count:,} cases that were not tried")
        measured = self.results.get(UNDAMAGED)
        if measured is not None and measured.verdict == NOT_OFFERED:
            lines.append(
                "contents of rows were not compared: write damage() to find rows that are not those that "
                "were appended"
            )
        lines += [f"STALE: {told}" for told in self.stale.values()]
        return lines


def _group(name: str, results: list[RuleResult], why: str | None, *, every: bool) -> list[str]:
    counts = {v: sum(found.verdict == v for found in results) for v in VERDICTS}
    told = ", ".join(f"{n} {v}" for v, n in counts.items() if n)
    if why is not None:
        return [f"{name}: not offered: {why} ({len(results)} rules)"]
    lines = [f"{name}: {told}"]
    alike: dict[str, list[RuleResult]] = {}
    partly: Counter[str] = Counter()
    for found in results:
        is_plain = found.verdict == KEPT and not found.untold and found.known is None
        is_plain = is_plain and not found.hidden
        if every or not is_plain:
            is_alike = not every and found.verdict in (NOT_OFFERED, OUT_OF_REACH)
            if found.hidden and not found.untold and found.known is None and not every:
                partly[found.behind] += 1
                continue
            alike.setdefault(_reason(found) if is_alike else found.rule.id, []).append(found)
    lines += [_line(same[0]) if len(same) == 1 else _lines(same) for same in alike.values()]
    lines += [
        f"  {f'{n} rules':<44} kept in the cases that were tried; others lie behind {rule}, which is broken"
        for rule, n in partly.items()
    ]
    return lines


def _reason(found: RuleResult) -> str:
    """Why the rule was not judged, without the names of what is not observed."""
    reason = found.reason
    is_hidden = reason.endswith("is not observed") or reason.startswith("nothing of it is observed")
    return "what they speak of is not observed" if is_hidden else reason


def _lines(same: list[RuleResult]) -> str:
    """Rules of one group that were not judged for one reason, in one line."""
    return f"  {f'{len(same)} rules':<44} {same[0].verdict}: {_reason(same[0])}"


def _line(found: RuleResult) -> str:
    verdict = found.verdict.upper() if found.is_broken else found.verdict
    known = f" [known: {found.known}]" if found.known is not None else ""
    tried = f" in {found.tried:,} tries" if found.verdict == KEPT else ""
    note = f": {found.note}" if found.note else ""
    return f"  {found.rule.id:<44} {verdict}{tried}{note}{known}"


def verdict_of(rule: Rule, trace: Trace) -> str:
    """Whether a break is on the cache's own path, or of a wrong call that it accepts in silence."""
    last = trace.calls[-1] if trace.calls else None
    if rule.kind == CLAIM and last is not None and last.is_silent:
        return NOT_ENFORCED
    return NOT_ENFORCED if trace.finding.manner == SILENT else BREAKS
