"""Metrics: bounded labels alone, attempts beside outcomes, and what was lost."""

from collections import Counter

import pytest

pytest.importorskip("prometheus_client")

from kvspec.models.telemetry.metrics import (  # after the check for the extra
    ATTEMPTS,
    UNBOUNDED,
    Metrics,
    UnboundedLabelError,
    check_labels,
    check_nothing,
)
from kvspec.spec.documents.event import OUTCOMES
from kvspec.spec.documents.log import BOUNDED_LABELS


def series(metrics: Metrics) -> int:
    """How many time series there are."""
    return len([line for line in metrics.text().splitlines() if not line.startswith(b"#")])


@pytest.mark.parametrize("label", UNBOUNDED)
def test_an_identity_is_refused_as_a_label(label: str) -> None:
    """The family is not even made; the error names the family, the label and what is allowed."""
    with pytest.raises(UnboundedLabelError, match=f"kvspec_cache_requests has the label {label}"):
        Metrics("model", "engine", per=label)


def test_every_label_is_bounded() -> None:
    """The labels of all families are among the four, and those four are let through."""
    metrics = Metrics("model", "engine")
    assert {label for family in metrics.families for label in family.labels} == set(BOUNDED_LABELS)
    assert check_labels("some", BOUNDED_LABELS) == BOUNDED_LABELS


def test_the_number_of_series_does_not_depend_on_the_traffic() -> None:
    """A thousand requests make no new series; with the fault, each of them makes one (and its birth)."""
    sound = Metrics("model", "engine")
    faulty = Metrics("model", "engine", per="request_id", check=check_nothing)
    for metrics in (sound, faulty):
        metrics.request("r0")
    before = series(sound), series(faulty)
    for metrics in (sound, faulty):
        for number in range(1, 1001):
            metrics.request(f"r{number}")
    assert series(sound) == before[0]
    assert series(faulty) >= before[1] + 1000


def test_values_of_labels_come_from_tables() -> None:
    """An event type or outcome that is not known is an error and no new series."""
    metrics = Metrics("model", "engine")
    before = series(metrics)
    with pytest.raises(KeyError):
        metrics.attempt("request 17")
    with pytest.raises(KeyError):
        metrics.outcome("append", "perhaps")
    assert series(metrics) == before


def test_each_outcome_has_its_denominator() -> None:
    """For every kind of attempt there are a counter of attempts and one for each outcome, from 0 on."""
    metrics = Metrics("model", "engine")
    text = metrics.text().decode()
    for kind in ATTEMPTS:
        own = f'engine="engine",event_type="{kind}",model_name="model"'
        assert f"kvspec_cache_attempts_total{{{own}}} 0.0" in text
        for outcome in OUTCOMES:
            assert f'kvspec_cache_outcomes_total{{{own},outcome="{outcome}"}} 0.0' in text


def test_what_telemetry_lost_is_told() -> None:
    """Drops by type of event, failures of exporters and the depth of the queue are read when scraped."""
    metrics = Metrics("model", "engine")
    dropped, failures = Counter(append_publish=3), Counter(spans=1, log=1)
    metrics.follow(dropped, failures, lambda: 7)
    assert metrics.value("telemetry_dropped_events_total", event_type="append_publish") == 3
    assert metrics.value("telemetry_dropped_events_total", event_type="finish") == 0
    assert metrics.value("telemetry_exporter_failures_total") == 2
    assert metrics.value("telemetry_queue_depth") == 7
    dropped["finish"] += 1
    assert metrics.value("telemetry_dropped_events_total", event_type="finish") == 1


def test_durations_are_observed_in_seconds() -> None:
    """Nanoseconds of the source become seconds of the histogram."""
    metrics = Metrics("model", "engine")
    metrics.duration("append_seconds", 250_000_000)
    assert metrics.value("append_seconds_count") == 1
    assert metrics.value("append_seconds_sum") == pytest.approx(0.25)
    assert metrics.value("append_seconds_bucket", le="0.1") == 0
    assert metrics.value("append_seconds_bucket", le="0.3") == 1
