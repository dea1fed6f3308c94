"""`kvspec replay`: a trace again, step by step, against the specification and against caches."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import attrs

from kvspec.cli.atlas import is_group, named_case
from kvspec.cli.backends import backend_name, is_stand_in, make_backend, torch_absent
from kvspec.cli.belongs import other_command
from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.output import CheckOutput, Flag, Output, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.cli.progress import Counted
    from kvspec.counterexamples.resolve import Resolved
    from kvspec.counterexamples.results import Replay

Target = Literal["spec", "sound", "faulty", "all"]
Picture = Literal["text", "mermaid", "dot"]
STAND_IN = (
    "the cache has no such fault, and the one that stands in for it shows itself only to a reader "
    "within the step"
)
TARGETS = ("spec", "sound", "faulty")


@attrs.frozen
class Run:
    """One trace against one target.

    skipped: why it could not be run. left_out: why what came of it says nothing of the trace.
    """

    trace: str
    target: str
    verdict: str
    data: dict[str, Any]
    text: str
    message: str
    seconds: float = 0.0
    skipped: str = ""
    left_out: str = ""


def replay(
    *files: str,
    target: Target = "all",
    picture: Picture | None = None,
    as_test: Flag = False,
    itf: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Run traces again: against the specification, a sound cache, and a cache with the trace's fault.

    The specification takes every step as told, up to the one that it refuses. The sound cache
    refuses that step with the same code and changes nothing else. The cache with the fault takes
    it, and what harm can be measured then is shown in numbers. Anything else is `violated`.

    Args:
        files: trace files, or names of traces in the library or of the atlas (A-B01); without any, the
            whole library, on caches those of the core alone.
        target: spec, sound, faulty, or all of them that can be had.
        picture: print the trace as a space-time diagram (text, mermaid or dot), and run nothing.
        as_test: print a pytest function that reproduces the trace, and run nothing.
        itf: print the trace in the Informal Trace Format, for other tools, and run nothing.
        output: how the answer is told.
    """
    check_outputs(output)
    paths = [find_trace(name) for name in files] or library()
    forms = {f"--picture {picture}": picture, "--as-test": as_test, "--itf": itf}
    given = [name for name, asked in forms.items() if asked]
    if len(given) > 1:
        raise UsageError(
            "a trace is printed in one form at a time",
            " ".join(given),
            "one of --picture, --as-test and --itf",
            "kvspec replay",
            f"leave out {' and '.join(given[1:])}",
        )
    if given:
        return deliver(_converted(paths, output, picture, as_test=as_test), output)
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
        runs = run(paths, targets, progress, whole=not files)
    if not runs:
        raise UsageError(
            f"nothing can be replayed on the {target} cache",
            f"{len(paths)} traces, and no such cache or fault for any of them",
            "a trace of a mechanism that the torch cache has",
            "--target of kvspec replay",
            "use --target spec",
        )
    return deliver(answer(runs, detailed=bool(files)), output)


def library() -> list[Path]:
    """Every trace of the library."""
    from kvspec.counterexamples.library import library as listed

    found = listed()
    if not found:
        raise UsageError(
            "the library has no traces", "no file", "traces", "the library", "name a trace file"
        )
    return found


def find_trace(name: str) -> Path:
    """A trace file, or a trace of the library by its name."""
    from kvspec.counterexamples.atlas_files import file_name, folder
    from kvspec.counterexamples.errors import UnknownNameError
    from kvspec.counterexamples.library import library_path

    path = Path(name)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 2:
        return path
    if is_group(name):
        return folder() / file_name(*named_case(name, "FILE of kvspec replay"))
    try:
        return library_path(name)
    except UnknownNameError as error:
        known = error.known
        do = "name a trace file, or a trace of the library, such as publish.drop-guard.STALE_SNAPSHOT"
        raise unknown("trace", name, known, "FILE of kvspec replay", do) from error


def read(path: Path) -> Resolved:
    """A trace, checked against its system; what is wrong with a file is an error of usage."""
    from kvspec.counterexamples.errors import TraceError
    from kvspec.counterexamples.files import read_trace
    from kvspec.counterexamples.resolve import resolve

    try:
        return resolve(read_trace(path), path.name)
    except TraceError as error:
        text = path.read_text(encoding="utf-8", errors="replace") if path.is_file() else ""
        do = other_command(text, str(path))
        raise UsageError(
            f"{path} is no trace that can be replayed",
            error.found,
            error.expected,
            error.where,
            error.advice if do is None or do.startswith("`kvspec replay") else do,
        ) from error


def run(
    paths: list[Path], targets: tuple[str, ...], progress: Counted | None, *, whole: bool = False
) -> list[Run]:
    """Replay every trace against every target that can be had.

    whole: it is the whole library; traces of other systems than the core are then replayed on the
    specification alone. What caches do of those is shown by the atlas.
    """
    runs: list[Run] = []
    done, total = 0, len(paths) * len(targets)
    for path in paths:
        found = read(path)
        for target in targets:
            left = whole and target != "spec" and found.trace.system != "core"
            one = None if left else run_one(found, target)
            if one is not None:
                runs.append(one)
            done += 1
            if progress is not None:
                progress(done, total, found.where)
    return runs


def run_one(found: Resolved, target: str) -> Run | None:
    """Replay one trace against one target; None if the target has nothing to say of it."""
    from time import perf_counter

    from kvspec.counterexamples.errors import TraceError
    from kvspec.counterexamples.replay import replay as replay_trace

    start = perf_counter()
    system, mutation = found.trace.system, found.trace.mutation
    fault = mutation.name if mutation is not None and target == "faulty" else None
    backend: Any = "spec"
    if target != "spec":
        if backend_name(system) is None or (target == "faulty" and fault is None):
            return None
        absent = torch_absent()
        if absent is not None:
            return _skipped(found, target, absent)
        backend = make_backend(system, fault)
    if backend is None:
        return None
    try:
        result = replay_trace(found, backend, faulty=target == "faulty", where=found.where)
    except TraceError as error:
        what = f"{found.where} cannot be replayed"
        raise UsageError(what, error.found, error.expected, error.where, error.advice) from error
    verdict = judge(result)
    if result.outcome == "no_damage" and verdict == VIOLATED and is_stand_in(system, fault):
        data = {"trace": found.where, "target": target, "reason": STAND_IN}
        return Run(found.where, target, HOLDS, data, "", "", left_out=STAND_IN)
    data = {**result.as_json(), "target": target, "verdict": verdict}
    seconds = perf_counter() - start
    return Run(found.where, target, verdict, data, result.show(), result.message, seconds)


def judge(result: Replay) -> str:
    """The verdict on a replay.

    A cache with a fault that takes the step and shows no harm yet has still shown the fault, if the
    specification refuses that step or the variable that the mutation alters is altered alike.
    """
    if result.outcome == "not_replayable":
        return UNKNOWN
    sound, mutation = result.trace.sound, result.trace.mutation
    if result.outcome != "no_damage" or mutation is None:
        return HOLDS if result.passed else VIOLATED
    if sound is not None and sound.outcome == "refused":
        return HOLDS
    altered = mutation.name.rpartition(".")[2]
    missed = [note for note in result.steps[-1].differences if re.match(rf"{altered}\b", note)]
    return VIOLATED if missed else HOLDS


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


def answer(runs: list[Run], *, detailed: bool = True, must_run: bool = False) -> Answer:
    """All replays; in full, or as a table with the full text of those that did not pass.

    must_run: a replay that could not be run makes the verdict `unknown`; else it is told and no more.
    """
    from kvspec.report.tables import text_table

    left_out = [each for each in runs if each.left_out]
    runs = [each for each in runs if not each.left_out]
    verdict = worst(each.verdict for each in runs if must_run or not each.skipped)
    shown = [each for each in runs if detailed or (each.verdict != HOLDS and not each.skipped)]
    rows = [(each.trace, each.target, each.data["outcome"].replace("_", " ")) for each in runs]
    parts = [each.text for each in shown]
    if len(rows) > 1:
        parts.append(text_table(("trace", "target", "outcome"), rows))
    passed = sum(each.verdict == HOLDS for each in runs)
    harmed = sum(each.data["outcome"] == "damage_shown" for each in runs)
    harm = f"; {harmed} show damage" if harmed else ""
    for reason in dict.fromkeys(each.left_out for each in left_out):
        names = [f"{each.trace} ({each.target})" for each in left_out if each.left_out == reason]
        listed = "".join(f"\n  {name}" for name in names)
        parts.append(f"left out: {len(names)}, since {reason}{listed}")
    parts.append(f"{verdict}: {passed} of {len(runs)} replays went as told{harm}")
    replays = [each.data for each in runs]
    omitted = [each.data for each in left_out]
    data: dict[str, Any] = {"verdict": verdict, "replays": replays, "left_out": omitted}
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


def _converted(
    paths: list[Path], output: Output, picture: Picture | None, *, as_test: bool
) -> Answer:
    """One trace as a picture, as a pytest function or in ITF."""
    import json

    from kvspec.counterexamples import as_test as as_function
    from kvspec.counterexamples import to_itf

    if len(paths) != 1:
        raise UsageError(
            "one trace at a time can be converted",
            f"{len(paths)} traces",
            "one FILE",
            "FILE of kvspec replay",
            "name one trace file",
        )
    found, name = read(paths[0]), paths[0].name
    if picture is not None:
        text = draw(found, picture)
        return Answer("replay", HOLDS, {"trace": name, "picture": text}, text)
    if as_test:
        text = as_function(found.trace, name).rstrip()
        return Answer("replay", HOLDS, {"trace": name, "test": text}, text)
    document = to_itf(found.trace)
    data = {"trace": name, "itf": document} if output.json else document
    return Answer("replay", HOLDS, data, json.dumps(document, indent=2))


def draw(found: Resolved, picture: Picture) -> str:
    """The space-time diagram of a trace."""
    from kvspec.counterexamples.lanes import lanes
    from kvspec.counterexamples.pictures import dot, mermaid

    return {"text": lanes, "mermaid": mermaid, "dot": dot}[picture](found).rstrip()
