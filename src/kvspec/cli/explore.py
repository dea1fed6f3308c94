"""`kvspec explore`: every state of one instance, and the shortest way to a violation."""

from __future__ import annotations

from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import attrs
from cyclopts import Parameter
from cyclopts.validators import Number

from kvspec.cli.errors import unknown
from kvspec.cli.lookup import instance_named, system_named
from kvspec.cli.output import CheckOutput, Flag, check_outputs, check_writable, deliver
from kvspec.cli.progress import Explored, exploring
from kvspec.cli.verdicts import HOLDS, UNKNOWN, VIOLATED, Answer, Check
from kvspec.spec.language import Instance, Property

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.models.explicit import Exploration, Violation

Positive = Annotated[int | None, Parameter(validator=Number(gt=0))]
LARGEST_GRAPH = 1_000_000
_CHECKED = ("invariant", "lemma", "step", "leads_to")


@attrs.frozen(kw_only=True)
class Search:
    """How an instance is searched; as the options of `kvspec explore`."""

    symmetry: bool = False
    coverage: bool = True
    threads: int | None = None
    max_states: int | None = None
    max_seconds: float | None = None
    max_graph: int = LARGEST_GRAPH
    stop_at_first: bool = True
    only: tuple[str, ...] | None = None


def explore(
    system: str = "core",
    instance: str | None = None,
    *,
    symmetry: Flag = False,
    max_states: Positive = None,
    max_seconds: Annotated[float | None, Parameter(validator=Number(gt=0))] = None,
    max_graph: Annotated[int, Parameter(validator=Number(gt=0))] = LARGEST_GRAPH,
    only: Annotated[list[str] | None, Parameter(negative="")] = None,
    coverage: bool | None = None,
    threads: Positive = None,
    all_violations: Flag = False,
    trace_out: Path | None = None,
    output: CheckOutput = CheckOutput(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Search every state of an instance, breadth first, and check all claims about the system.

    Prints the counts and, if a claim fails, the shortest trace to where it fails. A search that
    is cut short ends with `unknown` (exit code 3), never with `holds`.

    Args:
        system: the system; `kvspec show` lists them.
        instance: one of its named instances, by default the first.
        symmetry: search one state for all that differ by a swap of members, such as two handles.
        max_states: stop after so many states.
        max_seconds: stop after so many seconds.
        max_graph: leads-to claims need the whole graph of states; above this size they are unknown.
        only: check only claims of this name, with * for anything; may be given again.
        coverage: print how often each action fired and each guard refused; --no-coverage does
            not even count, which is faster.
        threads: use at most so many threads.
        all_violations: go on after the first violation, and show each claim that fails.
        trace_out: write the first violation's trace to this file, for `kvspec replay`.
        output: how the answer is told.
    """
    check_outputs(output)
    check_writable(trace_out, "--trace-out")
    subject = system_named(system, "explore")
    chosen = instance_named(subject, instance, "explore")
    search = Search(
        symmetry=symmetry,
        coverage=coverage is not False,
        threads=threads,
        max_states=max_states,
        max_seconds=max_seconds,
        max_graph=max_graph,
        stop_at_first=not all_violations,
        only=tuple(only) if only else None,
    )
    need_claims(subject, search)
    with exploring(f"{chosen.system.name}/{chosen.name}") as progress:
        found = run(subject, chosen, search, progress)
    if trace_out is not None and found.violations and found.violations[0].trace:
        write_trace(subject, chosen, found.violations[0], trace_out)
    return deliver(answer(subject, chosen, found, search.only, table=coverage is True), output)


def claims_of(subject: KnownSystem, only: tuple[str, ...] | None) -> list[Property]:
    """The claims that are checked; what is no claim (an end, say) is always among them."""
    return [
        claim
        for claim in subject.properties().by_name.values()
        if claim.kind not in _CHECKED
        or only is None
        or any(fnmatchcase(claim.name, p) for p in only)
    ]


def need_claims(subject: KnownSystem, search: Search) -> None:
    """Refuse each pattern that fits no claim."""
    names = [claim.name for claim in subject.properties().of_kind(*_CHECKED)]
    for pattern in search.only or ():
        if not any(fnmatchcase(name, pattern) for name in names):
            do = f"kvspec show {subject.key}"
            raise unknown("claim named", pattern, names, "--only of kvspec explore", do)


def run(
    subject: KnownSystem, instance: Instance, search: Search, progress: Explored | None
) -> Exploration:
    """Search one instance for violations of all claims."""
    from kvspec.models.explicit import explore as search_instance

    return search_instance(
        instance,
        claims_of(subject, search.only),
        symmetry=search.symmetry,
        coverage=search.coverage,
        threads=search.threads,
        max_states=search.max_states,
        max_seconds=search.max_seconds,
        max_graph=search.max_graph,
        stop_at_first=search.stop_at_first,
        progress=progress,
    )


def answer(
    subject: KnownSystem,
    instance: Instance,
    found: Exploration,
    only: tuple[str, ...] | None = None,
    *,
    table: bool = False,
) -> Answer:
    """What a search says, for machines and for people."""
    listed = checks(subject, instance, found, only)
    text = as_text(instance, found, listed, table=table)
    return Answer("explore", found.verdict, as_json(instance, found), text, listed)


def as_json(instance: Instance, found: Exploration) -> dict[str, Any]:
    """The JSON object of a search."""
    from kvspec.report.steps import trace_json

    plain = (
        "system instance states represented transitions depth seconds cpu_seconds compile_seconds "
        "complete verdict reason deadlocks terminal cut bytes_per_state threads"
    )
    data: dict[str, Any] = {name: getattr(found, name) for name in plain.split()}
    data["symmetric"] = list(found.symmetric)
    data["violations"] = [
        {
            "property": each.property,
            "kind": each.kind,
            "message": each.message,
            "loop": each.loop,
            "trace": trace_json(instance, each.trace),
        }
        for each in found.violations
    ]
    data["witnesses"] = {each.property: each.depth for each in found.witnesses}
    times = found.coverage.antecedents if found.complete and found.coverage else {}
    data["says_nothing"] = [name for name, count in times.items() if count == 0]
    data["coverage"] = attrs.asdict(found.coverage) if found.coverage else None
    return data


def as_text(
    instance: Instance, found: Exploration, listed: tuple[Check, ...], *, table: bool = False
) -> str:
    """Counts, verdict, violations with their traces; the coverage table if asked for."""
    from kvspec.report.coverage import coverage_table
    from kvspec.report.steps import trace_text
    from kvspec.report.tables import indent

    rate = found.states / found.seconds if found.seconds else 0
    of = f" for {found.represented:,}" if found.symmetric else ""
    lines = [
        f"{instance!r}",
        f"  {found.states:,} states{of}, {found.transitions:,} transitions, depth {found.depth}",
        f"  {found.seconds:.2f} s, {rate:,.0f} states a second, {found.bytes_per_state:.0f} bytes each",
        f"  {found.terminal:,} states without a step, {found.deadlocks:,} of them deadlocks",
    ]
    if found.cut:
        lines.append(f"  {found.cut:,} steps were cut because they leave the bounds")
    if table and found.coverage is not None:
        lines.extend(("", coverage_table(found.coverage)))
    for each in found.violations:
        lines.extend(("", f"violated {each.property}: {each.message}"))
        if each.trace:
            lines.append(indent(trace_text(instance, each.trace, each.loop)))
    silent = says_nothing(found, listed)
    if silent:
        lines.append("")
        lines.extend(f"says nothing here: {name}" for name in silent)
    held = sum(check.verdict == HOLDS for check in listed)
    empty = f", {len(silent)} of which say nothing here" if silent else ""
    told = f"{held} claims{empty}" if found.verdict == HOLDS else found.reason
    if found.verdict == VIOLATED:
        told = ", ".join(each.property for each in found.violations)
    lines.extend(("", f"{found.verdict}: {told}"))
    return "\n".join(lines)


def says_nothing(found: Exploration, listed: tuple[Check, ...]) -> list[str]:
    """The claims whose case never came up in a complete search."""
    if not found.complete or found.coverage is None:
        return []
    times = found.coverage.antecedents
    return [check.name for check in listed if times.get(check.name) == 0]


def checks(
    subject: KnownSystem,
    instance: Instance,
    found: Exploration,
    only: tuple[str, ...] | None = None,
) -> tuple[Check, ...]:
    """One check for each claim, and one for each other thing that went wrong."""
    from kvspec.report.steps import trace_text

    group = f"explore {found.system}/{found.instance}"
    broken = {each.property: each for each in found.violations}
    result = []
    for claim in claims_of(subject, only):
        if claim.kind not in _CHECKED:
            continue
        open_ = not found.complete or (claim.kind == "leads_to" and found.verdict == UNKNOWN)
        verdict, detail = (UNKNOWN if open_ else HOLDS), ""
        message = found.reason or "the search stopped early" if open_ else ""
        if claim.name in broken:
            each = broken.pop(claim.name)
            verdict, message = VIOLATED, claim.doc
            detail = trace_text(instance, each.trace, each.loop)
        result.append(Check(group, claim.name, verdict, 0.0, message, detail, claim.place))
    for name, each in broken.items():
        detail = trace_text(instance, each.trace, each.loop)
        result.append(Check(group, name, VIOLATED, 0.0, each.message, detail))
    return tuple(result)


def write_trace(subject: KnownSystem, instance: Instance, violation: Violation, path: Path) -> None:
    """Write a violation as a trace file for `kvspec replay`."""
    import msgspec

    from kvspec.counterexamples import files, record
    from kvspec.counterexamples.format import Broken
    from kvspec.models.concrete import Machine

    claim = subject.properties().by_name.get(violation.property)
    named = claim or Broken(name=violation.property, kind=violation.kind)  # type: ignore[arg-type]
    trace = record.trace_of(
        Machine(instance),
        violation.trace,
        named,
        loop=violation.loop,
        provenance=f"kvspec explore {subject.key} {instance.name}",
    )
    files.write_trace(msgspec.structs.replace(trace, system=subject.key), path)
