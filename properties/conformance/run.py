"""Run: holds a cache against the core system, instance by instance, and reports on every rule."""

from __future__ import annotations

import importlib
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import attrs

from kvspec.properties.conformance.asking import ask, told
from kvspec.properties.conformance.book import DETOUR, Book
from kvspec.properties.conformance.confirm import Trace, confirm
from kvspec.properties.conformance.errors import AdapterError
from kvspec.properties.conformance.explore import Clock, Explorer
from kvspec.properties.conformance.fate import (
    HIDDEN,
    Fate,
    Fates,
    Pair,
)
from kvspec.properties.conformance.fate import (
    NOT_OFFERED as LACKS,
)
from kvspec.properties.conformance.fate import (
    OUT_OF_REACH as NEVER,
)
from kvspec.properties.conformance.fate import (
    UNTRIED as OPEN,
)
from kvspec.properties.conformance.graph import build_graph
from kvspec.properties.conformance.judge import SILENT, Judge
from kvspec.properties.conformance.repeat import UNLIKE, repeat
from kvspec.properties.conformance.report import (
    BREAKS,
    KEPT,
    NOT_OFFERED,
    OUT_OF_REACH,
    UNKNOWN,
    PartResult,
    Report,
    RuleResult,
    verdict_of,
)
from kvspec.properties.conformance.rules import (
    CACHE,
    CLAIM,
    EFFECT,
    GUARD,
    REPEATABLE,
    STARTS,
    UNDAMAGED,
    Rule,
    rules_of,
)
from kvspec.properties.conformance.subject import Factory, Subject, make_subject
from kvspec.properties.conformance.suite import SUITE, Part, part_named
from kvspec.properties.core import properties
from kvspec.spec.core import system
from kvspec.spec.language import Instance

Told = Callable[[int, int, str], None]
"""Told of progress: how many instances of how many are done, and what goes on in the next."""


@attrs.define(eq=False)
class _Tried:
    """One instance, explored: what was found, and what to ask about what was not."""

    part: Part
    explorer: Explorer
    fates: Fates
    traces: dict[str, Trace]
    unlike: Trace | None = None

    @property
    def book(self) -> Book:
        return self.explorer.book


def every_rule() -> dict[str, Rule]:
    """Every rule of the core system, by its identifier."""
    return rules_of(system, properties.by_name.values())


def run_conformance(
    target: str | Factory,
    *,
    instances: Iterable[str | Instance | Part] = (),
    budget: float | None = None,
    only: Iterable[str] = (),
    whole: bool = False,
    progress: Told | None = None,
) -> Report:
    """Hold a cache against the core system and report on every rule.

    target: what makes the adapter or backend, or its name as `package.module:factory`. instances: by name,
    as they are, or as parts with a quota; by default the suite, in which every rule arises. whole: try every
    call in every state, whatever the quota. budget:
    seconds after which the run is cut, and what was not tried is unknown. only: identifiers of rules to
    report on. Raises AdapterError where the adapter is not as `kvspec.models.adapter` says.
    """
    started = time.monotonic()
    _check_budget(budget)
    factory, name = load_factory(target)
    rules = _chosen(every_rule(), only)
    parts = [_part(given) for given in instances] or list(SUITE)
    if whole:
        parts = [attrs.evolve(part, quota=None) for part in parts]
    clock = Clock(started + budget) if budget is not None else Clock()

    def make() -> Subject:
        return make_subject(factory, system, name)

    subject = make()
    tried: list[_Tried] = []
    for number, part in enumerate(parts):
        if clock.is_over:
            break
        tell = partial(progress, number, len(parts)) if progress is not None else None
        names = tried[0].explorer.judge.names if tried else None
        explored = _explore(part, subject, rules, make, clock, tell, names)
        subject = explored.explorer.judge.subject
        tried.append(explored)
    left = parts[len(tried) :]
    results = {rule.id: _result(rule, tried, left) for rule in rules.values()}
    return _report(subject, name, results, tried, time.monotonic() - started)


def _check_budget(budget: float | None) -> None:
    if budget is not None and not budget >= 0:
        raise AdapterError(
            "the budget is no time",
            found=f"{budget}", expected="seconds, 0 or more", where="the budget",
            do="give a number of seconds, or none",
        )  # fmt: skip


def _explore(
    part: Part,
    subject: Subject,
    rules: dict[str, Rule],
    make: Callable[[], Subject],
    clock: Clock,
    tell: Callable[[str], None] | None,
    names: tuple[str, ...] | None,
) -> _Tried:
    judge = Judge(build_graph(part.instance), every_rule(), subject, names)

    pairs = {_pair(rule) for rule in rules.values()}

    def wanted(action: str, code: str | None) -> bool:
        return None in pairs or (action, code) in pairs

    explorer = Explorer(judge, quota=part.quota, clock=clock, wanted=wanted, renew=make)
    explorer.told = tell
    book = explorer.explore()
    traces = {rule: confirm(explorer, spots) for rule, spots in book.spots.items() if rule in rules}
    unlike = repeat(explorer) if REPEATABLE in rules and not explorer.is_cut else None
    return _Tried(part, explorer, Fates(explorer), traces, unlike)


def _result(rule: Rule, tried: Sequence[_Tried], left: Sequence[Part]) -> RuleResult:
    """What became of a rule on all instances together."""
    kept = sum(one.book.kept[rule.id] for one in tried)
    broken = sum(one.book.broken[rule.id] for one in tried)
    manners: Counter[str] = Counter()
    for one in tried:
        manners.update(one.book.manners.get(rule.id, {}))
    found = RuleResult(
        rule, KEPT, tried=kept + broken, broken=broken, manners=dict(manners),
        untold=sum(one.book.untold[rule.id] for one in tried),
        alone=sum(one.book.alone[rule.id] for one in tried),
    )  # fmt: skip
    unsteady = [t for one in tried for t in one.traces.values() if not t.repeats]
    unsteady += [one.unlike for one in tried if one.unlike is not None]
    if rule.id == REPEATABLE and unsteady:
        return attrs.evolve(
            found, verdict=BREAKS, trace=min(unsteady, key=lambda t: len(t.calls)),
            broken=len(unsteady), manners={UNLIKE: len(unsteady)},
        )  # fmt: skip
    if broken:
        traces = [one.traces[rule.id] for one in tried if rule.id in one.traces]
        best = min(traces, key=_rank)
        return attrs.evolve(found, verdict=verdict_of(rule, best), trace=best)
    lacking = _lacking(rule, tried)
    if lacking:
        return attrs.evolve(found, verdict=NOT_OFFERED, reason=lacking)
    return _unbroken(found, tried, left)


def _rank(trace: Trace) -> tuple[bool, bool, bool, int]:
    """The less, the better to show, as for `Spot.rank`."""
    is_loud = trace.finding.manner != SILENT
    calls = len(trace.calls) + (0 if trace.is_alone else DETOUR)
    return not trace.repeats, bool(trace.past), is_loud, calls


def _lacking(rule: Rule, tried: Sequence[_Tried]) -> str:
    """Why the cache has not what the rule speaks of; empty if it has."""
    if not tried:
        return ""
    judge = tried[0].explorer.judge
    subject, names = judge.subject, set(judge.names)
    if rule.action is not None and rule.action.name in subject.not_offered:
        return subject.not_offered[rule.action.name] or "declared so, without a reason"
    if rule.kind == EFFECT and rule.variable is not None and rule.variable.name not in names:
        return f"{rule.variable.name} is not observed"
    if rule.kind == "keeps" and rule.id not in judge.tried(rule.group, None):
        return "nothing is observed that it must keep"
    if rule.kind == CLAIM and rule.reads and rule.reads.isdisjoint(names):
        return f"nothing of it is observed: {', '.join(sorted(rule.reads))}"
    if rule.id == UNDAMAGED and not subject.measures:
        return "the adapter has no damage() of its own"
    if rule.kind == CACHE and rule.id not in (UNDAMAGED, REPEATABLE) and not names:
        return "nothing is observed"
    return ""


def _unbroken(found: RuleResult, tried: Sequence[_Tried], left: Sequence[Part]) -> RuleResult:
    rule = found.rule
    pair = _pair(rule)
    cut = [one for one in tried if one.explorer.is_cut]
    open_here = [one for one in cut if pair is None or pair in one.fates.left()]
    if left or open_here:
        names = [part.instance.name for part in left]
        names += [one.part.instance.name for one in open_here]
        reason = f"the time was up before all was tried on {', '.join(names)}"
        return attrs.evolve(found, verdict=UNKNOWN, reason=reason, is_cut=True)
    if found.tried:
        return _in_part(found, pair, tried)
    follows = [one.book.follows[rule.id] for one in tried if rule.id in one.book.follows]
    if follows:
        reason = f"it was not kept, but only where {follows[0]} had been broken: repair that first"
        return attrs.evolve(found, verdict=UNKNOWN, reason=reason)
    blurred = [one.book.blurred[rule.id] for one in tried if rule.id in one.book.blurred]
    if blurred:
        reason = f"it came up only where {blurred[0]} had left wrong values: repair that first"
        return attrs.evolve(found, verdict=UNKNOWN, reason=reason)
    if pair is None:
        reason = (
            "no run came to an end unbroken" if rule.id != REPEATABLE else "no run was made again"
        )
        return attrs.evolve(found, verdict=UNKNOWN, reason=reason)
    return _by_fate(found, [one.fates.of(pair) for one in tried])


def _in_part(found: RuleResult, pair: Pair | None, tried: Sequence[_Tried]) -> RuleResult:
    """A rule that was kept, with the cases of it that lie behind a broken rule."""
    if found.rule.id in (STARTS, REPEATABLE):
        return found
    behind: Counter[str] = Counter()
    for one in tried:
        for other, counts in one.fates.behind().items():
            if pair in (None, other):
                behind.update(counts)
    if not behind:
        return found
    return attrs.evolve(found, hidden=behind.total(), behind=behind.most_common(1)[0][0])


def _by_fate(found: RuleResult, fates: Sequence[Fate]) -> RuleResult:
    """The verdict on a rule that was never tried; what can_try() says of a case in reach comes first."""
    fates = sorted(fates, key=lambda fate: not fate.is_declined)
    for kind, verdict in ((HIDDEN, UNKNOWN), (OPEN, UNKNOWN), (LACKS, NOT_OFFERED)):
        for fate in fates:
            if fate.kind == kind:
                return attrs.evolve(found, verdict=verdict, reason=fate.reason)
    never = bool(fates) and all(fate.kind == NEVER for fate in fates)
    reason = fates[0].reason if fates else "nothing was tried"
    return attrs.evolve(found, verdict=OUT_OF_REACH if never else UNKNOWN, reason=reason)


def _pair(rule: Rule) -> Pair | None:
    """The action and outcome that a rule speaks of; None for rules about the cache as a whole."""
    if rule.action is None:
        return None
    code = rule.guard.code.name if rule.kind == GUARD and rule.guard is not None else None
    return rule.action.name, code


def _report(
    subject: Subject,
    target: str,
    results: dict[str, RuleResult],
    tried: Sequence[_Tried],
    seconds: float,
) -> Report:
    from kvspec.properties.conformance.page import page

    declined: Counter[str] = Counter()
    for one in tried:
        declined.update(one.book.declined)
    shown = set(tried[0].explorer.judge.names) if tried else set()
    graphs = {one.part.instance.name: one.explorer.graph for one in tried}
    filled = tuple(name for name in system.variables if name not in shown)
    pages = {
        found.rule.id: page(found, graphs[found.trace.instance], subject.name, target, filled)
        for found in results.values()
        if found.is_broken and found.trace is not None
    }
    return Report(
        name=subject.name,
        target=target,
        results=results,
        parts=tuple(_part_result(one) for one in tried),
        declined=dict(declined),
        not_offered=dict(subject.not_offered),
        filled=filled,
        seconds=seconds,
        pages=pages,
        hidden=_hidden(tried),
    )


def _hidden(tried: Sequence[_Tried]) -> dict[str, int]:
    """Cases that were not tried by the broken rule that they lie behind."""
    found: Counter[str] = Counter()
    for one in tried:
        for counts in one.fates.behind().values() if not one.explorer.is_cut else ():
            found.update(counts)
    return dict(found)


def _part_result(one: _Tried) -> PartResult:
    graph, instance = one.explorer.graph, one.part.instance
    return PartResult(
        instance.name, instance.doc, one.part.told, len(graph.states), graph.count_transitions(),
        one.book.calls, one.book.runs,
    )  # fmt: skip


def _part(given: str | Instance | Part) -> Part:
    if isinstance(given, str):
        return part_named(given)
    return given if isinstance(given, Part) else Part(given)


def _chosen(rules: dict[str, Rule], only: Iterable[str]) -> dict[str, Rule]:
    names = list(only)
    unknown = [name for name in names if name not in rules]
    if unknown:
        from difflib import get_close_matches

        near = get_close_matches(unknown[0], rules, n=3) or list(rules)[:3]
        raise AdapterError(
            f"there is no rule {unknown[0]!r}",
            found=unknown[0], expected=f"an identifier such as {', '.join(near)}",
            where="the rules asked for", do="take it from the report",
        )  # fmt: skip
    return {name: rules[name] for name in rules if name in names} if names else rules


def load_factory(target: str | Factory) -> tuple[Factory, str]:
    """What makes a cache, and its name: of a callable, or of `package.module:factory`.

    The current folder is looked into as well, as `python -m` does.
    """
    if not isinstance(target, str):
        return target, getattr(target, "__qualname__", type(target).__name__)
    module, _, name = target.partition(":")
    if not module or not name:
        raise AdapterError(
            f"{target!r} names no cache",
            found=target, expected="package.module:factory, a function or class",
            where="the cache under test", do="name the module, a colon, and what makes the cache",
        )  # fmt: skip
    here = str(Path.cwd())
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        found: Any = ask(importlib.import_module, module)
    except Exception as error:
        lacking = error.name if isinstance(error, ModuleNotFoundError) else None
        is_away = lacking is not None and f"{module}.".startswith(f"{lacking}.")
        raise AdapterError(
            f"{target!r} cannot be imported",
            found=f"no module {lacking}" if is_away else told(error),
            expected="a module on the path or in this folder" if is_away else "an import without error",
            where="the cache under test" if is_away else f"the import of {module}",
            do="check the name, or start in the folder that has it" if is_away
            else f"repair it: python -c 'import {module}' shows where it fails",
        ) from error  # fmt: skip
    factory = getattr(found, name, None)
    if not callable(factory):
        raise AdapterError(
            f"{module} has no {name!r} that makes a cache",
            found=f"no function or class {name}", expected="a function or class of this name",
            where=module, do="check the name after the colon",
        )  # fmt: skip
    return factory, target
