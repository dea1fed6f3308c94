"""`kvspec bench audit`: how fast a log is audited, beside how fast its lines can be read at all."""

from __future__ import annotations

import tracemalloc
from itertools import islice
from time import perf_counter
from typing import Any

from kvspec.cli.verdicts import UNKNOWN, Answer
from kvspec.models.documents.lines import read_events, write_event
from kvspec.properties.audit.acceptor import Acceptor, Limits
from kvspec.properties.audit.stream import Audited, audit_lines
from kvspec.properties.audit.synthetic import HEADER, long_log

ROUNDS = 3
"""Both are measured so many times in turn, and the best time of each is told."""

SPARSE = Limits(window=512, tombstones=512)
"""Little to remember, so that what grows with the log would be seen beside it."""


def bench_audit(events: int) -> Answer:
    """Audit a long lawful log; memory is measured apart, at two lengths of the same log."""
    lines = [write_event(event).encode() for event in islice(long_log(), events)]
    seconds = [(_reading(lines), *_auditing(lines)) for _ in range(ROUNDS)]
    reading, auditing = min(each[0] for each in seconds), min(each[1] for each in seconds)
    found = seconds[-1][2]
    size = sum(map(len, lines))
    part = max(events // 20, 1_000)
    peaks = {many: peak(many) for many in (part, 4 * part)}
    return _answer(found, size, (reading, auditing), peaks)


def _reading(lines: list[bytes]) -> float:
    start = perf_counter()
    for _ in read_events(lines, "the log"):
        pass
    return perf_counter() - start


def _auditing(lines: list[bytes]) -> tuple[float, Audited]:
    start = perf_counter()
    found = audit_lines(HEADER, lines, "the log", is_open=True)
    return perf_counter() - start, found


def peak(events: int) -> int:
    """The most bytes that Python held while a log of so many events was audited, one at a time."""
    acceptor = Acceptor(HEADER, SPARSE)
    tracemalloc.start()
    try:
        for line, event in enumerate(islice(long_log(), events), 2):
            acceptor.feed(line, event)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def _answer(
    found: Audited, size: int, seconds: tuple[float, float], peaks: dict[int, int]
) -> Answer:
    reading, auditing = seconds
    total = max(found.summary.events, 1)
    released = found.summary.types.get("release", 0)
    data: dict[str, Any] = {
        "verdict": found.verdict,
        "events": found.summary.events,
        "bytes": size,
        "released_handles": released,
        "read_seconds": reading,
        "audit_seconds": auditing,
        "read_per_second": total / reading,
        "audit_per_second": total / auditing,
        "ratio": auditing / reading,
        "peak_bytes": {str(many): size for many, size in peaks.items()},
    }
    lines = [
        f"{total:,} events, {size / total:.0f} bytes each, {released:,} handles released",
        f"  reading alone:  {total / reading:12,.0f} events a second",
        f"  audit:          {total / auditing:12,.0f} events a second, {auditing / reading:.1f} times",
        *(f"  peak memory after {n:,} events: {peak / 1e6:.2f} MB" for n, peak in peaks.items()),
        f"{found.verdict}: {found.reason or 'the specification takes every event'}",
    ]
    verdict = found.verdict if found.summary.events else UNKNOWN
    return Answer("bench", verdict, data, "\n".join(lines))
