"""`kvspec linearize`: is a recorded concurrent history one order of steps of the specification?"""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter, validators

from kvspec.cli.errors import UsageError
from kvspec.cli.output import CheckOutput, check_outputs, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.counterexamples.history_files import HistoryFile
    from kvspec.properties.linearizability.result import Result

Positive = Annotated[int | None, Parameter(validator=validators.Number(gte=1))]
_MEBIBYTE = 1 << 20


def linearize(
    files: list[Path],
    /,
    *,
    max_seconds: Annotated[float, Parameter(validator=validators.Number(gt=0))] = 60.0,
    max_states: Positive = None,
    max_memory: Annotated[int, Parameter(validator=validators.Number(gte=1))] = 1024,
    picture: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Check that recorded histories are linearizable, against the specification itself.

    A history holds if its operations can be put into one order, each between its call and its
    answer, in which the specification gives every answer. If there is none, the least answers that
    fail together are told, how far an order comes, and what the specification answers there. A search
    that reaches a limit ends with `unknown` (exit code 3).

    Args:
        files: histories as JSON documents; docs/linearizability.md has their format.
        max_seconds: the search of a history, with what makes it ready, ends after so many seconds.
        max_states: it ends after so many configurations.
        max_memory: its tables take at most so many MiB.
        picture: draw the history, the only one given, into this SVG file.
        output: how the answer is told.
    """
    from kvspec.counterexamples.history_files import read_history
    from kvspec.properties.linearizability.errors import HistoryError
    from kvspec.properties.linearizability.result import check

    check_outputs(output)
    check_writable(picture, "--picture")
    if picture is not None and len(files) != 1:
        raise UsageError(
            "--picture draws one history",
            f"{len(files)} files",
            "one file",
            "--picture of kvspec linearize",
            "name one history, or leave --picture out",
        )
    read = [(file, read_history(file)) for file in files]
    found = []
    for file, each in read:
        try:
            result = check(
                each.history,
                seconds=max_seconds,
                max_states=max_states,
                max_bytes=max_memory * _MEBIBYTE,
            )
        except HistoryError as error:
            raise _usage(file, error) from error
        found.append((str(file), each, result))
    if picture is not None:
        from kvspec.counterexamples.files import write_text
        from kvspec.properties.linearizability.picture import svg

        write_text(svg(found[0][2]), picture)
    return deliver(answer(found), output)


def _usage(file: Path, error: Any) -> UsageError:
    return UsageError(
        "a file is no history that can be checked",
        error.found,
        error.expected,
        f"{file}, {error.where}",
        error.advice,
    )


def answer(found: list[tuple[str, HistoryFile, Result]]) -> Answer:
    """What was found of the histories, with a check for each."""
    verdict = worst(result.verdict for _, _, result in found)
    text = "\n\n".join(_text(where, read, result) for where, read, result in found)
    if len(found) > 1:
        counts = Counter(result.verdict for _, _, result in found)
        listed = ", ".join(f"{counts[v]} {v}" for v in (HOLDS, VIOLATED, UNKNOWN) if counts[v])
        text = f"{text}\n\n{verdict}: {len(found)} histories: {listed}"
    checks = tuple(_check(where, result) for where, _, result in found)
    data = {
        "verdict": verdict,
        "histories": [_data(where, read, result) for where, read, result in found],
    }
    return Answer("linearize", verdict, data, text, checks)


def _text(where: str, read: HistoryFile, result: Result) -> str:
    from kvspec.properties.linearizability.picture import timeline

    history = result.history
    clients = len({operation.client for operation in history.operations})
    parts = "" if result.parts < 2 else f", in {result.parts} parts that share no cell"
    lines = [f"{where}: {len(history.operations)} operations of {clients} clients{parts}"]
    if read.about:
        lines.append(f"  {read.about}")
    if result.verdict == VIOLATED:
        lines += ["", timeline(result), "", *_why(result)]
    lines.append(f"{result.verdict}: {where}: {_told(result)}")
    return "\n".join(lines)


def _why(result: Result) -> list[str]:
    """The window, the longest sequence and what cannot follow it."""
    from kvspec.properties.linearizability.explain import answer_text, call_text

    history = result.history
    lines = []
    window = result.window
    if window is not None:
        least = "at the least" if window.minimal else "not shown to be the least"
        lines.append(f"no order gives these answers together, whatever the others were ({least}):")
        lines += [
            f"  {place}  {call_text(history.operations[place])}: "
            f"{answer_text(history, history.operations[place])}"
            for place in window.operations
        ]
    order = ", ".join(map(str, result.order[-12:]))
    more = "..., " if len(result.order) > 12 else ""
    lines.append(
        f"the longest order takes {len(result.order)} of {len(result.part)}: {more}{order}"
    )
    for each in result.stuck:
        operation = history.operations[each.place]
        lines.append(f"then {each.place}  {call_text(operation)}: was told {each.told}")
        lines.append(f"  the specification answers {each.instead}")
        if each.because:
            lines.append(f"  {each.because}")
    return lines


def _told(result: Result) -> str:
    if result.verdict == HOLDS:
        return "linearizable"
    if result.verdict == VIOLATED:
        return "not linearizable"
    return result.reason


def _check(where: str, result: Result) -> Check:
    message = "" if result.verdict == HOLDS else _told(result)
    detail = "\n".join(_why(result)) if result.verdict == VIOLATED else ""
    place = None if result.verdict == HOLDS else (where, 1)
    return Check("linearize", where, result.verdict, result.seconds, message, detail, place)


def _data(where: str, read: HistoryFile, result: Result) -> dict[str, Any]:
    window = result.window
    return {
        "file": where,
        "verdict": result.verdict,
        "reason": result.reason,
        "expected": read.expected,
        "operations": len(result.history.operations),
        "parts": result.parts,
        "order": list(result.order),
        "part": list(result.part),
        "stuck": [attrs.asdict(each) for each in result.stuck],
        "window": None if window is None else attrs.asdict(window),
        "configurations": result.configurations,
        "kept": result.kept,
        "bytes": result.bytes,
        "seconds": result.seconds,
    }
