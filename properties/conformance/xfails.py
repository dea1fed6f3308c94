"""Known failures: a file in the repository of a cache that excuses rules, each with its reason.

A line is a rule's identifier, `#` and the reason; lines that begin with `#` and empty lines are free:

    publish/STALE_SNAPSHOT  # our cache fences by generation alone, see issue 12

An entry that excuses nothing is stale, and a failure: its rule does not exist, is kept, or does not
arise. A rule that could not be judged can be excused as well, but not one for which the time was up.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from pathlib import Path

import attrs

from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.report import UNKNOWN, Report, RuleResult

FORM = "a rule's identifier, # and the reason: publish/STALE_SNAPSHOT  # see issue 12"


@attrs.frozen
class Xfail:
    """One known failure. where: file and line, as `known.txt:3`."""

    rule: str
    reason: str
    where: str


def read_xfails(path: Path) -> tuple[Xfail, ...]:
    """The known failures of a file, or an AdapterError that names the line."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise AdapterError(
            f"the list of known failures {path} cannot be read",
            found=f"{type(error).__name__}: {error}", expected="a text file", where=str(path),
            do="name a file that exists",
        ) from error  # fmt: skip
    found: dict[str, Xfail] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        entry = _entry(line, f"{path}:{number}")
        if entry.rule in found:
            raise _error(f"{entry.rule} a second time", entry.where, found[entry.rule].where)
        found[entry.rule] = entry
    return tuple(found.values())


def excused(report: Report, xfails: Iterable[Xfail], known: Iterable[str]) -> Report:
    """The report with known failures marked, and what excuses nothing told as stale.

    known: identifiers of all rules; of those that the report is not about nothing is said.
    """
    results, stale, names = dict(report.results), dict(report.stale), list(known)
    for entry in xfails:
        result = results.get(entry.rule)
        if result is None and entry.rule in names:
            continue
        if result is not None and result.is_cut:
            continue
        if result is not None and (result.is_broken or result.verdict == UNKNOWN):
            results[entry.rule] = attrs.evolve(result, known=entry.reason)
        else:
            stale[entry.rule] = f"{entry.where}: {_why_stale(entry, result, names)}"
    return attrs.evolve(report, results=results, stale=stale)


def _why_stale(entry: Xfail, result: RuleResult | None, names: list[str]) -> str:
    if result is None:
        near = get_close_matches(entry.rule, names, n=1)
        meant = f"; did you mean {near[0]}?" if near else ""
        return f"there is no rule {entry.rule}{meant}"
    return f"{entry.rule} is {result.verdict}, so that there is nothing to excuse: remove the line"


def _entry(line: str, where: str) -> Xfail:
    rule, mark, reason = line.partition("#")
    rule, reason = rule.strip(), reason.strip()
    if not mark or not reason:
        raise _error(f"{line.strip()!r}, which gives no reason", where)
    if len(rule.split()) != 1 or "/" not in rule:
        raise _error(f"{rule!r}, which is no rule's identifier", where)
    return Xfail(rule, reason, where)


def _error(found: str, where: str, first: str = "") -> AdapterError:
    return AdapterError(
        "the list of known failures has a line that cannot be read",
        found=found, expected=f"each rule once (first at {first})" if first else FORM,
        where=where, do="correct the line",
    )  # fmt: skip
