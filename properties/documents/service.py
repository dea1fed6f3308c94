"""The contracts of service traces that ask the specification, and the metrics that rest on them.

Records are taken to the serving system in `service_replay`. A refusal has the code of the specification; the
facts of each view are its formulas, the bytes of a view are those counts times the bytes of a row, and
its clocks are the times of the records so far.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

from kvspec.properties.documents.service_replay import Replay, replay
from kvspec.spec.documents.contracts import Finding, differs, named, requires
from kvspec.spec.documents.service import (
    BYTES,
    CLOCKS,
    EMITS,
    ServiceTrace,
    service,
)
from kvspec.spec.documents.service_metrics import (
    Aggregate,
    Limits,
    RequestMetrics,
    aggregate,
    area,
    request_metrics,
)
from kvspec.spec.failures import CODES
from kvspec.spec.formulas import committed_bytes
from kvspec.spec.serving import VIEW_FIELDS

REFUSALS: Final = {
    "HANDLE_LIVE": "a request arrives once",
    "HANDLE_TERMINAL": "work is done for a request that has arrived and not released",
    "TXN_IN_USE": "one prefill of a request is in flight at a time",
    "TXN_CLOSED": "a prefill is published after it has begun",
    "POSITION_MISMATCH": "rows begin where those of the request end",
    "EMPTY_APPEND": "there is a row to begin or to publish",
    "K_INCOMPLETE": "a prefill publishes all rows that it began",
    "INTERVAL_FULL": "a prefill publishes no row that it did not begin",
    "UNKNOWN_TOKEN": "rows are for the prompt and for what was output, and no further",
    "NO_LOGITS": "an output follows the rows of all tokens before it",
    "OUTPUT_STOPPED": "nothing is output after the last output",
    "NOT_TERMINAL": "a request is released after its last output",
}
"""Codes of the specification with which the records of a trace are refused, and what each then asks."""

_MEND: Final = (
    "change this record, or those of its request before it, to steps that a cache can take"
)
_ALSO: Final = {"BLOCK_IN_USE": "HANDLE_LIVE"}
"""Other codes that say the same of a trace."""


def _replay(t: ServiceTrace) -> Replay:
    return replay(t.requests, t.actions)


def _refused_with(code: str) -> Callable[[ServiceTrace], Iterator[Finding]]:
    def check(t: ServiceTrace) -> Iterator[Finding]:
        refused = _replay(t).refused
        if refused and _ALSO.get(refused[1].code, refused[1].code) == code:
            place, refusal = refused
            yield Finding(f"/records/{place}", refusal.expected, refusal.found)

    return check


for _code, _meaning in REFUSALS.items():
    service.contract(_code, f"{_meaning}: {CODES[_code].meaning}", do=_MEND)(_refused_with(_code))


@service.contract(
    "EARLY_FINISH", "a request finishes with the last of the outputs it will be given"
)
def requests_finish_with_their_last_output(t: ServiceTrace) -> Iterator[Finding]:
    """A request finishes with the last of the outputs it will be given."""
    found = _replay(t)
    if found.refused:
        raise RuntimeError(
            f"no contract tells {found.refused[1]}: name its code in {__name__}.REFUSALS"
        )
    wanted = {request.name: request.output_tokens for request in t.requests}
    for n, each in enumerate(t.records):
        if each.operation in EMITS:
            count = int(found.facts[n]["emitted_output_tokens"] or 0)
            path, last = f"/records/{n}/operation", count == wanted[each.request]
            told = f"output {count} of {wanted[each.request]}"
            yield from requires(
                last == (each.operation == "emit_and_finish"), path, told, each.operation
            )


@service.contract("NOT_RELEASED", "every request is released in the end")
def every_request_is_released(t: ServiceTrace) -> Iterator[Finding]:
    """Every request is released in the end."""
    for n, request in enumerate(t.requests):
        released = t.clocks(request.name).release is not None
        yield from requires(released, f"/requests/{n}", "a release", "none")


def frontiers(t: ServiceTrace) -> Iterator[tuple[str, ...]]:
    """The tokens of its request without a row, after each record."""
    outputs: dict[str, list[str]] = {request.name: [] for request in t.requests}
    for each, facts in zip(t.records, _replay(t).facts, strict=True):
        if each.operation in EMITS and each.token is not None:
            outputs[each.request].append(each.token)
        first = int(facts["processed_generated_tokens"] or 0)
        last = int(facts["emitted_output_tokens"] or 0)
        yield tuple(outputs[each.request][first:last])


@service.contract("FRONTIER_TOKEN", "a decode computes the row of the token at the frontier")
def a_decode_takes_the_frontier_token(t: ServiceTrace) -> Iterator[Finding]:
    """A decode computes the row of the token at the frontier."""
    before: dict[str, tuple[str, ...]] = {}
    for n, (each, frontier) in enumerate(zip(t.records, frontiers(t), strict=True)):
        if each.operation == "publish_decode":
            expected = before[each.request][0]
            yield from differs(f"/records/{n}/token", expected, each.token)
        before[each.request] = frontier


@service.contract("FRONTIER", "the frontier is what was output and has no row", derived=True)
def the_frontier_has_no_rows(t: ServiceTrace) -> Iterator[Finding]:
    """The frontier is what was output and has no row."""
    for n, (each, frontier) in enumerate(zip(t.records, frontiers(t), strict=True)):
        yield from differs(f"/records/{n}/frontier", frontier, each.frontier)


def _facts(t: ServiceTrace, n: int) -> dict[str, Any]:
    return {"request_id": t.records[n].request, **_replay(t).facts[n]}


def _payloads(t: ServiceTrace, n: int) -> dict[str, Any]:
    facts = _replay(t).facts[n]
    counts = ("committed_tokens", "next_ordinary_append_tokens", "terminal_retained_tokens")
    payloads = (committed_bytes(int(facts[name] or 0), t.token_bytes) for name in counts)
    return dict(zip(BYTES, payloads, strict=True))


def _times(t: ServiceTrace, n: int) -> dict[str, Any]:
    clocks = t.clocks(t.records[n].request, n + 1)
    times = (clocks.arrival, clocks.outputs, clocks.finish, clocks.release)
    return dict(zip(CLOCKS, times, strict=True))


def computed_view(t: ServiceTrace, n: int) -> dict[str, Any]:
    """The view of the request of a record, after it, in a trace that the specification accepts."""
    return {**_facts(t, n), **_payloads(t, n), **_times(t, n)}


_IDENTITY: Final = ("request_id", "handle_generation", "snapshot_version")
_COUNTERS: Final = tuple(
    name for name in VIEW_FIELDS if name not in (*_IDENTITY, "phase", "eligible_work")
)
VIEWS: Final = {
    "IDENTITY": (_IDENTITY, _facts, "a view names its request, the generation and the snapshot"),
    "PHASE": (("phase",), _facts, "the phase is the specification's projection"),
    "ELIGIBLE_WORK": (
        ("eligible_work",),
        _facts,
        "eligible work is the specification's projection",
    ),
    "COUNTERS": (
        _COUNTERS,
        _facts,
        "every count is the specification's, and none stands in for another",
    ),
    "BYTES": (BYTES, _payloads, "bytes are the counts of rows times the bytes of a row"),
    "CLOCKS": (CLOCKS, _times, "clocks are the times of the records so far"),
}
"""The contracts of views: the fields of each, whence they come, and what it asks."""


def _view_has(
    names: tuple[str, ...], compute: Callable[[ServiceTrace, int], dict[str, Any]]
) -> Callable[[ServiceTrace], Iterator[Finding]]:
    def check(t: ServiceTrace) -> Iterator[Finding]:
        for n, each in enumerate(t.records):
            expected = compute(t, n)
            for name in names:
                path = f"/records/{n}/view/{name}"
                yield from differs(path, expected[name], each.view[name])

    return check


for _code, (_names, _compute, _meaning) in VIEWS.items():
    service.contract(_code, _meaning, derived=True)(_view_has(_names, _compute))


def computed_metrics(
    t: ServiceTrace, limits: Limits | None = None
) -> tuple[tuple[RequestMetrics, ...], Aggregate]:
    """The metrics of each request and of the window, under the limits of the trace or other ones."""
    chosen = limits or t.limits
    held = [int(facts["committed_tokens"] or 0) for facts in _replay(t).facts]
    found, areas = [], []
    for request in t.requests:
        own = [n for n, each in enumerate(t.records) if each.request == request.name]
        times, rows = [t.records[n].time for n in own], [held[n] for n in own]
        areas.append(area(times, rows, t.token_bytes))
        clocks = t.clocks(request.name)
        found.append(request_metrics(request.name, clocks, chosen, areas[-1]))
    return tuple(found), aggregate(found, chosen, sum(areas))


@service.contract("METRICS_OF", "there are metrics of each request, in their order", derived=True)
def each_request_has_metrics(t: ServiceTrace) -> Iterator[Finding]:
    """There are metrics of each request, in their order."""
    expected = (request.name for request in t.requests)
    yield from named("/metrics", expected, (each.request for each in t.metrics))


@service.contract(
    "TPOT_UNDEFINED", "a request of a single output has no TPOT, not one of zero", derived=True
)
def tpot_of_one_output_is_undefined(t: ServiceTrace) -> Iterator[Finding]:
    """A request of a single output has no TPOT, not one of zero."""
    for n, each in enumerate(t.metrics):
        if len(t.clocks(each.request).outputs) == 1:
            yield from differs(f"/metrics/{n}/tpot", None, each.tpot)


METRICS: Final = {
    "TTFT": ("ttft", "the time to the first output runs from the arrival"),
    "TBT": ("tbt", "each time between two outputs is told"),
    "TPOT": ("tpot", "it is the time from first to last output, for each interval between"),
    "E2E": ("e2e", "it is the time from arrival to the last output"),
    "RELEASE_LAG": ("release_lag", "it is the time from the last output to the release"),
    "SLO_VALID": ("slo_valid", "a request is valid within the limits on TTFT and every TBT"),
    "BYTE_TIME": ("byte_time", "it is the area under the logical bytes of the request"),
}
RATES: Final = {
    "COMPLETED": ("completed", "all requests of the trace complete"),
    "VALID": ("valid", "the valid requests are counted"),
    "THROUGHPUT": ("request_throughput", "it is completed requests a second"),
    "GOODPUT": ("request_goodput", "it is valid requests a second"),
    "GOODPUT_FRACTION": ("goodput_fraction", "it is the part of completed requests that is valid"),
    "TOKEN_GOODPUT": ("token_goodput", "it is output tokens a second of valid requests"),
    "TOTAL_BYTE_TIME": ("byte_time", "it is the area under the logical bytes of all requests"),
}
"""The contract of each figure: its field and what it asks."""


def _metric_is(name: str) -> Callable[[ServiceTrace], Iterator[Finding]]:
    def check(t: ServiceTrace) -> Iterator[Finding]:
        for n, (expected, found) in enumerate(zip(computed_metrics(t)[0], t.metrics, strict=True)):
            yield from differs(
                f"/metrics/{n}/{name}", getattr(expected, name), getattr(found, name)
            )

    return check


def _rate_is(name: str) -> Callable[[ServiceTrace], Iterator[Finding]]:
    def check(t: ServiceTrace) -> Iterator[Finding]:
        expected = getattr(computed_metrics(t)[1], name)
        yield from differs(f"/aggregate/{name}", expected, getattr(t.aggregate, name))

    return check


for _code, (_name, _meaning) in METRICS.items():
    service.contract(_code, _meaning, derived=True)(_metric_is(_name))
for _code, (_name, _meaning) in RATES.items():
    service.contract(_code, _meaning, derived=True)(_rate_is(_name))
