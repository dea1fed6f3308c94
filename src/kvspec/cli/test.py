"""`kvspec test`: a cache driven by the specification, at random but along walks that cover it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.backends import backend_name, torch_absent
from kvspec.cli.errors import UsageError
from kvspec.cli.lookup import instance_named, system_named
from kvspec.cli.output import CheckOutput, check_outputs, check_writable, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, UNKNOWN, Answer, Check

if TYPE_CHECKING:
    from kvspec.cli.progress import Counted
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.properties.stateful.mismatch import Failure
    from kvspec.properties.stateful.report import RunProgress, StatefulReport
    from kvspec.spec.language import Instance


ONE_LAYER = "one layer: faults between layers cannot show"


@attrs.frozen(kw_only=True)
class Drive:
    """How a cache is driven; as the options of `kvspec test`, and at most so many planned walks."""

    examples: int | None = None
    walks: int | None = None
    seed: int | None = None
    profile: str | None = None


def drive(
    system: str = "core",
    instance: str | None = None,
    *,
    backend: str | None = None,
    examples: Annotated[int | None, Parameter(validator=Number(gt=0))] = None,
    seed: int | None = None,
    profile: str | None = None,
    trace_out: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Drive a cache with Hypothesis: what the specification allows must work, and the rest be refused.

    After each event the cache must be in the specified state and unharmed. Walks lead through the
    transitions of the instance, all of them if it is small; how many were touched is told. An action
    never taken, or a refusal never asked for, is `unknown`. A difference is shrunk to the shortest
    run that shows it. In an instance with one layer no fault between layers can show: try LAYERS too.

    Args:
        system: the system; `kvspec show` lists them.
        instance: one of its named instances, by default the first.
        backend: what makes the cache, as package.module:factory; by default the torch one.
        examples: how many examples Hypothesis makes.
        seed: repeats a run.
        profile: dev, ci (always the same run) or deep.
        trace_out: write the shortest failing run to this file, for `kvspec replay`.
        output: how the answer is told.
    """
    check_outputs(output)
    check_writable(trace_out, "--trace-out")
    subject = system_named(system, "test")
    chosen = instance_named(subject, instance, "test")
    drive = Drive(examples=examples, seed=seed, profile=profile)
    name = backend or _default_backend(subject)
    with counting(f"test {subject.name}/{chosen.name}") as progress:
        report = run(subject, chosen, name, drive, progress)
    if trace_out is not None and report.failure is not None:
        write_failure(chosen, report.failure, name, trace_out)
    return deliver(answer(subject, chosen, name, report), output)


def _default_backend(subject: KnownSystem) -> str:
    """The cache of this package for the system, or an error that says how to get one."""
    name, absent = backend_name(subject.name), torch_absent()
    if name is None or absent is not None:
        raise UsageError(
            f"there is no cache here for {subject.name}",
            "no --backend, and " + (absent or f"none of this package speaks of {subject.name}"),
            "--backend package.module:factory",
            "--backend of kvspec test",
            "pip install 'kvspec[torch]'" if name else "write one: see kvspec.models.backend",
        )
    return name


def run(
    subject: KnownSystem, instance: Instance, backend: str, drive: Drive, progress: Counted | None
) -> StatefulReport:
    """Drive the cache; a factory or profile that is not there is an error of usage."""
    from kvspec.properties.stateful.plan import make_plan
    from kvspec.properties.stateful.profiles import PROFILES, current_profile
    from kvspec.properties.stateful.run import run as drive_cache

    profile = drive.profile or current_profile()
    if profile not in PROFILES:
        from kvspec.cli.errors import unknown

        where = "--profile of kvspec test" if drive.profile else "HYPOTHESIS_PROFILE"
        raise unknown("profile", profile, PROFILES, where, "choose one of these")
    need_cache(backend, instance)

    def told(now: RunProgress) -> None:
        if progress is not None:
            progress(now.examples, now.of, f"{now.touched:,} of {now.transitions:,} transitions")

    claims = subject.properties().by_name.values()
    size = PROFILES[profile]
    return drive_cache(
        instance,
        claims,
        backend,
        max_examples=drive.examples,
        seed=drive.seed,
        profile=profile,
        progress=told,
        plan=make_plan(instance, claims, length=size.length, most=drive.walks or size.walks),
    )


def need_cache(backend: str, instance: Instance) -> None:
    """Refuse what makes no cache, or the cache of another system."""
    from kvspec.counterexamples import TraceError
    from kvspec.counterexamples.targets import load_backend
    from kvspec.models.concrete import Machine

    where = "--backend of kvspec test"
    try:
        made = load_backend(backend)
    except TraceError as error:
        raise UsageError(
            f"{backend} makes no cache", error.found, error.expected, error.where, error.advice
        ) from error
    except Exception as error:
        told = f"{type(error).__name__}: {error}"
        do = "call it in Python, and see what it lacks"
        raise UsageError(f"{backend} makes no cache", told, "a Backend", where, do) from error
    try:
        made.reset(instance)
        state = made.observe()
    except Exception as error:
        raise _other_cache(backend, instance, f"{type(error).__name__}: {error}") from error
    sizes = [len(table) for table in getattr(state, "tables", ())]
    (first, *_) = Machine(instance).initial_states()
    if sizes != [len(table) for table in first.tables]:
        found = f"a state of {len(sizes)} variables, or of another size"
        raise _other_cache(backend, instance, found)


def _other_cache(backend: str, instance: Instance, found: str) -> UsageError:
    return UsageError(
        f"{backend} cannot be set to the start of {instance.system.name}/{instance.name}",
        found,
        f"a cache that speaks of {instance.system.name}",
        "--backend of kvspec test",
        "name the system that the cache speaks of, or repair its `reset` and `observe`",
    )


def answer(
    subject: KnownSystem, instance: Instance, backend: str, report: StatefulReport
) -> Answer:
    """What came of it, for machines and for people."""
    plain = (
        "verdict reason examples sequences steps accepted refused touched transitions planned is_whole "
        "actions refusals seed profile seconds"
    )
    failure = report.failure
    data: dict[str, Any] = {
        "system": subject.name,
        "instance": instance.name,
        "backend": backend,
        **{name: getattr(report, name) for name in plain.split()},
        "coverage": report.coverage,
        "never_taken": list(report.never_taken),
        "never_probed": [list(pair) for pair in report.never_probed],
        "failure": failure
        and {"kind": failure.kind, "message": failure.message, **_steps(instance, failure)},
    }
    data["one_layer"] = _has_one_layer(instance)
    told = _text(report)
    if data["one_layer"]:
        told += f"\n  {ONE_LAYER}"
    text = f"{told}\n\n{report.verdict}: {backend}"
    if failure is not None:
        text = f"{_run_text(instance, failure)}\n\n{text}"
    message = failure.message if failure else report.reason
    check = Check(
        f"test {subject.name}/{instance.name}",
        backend,
        report.verdict,
        report.seconds,
        "" if report.verdict == HOLDS else message,
        "" if report.verdict in (HOLDS, UNKNOWN) else text,
    )
    return Answer("test", report.verdict, data, text, (check,))


def _has_one_layer(instance: Instance) -> bool:
    return instance.sizes.get("Layer") == 1


def _text(report: StatefulReport) -> str:
    """The report; at a failure without its message, told above, and what an ended run has missed."""
    if report.failure is None:
        return report.text()
    lines = report.text().splitlines()
    missed = ("  NEVER TAKEN: ", "  NEVER PROBED: ")
    cut = (f"  {report.failure.message}").splitlines()
    kept = [line for line in lines if line not in cut and not line.startswith(missed)]
    return "\n".join(kept)


def _steps(instance: Instance, failure: Failure) -> dict[str, Any]:
    from kvspec.report.steps import trace_json

    return {"trace": trace_json(instance, failure.steps)}


def _run_text(instance: Instance, failure: Failure) -> str:
    from kvspec.report.steps import trace_text

    return (
        f"as the specification takes it:\n{trace_text(instance, failure.steps)}\n{failure.message}"
    )


def write_failure(instance: Instance, failure: Failure, backend: str, path: Path) -> None:
    """Write the shortest failing run as a trace of what the specification does."""
    from kvspec.counterexamples import Broken, trace_of, write_trace
    from kvspec.models.concrete import Machine

    trace = trace_of(
        Machine(instance),
        failure.steps,
        Broken(name=failure.kind, kind="conformance"),
        seed=failure.seed,
        provenance=f"kvspec test --backend {backend}",
    )
    write_trace(trace, path)
