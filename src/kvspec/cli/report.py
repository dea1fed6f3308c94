"""`kvspec report`: the readable specification, and the generated parts of a README."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from kvspec.cli.errors import UsageError
from kvspec.cli.output import Flag, Output, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer


def report(
    *,
    readme: Path | None = None,
    rules: Path | None = None,
    results: Path | None = None,
    check: Flag = False,
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Print the diagrams and the picture, or write them anew into a Markdown file.

    Parts of the file stand between `kvspec NAME` and `end NAME` in comments. The tables of results
    and claims come from `kvspec verify`, which is run if no file has its answer.

    Args:
        readme: the file whose parts are made anew.
        rules: write the page of all rules to this file, and nothing else.
        results: the answer of `kvspec verify --json`, in a file.
        check: write nothing; a part of the file that is not current is `violated`. Nothing is run
            again: times, the cases of claims and the exact number of replays are not looked at.
        output: how the answer is told.
    """
    if rules is not None:
        if readme is not None or results is not None or check:
            raise UsageError(
                "--rules is for itself",
                "another option beside it",
                "--rules FILE alone",
                "--rules of kvspec report",
                "kvspec report --rules docs/rules.md",
            )
        return deliver(_write_rules(rules), output)
    if readme is None:
        if check:
            raise UsageError(
                "--check needs a file to check",
                "no --readme",
                "the file whose parts are compared",
                "--check of kvspec report",
                "kvspec report --readme README.md --check",
            )
        return deliver(_print_all(), output)
    from kvspec.report.readme import PartsError, differences, regenerate

    text = _read(readme, "--readme")
    try:
        if check:
            return deliver(_checked(readme, differences(readme)), output)
        found = _results(results)
        readme.write_text(regenerate(text, found), encoding="utf-8")
    except PartsError as error:
        raise UsageError(
            f"{readme} cannot be made anew",
            str(error).split(", expected ")[0].removeprefix("found "),
            str(error).split(", expected ")[-1],
            str(readme),
            "mark the places of the parts",
        ) from error
    verdict = str(found["verdict"])
    told = f"wrote {readme}; the results in it are: {verdict}"
    return deliver(
        Answer("report", verdict, {"readme": str(readme), "verdict": verdict}, told), output
    )


def _write_rules(path: Path) -> Answer:
    from kvspec.report.rules import markdown

    check_writable(path, "--rules of kvspec report")
    path.write_text(markdown(), encoding="utf-8")
    return Answer("report", HOLDS, {"rules": str(path), "verdict": HOLDS}, f"wrote {path}")


def _print_all() -> Answer:
    from kvspec.report.readme import FIXED, make_part

    parts = {name: make_part(name, None).strip() for name in FIXED}
    return Answer("report", HOLDS, {"parts": parts}, "\n\n".join(parts.values()))


def _checked(readme: Path, wrong: dict[str, list[str]]) -> Answer:
    from kvspec.report.measured import UNCHECKED

    verdict = VIOLATED if wrong else HOLDS
    lines = [f"{name}: {each}" for name, told in wrong.items() for each in told]
    if wrong:
        lines.append(
            f"{verdict}: {readme}, {', '.join(wrong)} not current; run kvspec report --readme {readme}"
        )
    else:
        lines.append(f"{verdict}: {readme}, every part is current; not run again: {UNCHECKED}")
    data = {
        "readme": str(readme),
        "outdated": list(wrong),
        "differences": wrong,
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
