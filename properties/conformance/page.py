"""The page on a broken rule, for a reader who does not know the suite."""

from __future__ import annotations

from kvspec.properties.conformance.report import VERDICTS, RuleResult


def page(result: RuleResult) -> str:
    """What was done, what the cache answered and showed, what it should have, and how to repeat it."""
    trace = result.trace
    if trace is None:
        return ""
    lines = [f"{result.rule.id}: {result.verdict}: {VERDICTS[result.verdict]}", ""]
    lines += [f"  {n}. {call.text}: {call.answer}" for n, call in enumerate(trace.calls, 1)]
    lines += [f"found: {trace.finding.found}", f"expected: {trace.finding.expected}"]
    return "\n".join(lines)
