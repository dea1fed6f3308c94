"""A whole log: header, events, closing, each finding with its line, and one verdict of all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import attrs

from kvspec.models.documents.lines import read_events
from kvspec.properties.audit.acceptor import Acceptor, Limits, Summary
from kvspec.properties.audit.findings import Finding
from kvspec.properties.audit.reconcile import RECONCILED, reconcile
from kvspec.properties.audit.rules import RULES, Rule
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.contracts import Broken
from kvspec.spec.documents.log import LogHeader
from kvspec.spec.documents.log_header import HEADER_RULES

Tick = Callable[[int], None]
TICKS = 4096
"""How many events pass between two calls of a tick."""


@attrs.frozen
class Audited:
    """What an audit found. findings: of the header, the events and the closing, in order of lines.

    total: all findings, of which no more than the limit are told. closed: the log has a closing.
    """

    where: str
    verdict: str
    reason: str
    header: LogHeader
    summary: Summary
    findings: tuple[Finding, ...]
    codes: dict[str, int]
    closed: bool

    @property
    def total(self) -> int:
        """How many findings there are, told or not."""
        return sum(self.codes.values())


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
) -> Audited:
    """Audit a log of lines after its header; tick: called now and then with the number of a line."""
    acceptor = Acceptor(header, limits or Limits())
    closing: list[Closing] = []
    number = first - 1
    for number, event in read_events(lines, where, first, closing):
        acceptor.feed(number, event)
        if tick is not None and number % TICKS == 0:
            tick(number)
    return conclude(acceptor, where, closing[0] if closing else None, number + 1)


def conclude(acceptor: Acceptor, where: str, closing: Closing | None, line: int) -> Audited:
    """Sum up; line: where the closing stands."""
    summary = acceptor.close()
    found = [*_header(acceptor.header), *summary.findings]
    if closing is not None:
        found.extend(_differences(acceptor, closing, line))
    codes = dict(summary.codes)
    for each in found:
        if each.event_type in ("header", "closing"):
            codes[each.code] = codes.get(each.code, 0) + 1
    verdict, reason = summary.verdict, summary.reason
    if any(each.verdict == "violated" for each in found):
        verdict, reason = "violated", ""
    elif verdict == "holds" and found:
        verdict, reason = "unknown", "what was found is no proof"
    found.sort(key=lambda each: each.line)
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


def _differences(acceptor: Acceptor, closing: Closing, line: int) -> list[Finding]:
    """Where log and cache end differently; of a sampled log this proves nothing."""
    sampled = acceptor.is_sampled
    return [
        Finding(
            line=line,
            code=each.code,
            field="handles",
            expected=each.cache,
            found=each.log,
            event_id="",
            event_type="closing",
            target=f"{each.request_id}, generation {each.handle_generation}",
            verdict="unknown" if sampled else "violated",
            note="the log is sampled" if sampled else "",
        )
        for each in reconcile(acceptor, closing)
    ]
