"""`kvspec check`: does a document keep the contracts of its kind, and which one is broken first?"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from kvspec.cli.documents import Given, broken_data, broken_text, read_given, told
from kvspec.cli.errors import UsageError, from_exception, unknown
from kvspec.cli.output import CheckOutput, Flag, check_outputs, check_writable, deliver
from kvspec.cli.verdicts import HOLDS, UNKNOWN, USAGE, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.counterexamples.negative_cases import CaseResult

_OPTIONS = ("--negatives", "--codes", "--schema", "--bind", "--markdown")


def check(
    *names: Annotated[str, Parameter(allow_leading_hyphen=True)],
    negatives: Flag = False,
    codes: Flag = False,
    schema: Flag = False,
    bind: Flag = False,
    markdown: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Check documents: each says of which kind it is, and is held to the contracts of that kind.

    Contracts are tried in order, and the first that is broken is told with its code, the places,
    and what was expected and found there. A file that is no document ends with 2, after all others
    have been told.

    Args:
        names: document files, `-` for standard input; with one of the next three, kinds of document.
        negatives: try the stored negative cases of these kinds, by default of all.
        codes: print the error codes of these kinds and what each contract asks, by default of all.
        schema: print the JSON Schema of one kind.
        bind: print one document with all that follows from its inputs made anew, and nothing else.
        markdown: write every code there is to this file as a page, also those of steps and of logs.
        output: how the answer is told.
    """
    check_outputs(output)
    check_writable(markdown, "--markdown of kvspec check")
    if markdown is not None:
        return deliver(_page(markdown), output)
    modes = {"--negatives": negatives, "--codes": codes, "--schema": schema, "--bind": bind}
    asked = [name for name, given in modes.items() if given]
    _refuse_options(names)
    if len(asked) > 1:
        raise UsageError(
            "one thing at a time can be asked",
            " ".join(asked),
            f"one of {', '.join(modes)}",
            "kvspec check",
            f"leave out {' and '.join(asked[1:])}",
        )
    if negatives:
        return deliver(negative_answer(_kinds(names)), output)
    if codes:
        return deliver(code_answer(_kinds(names)), output)
    if schema:
        return deliver(schema_answer(names), output)
    if not names:
        raise UsageError(
            "there is nothing to check",
            "no file",
            "document files, or - for standard input",
            "kvspec check",
            "kvspec check manifest.json, or kvspec check --negatives",
        )
    if bind:
        return _bound(names, output)
    return _checked(names, output)


def _bound(names: tuple[str, ...], output: CheckOutput) -> int:
    from kvspec.cli.bind import deliver_bound

    if len(names) > 1:
        found, do = f"{len(names)} files", "name one of them"
        raise UsageError("one document at a time is bound", found, "one", "kvspec check", do)
    return deliver_bound(names[0], "check", output)


def _checked(names: tuple[str, ...], output: CheckOutput) -> int:
    """Check every file that can be read; those that cannot are told after them, and end with 2."""
    found: list[Given] = []
    refused: dict[str, UsageError] = {}
    for name in names:
        try:
            found.append(read_given(name))
        except Exception as error:
            told = from_exception(error)
            if told is None or len(names) == 1:
                raise
            refused[name] = told
    code = deliver(answer(found, refused), output)
    for each in refused.values():
        print(each, file=sys.stderr)
    return USAGE if refused else code


def _page(path: Path) -> Answer:
    from kvspec.report import codes

    path.write_text(codes.markdown(), encoding="utf-8")
    return Answer("check", HOLDS, {"markdown": str(path)}, f"wrote {path}")


def _refuse_options(names: tuple[str, ...]) -> None:
    """A word with a hyphen is an option that does not exist, but for `-` alone."""
    for name in names:
        if name.startswith("-") and name != "-":
            known = [*_OPTIONS, "--json", "--junit", "--sarif", "--help"]
            raise unknown("option", name, known, "kvspec check", "see kvspec check --help")
    if names.count("-") > 1:
        told_twice = "standard input can be read once"
        do = "name it once"
        raise UsageError(told_twice, "- twice", "- at most once", "kvspec check", do)


def _kinds(names: tuple[str, ...]) -> list[str]:
    """The kinds that were named, or all of them."""
    from kvspec.properties.documents import kinds

    known = kinds()
    for name in names:
        if name not in known:
            do = "kvspec check --codes lists every kind"
            raise unknown("kind of document", name, known, "KIND of kvspec check", do)
    return list(names or known)


def answer(found: list[Given], refused: dict[str, UsageError] | None = None) -> Answer:
    """Each document with its verdict and the contract that it breaks first; files that are none."""
    checks: list[Check] = []
    data: list[dict[str, Any]] = []
    parts: list[str] = []
    for given in found:
        kind, broken = given.checked.kind, given.checked.broken
        verdict = VIOLATED if broken else HOLDS
        data.append(
            {
                "file": given.where,
                "document": kind.name,
                "verdict": verdict,
                "broken": broken_data(given, broken) if broken else None,
            }
        )
        checks.append(document_check(given))
        kept = f"{given.where} keeps all {len(kind.contracts)} contracts of {kind.name}"
        parts.append(f"{verdict}: {broken_text(given, broken) if broken else kept}")
    for file, error in (refused or {}).items():
        parts.append(f"{UNKNOWN}: {file} is no document that can be checked")
        data.append({"file": file, "verdict": UNKNOWN, "error": error.data()})
        checks.append(Check("check", file, UNKNOWN, message=error.message, detail=str(error)))
    verdict = worst(check.verdict for check in checks)
    if len(checks) > 1:
        good = sum(check.verdict == HOLDS for check in checks)
        parts.append(f"{verdict}: {good} of {len(checks)} documents keep their contracts")
    whole: dict[str, Any] = {"verdict": verdict, "documents": data}
    return Answer("check", verdict, whole, "\n".join(parts), tuple(checks))


def document_check(given: Given) -> Check:
    """One document for JUnit and SARIF; a broken one by the code and the line."""
    group, broken = f"check {given.checked.kind.name}", given.checked.broken
    if broken is None:
        place = None if given.file is None else (given.file, 1)
        return Check(group, given.where, HOLDS, place=place, rule="contracts")
    first = broken.findings[0]
    place = None if given.file is None else (given.file, given.line(first.path))
    message = (
        f"{broken.code} at {first.path}: expected {told(first.expected)}, found {told(first.found)}"
    )
    detail = broken_text(given, broken)
    return Check(
        group,
        given.where,
        VIOLATED,
        message=message,
        detail=detail,
        place=place,
        rule=broken.code,
    )


def negative_answer(names: list[str]) -> Answer:
    """The stored cases of each kind: do they fail as they must, and reach every contract?"""
    from kvspec.counterexamples.negative_cases import check_set, codes_not_reached, kinds_with_cases
    from kvspec.properties.documents import find_kind
    from kvspec.report.tables import text_table

    have, rows, data = kinds_with_cases(), [], []
    checks: list[Check] = []
    for name in names:
        results = check_set(name) if name in have else []
        missed = codes_not_reached(name) if name in have else list(find_kind(name).contracts)
        checks.extend(_case_check(result) for result in results)
        reached = Check(
            f"negatives {name}",
            "every contract is broken by a case",
            VIOLATED if missed else HOLDS,
            message=_missed(missed, stored=name in have),
        )
        checks.append(reached)
        cases = [result for result in results if result.expected != "none"]
        contracts = len(find_kind(name).contracts)
        verdict = worst([*(_verdict(result) for result in results), reached.verdict])
        rows.append((name, str(len(cases)), f"{contracts - len(missed)}/{contracts}", verdict))
        data.append(
            {
                "document": name,
                "verdict": verdict,
                "cases": [_case_data(result) for result in cases],
                "contracts_not_reached": missed,
            }
        )
    verdict = worst(check.verdict for check in checks)
    parts = [text_table(("document", "cases", "contracts reached", "verdict"), rows, right=(1, 2))]
    parts.extend(f"{c.name} ({c.group}): {c.message}" for c in checks if c.verdict != HOLDS)
    whole: dict[str, Any] = {"verdict": verdict, "documents": data}
    return Answer("check", verdict, whole, "\n\n".join(parts), tuple(checks))


def _missed(codes: list[str], *, stored: bool) -> str:
    """Why some contracts have not been shown to fail."""
    if not stored:
        return "there are no negative cases of this kind on file"
    return f"no case breaks {', '.join(codes)}" if codes else ""


def _verdict(result: CaseResult) -> str:
    return HOLDS if result.holds else VIOLATED


def _case_data(result: CaseResult) -> dict[str, Any]:
    return {
        "case": result.case,
        "expected": result.expected,
        "found": result.found,
        "problem": result.problem,
    }


def _case_check(result: CaseResult) -> Check:
    group = f"negatives {result.kind}"
    return Check(group, result.case, _verdict(result), message=result.problem or "")


def code_answer(names: list[str]) -> Answer:
    """Every error code of these kinds, in the order in which they are told."""
    from kvspec.models.documents import READING
    from kvspec.properties.documents import codes, find_kind
    from kvspec.report.tables import text_table

    found = {name: codes()[name] for name in names}
    parts = [text_table(("any document", "what it asks"), list(READING.items()))]
    for name, own in found.items():
        free = [(path, f"free: {reason}") for path, reason in find_kind(name).free.items()]
        parts.append(text_table((name, find_kind(name).doc), [*own.items(), *free]))
    data = {
        "verdict": HOLDS,
        "any": dict(READING),
        "documents": {
            name: {"doc": find_kind(name).doc, "codes": own, "free": find_kind(name).free}
            for name, own in found.items()
        },
    }
    return Answer("check", HOLDS, data, "\n\n".join(parts))


def schema_answer(names: tuple[str, ...]) -> Answer:
    """The JSON Schema of one kind."""
    from kvspec.models.documents import schema
    from kvspec.properties.documents import find_kind, kinds

    if len(names) != 1:
        raise UsageError(
            "--schema takes one kind of document",
            f"{len(names)} kinds",
            f"one of {', '.join(kinds())}",
            "--schema of kvspec check",
            f"kvspec check --schema {next(iter(kinds()))}",
        )
    made = schema(find_kind(_kinds(names)[0]))
    return Answer("check", HOLDS, made, json.dumps(made, indent=2))
