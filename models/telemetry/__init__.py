"""What a cache tells: an audit log, OpenTelemetry spans and Prometheus metrics.

The state of a cache causes telemetry, and telemetry is never state. So whatever is told is told after
the step that it tells of, by an observer that cannot refuse, delay or undo it.

Reading order: ``outcomes`` (four words for what came of an attempt), ``records`` (an event and its place
among those of its source), ``channel`` (from the cache to the writer), ``telemetry`` (where a cache tells),
``audit_log``, ``spans``, ``metrics`` (what is written where), ``faults`` (what producers get wrong).
`spans` and `metrics` need the extra `telemetry`.
"""
