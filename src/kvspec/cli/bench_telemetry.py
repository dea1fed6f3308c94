"""`kvspec bench telemetry`: decode steps a second of the torch cache, telling nothing, some, and all."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

from kvspec.cli.errors import UsageError
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer

NEEDED = ("torch", "opentelemetry", "prometheus_client")


def bench_telemetry() -> Answer:
    """Record the same run each way, several times in turn, and compare the best times."""
    missing = [name for name in NEEDED if find_spec(name) is None]
    if missing:
        raise UsageError(
            "telemetry cannot be measured here",
            f"no {', '.join(missing)}",
            "torch, opentelemetry-sdk and prometheus-client",
            "kvspec bench telemetry",
            "pip install 'kvspec[torch,telemetry]'",
        )
    from kvspec.models.decode.telemetry_cost import BARE, measure, text

    found = measure()
    base = found[BARE]
    ways: dict[str, Any] = {
        way: {
            "steps": cost.steps,
            "events": cost.events,
            "seconds": cost.seconds,
            "cpu_seconds": cost.cpu_seconds,
            "steps_per_second": cost.rate,
            "rate_ratio": cost.rate / base.rate,
            "cpu_ratio": cost.cpu_seconds / base.cpu_seconds,
        }
        for way, cost in found.items()
    }
    is_same = len({cost.steps for cost in found.values()}) == 1
    verdict = HOLDS if is_same else VIOLATED
    told = "the same outputs each way" if is_same else "DIFFERENT outputs: telling changed the run"
    return Answer(
        "bench", verdict, {"verdict": verdict, "ways": ways}, f"{text(found)}\n\n{verdict}: {told}"
    )
