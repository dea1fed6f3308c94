"""`kvspec service`: what a service sees of its requests, record by record, and the metrics of that."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.bind import deliver_bound
from kvspec.cli.check import document_check
from kvspec.cli.documents import broken_data, broken_text, read_kind
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, Flag, check_outputs, deliver
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer

if TYPE_CHECKING:
    from kvspec.spec.documents.service import Record, ServiceTrace
    from kvspec.spec.documents.service_metrics import Aggregate, Limits, RequestMetrics

Limit = Annotated[int | None, Parameter(validator=Number(gte=0, lte=10**12))]
Window = Annotated[int | None, Parameter(validator=Number(gt=0, lte=10**12))]
_OPTIONS = (
    "--ttft-limit",
    "--tbt-limit",
    "--window",
    "--bind",
    "--json",
    "--junit",
    "--sarif",
    "--help",
)
_RATES = ("request_throughput", "request_goodput", "goodput_fraction", "token_goodput")
_UNITS = ("requests/s", "requests/s", "of the completed requests", "output tokens/s")


def service(
    file: Annotated[str, Parameter(allow_leading_hyphen=True)],
    /,
    *,
    ttft_limit: Limit = None,
    tbt_limit: Limit = None,
    window: Window = None,
    bind: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print every record of a service trace, the metrics of each request, and the rates over the window.

    The trace is checked first: one that breaks a contract is told and ends with 1. Limits given here
    take the place of its own, and the metrics are computed anew.

    Args:
        file: a service document; - reads standard input.
        ttft_limit: milliseconds that a valid request may wait for its first output.
        tbt_limit: milliseconds that may pass between two outputs of a valid request.
        window: milliseconds from time 0 on over which rates are told.
        bind: print the document with views, metrics, rates and digest made anew, and nothing else.
        output: how the answer is told.
    """
    from kvspec.properties.documents import find_kind

    if file.startswith("-") and file != "-":
        raise unknown("option", file, _OPTIONS, "kvspec service", "see kvspec service --help")
    check_outputs(output)
    limits = {"--ttft-limit": ttft_limit, "--tbt-limit": tbt_limit, "--window": window}
    given = [name for name, value in limits.items() if value is not None]
    if bind and given:
        told, do = "a document is bound with its own limits", "write them into the document"
        raise UsageError(told, f"--bind and {given[0]}", "one of the two", "kvspec service", do)
    if bind:
        return deliver_bound(file, "service", output, find_kind("service"))
    return deliver(answer(file, ttft_limit, tbt_limit, window), output)


def answer(file: str, ttft: int | None, tbt: int | None, window: int | None) -> Answer:
    """The tables of a document, or the contract that it breaks."""
    from kvspec.properties.documents import find_kind

    given = read_kind(file, find_kind("service"))
    broken, trace = given.checked.broken, given.checked.document
    if broken is not None:
        data = {"verdict": VIOLATED, "document": given.where, **broken_data(given, broken)}
        text = f"violated: {broken_text(given, broken)}"
        return Answer("service", VIOLATED, data, text, (document_check(given),))
    told = _told(given.where, trace, _limits(trace, ttft, tbt, window))
    return attrs.evolve(told, checks=(document_check(given),))


def _limits(t: ServiceTrace, ttft: int | None, tbt: int | None, window: int | None) -> Limits:
    """The limits of a trace, those given on the command line in their place."""
    given = {"ttft": ttft, "tbt": tbt, "window": window}
    chosen = {name: value for name, value in given.items() if value is not None}
    last = max(each.time for each in t.records)
    if window is not None and window < last:
        raise UsageError(
            "the window ends before the trace does",
            f"--window {window}",
            f"{last} or more, where the last record is",
            "--window of kvspec service",
            f"kvspec service FILE --window {last}",
        )
    return attrs.evolve(t.limits, **chosen)


def _told(where: str, t: ServiceTrace, limits: Limits) -> Answer:
    """The document keeps its contracts, so what it says of records is what the specification says."""
    from kvspec.properties.documents.service import computed_metrics
    from kvspec.spec.documents.canonical import plain

    found, rates = computed_metrics(t, limits)
    text = [
        f"{where}: {t.token_bytes:,} bytes a row, cache ABI {t.cache_abi_sha256[:12]}",
        _records(t),
        f"milliseconds; valid: TTFT at most {limits.ttft}, each TBT at most {limits.tbt}",
        _metrics(found),
        f"over {limits.window} ms: {rates.completed} completed, {rates.valid} valid",
        _rates(rates),
        HOLDS,
    ]
    data = {
        "verdict": HOLDS,
        "document": where,
        "token_bytes": t.token_bytes,
        "cache_abi_sha256": t.cache_abi_sha256,
        "limits": plain(limits),
        "records": [plain(each) for each in t.records],
        "metrics": [{**plain(each), "tpot": _ratio(each.tpot)} for each in found],
        "aggregate": {
            **plain(rates),
            **{name: _ratio(getattr(rates, name)) for name in _RATES},
        },
    }
    return Answer("service", HOLDS, data, "\n\n".join(text))


def _ratio(exact: str | None) -> dict[str, Any] | None:
    """An exact ratio as text and as a float; None where there is none."""
    return None if exact is None else {"exact": exact, "value": float(Fraction(exact))}


def _shown(exact: str | None) -> str:
    """An exact ratio for a reader, with its decimals where it is no whole number."""
    if exact is None:
        return "undefined"
    return f"{exact} ({float(Fraction(exact)):.3f})" if "/" in exact else exact


def _records(t: ServiceTrace) -> str:
    from kvspec.report.tables import text_table

    head = ("time", "record", "phase", "out/done", "rows", "frontier", "bytes", "next", "retained")
    return text_table(head, [_row(each) for each in t.records], right=(0, 4, 6, 7, 8))


def _row(each: Record) -> tuple[str, ...]:
    """A record with counters and bytes of its request after it."""
    view = each.view
    payloads = ("logical_payload", "next_ordinary_append", "terminal_retained_logical_payload")
    return (
        str(each.time),
        _what(each),
        str(view["phase"]),
        f"{view['emitted_output_tokens']}/{view['processed_generated_tokens']}",
        str(view["committed_tokens"]),
        f"[{', '.join(each.frontier)}]",
        *(f"{view[f'{name}_bytes']:,}" for name in payloads),
    )


def _what(each: Record) -> str:
    rows = f" [{each.rows.start}, {each.rows.start + each.rows.count})" if each.rows else ""
    return f"{each.request} {each.operation}{f' {each.token}' if each.token else ''}{rows}"


def _metrics(found: tuple[RequestMetrics, ...]) -> str:
    from kvspec.report.tables import text_table

    head = ("request", "TTFT", "TBT", "TPOT", "E2E", "release lag", "valid", "byte-ms")
    rows = [
        (
            each.request,
            str(each.ttft),
            f"[{', '.join(str(gap) for gap in each.tbt)}]",
            _shown(each.tpot),
            str(each.e2e),
            str(each.release_lag),
            "yes" if each.slo_valid else "no",
            f"{each.byte_time:,}",
        )
        for each in found
    ]
    return text_table(head, rows, right=(1, 4, 5, 7))


def _rates(rates: Aggregate) -> str:
    from kvspec.report.tables import text_table

    rows = [
        (name.replace("_", " "), _shown(getattr(rates, name)), unit)
        for name, unit in zip(_RATES, _UNITS, strict=True)
    ]
    rows.append(("logical byte-time", f"{rates.byte_time:,}", "byte-ms"))
    return text_table(("rate", "value", "unit"), rows, right=(1,))
