"""The page on a broken rule, for a reader who does not know the suite.

It says what was asked of the cache, what was done, what came of it and what should have, why that
matters, and how to see it again. Every sentence about a rule is the specification's own.
"""

from __future__ import annotations

from collections.abc import Collection
from textwrap import wrap

from kvspec.models.concrete import Machine
from kvspec.properties.conformance.confirm import Trace
from kvspec.properties.conformance.graph import Graph
from kvspec.properties.conformance.judge import CRASHES, SILENT, WRONG_CODE
from kvspec.properties.conformance.report import VERDICTS, RuleResult
from kvspec.properties.conformance.rules import ACCEPTED, CLAIM, GUARD, KEEPS, REPEATABLE, Rule
from kvspec.properties.conformance.why import why
from kvspec.spec.language import Action
from kvspec.spec.language.show import show_expr

WIDTH = 96
LABEL = 12
CELLS = 12


def page(
    result: RuleResult, graph: Graph, cache: str, target: str, hidden: Collection[str] = ()
) -> str:
    """The page, in plain text of at most about a hundred columns.

    target: the name of what makes the cache. hidden: variables that it does not show.
    """
    trace, rule = result.trace, result.rule
    if trace is None:
        return ""
    head = f"{rule.id}: {result.verdict.upper()}"
    parts = [
        head,
        "=" * len(head),
        *wrap(f"{cache}: {VERDICTS[result.verdict]}.", WIDTH),
        "",
        *_labelled("The rule", f"{rule.sentence}."),
        *_labelled("", _in_the_text(rule)),
        "",
        *_done(trace, graph),
        "",
        *_outcome(rule, trace, graph),
        *_cells(trace),
        *_also_broken(rule, trace),
        *_own_words(trace),
        *_labelled("Damage", trace.damage and f"measured after the last call: {trace.damage}"),
        "",
        *_labelled("Why", why(rule, trace, graph)),
        *_labelled("Notes", " ".join([*_notes(result, trace), *_filled(rule, hidden)])),
        *_commands(rule, trace, target),
    ]
    return "\n".join(parts)


def _labelled(label: str, text: str) -> list[str]:
    """A text behind its label, wrapped; nothing for no text."""
    lead = f"{label:<{LABEL}}"
    return wrap(text, WIDTH, initial_indent=lead, subsequent_indent=" " * LABEL) if text else []


def _in_the_text(rule: Rule) -> str:
    """The specification's own words on it."""
    if rule.guard is not None:
        return f"In the specification: {rule.group} needs {show_expr(rule.guard.condition)}."
    if rule.claim is not None:
        return f"In the specification: {show_expr(rule.claim.body)}."
    if rule.variable is not None and rule.action is not None:
        for done in rule.action.assignments:
            if done.variable is rule.variable:
                index = ", ".join(show_expr(part) for part in done.index)
                return f"In the specification: {rule.variable.name}[{index}] becomes {show_expr(done.value)}."
    if rule.kind == KEEPS:
        return "What an action does not assign stays as it is."
    if rule.action is not None and rule.action.guards:
        needs = " and ".join(show_expr(guard.condition, 3) for guard in rule.action.guards)
        return f"In the specification: {rule.group} needs {needs}."
    return ""


def _done(trace: Trace, graph: Graph) -> list[str]:
    """The calls with their answers, and what each action is for where it first comes."""
    instance = graph.instance
    lines = wrap(f"What was done, after a reset for {instance.name} ({instance.doc}):", WIDTH)
    width = min(60, max((len(call.text) for call in trace.calls), default=0))
    known: set[str] = set()
    for number, call in enumerate(trace.calls, 1):
        mark = "   <- here" if number == len(trace.calls) else ""
        lines.append(f"{number:>4}. {call.text:<{width}}  {call.answer}{mark}")
        if call.action not in known:
            known.add(call.action)
            lines.append(f"      {_meaning(instance.system.actions[call.action])}")
    return lines if trace.calls else [*lines, "      nothing: the reset alone shows it"]


def _meaning(action: Action) -> str:
    return " ".join(action.doc.split())


def _outcome(rule: Rule, trace: Trace, graph: Graph) -> list[str]:
    """What the cache did and what it should have, in two lines or in one."""
    did, should = trace.finding.did, trace.finding.should
    if did == should and trace.finding.cells:
        return _labelled("Found", f"{did}, as it should be, but then it shows something else:")
    return [
        *_labelled("Found", f"{did}."),
        *_labelled("Expected", f"{should}{_reason(rule, trace, graph)}."),
    ]


def _filled(rule: Rule, hidden: Collection[str]) -> list[str]:
    """Which values of a claim the cache does not show."""
    names = sorted(rule.reads & set(hidden)) if rule.kind == CLAIM else []
    if not names:
        return []
    return [f"The cache does not show {', '.join(names)}; there the calls so far count."]


def _commands(rule: Rule, trace: Trace, target: str) -> list[str]:
    """How to see it again, and where to read more."""
    again = f"kvspec conform {target} --instance {trace.instance} --only {rule.id}"
    if ":" not in target:
        again = f"run_conformance({target}, instances=[{trace.instance!r}], only=[{rule.id!r}])"
    name = rule.action.name if rule.action is not None else rule.claim and rule.claim.name
    more = f"kvspec show core {name}" if name else ""
    lines = [("See again", again), ("Read more", more)]
    return [f"{label:<{LABEL}}{text}" for label, text in lines if text]  # a command is one line


def _reason(rule: Rule, trace: Trace, graph: Graph) -> str:
    """The values for which the guard failed, or that none does."""
    if not trace.events or rule.kind not in (GUARD, ACCEPTED):
        return ""
    machine: Machine = graph.compiled.machine
    told = machine.step(graph.state(trace.place), graph.events[trace.events[-1]])
    if told.refusal is None:
        return ": no guard of it fails here"
    return f", since by the calls so far {told.refusal.found}"


def _cells(trace: Trace) -> list[str]:
    """The cells that differ, as a table."""
    cells = trace.finding.cells
    if not cells:
        return []
    rows = [("", "shown", "expected"), *((c.cell, c.found, c.expected) for c in cells)]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    lines = ["  ".join(f"{row[n]:<{widths[n]}}" for n in range(3)).rstrip() for row in rows]
    more = [f"and {len(cells) - CELLS} more"] if len(cells) > CELLS else []
    return [f"{' ' * LABEL}{line}" for line in [*lines[: CELLS + 1], *more]]


def _also_broken(rule: Rule, trace: Trace) -> list[str]:
    """What else the last call breaks."""
    if not trace.calls:
        return []
    others = [name for name in trace.calls[-1].broken if name != rule.id]
    return _labelled("Also broken", f"by the same call: {', '.join(others)}" if others else "")


def _own_words(trace: Trace) -> list[str]:
    """The cache's description of itself around the last call."""
    lines: list[str] = []
    for label, text in (("Before", trace.before), ("After", trace.after)):
        for number, line in enumerate(text.splitlines()):
            said = f"the last call the cache says of itself: {line}" if number == 0 else line
            lines += _labelled(label if number == 0 else "", said)
    return lines


def _notes(result: RuleResult, trace: Trace) -> list[str]:
    """What a reader should know before taking the trace at its word."""
    notes = []
    others = [f"it {manner} ({count} times)" for manner, count in result.manners.items()]
    if len(others) > 1:
        notes.append(f"It was seen in several ways: {', '.join(others)}.")
    elif result.tried > result.broken:
        notes.append(f"Broken in {result.broken:,} of {result.tried:,} tries.")
    if not trace.repeats:
        notes.append(
            f"The same calls were made again and did not show it each time (see {REPEATABLE})."
        )
    if not trace.is_confirmed:
        notes.append(
            "The time was up before the calls could be made again: this is the run as it was seen."
        )
    if trace.hidden:
        notes.append(
            "A shorter way to the same state does not show it: the cache remembers something of these calls "
            "that it should not."
        )
    if trace.past:
        notes.append(
            f"It was seen only after {', '.join(trace.past)} had been broken, and may come of that: "
            "repair that first."
        )
    return [*notes, *_advice(trace)]


def _advice(trace: Trace) -> list[str]:
    """What to do about it, where the adapter may be what is wrong."""
    if trace.finding.manner == CRASHES:
        return [
            "If that is how the cache refuses, list the exception in `refusals` of the adapter."
        ]
    if trace.finding.manner == WRONG_CODE:
        return [
            "If the cache cannot tell codes apart, let the adapter give none: that is no break."
        ]
    if trace.finding.manner == SILENT:
        return [
            "The trace ends here: what the cache does after such a call, nothing can be held against."
        ]
    return []
