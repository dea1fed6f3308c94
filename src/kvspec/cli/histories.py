"""The stored histories again: each must be told from the others as its file says."""

from __future__ import annotations

from typing import Any

from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer, Check, worst


def stored_histories() -> Answer:
    """Check every stored history; what its file expects must come out, and it must expect something."""
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
    verdict = worst(each.verdict for each in checks)
    failed = [f"{each.name}: {each.message}" for each in checks if each.verdict != HOLDS]
    text = "\n".join(
        [*failed, f"{verdict}: {len(checks) - len(failed)} of {len(checks)} histories"]
    )
    data = {"verdict": verdict, "histories": told}
    return Answer("linearize", verdict, data, text, tuple(checks))
