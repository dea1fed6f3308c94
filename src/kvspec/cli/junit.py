"""JUnit XML: one test case for each check. An unknown verdict is an error, never a pass."""

from __future__ import annotations

import re
from xml.etree import ElementTree as ET

from kvspec.cli.verdicts import SKIPPED, UNKNOWN, VIOLATED, Answer, Check

# What XML 1.0 cannot hold.
_FORBIDDEN = re.compile(r"[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def junit(answer: Answer) -> str:
    """The answer as a JUnit XML document."""
    root = ET.Element("testsuites", name=_clean(f"kvspec {answer.command}"))
    groups: dict[str, list[Check]] = {}
    for check in answer.checks:
        groups.setdefault(check.group, []).append(check)
    _count(root, answer.checks)
    if not any(check.seconds for check in answer.checks):
        root.set("time", f"{float(answer.data.get('seconds') or 0):.3f}")
    for name, checks in groups.items():
        suite = ET.SubElement(root, "testsuite", name=_clean(name))
        _count(suite, checks)
        for check in checks:
            _case(suite, check)
    ET.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _count(element: ET.Element, checks: list[Check] | tuple[Check, ...]) -> None:
    element.set("tests", str(len(checks)))
    element.set("failures", str(sum(check.verdict == VIOLATED for check in checks)))
    element.set("errors", str(sum(check.verdict == UNKNOWN for check in checks)))
    element.set("skipped", str(sum(check.verdict == SKIPPED for check in checks)))
    element.set("time", f"{sum(check.seconds for check in checks):.3f}")


def _case(suite: ET.Element, check: Check) -> None:
    case = ET.SubElement(
        suite,
        "testcase",
        classname=_clean(check.group),
        name=_clean(check.name),
        time=f"{check.seconds:.3f}",
    )
    if check.place is not None:
        case.set("file", _clean(check.place[0]))
        case.set("line", str(check.place[1]))
    if check.verdict in (VIOLATED, UNKNOWN):
        tag = "failure" if check.verdict == VIOLATED else "error"
        told = ET.SubElement(case, tag, type=check.verdict, message=_clean(check.message))
        told.text = _clean(check.detail or check.message)
    elif check.verdict == SKIPPED:
        ET.SubElement(case, "skipped", message=_clean(check.message))


def _clean(text: str) -> str:
    return _FORBIDDEN.sub("?", text)
