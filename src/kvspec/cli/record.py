"""`kvspec record`: the log of a real run of the torch cache, sound or with a fault of its telemetry."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.backends import torch_absent
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import Output, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, UNKNOWN, Answer

if TYPE_CHECKING:
    from kvspec.models.decode.recording import Recording
    from kvspec.models.telemetry.metrics import Metrics
    from kvspec.models.telemetry.spans import Spans
    from kvspec.models.telemetry.telemetry import Telemetry

EXTRA_MISSING = "opentelemetry-sdk or prometheus-client is not installed"
MODEL, ENGINE = "tiny-decoder", "engine"
Count = Annotated[int, Parameter(validator=Number(gt=0, lte=100_000))]


@attrs.frozen
class Wanted:
    """What is to be recorded, and what goes wrong."""

    requests: int
    steps: int
    seed: int
    layout: str
    fault: str | None
    metrics_out: Path | None
    spans_out: Path | None


def record(
    file: Path,
    *,
    requests: Count = 4,
    steps: Count = 6,
    seed: int = 0,
    layout: str = "dynamic",
    fault: str | None = None,
    metrics_out: Path | None = None,
    spans_out: Path | None = None,
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Run requests on the torch cache and write what it tells, as a log for `kvspec audit`.

    They prefill, decode, fail and try again, conflict, fork, truncate, cancel, finish and release. The
    last line of the log is what the cache itself held at the end. It ends with 0 if the log was
    written, whatever is in it.

    Args:
        file: the log to write, as JSON Lines.
        requests: how many there are, a few of them at a time.
        steps: outputs of each request.
        seed: prompts, troubles, and whose turn it is.
        layout: how rows are stored; an unknown name lists them.
        fault: something that goes wrong on the way to the log; an unknown name lists them.
        metrics_out: write the metrics to this file, as Prometheus reads them.
        spans_out: write the spans to this file, one JSON object a line.
        output: how the answer is told.
    """
    wanted = Wanted(requests, steps, seed, layout, fault, metrics_out, spans_out)
    check_writable(file, "FILE")
    check_writable(metrics_out, "--metrics-out")
    check_writable(spans_out, "--spans-out")
    _check(wanted)
    return deliver(_answer(file, wanted), output)


def _check(wanted: Wanted) -> None:
    """Refuse names that are not known, and what needs a library that is not here."""
    absent = torch_absent()
    if absent is not None:
        raise UsageError(
            "there is no cache to record",
            absent,
            "torch, in which the cache is written",
            "kvspec record",
            "pip install 'kvspec[torch]'",
        )
    from kvspec.models.decode.kinds import LAYOUT_KINDS
    from kvspec.models.telemetry.faults import REQUEST_ID_LABEL, TELEMETRY_FAULTS

    for kind, found, known in (
        ("layout", wanted.layout, LAYOUT_KINDS),
        ("fault", wanted.fault, TELEMETRY_FAULTS),
    ):
        if found is not None and found not in known:
            raise unknown(kind, found, known, f"--{kind} of kvspec record", "choose one of these")
    is_needed = wanted.metrics_out or wanted.spans_out or wanted.fault == REQUEST_ID_LABEL
    if is_needed and not _has_extra():
        raise UsageError(
            "metrics and spans need two more libraries",
            EXTRA_MISSING,
            "both of them",
            "kvspec record",
            "pip install 'kvspec[telemetry]'",
        )


def _has_extra() -> bool:
    return all(find_spec(name) is not None for name in ("opentelemetry", "prometheus_client"))


def _answer(file: Path, wanted: Wanted) -> Answer:
    """Record, and tell what was recorded."""
    from kvspec.models.decode.backend import DecodeBackend
    from kvspec.models.decode.recording import record as run
    from kvspec.models.telemetry.audit_log import AuditLog
    from kvspec.models.telemetry.telemetry import Telemetry

    faults = () if wanted.fault is None else (wanted.fault,)
    with ExitStack() as files:
        log = AuditLog(files.enter_context(file.open("w", encoding="utf-8")))
        metrics = _metrics(wanted) if _has_extra() else None
        spans = () if wanted.spans_out is None else (_spans(wanted.spans_out, files),)
        capacity = 64 * wanted.requests * wanted.steps + 4096
        telemetry = Telemetry(
            (log, *spans), metrics, engine=ENGINE, capacity=capacity, faults=faults
        )
        try:
            backend = DecodeBackend(wanted.layout, telemetry=telemetry)
            done = run(backend, requests=wanted.requests, steps=wanted.steps, seed=wanted.seed)
        finally:
            telemetry.close()
        if metrics is not None and wanted.metrics_out is not None:
            wanted.metrics_out.write_bytes(metrics.text())
    return _told(file, wanted, done, telemetry, log.lines)


def _metrics(wanted: Wanted) -> Metrics:
    """The metrics of the run; with the fault, one has a label that nothing refuses."""
    from kvspec.models.telemetry.faults import REQUEST_ID_LABEL
    from kvspec.models.telemetry.metrics import Metrics, check_labels, check_nothing

    is_faulty = wanted.fault == REQUEST_ID_LABEL
    return Metrics(
        MODEL,
        ENGINE,
        per="request_id" if is_faulty else None,
        check=check_nothing if is_faulty else check_labels,
    )


def _spans(path: Path, files: ExitStack) -> Spans:
    """An exporter that writes spans to a file."""
    from kvspec.models.telemetry.spans import Spans, spans_into

    stream = files.enter_context(path.open("w", encoding="utf-8"))
    return Spans(spans_into(stream, model_name=MODEL, engine=ENGINE))


def _told(file: Path, wanted: Wanted, done: Recording, telemetry: Telemetry, events: int) -> Answer:
    """What was recorded, for machines and for people."""
    from kvspec.models.telemetry.faults import TELEMETRY_FAULTS

    channel = telemetry.channel
    lost = sum(channel.dropped.values()) + sum(channel.failures.values()) + telemetry.errors
    verdict = UNKNOWN if lost else HOLDS
    data: dict[str, Any] = {
        "verdict": verdict,
        "file": str(file),
        "fault": wanted.fault,
        "requests": wanted.requests,
        "steps": wanted.steps,
        "seed": wanted.seed,
        "layout": wanted.layout,
        "performed": done.events,
        "outputs": done.outputs,
        "events": events,
        "dropped": dict(channel.dropped),
        "exporter_failures": dict(channel.failures),
        "errors": telemetry.errors,
        "crash": done.crash,
    }
    lines = [
        f"{done.events:,} calls of the cache, {done.outputs:,} outputs, {events:,} events in {file}",
    ]
    if wanted.fault is not None:
        lines.append(f"fault {wanted.fault}: {TELEMETRY_FAULTS[wanted.fault]}")
    if done.crash:
        lines.append(f"{done.crash}; the last line tells what readers saw afterwards")
    if lost:
        lines.append(
            f"unknown: not all is in the log: dropped {dict(channel.dropped)}, exporters failed "
            f"{dict(channel.failures)} {channel.first_failure}, errors {telemetry.errors} "
            f"{telemetry.first_error}"
        )
    lines.append(f"\nnext: kvspec audit {file}")
    return Answer("record", verdict, data, "\n".join(lines))
