"""Confirm: a break is shown again from a reset, by the shortest way, before anybody is told of it.

If the shortest way does not show it, the run on which it was seen is tried again, and made shorter by
leaving out calls: the cache remembers something that the specification does not know of. If that does
not show it either, or not each time, the same calls do not always get the same answers.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

import attrs

from kvspec.models.concrete import show_event
from kvspec.properties.conformance.asking import told
from kvspec.properties.conformance.book import Spot
from kvspec.properties.conformance.explore import Edge, Explorer, damage_text, path_of
from kvspec.properties.conformance.graph import NO_CASE
from kvspec.properties.conformance.judge import HARM, SILENT, Finding, Judged
from kvspec.properties.conformance.rules import UNDAMAGED
from kvspec.properties.conformance.subject import CRASHED, Answer

RERUNS = 200
"""Runs that may be spent on making one trace shorter."""


@attrs.frozen
class Call:
    """One call of a trace and what the cache answered.

    broken: the rules that it breaks. is_silent: it is a wrong call that was accepted in silence.
    """

    action: str
    text: str
    answer: Answer
    broken: tuple[str, ...] = ()
    is_silent: bool = False


@attrs.frozen
class Trace:
    """The shortest run found that shows a break.

    events: the calls by number. place: the state in which the last one was made. repeats: the same calls
    show it each time. before, after: the cache in its own words around the last call. damage: what
    could be measured after it. past: rules that the calls before it broke. hidden: the shortest way to
    the same state does not show it, so that the cache remembers more than the specification tells.
    is_confirmed: it was made again; else the time was up, and it is told as it was seen.
    is_alone: in the last call a single guard fails.
    """

    instance: str
    finding: Finding
    calls: tuple[Call, ...]
    events: tuple[int, ...]
    place: int
    repeats: bool = True
    is_confirmed: bool = True
    before: str = ""
    after: str = ""
    damage: str = ""
    past: tuple[str, ...] = ()
    hidden: bool = False
    is_alone: bool = False


@attrs.frozen
class Replayed:
    """A run that was made again: what came of each call, and what surrounds the last one."""

    judged: tuple[Judged, ...]
    places: tuple[int, ...]
    before: str
    after: str
    damage: str

    def finding(self, rule: str) -> Finding | None:
        """How the last call broke the rule, if it did."""
        if rule == UNDAMAGED:
            return Finding(rule, HARM, self.damage, "no damage") if self.damage else None
        last = self.judged[-1]
        return next((found for found in last.findings if found.rule == rule), None)


def confirm(explorer: Explorer, spots: list[Spot]) -> Trace:
    """The trace of a rule's break, from the places where it was seen, nearest first."""
    rule = spots[0].finding.rule
    if explorer.clock.is_over:
        explorer.is_cut = True
        return _as_seen(explorer, spots[0])
    for spot in spots:
        way = shortest(explorer, spot.place, past=bool(spot.past))
        if way is None:
            continue
        is_at = spot.number < 0 or rule == UNDAMAGED
        run = tuple(way) if is_at else (*way, spot.number)
        again = [replay(explorer, run), replay(explorer, run)]
        if all(_shows(found, rule) for found in again):
            run = _nearer(explorer, run, spot) if explorer.quota is not None else run
            return _trace(explorer, run, replay(explorer, run), spot)
        if any(_shows(found, rule) for found in again):
            return _unsteady(explorer, min(spots, key=lambda found: len(found.run)))
    for spot in spots:
        if all(_shows(replay(explorer, spot.run), rule) for _ in range(2)):
            run = _shorter(
                spot.run,
                lambda r: not explorer.clock.is_over and _shows(replay(explorer, r), rule),
            )
            return _trace(explorer, run, replay(explorer, run), spot, hidden=True)
    return _unsteady(explorer, min(spots, key=lambda found: len(found.run)))


def shortest(explorer: Explorer, place: int, *, past: bool) -> list[int] | None:
    """The shortest way to a state by steps in which the cache was not seen to go astray."""
    came: dict[int, Edge] = {0: (-1, -1)}
    line = deque([0])
    while line and place not in came:
        at = line.popleft()
        for number, target in enumerate(explorer.graph.targets[at]):
            edge = (at, number)
            if target == NO_CASE or target in came or not explorer.is_offered(number):
                continue
            if explorer.is_open(edge, past=past):
                came[target] = edge
                line.append(target)
    return path_of(came, place) if place in came else None


def _nearer(explorer: Explorer, run: tuple[int, ...], spot: Spot) -> tuple[int, ...]:
    """A shorter run that shows the same, where not all states were tried; the run itself if none does."""
    graph, rule, spent = explorer.graph, spot.finding.rule, 0
    if spot.number < 0 or rule == UNDAMAGED:
        return run
    alike = graph.kind(spot.place, spot.number)[1:3]
    action = graph.events[spot.number].action
    for place, number in graph.cases():
        if graph.depth[place] + 1 >= len(run) or spent >= RERUNS or explorer.clock.is_over:
            break
        if graph.kind(place, number)[1:3] != alike or graph.events[number].action != action:
            continue
        way = shortest(explorer, place, past=bool(spot.past))
        spent += 1
        again = replay(explorer, (*way, number)) if way is not None else None
        shown = again.finding(rule) if again is not None else None
        if shown is not None and shown.manner == spot.finding.manner:
            return (*(way or ()), number)
    return run


def replay(explorer: Explorer, run: tuple[int, ...]) -> Replayed | None:
    """Make a run again from a reset; None where it cannot be made as far as its last call."""
    judge, graph = explorer.judge, explorer.graph
    started = judge.start()
    if not run:
        harm = judge.subject.damage() if judge.subject.measures else []
        return Replayed((started,), (0,), "", judge.subject.describe(), damage_text(harm))
    place, off, before = 0, started.off, ""
    judged: list[Judged] = []
    places: list[int] = []
    for step, number in enumerate(run):
        if not graph.is_case(place, number) or not explorer.can_try(number):
            return None
        if step == len(run) - 1:
            before = judge.subject.describe()
        found = judge.call(place, number, off)
        judged.append(found)
        places.append(place)
        if found.answer.kind == CRASHED:
            explorer.renew_after(found)
        if not found.goes_on and step < len(run) - 1:
            return None
        place, off = graph.targets[place][number], found.off
    after, damage = _aftermath(explorer, judged[-1])
    return Replayed(tuple(judged), tuple(places), before, after, damage)


def _aftermath(explorer: Explorer, last: Judged) -> tuple[str, str]:
    """The cache's own words and its damage after the last call, if it can still be asked."""
    subject = explorer.judge.subject
    if last.answer.kind == CRASHED:
        return "", ""
    try:
        return subject.describe(), damage_text(subject.damage()) if subject.measures else ""
    except Exception as error:  # noqa: BLE001 - a broken cache may be unable to tell
        return f"it cannot tell: {told(error)}", ""


def _shows(found: Replayed | None, rule: str) -> bool:
    return found is not None and found.finding(rule) is not None


def _shorter(run: tuple[int, ...], shows: Callable[[tuple[int, ...]], bool]) -> tuple[int, ...]:
    """The run without calls that it does not need: halves, then quarters, down to single calls."""
    spent, size = 0, max(1, len(run) // 2)
    while size >= 1 and spent < RERUNS:
        start = 0
        while start + size < len(run) and spent < RERUNS:
            less = run[:start] + run[start + size :]
            spent += 1
            if shows(less):
                run = less
            else:
                start += size
        size //= 2
    return run


def _trace(
    explorer: Explorer,
    run: tuple[int, ...],
    found: Replayed | None,
    spot: Spot,
    *,
    hidden: bool = False,
) -> Trace:
    if found is None:
        return _unsteady(explorer, spot)
    calls = tuple(_call(explorer, judged) for judged in found.judged if judged.number >= 0)
    astray = [c for c, judged in zip(calls[:-1], found.judged, strict=False) if judged.off]
    earlier = (r for c in astray for r in c.broken if not r.startswith("claim/"))
    return Trace(
        explorer.graph.instance.name,
        found.finding(spot.finding.rule) or spot.finding,
        calls,
        run,
        found.places[-1],
        before=found.before,
        after=found.after,
        damage=found.damage,
        past=tuple(dict.fromkeys(earlier)),
        hidden=hidden,
        is_alone=bool(run and explorer.graph.alone[found.places[-1]][run[-1]]),
    )


def _call(explorer: Explorer, judged: Judged) -> Call:
    event = explorer.graph.events[judged.number]
    text = show_event(explorer.graph.compiled.machine, event)
    broken = tuple(finding.rule for finding in judged.findings)
    is_silent = any(finding.manner == SILENT for finding in judged.findings)
    return Call(event.action, text, judged.answer, broken, is_silent)


def _as_seen(explorer: Explorer, spot: Spot) -> Trace:
    """The run on which the break was seen, where the time was up before it could be shown again."""
    trace = _unsteady(explorer, spot)
    calls = tuple(attrs.evolve(call, answer=Answer("not made again")) for call in trace.calls)
    past = tuple(dict.fromkeys(spot.past))
    return attrs.evolve(trace, calls=calls, repeats=True, is_confirmed=False, past=past)


def _unsteady(explorer: Explorer, spot: Spot) -> Trace:
    """The run as it was seen: it did not come again."""
    machine, events = explorer.graph.compiled.machine, explorer.graph.events
    calls = tuple(
        Call(events[n].action, show_event(machine, events[n]), Answer("not seen again"))
        for n in spot.run
    )
    return Trace(
        explorer.graph.instance.name, spot.finding, calls, spot.run, spot.place, repeats=False
    )
