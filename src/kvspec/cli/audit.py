"""`kvspec audit`: could the cache have done what a log of events tells?"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO

import attrs
from cyclopts import Parameter, validators

from kvspec.cli.errors import unknown
from kvspec.cli.output import CheckOutput, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer, Check

if TYPE_CHECKING:
    from kvspec.properties.audit.acceptor import Limits
    from kvspec.properties.audit.findings import Finding
    from kvspec.properties.audit.stream import Audited

Positive = Annotated[int, Parameter(validator=validators.Number(gte=1))]
SHOWN_CODES = 12


def audit(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    *,
    max_findings: Positive = 20,
    window: Positive = 16_384,
    reorder: Positive = 64,
    open_ended: Annotated[bool, Parameter(name="--open", negative=())] = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Replay a log of events against the specification, in the order of arrival.

    Each event must be a step that the core system takes and must tell what comes of it. Each source
    must tell its events without gap, repetition or turn back, and each observation must follow a
    cause. A handle whose event cannot be explained is followed again from its next allocation.
    Memory is bounded. An empty log, a sampled one, one of lines without a closing, and what cannot be told
    from a loss are unknown.

    Args:
        file: a log as JSON Lines or as an event-log document; `-` for standard input.
        max_findings: how many findings are told; all are counted.
        window: at least so many event ids are remembered, to find duplicates and causes.
        reorder: so many events of a source may wait for an earlier one before that is given up.
        open_ended: the log has no closing by design, or is still being written; only what is told is judged.
        output: how the answer is told.
    """
    from kvspec.properties.audit.acceptor import Limits

    if file.startswith("-") and file != "-":
        known = [
            "--max-findings",
            "--window",
            "--reorder",
            "--open",
            "--json",
            "--junit",
            "--sarif",
            "--help",
        ]
        raise unknown("option", file, known, "kvspec audit", "see kvspec audit --help")
    check_outputs(output)
    limits = Limits(window=window, reorder=reorder, findings=max_findings)
    from kvspec.properties.audit.stream import UnreadableLineError

    with _opened(file) as (stream, where, size), counting("audit") as progress:
        tick = None
        if progress is not None and size:
            tick = lambda line: progress(stream.tell(), size, f"line {line:,}")  # noqa: E731
        try:
            found = run(stream, where, limits, tick, is_open=open_ended)
        except UnreadableLineError as error:
            if error.before.total:
                before = answer(error.before, None if file == "-" else file).text
                print(
                    f"{before}\nthis is of the lines before the one that cannot be read",
                    file=sys.stderr,
                )
            raise
    told = empty(where) if found is None else answer(found, None if file == "-" else file)
    return deliver(told, output)


@contextmanager
def _opened(file: str) -> Iterator[tuple[BinaryIO, str, int]]:
    """The bytes of a log, what to call it, and its size if that is known."""
    if file == "-":
        yield sys.stdin.buffer, "standard input", 0
        return
    with Path(file).open("rb") as stream:
        yield stream, file, Path(file).stat().st_size


def run(
    stream: BinaryIO,
    where: str,
    limits: Limits,
    tick: Callable[[int], None] | None = None,
    *,
    is_open: bool = False,
) -> Audited | None:
    """Audit a log in either form; None if there is nothing at all in it.

    is_open: a log of lines may lack its closing.
    """
    from kvspec.models.documents import DocumentError
    from kvspec.models.documents.lines import read_header
    from kvspec.properties.audit.stream import audit_lines

    number, raw = _first_line(stream)
    if not raw:
        return None
    try:
        header = read_header(raw, where, number)
    except DocumentError as error:
        return _document(raw, number, stream, where, limits, error)
    lines = _lines(stream)
    return audit_lines(header, lines, where, limits, tick, number + 1, is_open=is_open)


def _first_line(stream: BinaryIO) -> tuple[int, bytes]:
    for number, raw in enumerate(stream, 1):
        if raw.strip():
            return number, raw
    return 0, b""


def _lines(stream: BinaryIO) -> Iterable[bytes]:
    """The lines that are left; `readline` keeps `tell` usable, which iteration does not."""
    return iter(stream.readline, b"")


def _document(
    raw: bytes, number: int, stream: BinaryIO, where: str, limits: Limits, error: Exception
) -> Audited:
    """Audit a log in the form of one document; `error`: why its first line is no header of lines."""
    from kvspec.models.documents import convert, decode, line_of
    from kvspec.properties.audit.acceptor import Acceptor
    from kvspec.properties.audit.stream import conclude, with_broken
    from kvspec.properties.documents.event_log import event_log

    if raw.rstrip().endswith(b"}") and b'"events"' not in raw:
        raise error
    text = "\n" * (number - 1) + (raw + stream.read()).decode(errors="replace")
    log = convert(event_log, decode(text, where), where)
    acceptor = Acceptor(log.header, limits, unit="/events/")
    for place, event in enumerate(log.events):
        acceptor.feed(place, event)
    found = conclude(acceptor, where, None, len(log.events))
    broken = event_log.first_broken(log) if found.verdict == HOLDS else None
    if broken is not None:
        found = with_broken(found, broken)
    findings = tuple(
        attrs.evolve(each, line=line_of(text, _pointer(each))) for each in found.findings
    )
    return attrs.evolve(found, findings=findings)


def _pointer(finding: Finding) -> str:
    if finding.event_type == "document":
        return finding.field
    if finding.event_type == "header" and not finding.event_id:
        return f"/header/{finding.field}"
    return f"/events/{finding.line}/{finding.field}"


def empty(where: str) -> Answer:
    """The answer for a file with nothing at all in it."""
    reason = f"{where}: the log is empty: there is neither a header nor an event"
    check = Check("audit", where, "unknown", message=reason)
    data = {"verdict": "unknown", "reason": reason, "log": where, "events": 0, "findings": []}
    return Answer("audit", "unknown", data, f"unknown: {reason}", (check,))


def answer(found: Audited, file: str | None) -> Answer:
    """What the audit found, with a check for each rule that is broken."""
    parts = [_finding_text(found.where, each) for each in found.findings]
    untold = found.total - len(found.findings)
    if untold > 0:
        parts.append(f"and {untold:,} more (--max-findings tells more of them)")
    parts.append(_summary_text(found))
    checks = tuple(_check(each, file) for each in found.findings) or (
        Check("audit", found.where, found.verdict, message=found.reason),
    )
    return Answer("audit", found.verdict, _data(found), "\n\n".join(parts), checks)


def _finding_text(where: str, finding: Finding) -> str:
    from kvspec.properties.audit.stream import rule

    broken = rule(finding.code)
    head = "" if finding.verdict == VIOLATED else f" ({finding.verdict}: {finding.note})"
    return "\n".join(
        (
            f"{where}:{finding.line}: {finding.code}{head}",
            f"  rule      {broken.meaning}",
            f"  event     {finding.subject}",
            f"  at        {finding.field}",
            f"  expected  {finding.expected}",
            f"  found     {finding.found}",
            f"  do        {broken.advice}",
        )
    )


def _summary_text(found: Audited) -> str:
    summary = found.summary
    lines = [f"events: {summary.events:,} of {summary.sources} sources"]
    notes = (
        ("byte-equal duplicates", summary.duplicates),
        ("lost", summary.lost),
        ("not judged, since their handles are no longer followed", summary.unjudged),
        ("generations taken from the log, of handles not seen before", summary.taken),
        ("handles not released at the end", summary.live),
    )
    lines.extend(f"  {what}: {count:,}" for what, count in notes if count)
    if found.codes:
        ranked = sorted(found.codes.items(), key=lambda pair: -pair[1])[:SHOWN_CODES]
        lines.append("  findings: " + ", ".join(f"{code} {count:,}" for code, count in ranked))
    many = "1 finding" if found.total == 1 else f"{found.total:,} findings"
    told = {HOLDS: "the specification takes every event", VIOLATED: many}
    reason = found.reason or told.get(found.verdict, "")
    lines.append(f"{found.verdict}: {found.where}: {reason}")
    if found.is_open:
        lines.append(
            "  the log is open: only what is told is judged, and later events may be missing"
        )
    return "\n".join(lines)


def _check(finding: Finding, file: str | None) -> Check:
    message = f"expected {finding.expected}, found {finding.found} at {finding.field}"
    place = None if file is None else (file, finding.line)
    detail = f"{finding.subject}{f': {finding.note}' if finding.note else ''}"
    return Check(
        "audit", finding.code, finding.verdict, message=message, detail=detail, place=place
    )


def _data(found: Audited) -> dict[str, Any]:
    from kvspec.properties.audit.stream import rule

    summary = found.summary
    return {
        "verdict": found.verdict,
        "reason": found.reason,
        "log": found.where,
        "completeness": found.header.completeness,
        "closed": found.closed,
        "open": found.is_open,
        "events": summary.events,
        "types": summary.types,
        "sources": summary.sources,
        "duplicates": summary.duplicates,
        "lost": summary.lost,
        "unjudged": summary.unjudged,
        "generations_taken": summary.taken,
        "live_handles": summary.live,
        "codes": found.codes,
        "findings": [
            {**attrs.asdict(each), "do": rule(each.code).advice} for each in found.findings
        ],
    }
