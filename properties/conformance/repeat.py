"""Repeat: one run of an instance is made again from a reset, and each answer compared with the first.

It is made three times more: whole, as far as its first refusal, and whole. What counts over all runs, a
code told at every other refusal say, is then met at another place of the run.
"""

from __future__ import annotations

from kvspec.models.concrete import show_event
from kvspec.properties.conformance.confirm import Call, Trace
from kvspec.properties.conformance.explore import Explorer
from kvspec.properties.conformance.judge import Finding
from kvspec.properties.conformance.record import Step
from kvspec.properties.conformance.rules import REPEATABLE
from kvspec.properties.conformance.subject import CRASHED, REFUSED

UNLIKE = "answers differently"


def repeat(explorer: Explorer) -> Trace | None:
    """The calls that did not get the same answers again, or None; what is compared is counted in the book."""
    run = explorer.record.best
    if not run or (len(run) == 1 and not run[0].shown):
        return None  # nothing was asked and nothing shown: there is nothing to compare
    first = next((n for n, step in enumerate(run) if step.answer.kind == REFUSED), 0)
    for length in (len(run), first + 1, len(run)):
        if explorer.clock.is_over:
            explorer.is_cut = True
            return None
        unlike = _again(explorer, run[:length])
        if unlike is not None:
            return unlike
        explorer.book.kept[REPEATABLE] += 1
    return None


def _again(explorer: Explorer, run: tuple[Step, ...]) -> Trace | None:
    """Make the run again; the calls as far as the first that was not as at first."""
    judge, place = explorer.judge, 0
    started = judge.start()
    if started.shown != run[0].shown:
        return _trace(explorer, run[:1], 0, _told(run[0], started.shown), "what it showed before")
    off = started.off
    for at, step in enumerate(run[1:], 1):
        if not explorer.can_try(step.number):
            said = "can_try() says that it cannot be asked for"
            return _trace(explorer, run[: at + 1], place, said, "a call, as before")
        judged = judge.call(place, step.number, off)
        if judged.answer.kind == CRASHED:
            explorer.renew_after(judged)
        now = Step(step.number, judged.answer, judged.shown)
        if now.compared != step.compared:
            alike = now.answer.kind == step.answer.kind and now.answer.code == step.answer.code
            said = _told(step, now.shown) if alike else str(now.answer)
            should = "what it showed before" if alike else str(step.answer)
            return _trace(explorer, run[: at + 1], place, said, should)
        place, off = explorer.graph.targets[place][step.number], judged.off
    return None


def _told(step: Step, shown: object) -> str:
    """What is shown otherwise than before."""
    before, now = step.shown or {}, shown if isinstance(shown, dict) else {}
    names = [name for name in before if before[name] != now.get(name)]
    return ", ".join(f"{name} = {now.get(name)}, and before {before[name]}" for name in names)


def _trace(explorer: Explorer, run: tuple[Step, ...], place: int, did: str, should: str) -> Trace:
    graph = explorer.graph
    calls = tuple(
        Call(
            graph.events[step.number].action,
            show_event(graph.compiled.machine, graph.events[step.number]),
            step.answer,
        )
        for step in run[1:]
    )
    return Trace(
        graph.instance.name,
        Finding(REPEATABLE, UNLIKE, did, f"{should}, as the same calls got the first time"),
        calls,
        tuple(step.number for step in run[1:]),
        place,
        repeats=False,
    )
