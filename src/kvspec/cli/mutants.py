"""`kvspec mutants`: the specification changed in one place at a time; which claim notices?"""

from __future__ import annotations

from collections.abc import Callable
from fnmatch import fnmatchcase
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kvspec.cli.errors import UsageError
from kvspec.cli.lookup import instance_named, system_named
from kvspec.cli.output import CheckOutput, Flag, check_folder, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.properties.mutants import MutantResult, MutationReport

_VERDICTS = {"killed": HOLDS, "equivalent": HOLDS, "survived": VIOLATED}
Names = Annotated[list[str] | None, Parameter(negative="")]


def mutants(
    system: str = "core",
    *,
    only: Names = None,
    instance: Names = None,
    traces: Path | None = None,
    write_library: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Drop each guard and alter each assignment in turn: some claim must break, or Z3 prove it the same.

    A mutant that no claim notices, and that does not behave as the specification does, has
    survived: the claims lack something, and the verdict is `violated`.

    Args:
        system: the system; `kvspec show` lists them.
        only: try only mutants of this name, with * for anything; may be given again.
        instance: search on this instance, by default on every named one; may be given again.
        traces: write the shortest trace of each killed mutant to this folder, for `kvspec replay`.
        write_library: make the system's library of traces of this package anew, from all mutants.
        output: how the answer is told.
    """
    check_outputs(output)
    check_folder(traces, "--traces")
    subject = system_named(system, "mutants")
    if write_library and (only or instance):
        raise UsageError(
            "--write-library is for all mutants on all instances",
            "--only or --instance beside it",
            "neither",
            "--write-library of kvspec mutants",
            "use --traces FOLDER for some of them",
        )
    chosen = [
        instance_named(subject, name, "mutants", "--instance").name for name in instance or ()
    ]
    with counting(f"mutants {subject.name}") as progress:
        told = None if progress is None else lambda done, total: progress(done, total, "")
        report = run(subject, chosen or quick(subject), only, told)
    if not report.results:
        raise UsageError(
            f"no mutant of {subject.name} is named so",
            ", ".join(only or ("none",)),
            "a pattern such as 'publish.*' or '*.drop-guard.*'",
            "--only of kvspec mutants",
            f"kvspec mutants {subject.key} --json lists all names",
        )
    if traces is not None:
        write_traces(subject, report, traces)
    if write_library:
        from kvspec.counterexamples import library
        from kvspec.counterexamples import mutants as kept

        folder = Path(str(files(library.__name__)))
        if subject.name != "core":
            folder /= subject.name
        kept.write_library(report, subject.properties(), folder)
    return deliver(answer(subject, report), output)


def quick(subject: KnownSystem) -> list[str]:
    """The instances that are searched unless others are asked for."""
    return [one.name for one in subject.instances.values() if not one.slow]


def run(
    subject: KnownSystem,
    instances: list[str],
    only: list[str] | None,
    progress: Callable[[int, int], None] | None,
) -> MutationReport:
    """Search every mutant on the instances."""
    from kvspec.properties.mutants import run_mutants

    return run_mutants(
        subject.properties(),
        [subject.instances[name] for name in instances],
        only=lambda mutant: only is None or any(fnmatchcase(mutant.name, p) for p in only),
        progress=progress,
    )


def answer(subject: KnownSystem, report: MutationReport) -> Answer:
    """What became of the mutants, for machines and for people."""
    from kvspec.report.tables import text_table

    results = report.results
    rows = [(r.mutant.name, r.verdict, r.claim or r.reason, str(r.steps or "")) for r in results]
    head = ("mutant", "verdict", "by", "steps")
    counts = {n: report.count(n) for n in ("killed", "equivalent", "survived", "unknown")}
    score = f"{counts['killed']} killed, {counts['equivalent']} equivalent"
    if report.verdict != HOLDS:
        score += f", {counts['survived']} survived, {counts['unknown']} unknown"
    text = (
        f"{text_table(head, rows, right=(3,))}\n\n"
        f"{report.verdict}: {len(results)} mutants, {score}, in {report.seconds:.1f} s"
    )
    data: dict[str, Any] = {
        "system": report.system,
        "total": len(results),
        **counts,
        "score": report.score,
        "seconds": report.seconds,
        "verdict": report.verdict,
        "mutants": [_as_json(result) for result in results],
    }
    checks = tuple(_check(subject, result) for result in results)
    return Answer("mutants", report.verdict, data, text, checks)


def _as_json(result: MutantResult) -> dict[str, Any]:
    return {
        "name": result.mutant.name,
        "description": result.mutant.description,
        "verdict": result.verdict,
        "claim": result.claim,
        "instance": result.instance.name if result.instance else None,
        "steps": result.steps,
        "reason": result.reason,
    }


def _check(subject: KnownSystem, result: MutantResult) -> Check:
    verdict = _VERDICTS.get(result.verdict, UNKNOWN)
    message = "" if verdict == HOLDS else f"{result.mutant.description}: {result.reason}"
    place = subject.system.actions[result.mutant.action].place
    return Check(f"mutants {subject.name}", result.mutant.name, verdict, 0.0, message, "", place)


def write_traces(subject: KnownSystem, report: MutationReport, folder: Path) -> None:
    """Write the shortest trace of each killed mutant; other traces in the folder stay."""
    import msgspec

    from kvspec.counterexamples import write_trace
    from kvspec.counterexamples.mutants import library_traces

    folder.mkdir(parents=True, exist_ok=True)
    for name, trace in library_traces(report, subject.properties()).items():
        write_trace(msgspec.structs.replace(trace, system=subject.key), folder / name)
