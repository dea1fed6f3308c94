"""`kvspec bench`: the explicit engine beside the model checker Spin, on the same instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter, validators

from kvspec.cli.errors import unknown
from kvspec.cli.lookup import system_named
from kvspec.cli.output import Output, deliver
from kvspec.cli.progress import exploring
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer

if TYPE_CHECKING:
    from kvspec.models.explicit import Exploration
    from kvspec.models.export import SpinResult
    from kvspec.spec.language import Instance


def bench(
    instance: str = "2,2,2,3,4",
    *,
    events: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 200_000,
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Count the states of a row of the peer model with our engine and with Spin, and compare.

    Both search breadth first and keep every state exactly; times are of the CPU, without
    compilation. Other counts than expected are `violated`. Without Spin it ends `unknown`.

    `kvspec bench audit` audits a long log instead, and compares with reading its lines alone.
    `kvspec bench linearize` checks histories of five shapes, half of them with a read falsified.
    `kvspec bench telemetry` decodes on the torch cache, and compares with telling nothing of it.
    `kvspec bench transactions` decodes with each layout, and compares with rows that are written at once.

    Args:
        instance: a row of the peer model, or `audit`, `linearize`, `telemetry` or `transactions`.
        events: how long the log is that is audited.
        output: how the answer is told.
    """
    if instance == "audit":
        from kvspec.cli.bench_audit import bench_audit

        return deliver(bench_audit(events), output)
    if instance == "linearize":
        from kvspec.cli.bench_linearize import bench_linearize

        return deliver(bench_linearize(), output)
    if instance == "telemetry":
        from kvspec.cli.bench_telemetry import bench_telemetry

        return deliver(bench_telemetry(), output)
    if instance == "transactions":
        from kvspec.cli.bench_transactions import bench_transactions

        return deliver(bench_transactions(), output)
    subject = system_named("peer", "bench")
    if instance not in subject.instances:
        rows = [*subject.instances, "audit", "linearize", "telemetry", "transactions"]
        do = f"kvspec bench {next(iter(subject.instances))}"
        raise unknown("instance of peer", instance, rows, "INSTANCE of kvspec bench", do)
    chosen = subject.instances[instance]
    with exploring(f"peer/{chosen.name}") as progress:
        from kvspec.models.explicit import compile_instance

        program = compile_instance(chosen)
        seconds = program.compile(coverage=False)
        ours = program.explore(coverage=False, progress=progress, deadlock=False)
    spin, reason = _spin(chosen)
    return deliver(answer(chosen, ours, seconds, spin, reason), output)


def _spin(instance: Instance) -> tuple[SpinResult | None, str]:
    """Spin's figures, or why there are none."""
    from kvspec.models.export import SpinError, run_spin, spin_absent

    absent = spin_absent()
    if absent is not None:
        return None, absent
    try:
        return run_spin(instance), ""
    except SpinError as error:
        return None, str(error)


def answer(
    instance: Instance, ours: Exploration, compiled: float, spin: SpinResult | None, reason: str
) -> Answer:
    """Both results side by side."""
    from kvspec.report.tables import text_table

    data: dict[str, Any] = {
        "system": "peer",
        "instance": instance.name,
        "states": ours.states,
        "transitions": ours.transitions,
        "depth": ours.depth,
        "seconds": ours.seconds,
        "cpu_seconds": ours.cpu_seconds,
        "compile_seconds": compiled,
        "bytes_per_state": ours.bytes_per_state,
        "spin": None,
        "ratio": None,
        "reason": reason,
    }
    rows = [
        (
            "kvspec",
            f"{ours.states:,}",
            f"{ours.transitions:,}",
            f"{ours.depth}",
            f"{ours.cpu_seconds:.2f} s",
            f"{ours.bytes_per_state:.0f}",
        )
    ]
    verdict = ours.verdict
    if spin is None:
        verdict, told = (
            (verdict if verdict == VIOLATED else UNKNOWN),
            f"no figures of Spin: {reason}",
        )
    else:
        ratio = spin.seconds_cpu / max(ours.cpu_seconds, 1e-9)
        size = spin.memory_bytes / max(spin.stored, 1)
        data["ratio"] = ratio
        data["spin"] = {
            "states": spin.states,
            "transitions": spin.transitions,
            "depth": spin.depth,
            "cpu_seconds": spin.seconds_cpu,
            "compile_seconds": spin.seconds_compile,
            "bytes_per_state": size,
        }
        rows.append(
            (
                "Spin",
                f"{spin.states:,}",
                f"{spin.transitions:,}",
                f"{spin.depth}",
                f"{spin.seconds_cpu:.2f} s",
                f"{size:.0f}",
            )
        )
        same = (ours.states, ours.transitions, ours.depth) == (
            spin.states,
            spin.transitions,
            spin.depth,
        )
        if not same:
            verdict = VIOLATED
        told = f"{'the same' if same else 'DIFFERENT'} counts; Spin takes {ratio:.1f} times our CPU time"
    data["verdict"] = verdict
    head = ("", "states", "transitions", "depth", "CPU", "bytes a state")
    table = text_table(head, rows, right=(1, 2, 3, 4, 5))
    if verdict == HOLDS or spin is None:
        return Answer("bench", verdict, data, f"{instance!r}\n{table}\n\n{verdict}: {told}")
    why = "; ".join(each.message for each in ours.violations) or ours.reason
    text = f"{instance!r}\n{table}\n\n{verdict}: {told}{f'; {why}' if why else ''}"
    return Answer("bench", verdict, data, text)
