"""`kvspec interleave replay`: stored orders again, on the cache with the fault and on a sound one."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.counterexamples.interleavings.resolve import Resolved
    from kvspec.properties.interleaving import Replayed
    from kvspec.properties.interleaving.judging import Check as Judging


@attrs.frozen
class Told:
    """What a replay came to: holds if it went as the file says it must."""

    file: str
    target: str
    verdict: str
    outcome: str
    message: str
    replayed: Replayed


def replay_files(names: tuple[str, ...]) -> Answer:
    """Replay these, or all that are stored; then a fault of which none is stored makes it unknown."""
    from kvspec.counterexamples.interleavings import interleavings
    from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
    from kvspec.properties.interleaving.checking import linearizability

    paths = [_find(name) for name in names] or interleavings()
    check = linearizability()
    found: list[Told] = []
    missing = () if names else tuple(CONCURRENCY_FAULTS)
    for path in paths:
        read = _read(path)
        missing = tuple(fault for fault in missing if fault not in read.planted)
        found.append(_on_faulty(read, check))
        if read.planted:
            found.append(_on_sound(read, check))
    return _answer(found, missing)


def _find(name: str) -> Path:
    """A file, or a stored interleaving by its name."""
    from kvspec.counterexamples.errors import UnknownNameError
    from kvspec.counterexamples.interleavings import interleaving_path

    path = Path(name)
    if path.exists() or path.suffix == ".json" or len(path.parts) > 1:
        return path
    try:
        return interleaving_path(name)
    except UnknownNameError as error:
        do = "name a file, or an interleaving that is stored"
        where = "FILE of kvspec interleave replay"
        raise unknown("interleaving", name, error.known, where, do) from error


def _read(path: Path) -> Resolved:
    from kvspec.counterexamples.errors import TraceError
    from kvspec.counterexamples.interleavings.files import read_interleaving

    try:
        return read_interleaving(path)
    except TraceError as error:
        what = f"{path} is no interleaving that can be replayed"
        raise UsageError(what, error.found, error.expected, error.where, error.advice) from error


def _replay(read: Resolved, planted: tuple[str, ...], check: Judging) -> Replayed:
    from kvspec.models.decode.concurrent_faults import leaves_lock_out
    from kvspec.properties.interleaving import replay_schedule

    return replay_schedule(
        read.scenario,
        read.schedule,
        planted,
        check=check,
        layout=read.document.layout,
        asked=read.asked,
        is_exposed=leaves_lock_out(read.planted),
    )


def _on_faulty(read: Resolved, check: Judging) -> Told:
    """On the cache that it was found on: the same steps and history, violated again, as the file says."""
    found = _replay(read, read.planted, check)
    outcome, verdict, message = "violated again", HOLDS, ""
    if not found.applies:
        outcome, verdict, message = "does not apply", VIOLATED, found.departs
    elif not found.is_same:
        outcome, verdict = "another history", VIOLATED
        message = "found other answers or ticks than the file has, expected the same"
    elif found.judged.verdict == UNKNOWN:
        outcome, verdict, message = "not judged", UNKNOWN, found.judged.reason
    elif found.judged.verdict == HOLDS:
        outcome, verdict = "no violation", VIOLATED
        message = "found a history that is linearizable, expected the violation that the file tells"
    else:
        message = _differs(read, found)
        if message:
            outcome, verdict = "told otherwise", VIOLATED
    return Told(
        read.where, "faulty" if read.planted else "as it is", verdict, outcome, message, found
    )


def _differs(read: Resolved, found: Replayed) -> str:
    """What the file says of the run besides its steps and history, and is not so."""
    document, run = read.document, found.recording.run
    if run.preemptions != document.preemptions:
        return (
            f"found {run.preemptions} preemptions, expected {document.preemptions} as in the file"
        )
    if found.judged.reason != document.reason:
        return (
            f"found the reason {found.judged.reason!r}, expected {document.reason!r} as in the file"
        )
    return ""


def _on_sound(read: Resolved, check: Judging) -> Told:
    """On a sound cache: whatever order it comes to, the history is one of atomic steps."""
    found = _replay(read, (), check)
    judged = found.judged
    outcome = "keeps to the specification"
    if judged.verdict != HOLDS:
        outcome = "violates the specification" if judged.verdict == VIOLATED else "not judged"
    note = "" if found.applies else f"the threads' order as far as it goes, for {found.departs}"
    return Told(read.where, "sound", judged.verdict, outcome, judged.reason or note, found)


def _answer(found: list[Told], missing: tuple[str, ...]) -> Answer:
    """All replays, for machines and for people; ``missing`` are faults that none of them has."""
    from kvspec.report.tables import text_table

    verdict = worst([*(each.verdict for each in found), *([UNKNOWN] if missing else [])])
    rows = [
        (each.file, each.target, each.outcome, "yes" if each.replayed.applies else "no")
        for each in found
    ]
    parts = [text_table(("file", "cache", "outcome", "step by step"), rows)]
    shown = [each for each in found if each.message and (each.verdict != HOLDS or len(found) < 3)]
    parts += [f"{each.file} ({each.target}): {each.message}" for each in shown]
    told = "found no stored interleaving of this fault, expected one"
    parts += [f"{fault}: {told}" for fault in missing]
    passed = sum(each.verdict == HOLDS for each in found)
    parts.append(f"{verdict}: {passed} of {len(found)} replays went as told")
    data: dict[str, Any] = {
        "verdict": verdict,
        "missing": list(missing),
        "replays": [
            {
                "file": each.file,
                "target": each.target,
                "verdict": each.verdict,
                "outcome": each.outcome,
                "message": each.message,
                "applies": each.replayed.applies,
                "same_history": each.replayed.is_same,
                "judged": each.replayed.judged.verdict,
                "reason": each.replayed.judged.reason,
            }
            for each in found
        ],
    }
    checks = tuple(
        Check(f"interleave replay {each.target}", each.file, each.verdict, message=each.message)
        for each in found
    ) + tuple(Check("interleave replay", fault, UNKNOWN, message=told) for fault in missing)
    return Answer("interleave", verdict, data, "\n\n".join(parts), checks)
