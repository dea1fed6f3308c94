"""SARIF 2.1.0: one result for each check that does not hold, one rule for each claim that was checked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any
from urllib.parse import quote

import kvspec
from kvspec.cli.verdicts import HOLDS, SKIPPED, VIOLATED, Answer, Check

SCHEMA = (
    "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
)


def sarif(answer: Answer) -> dict[str, Any]:
    """The answer as a SARIF log."""
    rules: dict[str, dict[str, Any]] = {}
    for check in answer.checks:
        rules.setdefault(
            _rule(check),
            {"id": _rule(check), "name": _name(check), "shortDescription": {"text": _name(check)}},
        )
    order = {name: place for place, name in enumerate(rules)}
    bad = [check for check in answer.checks if check.verdict != HOLDS]
    return {
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [
            {
                "tool": {
                    "driver": {
                        "name": "kvspec",
                        "semanticVersion": kvspec.__version__,
                        "rules": list(rules.values()),
                    }
                },
                "automationDetails": {"id": f"kvspec/{answer.command}/"},
                "results": [_result(check, order[_rule(check)]) for check in bad],
            }
        ],
    }


def _rule(check: Check) -> str:
    return f"{check.group}/{_name(check)}".replace(" ", "-")


def _name(check: Check) -> str:
    return check.rule or check.name


def _result(check: Check, rule: int) -> dict[str, Any]:
    text = f"{check.name} ({check.group}): {check.message or check.verdict}"
    if check.detail:
        text += f"\n\n{check.detail}"
    result: dict[str, Any] = {
        "ruleId": _rule(check),
        "ruleIndex": rule,
        "kind": {VIOLATED: "fail", SKIPPED: "notApplicable"}.get(check.verdict, "open"),
        "level": "error" if check.verdict == VIOLATED else "none",
        "message": {"text": text},
    }
    if check.place is not None:
        file, line = check.place
        result["locations"] = [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _address(file)},
                    "region": {"startLine": line},
                }
            }
        ]
    return result


def _address(file: str) -> str:
    """The address of a path, relative if it is below the current folder; bytes that are no text are kept."""
    path = Path(file).resolve()
    here = Path.cwd().resolve()
    if not path.is_relative_to(here):
        return path.as_uri()
    return quote(os.fsencode(path.relative_to(here).as_posix()))
