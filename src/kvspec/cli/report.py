"""`kvspec report`: the readable specification, and the generated parts of a README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from kvspec.cli.errors import UsageError
from kvspec.cli.output import Flag, Output, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer


def report(
    *,
    readme: Annotated[list[Path] | None, Parameter(negative="")] = None,
    rules: Path | None = None,
    results: Path | None = None,
    check: Flag = False,
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print the diagrams and the picture, or write them anew into a Markdown file.

    Parts of the file stand between `kvspec NAME` and `end NAME` in comments. The tables of results
    and claims come from `kvspec verify`, which is run if no file has its answer.

    Args:
        readme: a file whose parts are made anew; may be given again.
        rules: write the page of all rules to this file, and nothing else; with --check, compare it.
        results: the answer of `kvspec verify --json`, in a file.
        check: write nothing; a part of the file that is not current is `violated`. Nothing is run
            again: times, the cases of claims and the exact number of replays are not looked at.
        output: how the answer is told.
    """
    if rules is not None:
        if readme or results is not None:
            raise UsageError(
                "--rules is for itself",
                "another option beside it",
                "--rules FILE, with --check or alone",
                "--rules of kvspec report",
                "kvspec report --rules docs/rules.md",
            )
        return deliver(_rules(rules, check=check), output)
    if not readme:
        if check:
            raise UsageError(
                "--check needs a file to check",
                "no --readme",
                "the file whose parts are compared",
                "--check of kvspec report",
                "kvspec report --readme README.md --check",
            )
        return deliver(_print_all(), output)
    if check:
        return deliver(_checked(readme, [_compared(path) for path in readme]), output)
    for path in readme:
        _compared(path)  # what cannot be made anew is told before anything is run
    found = _results(results)
    for path in readme:
        _renew(path, found)
    verdict = str(found["verdict"])
    names = ", ".join(str(path) for path in readme)
    told = f"wrote {names}; the results in it are: {verdict}"
    data = {"readme": [str(path) for path in readme], "verdict": verdict}
    return deliver(Answer("report", verdict, data, told), output)


def _compared(path: Path) -> dict[str, list[str]]:
    """What is wrong with each part of a file that is not current."""
    from kvspec.report.readme import PartsError, differences

    _read(path, "--readme")
    try:
        return differences(path)
    except PartsError as error:
        raise _unmarked(path, error) from error


def _renew(path: Path, found: dict[str, Any]) -> None:
    from kvspec.report.readme import PartsError, regenerate

    try:
        path.write_text(regenerate(_read(path, "--readme"), found), encoding="utf-8")
    except PartsError as error:
        raise _unmarked(path, error) from error


def _unmarked(path: Path, error: ValueError) -> UsageError:
    return UsageError(
        f"{path} cannot be made anew",
        str(error).split(", expected ")[0].removeprefix("found "),
        str(error).split(", expected ")[-1],
        str(path),
        "mark the places of the parts",
    )


def _rules(path: Path, *, check: bool) -> Answer:
    """Write the page of rules, or compare it; a file that is another one is left alone."""
    from kvspec.report.rules import TITLE, markdown

    if check or path.exists():
        there = _read(path, "--rules")
        if not there.startswith(TITLE):
            raise UsageError(
                f"{path} is no page of rules",
                there.partition("\n")[0][:60] or "an empty file",
                f"a file that begins with `{TITLE}`, or none yet",
                "--rules of kvspec report",
                "name another file: kvspec report --rules docs/rules.md",
            )
        if check:
            same = there == markdown()
            verdict = HOLDS if same else VIOLATED
            told = "is current" if same else f"is not current: run kvspec report --rules {path}"
            data = {"rules": str(path), "verdict": verdict}
            return Answer("report", verdict, data, f"{verdict}: {path} {told}")
    check_writable(path, "--rules of kvspec report")
    path.write_text(markdown(), encoding="utf-8")
    return Answer("report", HOLDS, {"rules": str(path), "verdict": HOLDS}, f"wrote {path}")


def _print_all() -> Answer:
    from kvspec.report.readme import FIXED, make_part

    parts = {name: make_part(name, None).strip() for name in FIXED}
    return Answer("report", HOLDS, {"parts": parts}, "\n\n".join(parts.values()))


def _checked(paths: list[Path], found: list[dict[str, list[str]]]) -> Answer:
    from kvspec.report.measured import UNCHECKED

    verdict = VIOLATED if any(found) else HOLDS
    lines: list[str] = []
    for path, wrong in zip(paths, found, strict=True):
        lines.extend(f"{name}: {each}" for name, told in wrong.items() for each in told)
        if wrong:
            lines.append(
                f"{VIOLATED}: {path}, {', '.join(wrong)} not current; run kvspec report --readme {path}"
            )
        else:
            lines.append(f"{HOLDS}: {path}, every part is current; not run again: {UNCHECKED}")
    data = {
        "files": [
            {"readme": str(path), "outdated": list(wrong), "differences": wrong}
            for path, wrong in zip(paths, found, strict=True)
        ],
        "unchecked": UNCHECKED,
        "verdict": verdict,
    }
    return Answer("report", verdict, data, "\n".join(lines))


def _read(path: Path, option: str) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(
            f"{path} cannot be read",
            getattr(error, "strerror", None) or type(error).__name__,
            "a text file",
            f"{option} of kvspec report",
            "check the path",
        ) from error


def _results(path: Path | None) -> dict[str, Any]:
    """The answer of `kvspec verify`, from a file or by running it."""
    if path is None:
        from kvspec.cli.verify import check_systems

        return check_systems().data
    try:
        found = json.loads(_read(path, "--results"))
    except json.JSONDecodeError as error:
        found = {"error": str(error)}
    if not isinstance(found, dict) or "results" not in found:
        raise UsageError(
            f"{path} is no answer of kvspec verify",
            "other JSON, or none",
            "an object with `results`",
            "--results of kvspec report",
            "kvspec verify --json > results.json",
        )
    return found
