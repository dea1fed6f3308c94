"""`kvspec conform`: any cache that has an adapter, held against the core system rule by rule."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.errors import UsageError
from kvspec.cli.output import CheckOutput, Flag, check_outputs, deliver
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, SKIPPED, UNKNOWN, VIOLATED, Answer, Check

if TYPE_CHECKING:
    from kvspec.properties.conformance.report import Report, RuleResult


def conform(
    cache: str,
    *,
    instance: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    xfails: Path | None = None,
    only: Annotated[tuple[str, ...], Parameter(negative="")] = (),
    budget: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    every: Flag = False,
    whole: Flag = False,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Test a cache of anybody's that has an adapter, rule by rule, and say what each rule came to.

    A rule is kept, breaks (the cache's own path does it), not enforced (a wrong call is accepted in
    silence), not offered, out of reach, or unknown. Each break is told with the shortest calls that show
    it, made again from a reset. An action that the adapter neither has nor declares is an error.

    Args:
        cache: what makes the adapter, as package.module:factory; this folder is looked into, too.
        instance: try this instance alone; may be given again. By default a suite of small ones: TINY, LONG,
            KINDS, PAIR, ROWS, SHARED; others are BATCH, RACE, REUSE, LAYERS, BRANCH.
        xfails: known failures, one a line: a rule, # and the reason; an entry that excuses nothing fails.
        only: report on this rule alone; may be given again.
        budget: stop after so many seconds; what was not tried is unknown.
        every: list the rules that are kept, too.
        whole: try every call in every state of each instance, not each kind of call once: more than ten times
            as many calls on the suite (the report tells how many).
        output: how the answer is told.
    """
    check_outputs(output)
    from kvspec.properties.conformance.errors import AdapterError
    from kvspec.properties.conformance.run import every_rule, run_conformance
    from kvspec.properties.conformance.xfails import excused, read_xfails

    try:
        known = read_xfails(xfails) if xfails is not None else ()
        with counting(f"conform {cache}") as progress:
            found = run_conformance(
                cache, instances=instance, budget=budget, only=only, whole=whole, progress=progress
            )
    except AdapterError as error:
        raise UsageError(
            error.message, error.found, error.expected, error.where, error.do
        ) from error
    return deliver(answer(excused(found, known, every_rule()), every=every), output)


def answer(report: Report, *, every: bool = False) -> Answer:
    """What came of it, for machines and for people."""
    checks = [_check(result, report) for result in report.results.values()]
    checks += [
        Check(f"conform {report.name}", f"xfails/{rule}", VIOLATED, 0.0, f"stale entry: {told}")
        for rule, told in report.stale.items()
    ]
    told = f"{report.verdict}: {report.target}"
    text = f"{told}\n\n\n{report.text(every=every)}\n\n{told}"
    return Answer("conform", report.verdict, report.data(), text, tuple(checks))


def _check(result: RuleResult, report: Report) -> Check:
    group, rule = f"conform {report.name}", result.rule
    if result.known is not None:
        told = f"{result.verdict}; known: {result.known}"
        return Check(group, rule.id, SKIPPED, 0.0, told, place=rule.place)
    if result.is_broken:
        page = report.pages[rule.id]
        told = f"{result.verdict}: {rule.sentence}"
        return Check(group, rule.id, VIOLATED, 0.0, told, page, rule.place)
    if result.verdict == "kept":
        return Check(group, rule.id, HOLDS, place=rule.place)
    verdict = UNKNOWN if result.verdict == "unknown" else SKIPPED
    return Check(group, rule.id, verdict, 0.0, f"{result.verdict}: {result.reason}", "", rule.place)
