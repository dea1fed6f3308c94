"""`kvspec replay`: a trace again, step by step, against the specification and against caches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from kvspec.cli.backends import torch_absent, torch_backend
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, Flag, Output, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.cli.progress import Counted
    from kvspec.counterexamples.resolve import Resolved

Target = Literal["spec", "sound", "faulty", "all"]
TARGETS = ("spec", "sound", "faulty")


@attrs.frozen
class Run:
    """One trace against one target; `skipped` says why it could not be run."""

    trace: str
    target: str
    verdict: str
    data: dict[str, Any]
    text: str
    message: str
    seconds: float = 0.0
    skipped: str = ""


def replay(
    *files: str,
    target: Target = "all",
    as_test: Flag = False,
    itf: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Run traces again: against the specification, a sound cache, and a cache with the trace's fault.

    The specification takes every step as told, up to the one that it refuses. The sound cache
    refuses that step with the same code and changes nothing else. The cache with the fault takes
    it, and the damage is shown in numbers. Anything else is `violated`.

    Args:
        files: trace files, or names of traces in the library; without any, the whole library.
        target: spec, sound, faulty, or all of them that can be had.
        as_test: print a pytest function that reproduces the trace, and run nothing.
        itf: print the trace in the Informal Trace Format, for other tools, and run nothing.
        output: how the answer is told.
    """
    check_outputs(output)
    paths = [find_trace(name) for name in files] or library()
    if as_test or itf:
        return deliver(_converted(paths, output, as_test=as_test), output)
    reason = torch_absent()
    if reason is not None and target in ("sound", "faulty"):
        raise UsageError(
            f"--target {target} cannot be had here",
            reason.split(":")[0],
            "the extra torch of this package",
            "--target of kvspec replay",
            "pip install 'kvspec[torch]', or use --target spec",
        )
    targets = TARGETS if target == "all" else (target,)
    with counting("replay") as progress:
        runs = run(paths, targets, progress, skip_absent=target == "all")
    return deliver(answer(runs, detailed=bool(files)), output)


def library_folder() -> Path:
    """The folder of the traces that come with this package."""
    import kvspec.counterexamples.library as package

    return Path(next(iter(package.__path__)))


def library() -> list[Path]:
    """Every trace of the library."""
    found = sorted(library_folder().glob("*.json"))
    if not found:
        raise UsageError(
            "the library has no traces",
            "no file",
            "traces",
            str(library_folder().name),
            "name a file",
        )
    return found


def find_trace(name: str) -> Path:
    """A trace file, or a trace of the library by its name."""
    path = Path(name)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 1:
        return path
    kept = library_folder() / f"{name}.json"
    if kept.exists():
        return kept
    known = [p.stem for p in sorted(library_folder().glob("*.json"))]
    raise unknown(
        "trace",
        name,
        ["a file", *known],
        "FILE of kvspec replay",
        "name a trace file, or a trace of the library",
    )


def read(path: Path) -> Resolved:
    """A trace, checked against its system; what is wrong with a file is an error of usage."""
    from kvspec.counterexamples.errors import TraceError
    from kvspec.counterexamples.files import read_trace
    from kvspec.counterexamples.resolve import resolve

    try:
        return resolve(read_trace(path), path.name)
    except TraceError as error:
        raise UsageError(
            f"{path} is no trace that can be replayed",
            error.found,
            error.expected,
            error.where,
            error.advice,
        ) from error


def run(
    paths: list[Path],
    targets: tuple[str, ...],
    progress: Counted | None,
    *,
    skip_absent: bool = True,
) -> list[Run]:
    """Replay every trace against every target that can be had."""
    traces = [read(path) for path in paths]
    runs: list[Run] = []
    total = len(traces) * len(targets)
    for found in traces:
        for target in targets:
            one = run_one(found, target)
            if one is not None and not (one.skipped and skip_absent and target == "faulty"):
                runs.append(one)
            if progress is not None:
                progress(len(runs), total, found.where)
    return runs


def run_one(found: Resolved, target: str) -> Run | None:
    """Replay one trace against one target; None if the target has nothing to say of it."""
    from time import perf_counter

    from kvspec.counterexamples.errors import TraceError
    from kvspec.counterexamples.replay import replay as replay_trace

    start = perf_counter()
    backend: Any = "spec"
    if target != "spec":
        absent = torch_absent() or _not_core(found)
        if absent is not None:
            return _skipped(found, target, absent)
        mutation = found.trace.mutation
        if target == "faulty" and mutation is None:
            return None
        backend = torch_backend(mutation.name if mutation and target == "faulty" else None)
        if backend is None:
            return None
    try:
        result = replay_trace(found, backend, faulty=target == "faulty", where=found.where)
    except TraceError as error:
        raise UsageError(
            f"{found.where} cannot be replayed",
            error.found,
            error.expected,
            error.where,
            error.advice,
        ) from error
    verdict = HOLDS if result.passed else VIOLATED
    if result.outcome == "not_replayable":
        verdict = UNKNOWN
    data = {**result.as_json(), "target": target, "verdict": verdict}
    seconds = perf_counter() - start
    return Run(found.where, target, verdict, data, result.show(), result.message, seconds)


def _not_core(found: Resolved) -> str | None:
    system = found.trace.system
    return None if system == "core" else f"the decode backend speaks of core, and not of {system}"


def _skipped(found: Resolved, target: str, reason: str) -> Run:
    data = {
        "trace": found.where,
        "target": target,
        "outcome": "not_run",
        "message": reason,
        "steps": [],
        "verdict": UNKNOWN,
    }
    text = f"{found.where} against {target}: not run, {reason}"
    return Run(found.where, target, UNKNOWN, data, text, reason, skipped=reason)


def answer(runs: list[Run], *, detailed: bool = True) -> Answer:
    """All replays; in full, or as a table with the full text of those that did not pass."""
    from kvspec.report.tables import text_table

    verdict = worst(each.verdict for each in runs)
    shown = [each for each in runs if detailed or (each.verdict != HOLDS and not each.skipped)]
    rows = [(each.trace, each.target, each.data["outcome"].replace("_", " ")) for each in runs]
    parts = [each.text for each in shown]
    if len(rows) > 1:
        parts.append(text_table(("trace", "target", "outcome"), rows))
    passed = sum(each.verdict == HOLDS for each in runs)
    parts.append(f"{verdict}: {passed} of {len(runs)} replays went as told")
    replays = [each.data for each in runs]
    data: dict[str, Any] = {"verdict": verdict, "replays": replays}
    if len(replays) == 1:
        data = {**replays[0], **data}
    checks = tuple(
        Check(
            f"replay {each.target}",
            each.trace,
            each.verdict,
            each.seconds,
            each.message,
            "" if each.verdict == HOLDS else each.text,
        )
        for each in runs
    )
    return Answer("replay", verdict, data, "\n\n".join(parts), checks)


def _converted(paths: list[Path], output: Output, *, as_test: bool) -> Answer:
    """One trace as a pytest function or in ITF."""
    import json

    if len(paths) != 1:
        raise UsageError(
            "one trace at a time can be converted",
            f"{len(paths)} traces",
            "one FILE",
            "FILE of kvspec replay",
            "name one trace file",
        )
    trace = read(paths[0]).trace
    if as_test:
        from kvspec.counterexamples import as_test as as_function

        text = as_function(trace)
        return Answer("replay", HOLDS, {"trace": paths[0].name, "test": text}, text.rstrip())
    from kvspec.counterexamples.itf import to_itf

    document = to_itf(trace)
    data = {"trace": paths[0].name, "itf": document} if output.json else document
    return Answer("replay", HOLDS, data, json.dumps(document, indent=2))
