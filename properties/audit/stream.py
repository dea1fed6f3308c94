"""A whole log: header, events, closing, each finding with its line, and one verdict of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

import attrs

from kvspec.models.documents import DocumentError
from kvspec.models.documents.lines import read_events
from kvspec.properties.audit.acceptor import Acceptor, Limits, Summary
from kvspec.properties.audit.findings import Finding, order
from kvspec.properties.audit.reconcile import (
    CLOSING_FIELD,
    RECONCILED,
    UNPROVEN,
    Difference,
    reconcile,
)
from kvspec.properties.audit.rules import RULES, Rule
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.contracts import Broken
from kvspec.spec.documents.log import LogHeader
from kvspec.spec.documents.log_header import HEADER_RULES

Tick = Callable[[int], None]
HOLDS: Final = "holds"
NO_CLOSING: Final = (
    "the log has no closing, so that events at its end may be missing (--open judges what is told)"
)
TICKS = 4096
"""How many events pass between two calls of a tick."""


@attrs.frozen
class Audited:
    """What an audit found. findings: of the header, the events and the closing, in order of lines.

    total: all findings, of which no more than the limit are told. closed: the log has a closing.
    is_open: it has none, and need not have one: of what comes after it nothing is said.
    """

    where: str
    verdict: str
    reason: str
    header: LogHeader
    summary: Summary
    findings: tuple[Finding, ...]
    codes: dict[str, int]
    closed: bool
    is_open: bool = False

    @property
    def total(self) -> int:
        """How many findings there are, told or not."""
        return sum(self.codes.values())


class UnreadableLineError(DocumentError):
    """A line of a log cannot be read. before: what the audit found in the lines before it."""

    def __init__(self, error: DocumentError, before: Audited) -> None:
        super().__init__(error.code, error.where, error.found, error.expected, error.advice)
        self.before = before


def rule(code: str) -> Rule:
    """What a rule asks, and what to do where it is broken."""
    from kvspec.properties.documents.event_log import event_log  # it needs the acceptor, as we do

    found = RULES.get(code) or RECONCILED.get(code)
    if found is not None:
        return found
    if code in HEADER_RULES:
        return Rule(code, HEADER_RULES[code][0], "correct the header: the rest is read by it")
    told = event_log.contracts[code].meaning
    return Rule(code, told, "compare the log with what was expected of it: one of them has changed")


def audit_lines(
    header: LogHeader,
    lines: Iterable[bytes],
    where: str,
    limits: Limits | None = None,
    tick: Tick | None = None,
    first: int = 2,
    *,
    is_open: bool = False,
) -> Audited:
    """Audit a log of lines after its header; tick: called now and then with the number of a line.

    is_open: the log may lack its closing, as one that is still being written; only what it tells is judged,
    and a last line that is not written to its end is none yet.
    """
    acceptor = Acceptor(header, limits or Limits())
    closing: list[Closing] = []
    number = first - 1
    try:
        for number, event in read_events(lines, where, first, closing, is_open=is_open):
            acceptor.feed(number, event)
            if tick is not None and number % TICKS == 0:
                tick(number)
    except DocumentError as error:
        raise UnreadableLineError(error, conclude(acceptor, where, None, number + 1)) from error
    found = conclude(acceptor, where, closing[0] if closing else None, number + 1)
    if found.closed:
        return found
    if is_open:
        return attrs.evolve(found, is_open=True)
    if found.verdict == HOLDS:
        return attrs.evolve(found, verdict="unknown", reason=NO_CLOSING)
    return found


def conclude(acceptor: Acceptor, where: str, closing: Closing | None, line: int) -> Audited:
    """Sum up; line: where the closing stands. A document has its expected result in place of a closing."""
    summary = acceptor.close()
    found = [*_header(acceptor.header), *summary.findings]
    if closing is not None:
        differences = reconcile(acceptor, closing)
        found.extend(_difference(acceptor, each, line) for each in differences)
        missed = sum(each.lost for each in differences)
        summary = attrs.evolve(summary, lost=summary.lost + missed)
    codes = dict(summary.codes)
    for each in found:
        if each.event_type in ("header", "closing"):
            codes[each.code] = codes.get(each.code, 0) + 1
    verdict, reason = summary.verdict, summary.reason
    if any(each.verdict == "violated" for each in found):
        verdict, reason = "violated", ""
    elif verdict == HOLDS and found:
        verdict, reason = "unknown", "what was found is no proof"
    found.sort(key=order)
    most = acceptor.limits.findings
    return Audited(
        where,
        verdict,
        reason,
        acceptor.header,
        summary,
        tuple(found[:most]),
        codes,
        closing is not None,
    )


def with_broken(found: Audited, broken: Broken) -> Audited:
    """The same of a document that holds as a history and breaks a contract, as of its expected result."""
    more = tuple(
        Finding(
            line=1,
            code=broken.code,
            field=each.path,
            expected=str(each.expected),
            found=str(each.found),
            event_id="",
            event_type="document",
            target="the log",
            verdict="violated",
        )
        for each in broken.findings
    )
    codes = {**found.codes, broken.code: len(more)}
    return attrs.evolve(
        found, verdict="violated", reason="", findings=(*found.findings, *more), codes=codes
    )


def _header(header: LogHeader) -> list[Finding]:
    return [
        Finding(
            line=1,
            code=code,
            field=told.path.removeprefix("/header/"),
            expected=str(told.expected),
            found=str(told.found),
            event_id="",
            event_type="header",
            target="the log",
            verdict="violated",
        )
        for code, (_, check) in HEADER_RULES.items()
        for told in check(header)
    ]


def _difference(acceptor: Acceptor, found: Difference, line: int) -> Finding:
    """Where log and cache end differently; of a sampled log this proves nothing."""
    note = UNPROVEN.get(found.code, "the log is sampled" if acceptor.is_sampled else "")
    if found.code == CLOSING_FIELD:
        note = ""
    return Finding(
        line=line,
        code=found.code,
        field=found.field,
        expected=found.cache,
        found=found.log,
        event_id="",
        event_type="closing",
        target=found.target,
        verdict="unknown" if note else "violated",
        note=note,
    )
