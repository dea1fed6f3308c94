"""What the backend counts and times, beside the log of the same run."""

import io
import json
from collections import Counter

import pytest

pytest.importorskip("prometheus_client")

from kvspec.models.concrete import Event
from kvspec.models.decode import DecodeBackend
from kvspec.models.decode.recording import instance_for, record
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.metrics import Metrics
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.event import OUTCOMES


@pytest.fixture(scope="module")
def run() -> tuple[Metrics, list[dict]]:
    """A recorded run: its metrics and its events."""
    stream, metrics = io.StringIO(), Metrics("model", "engine")
    telemetry = Telemetry([AuditLog(stream)], metrics)
    record(DecodeBackend(device="cpu", telemetry=telemetry), requests=6, steps=4)
    telemetry.close()
    assert not telemetry.errors, telemetry.first_error
    return metrics, [json.loads(line) for line in stream.getvalue().splitlines()[1:-1]]


def test_every_attempt_has_an_outcome_once_all_is_over(run: tuple[Metrics, list[dict]]) -> None:
    """Outcomes of each kind add up to its attempts."""
    metrics, _ = run
    for kind in ("append", "fork", "truncate", "finish", "cancel", "release", "request_allocate"):
        ended = sum(
            metrics.value("outcomes_total", event_type=kind, outcome=outcome)
            for outcome in OUTCOMES
        )
        assert ended == metrics.value("attempts_total", event_type=kind) > 0, kind


def test_counters_and_log_tell_the_same_appends(run: tuple[Metrics, list[dict]]) -> None:
    """Successes are publications, and the other outcomes are those of the failures in the log."""
    metrics, events = run
    logged = Counter(
        event["outcome"] for event in events if event["event_type"] in {"append_publish", "failure"}
    )
    assert set(logged) == set(OUTCOMES)
    for outcome in OUTCOMES:
        counted = metrics.value("outcomes_total", event_type="append", outcome=outcome)
        assert counted == logged[outcome]


def test_durations_are_counted_once_each(run: tuple[Metrics, list[dict]]) -> None:
    """An append, a first output, an end and a release each have one duration."""
    metrics, events = run
    kinds = Counter(event["event_type"] for event in events)
    assert metrics.value("append_seconds_count") == kinds["append_start"]
    assert metrics.value("request_seconds_count") == kinds["finish"]
    assert metrics.value("release_lag_seconds_count") == kinds["release"]
    assert metrics.value("output_tokens_total") == kinds["output_emit"]
    outputs = (
        metrics.value("first_output_seconds_count"),
        metrics.value("between_outputs_seconds_count"),
    )
    assert sum(outputs) == kinds["output_emit"]
    assert outputs[0] == metrics.value("requests_total") == len({e["request_id"] for e in events})


def test_gauges_follow_the_cache_up_and_down() -> None:
    """They are read off the tables when they are scraped, after a reset off the new ones."""
    metrics = Metrics("model", "engine")
    telemetry = Telemetry([], metrics)
    backend = DecodeBackend(device="cpu", telemetry=telemetry)
    backend.reset(instance_for(4))

    def do(action: str, **names: object) -> None:
        assert backend.perform(Event(action, tuple(names.items()))).accepted

    def gauges() -> list[float]:
        names = "running_requests", "open_appends", "committed_tokens", "kv_payload_bytes"
        return [metrics.value(name) for name in (*names, "kv_blocks_held")]

    do("allocate", h=0, b=0, a=0)
    do("begin", x=0, h=0, k=0, a=0, p=0, n=1)
    assert gauges() == [1, 1, 0, 0, 1]
    for layer in range(2):
        do("stage_k", x=0, l=layer, p=0)
        do("stage_v", x=0, l=layer, p=0)
    do("prepare", x=0)
    do("publish", x=0)
    assert gauges() == [1, 0, 1, 128, 1]
    do("finish", h=0)
    assert gauges() == [0, 0, 1, 128, 1]
    do("release", h=0)
    do("evict", b=0)
    assert gauges() == [0] * 5
    do("allocate", h=0, b=0, a=0)
    backend.reset(instance_for(4))
    assert gauges() == [0] * 5
    telemetry.close()
