"""`kvspec verify`: everything that can be checked of a system, side by side, and a table at the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.lookup import system_named
from kvspec.cli.output import CheckOutput, check_outputs, deliver
from kvspec.cli.plan import KINDS, ORDER, left_out, plan
from kvspec.cli.progress import is_shown
from kvspec.cli.stages import Done, Stage, Watch, run_stages
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst
from kvspec.counterexamples.systems import SPECIFICATION

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.models.explicit import Gap


def verify(
    *system: str,
    stage: Annotated[list[str] | None, Parameter(negative="")] = None,
    jobs: Annotated[int | None, Parameter(validator=Number(gt=0))] = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Check the specification by every means at once: the main job.

    Explores each named instance, proves invariants and step claims for all sizes, kills every
    mutant, breaks every rule that the atlas of faults names, runs the stateful test against the
    torch cache in every layout, replays the library of counterexamples and the stored orders of
    concurrent steps, judges the stored histories, proves what holds between the formulas, and
    breaks each contract of the documents. Something that no instance exercises (an action, a
    guard, the case of a claim, a witness) is an error.

    Args:
        system: the systems, by default the whole specification; `kvspec show` lists them.
        stage: run only the stages of this kind (prove, explore, mutants, atlas, test, replay,
            concurrency, formulas, documents).
        jobs: stages at a time, by default as many as there are processors.
        output: how the answer is told.
    """
    check_outputs(output)
    return deliver(check_systems(system or SPECIFICATION, stage, jobs), output)


def check_systems(
    names: Sequence[str] = SPECIFICATION, kinds: list[str] | None = None, jobs: int | None = None
) -> Answer:
    """Run the stages of these kinds, by default all, of these systems."""
    subjects = [system_named(name, "verify") for name in dict.fromkeys(names)]
    for kind in kinds or ():
        if kind not in KINDS:
            raise unknown("stage", kind, KINDS, "--stage of kvspec verify", "choose one of these")
    at_once = jobs or len(os.sched_getaffinity(0))
    stages = _stages(subjects, kinds or list(KINDS), at_once)
    lacking = left_out(stages, kinds or list(KINDS))
    if kinds and lacking:
        told = ", ".join(subject.name for subject in subjects)
        there = [k for k in KINDS if k not in left_out(_stages(subjects, list(KINDS), 1), KINDS)]
        raise UsageError(
            f"no {lacking[0]} stage for {told}",
            f"--stage {lacking[0]}",
            f"one of {', '.join(there)}",
            "--stage of kvspec verify",
            f"kvspec verify {subjects[0].name} --stage {there[0]}",
        )
    start = perf_counter()
    with _watching(stages) as watch:
        done = run_stages(stages, at_once, watch)
    return answer(subjects, done, perf_counter() - start, lacking)


def _stages(subjects: Sequence[KnownSystem], kinds: list[str], jobs: int) -> list[Stage]:
    """The stages of all systems: those of the kinds that take longest first."""
    stages = [stage for subject in subjects for stage in plan(subject, kinds, jobs)]
    return sorted(stages, key=lambda stage: ORDER.index(stage.name.split()[0]))


def answer(
    subjects: Sequence[KnownSystem],
    done: list[Done],
    seconds: float,
    lacking: tuple[str, ...] = (),
) -> Answer:
    """All stages together, and what none of them exercised."""
    from kvspec.report.coverage import union_gaps
    from kvspec.report.results import result_table

    names = ", ".join(subject.name for subject in subjects)
    explored = {
        subject.name: [
            one.answer.data
            for one in done
            if one.answer.command == "explore" and one.answer.data.get("system") == subject.name
        ]
        for subject in subjects
    }
    missed = {
        subject.name: union_gaps(subject.properties(), explored[subject.name])
        for subject in subjects
    }
    verdict = worst(
        [one.answer.verdict for one in done] + [VIOLATED] * any(map(bool, missed.values()))
    )
    results = [_data(one) for one in done]
    data: dict[str, Any] = {
        "system": names,
        "verdict": verdict,
        "seconds": seconds,
        "results": results,
        "left_out": list(lacking),
        "vacuous": [
            {"system": name, "kind": g.kind, "name": g.name, "message": g.message}
            for name, found in missed.items()
            for g in found
        ],
    }
    parts = [one.answer.text for one in done if one.answer.verdict == VIOLATED]
    parts.extend(
        f"{one.stage.name} is unknown: {one.answer.data.get('reason') or one.answer.text}"
        for one in done
        if one.answer.verdict == UNKNOWN
    )
    parts.extend(
        "\n".join(
            (
                f"{name}: never exercised on any of {len(explored[name])} instances:",
                *(f"  {gap.message}" for gap in found),
            )
        )
        for name, found in missed.items()
        if found
    )
    if lacking:
        parts.append(f"left out, since {names} has no such stage: {', '.join(lacking)}")
    parts.extend((result_table(results), f"{verdict}: {names}, in {seconds:.0f} s"))
    checks = [check for one in done for check in _timed(one)]
    for subject in subjects:
        checks.extend(_vacuity(subject, missed[subject.name], explored[subject.name]))
    return Answer("verify", verdict, data, "\n\n".join(parts), tuple(checks))


def _timed(one: Done) -> list[Check]:
    """The checks of a stage; where none tells its time, the first takes that of the stage."""
    checks = one.answer.checks
    if not checks or any(check.seconds for check in checks):
        return list(checks)
    return [attrs.evolve(checks[0], seconds=one.seconds), *checks[1:]]


def _data(one: Done) -> dict[str, Any]:
    """The stage's own object, without the long list of what was proved."""
    data = {"command": one.answer.command, "stage": one.stage.name, **one.answer.data}
    if "items" in data:
        data["items"] = [item for item in data["items"] if item["verdict"] != "proved"]
    return {**data, "verdict": one.answer.verdict, "wall_seconds": one.seconds}


def _vacuity(
    subject: KnownSystem, missed: tuple[Gap, ...], explored: list[dict[str, Any]]
) -> tuple[Check, ...]:
    group = f"vacuity {subject.name}"
    if not explored:
        return ()
    cut = [run["instance"] for run in explored if not (run["complete"] and run.get("coverage"))]
    if cut:
        told = f"a search that is not complete, or has no coverage, tells nothing: {', '.join(cut)}"
        return (Check(group, "everything is exercised", UNKNOWN, 0.0, told),)
    if not missed:
        return (Check(group, "everything is exercised", HOLDS),)
    return tuple(
        Check(group, f"{gap.kind} {gap.name}", VIOLATED, 0.0, gap.message, "", _place(subject, gap))
        for gap in missed
    )


def _place(subject: KnownSystem, gap: Gap) -> tuple[str, int] | None:
    """Where the action, guard, claim or variable stands that was never exercised."""
    system, (first, *rest) = subject.system, gap.name.split(".")
    if gap.kind == "guard":
        return system.actions[first].guard(rest[0]).place
    named: Any = {**system.variables, **system.actions, **subject.properties().by_name}
    return named[first].place if first in named else None


@contextmanager
def _watching(stages: list[Stage]) -> Iterator[Watch | None]:
    """A bar for each stage, on a terminal."""
    if not is_shown():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.fields[stage]}"),
        BarColumn(bar_width=20),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        tasks = {
            one.name: bar.add_task("", total=None, start=False, stage=one.name) for one in stages
        }

        def watch(stage: Stage, done: int, total: int, text: str) -> None:
            task = tasks[stage.name]
            if not bar.tasks[task].started:
                bar.start_task(task)
            bar.update(task, completed=done, total=total or None, description=text)

        yield watch
