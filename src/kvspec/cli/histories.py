"""The stored histories again: each must be told from the others as its file says."""

from __future__ import annotations

from typing import Any

from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check, worst


def stored_histories() -> Answer:
    """Check every stored history; what its file expects must come out, and it must expect something.

    Unless some must hold and some must not, it is unknown whether the checker tells them apart.
    """
    from kvspec.counterexamples.history_files import FOLDER, read_history
    from kvspec.properties.linearizability.result import check

    told: list[dict[str, Any]] = []
    checks: list[Check] = []
    for path in sorted(FOLDER.glob("*.json")):
        read = read_history(path)
        result = check(read.history, explain=False)
        same = result.verdict == read.expected
        verdict = HOLDS if same else VIOLATED
        message = "" if same else f"found {result.verdict}, expected {read.expected}: {read.about}"
        told.append({"file": path.name, "verdict": result.verdict, "expected": read.expected})
        checks.append(
            Check("histories", path.name, verdict, result.seconds, message, place=(str(path), 1))
        )
    stored = len(checks)
    expected = {each["expected"] for each in told}
    missing = [kind for kind in (HOLDS, VIOLATED) if kind not in expected]
    checks += [
        Check(
            "histories",
            kind,
            UNKNOWN,
            message=f"found no history that must be {kind}, expected one",
        )
        for kind in missing
    ]
    verdict = worst(each.verdict for each in checks)
    failed = [f"{each.name}: {each.message}" for each in checks if each.verdict != HOLDS]
    as_told = sum(each.verdict == HOLDS for each in checks)
    text = "\n".join([*failed, f"{verdict}: {as_told} of {stored} histories"])
    data = {"verdict": verdict, "histories": told, "missing": missing}
    return Answer("linearize", verdict, data, text, tuple(checks))
