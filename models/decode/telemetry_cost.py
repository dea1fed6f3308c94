"""What telemetry costs: decode steps a second with nothing told, with the log, and with everything.

Modelled: the same recording, each way in turn and several times over, so that whatever else the machine
does hits all of them; of each way the best times count, of the clock and of the CPU. The writer's thread
is in both, since the log is flushed before they are read. Left out: exporters that go over a network.

``python -m kvspec.models.decode.telemetry_cost`` prints the table.
"""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Callable, Mapping
from typing import Final

import torch
from attrs import evolve, frozen

from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.recording import record
from kvspec.models.telemetry.audit_log import AuditLog
from kvspec.models.telemetry.telemetry import Telemetry

BARE: Final = "nothing told"
LOG: Final = "audit log"
ALL: Final = "audit log, spans and metrics"


@frozen
class Cost:
    """What one way of telling costs.

    Attributes:
        way: its name.
        steps: decode steps of a run, which each put out a token.
        seconds: the best time of a run by the clock; ``cpu_seconds`` that of the process, all its threads.
        events: events told in a run.
    """

    way: str
    steps: int
    seconds: float
    cpu_seconds: float
    events: int

    @property
    def rate(self) -> float:
        """Decode steps a second."""
        return self.steps / self.seconds


def everything() -> Telemetry:
    """A log in memory, spans that go nowhere, and metrics; needs the extra `telemetry`."""
    from kvspec.models.telemetry.metrics import Metrics
    from kvspec.models.telemetry.spans import Spans, provider_for

    spans = Spans(provider_for("tiny-decoder", "engine"))
    return Telemetry([AuditLog(io.StringIO()), spans], Metrics("tiny-decoder", "engine"))


WAYS: Final[Mapping[str, Callable[[], Telemetry | None]]] = {
    BARE: lambda: None,
    LOG: lambda: Telemetry([AuditLog(io.StringIO())]),
    ALL: everything,
}


def measure(requests: int = 4, steps: int = 16, repeats: int = 25) -> dict[str, Cost]:
    """The best of several runs, for each way."""
    best: dict[str, Cost] = {}
    for _ in range(repeats):
        for way, make in WAYS.items():
            cost = _once(way, make(), requests, steps)
            known = best.get(way, cost)
            seconds = min(known.seconds, cost.seconds)
            cpu_seconds = min(known.cpu_seconds, cost.cpu_seconds)
            best[way] = evolve(cost, seconds=seconds, cpu_seconds=cpu_seconds)
    return best


def _once(way: str, telemetry: Telemetry | None, requests: int, steps: int) -> Cost:
    backend = DecodeBackend(device="cpu", telemetry=telemetry)
    started, cpu = time.perf_counter(), time.process_time()
    done = record(backend, requests=requests, steps=steps)
    if telemetry is not None:
        telemetry.flush()
    seconds, cpu = time.perf_counter() - started, time.process_time() - cpu
    events = 0
    if telemetry is not None:
        events = telemetry.channel.accepted
        telemetry.close()
    return Cost(way, done.outputs, seconds, cpu, events)


def text(found: Mapping[str, Cost]) -> str:
    """One line for each way, with its ratio to that of telling nothing."""
    base = found[BARE]
    lines = []
    for cost in found.values():
        per_event = (
            (cost.cpu_seconds - base.cpu_seconds) / cost.events * 1e6 if cost.events else 0.0
        )
        lines.append(
            f"{cost.way:30} {cost.rate:8.0f} decode steps/s, {cost.rate / base.rate:5.2f} of the bare rate, "
            f"{cost.cpu_seconds / base.cpu_seconds:5.2f} of its CPU time, {per_event:5.1f} us an event"
        )
    return "\n".join(lines)


def main() -> None:
    """Print the table."""
    torch.set_num_threads(1)
    sys.stdout.write(text(measure()) + "\n")


if __name__ == "__main__":
    main()
