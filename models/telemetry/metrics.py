"""Prometheus metrics of a cache: how often, how much, how long; never who.

Modelled: attempts beside their outcomes, so that a ratio has its denominator; gauges for what moves
down as well; histograms for durations within one process; what telemetry itself lost. Every
label is one of `BOUNDED_LABELS`, and its values come from tables that are fixed before the first event:
each combination of values is a time series, and a label such as request_id would make one of every
request. Left out: the order of events and whose they were; the audit log has both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric

from kvspec.spec.documents.event import OUTCOMES, TYPES
from kvspec.spec.documents.log import BOUNDED_LABELS, MetricFamily

UNBOUNDED: Final = ("request_id", "trace_id", "operation_id", "event_id")
"""Identities that traces and the audit log carry, and no metric."""

PREFIX: Final = "kvspec_cache"
OWN: Final = ("model_name", "engine")
SECONDS: Final = (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0, 3.0, 10.0)

ATTEMPTS: Final = (
    "append",
    "cancel",
    "enter",
    "evict",
    "finish",
    "forget",
    "fork",
    "leave",
    "release",
    "reorder",
    "request_allocate",
    "retry",
    "truncate",
)
"""What is attempted, as the label event_type says it."""

GAUGES: Final = {
    "running_requests": "requests that are neither finished nor cancelled",
    "open_appends": "appends begun and not ended",
    "committed_tokens": "tokens committed by all requests that hold rows",
    "kv_payload_bytes": "bytes of K and V rows that requests hold",
    "kv_blocks_held": "prefix blocks that hold rows",
}
HISTOGRAMS: Final = {
    "append_seconds": "from the begin of an append to its end",
    "first_output_seconds": "from allocation to the first output",
    "between_outputs_seconds": "from one output to the next",
    "request_seconds": "from allocation to finish or cancellation",
    "release_lag_seconds": "from finish or cancellation to release",
}


class UnboundedLabelError(ValueError):
    """A metric family was to have a label whose values nothing bounds."""


def check_labels(family: str, labels: Iterable[str]) -> tuple[str, ...]:
    """The labels, each of them bounded.

    Raises:
        UnboundedLabelError: one of them is not in `BOUNDED_LABELS`.
    """
    found = tuple(labels)
    odd = [label for label in found if label not in BOUNDED_LABELS]
    if odd:
        raise UnboundedLabelError(
            f"the metric {family} has the label {', '.join(odd)}, expected labels out of "
            f"{', '.join(BOUNDED_LABELS)}: every value of a label is a time series of its own, so keep "
            f"{', '.join(UNBOUNDED)} in the audit log and in traces"
        )
    return found


def check_nothing(family: str, labels: Iterable[str]) -> tuple[str, ...]:
    """The fault: any label is let through."""
    del family
    return tuple(labels)


class Lost:
    """What telemetry itself lost, read off the channel whenever the metrics are scraped."""

    def __init__(
        self,
        own: tuple[str, str],
        dropped: Mapping[str, int],
        failures: Mapping[str, int],
        depth: Callable[[], int],
    ) -> None:
        self._own = own
        self._dropped = dropped
        self._failures = failures
        self._depth = depth

    def collect(self) -> Iterator[Metric]:
        """Records dropped by type of event, exceptions of exporters, and records that wait."""
        dropped = CounterMetricFamily(
            f"{PREFIX}_telemetry_dropped_events",
            "records that did not fit into the channel",
            labels=(*OWN, "event_type"),
        )
        for kind in TYPES:
            dropped.add_metric((*self._own, kind), self._dropped.get(kind, 0))
        yield dropped
        failures = CounterMetricFamily(
            f"{PREFIX}_telemetry_exporter_failures", "exceptions of exporters", labels=OWN
        )
        failures.add_metric(self._own, sum(self._failures.values()))
        yield failures
        depth = GaugeMetricFamily(
            f"{PREFIX}_telemetry_queue_depth", "records that wait for the writer", labels=OWN
        )
        depth.add_metric(self._own, self._depth())
        yield depth


class Metrics:
    """The families of one engine, in a registry of their own unless one is given.

    Attributes:
        registry: from which the metrics are scraped.
        families: what there is, for the header of a log.
        per: one more label for the family `requests`.
        check: refuses labels; only the fault request-id-label takes it away.

    Raises:
        UnboundedLabelError: `per` is not bounded.
    """

    def __init__(
        self,
        model_name: str,
        engine: str,
        registry: CollectorRegistry | None = None,
        *,
        per: str | None = None,
        check: Callable[[str, tuple[str, ...]], object] = check_labels,
    ) -> None:
        self.registry = CollectorRegistry() if registry is None else registry
        self.families: list[MetricFamily] = []
        self._own = (model_name, engine)
        self._check = check
        attempts = self._counter("attempts", "operations tried", "event_type")
        outcomes = self._counter("outcomes", "operations ended", "event_type", "outcome")
        # Made once, for all values there are: what is not here is an error and no new series.
        self._attempts = {kind: attempts.labels(*self._own, kind) for kind in ATTEMPTS}
        self._outcomes = {
            (kind, end): outcomes.labels(*self._own, kind, end)
            for kind in ATTEMPTS
            for end in OUTCOMES
        }
        self._gauges = {name: self._gauge(name, doc) for name, doc in GAUGES.items()}
        self._histograms = {name: self._histogram(name, doc) for name, doc in HISTOGRAMS.items()}
        self._outputs = self._counter("output_tokens", "output tokens emitted").labels(*self._own)
        self._per = per
        more = () if per is None else (per,)
        self._requests = self._counter("requests", "requests that were given a handle", *more)

    def request(self, request_id: str) -> None:
        """One more request was given a handle."""
        more = () if self._per is None else (request_id,)
        self._requests.labels(*self._own, *more).inc()

    def attempt(self, kind: str) -> None:
        """One more operation was tried."""
        self._attempts[kind].inc()

    def outcome(self, kind: str, outcome: str) -> None:
        """One more operation ended."""
        self._outcomes[kind, outcome].inc()

    def output(self) -> None:
        """One more output token was emitted."""
        self._outputs.inc()

    def level(self, name: str, read: Callable[[], float]) -> None:
        """A gauge is read so from now on, whenever the metrics are scraped."""
        self._gauges[name].set_function(read)

    def duration(self, name: str, ns: int) -> None:
        """A duration, in nanoseconds of one process's monotonic clock."""
        self._histograms[name].observe(ns / 1e9)

    def follow(
        self, dropped: Mapping[str, int], failures: Mapping[str, int], depth: Callable[[], int]
    ) -> None:
        """Tell what a channel loses, and what waits in it."""
        self.registry.register(Lost(self._own, dropped, failures, depth))
        self._note("telemetry_dropped_events", "counter", (*OWN, "event_type"))
        self._note("telemetry_exporter_failures", "counter", OWN)
        self._note("telemetry_queue_depth", "gauge", OWN)

    def text(self) -> bytes:
        """All metrics as Prometheus reads them."""
        return generate_latest(self.registry)

    def value(self, name: str, **labels: str) -> float:
        """A sample of this engine by its name without the prefix; 0 where there is none."""
        own = dict(zip(OWN, self._own, strict=True))
        return self.registry.get_sample_value(f"{PREFIX}_{name}", own | labels) or 0.0

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        full = self._note(name, "counter", (*OWN, *labels))
        return Counter(full, doc, (*OWN, *labels), registry=self.registry)

    def _gauge(self, name: str, doc: str) -> Gauge:
        full = self._note(name, "gauge", OWN)
        return Gauge(full, doc, OWN, registry=self.registry).labels(*self._own)

    def _histogram(self, name: str, doc: str) -> Histogram:
        full = self._note(name, "histogram", OWN)
        made = Histogram(full, doc, OWN, registry=self.registry, buckets=SECONDS)
        return made.labels(*self._own)

    def _note(self, name: str, kind: str, labels: tuple[str, ...]) -> str:
        """The full name of a family, whose labels were found bounded, for the header of the log."""
        full = f"{PREFIX}_{name}"
        self._check(full, labels)
        scraped = f"{full}_total" if kind == "counter" else full
        outcomes = OUTCOMES if "outcome" in labels else ()
        self.families.append(
            MetricFamily(name=scraped, kind=kind, labels=labels, outcomes=outcomes)
        )
        return full
