"""The atlas as a table, and one of its groups as a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from kvspec.report.steps import trace_text
from kvspec.report.tables import text_table
from kvspec.spec.language import Assignment, same
from kvspec.spec.language.show import show_action, show_assignment

if TYPE_CHECKING:
    from kvspec.cli.atlas_cases import Told
    from kvspec.properties.atlas import Case, Group
    from kvspec.properties.atlas.run import CaseResult
    from kvspec.properties.faults import Fault
    from kvspec.spec.language import Action

HEAD = ("group", "system", "claim broken by the faulty rule", "steps", "states", "faulty", "sound")
CACHE, PROOF = "torch cache", "all sizes"


def case_table(groups: Sequence[Group], told: Sequence[Told]) -> str:
    """A row for each case: the claim, the steps of its trace, states, both verdicts."""
    proofs, caches = any(t.proof for t in told), any(t.cache for t in told)
    rows: list[tuple[str, ...]] = []
    for one in told:
        row = (
            one.file.removesuffix(".json"),
            one.system,
            one.claim,
            str(one.steps) if one.loop is None else f"{one.steps}, back to {one.loop}",
            f"{one.states:,}",
            one.faulty,
            one.sound,
        )
        rows.append((*row, *("damage" if one.cache else "",) * caches, *(one.proof,) * proofs))
    blank = ("",) * (4 + caches + proofs)
    rows.extend((group.name, "", "open", *blank) for group in groups if group.open)
    head = (*HEAD, *(CACHE,) * caches, *(PROOF,) * proofs)
    return text_table(head, sorted(rows), right=(4,))


def page(group: Group, found: Sequence[tuple[Told, CaseResult]]) -> str:
    """What happened, the rule that forbids it, the trace, and what the sound rule does."""
    lines = [
        f"{group.name}  {group.title}",
        "=" * (len(group.name) + 2 + len(group.title)),
        f"{group.kind}; {group.evidence.value}",
        *(f"seen in: {source}" for source in group.sources),
        "",
        "What happened",
        *(f"  {number}. {step}" for number, step in enumerate(group.happened, 1)),
    ]
    if group.open:
        lines.extend(("", f"Open: {group.open}"))
    for told, result in found:
        lines.extend(("", *_case(told, result)))
    return "\n".join(lines)


def _case(told: Told, result: CaseResult) -> Iterator[str]:
    case, broken = result.case, result.broken
    title = f"Case {told.number}: {case.shows}"
    yield title
    yield "-" * len(title)
    yield f"Fault {case.fault.name} of the system {told.system}: {case.fault.description}."
    yield ""
    yield "The rule, and the place that the fault changes"
    yield from (f"  {line}" for line in changed_rule(case.fault))
    yield ""
    yield f"It breaks {told.claim}"
    yield f"  {case.property.doc}"
    yield f"  {case.property!r}"
    yield ""
    way = "A lasso that shows it" if told.loop is not None else "The shortest way there"
    yield f"{way}, on {_sizes(case)}"
    if broken is not None:
        yield trace_text(case.fault.on(case.instance), broken.trace, broken.loop)
    yield ""
    yield (
        f"The sound rule keeps every claim on the same instance: {told.sound}, {told.states:,} states, "
        f"{told.transitions:,} transitions."
    )
    if told.proof:
        yield f"For all sizes: {told.proof}."
    if told.cache:
        yield f"On the torch cache: {told.cache}."
    yield f"Trace on file: counterexamples/atlas/{told.file}"
    if told.message:
        yield f"{told.verdict}: {told.message}"


def changed_rule(fault: Fault) -> Iterator[str]:
    """The sound rule as on a board, then what stands at the changed place instead."""
    sound, changed = fault.system.actions[fault.action], fault.changed.actions[fault.action]
    yield from show_action(sound).splitlines()
    yield from _instead(sound, changed)


def _instead(sound: Action, changed: Action) -> Iterator[str]:
    for before, after in zip(sound.guards, changed.guards, strict=True):
        if not same(before.condition, after.condition):
            yield f"instead of `{before.condition!r} else {before.code.name}`: `{after.condition!r}`"
        yield from _assigned(before.refusal, after.refusal)
    yield from _assigned(sound.assignments, changed.assignments)


def _assigned(before: Sequence[Assignment], after: Sequence[Assignment]) -> Iterator[str]:
    old = {done.variable.name: done for done in before}
    for done in after:
        sound = old.get(done.variable.name)
        if sound is None:
            yield f"and beside it: `{show_assignment(done)}`"
        elif not same(sound.value, done.value):
            yield f"instead of `{show_assignment(sound)}`: `{show_assignment(done)}`"


def _sizes(case: Case) -> str:
    found = case.instance
    parts = {**found.sizes, **found.bounds, **found.constants}
    return f"{found.name} ({', '.join(f'{name} {value}' for name, value in parts.items())})"
