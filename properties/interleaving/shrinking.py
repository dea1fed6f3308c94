"""A plainer failing run: fewer preemptions, then fewer calls, then fewer steps.

Modelled: the order of threads is kept and made plainer piece by piece (a thread's next piece moved up to
where it was stopped; a call left out with its steps, or a piece of the setup), each attempt run and judged
anew; then schedules with fewer preemptions are tried, all of them within a limit. Left out: smaller
instances.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from kvspec.models.decode.concurrent_scenarios import Recording, Scenario, SetupError, run_scenario
from kvspec.models.interleaving import Lenient, Run
from kvspec.properties.interleaving.exploring import Failing, explore_scenario
from kvspec.properties.interleaving.judging import VIOLATED, Check, Judge

MOST_TRIED: Final = 2_000


def shrink(failing: Failing, *, check: Check, most: int = MOST_TRIED) -> Failing:
    """The plainest failing run that was found from this one; itself if there is none.

    most: schedules that are explored for one with fewer preemptions, once it is as plain as pieces go.
    """
    is_plainer = True
    while is_plainer:
        plainer = _first(failing, check)
        is_plainer = plainer is not None
        failing = plainer or failing
    found = explore_scenario(
        failing.scenario,
        failing.planted,
        preemptions=failing.preemptions,
        check=check,
        layout=failing.layout,
        most=most,
    ).failing
    return found if found is not None and found.size < failing.size else failing


def _first(failing: Failing, check: Check) -> Failing | None:
    """The first attempt that fails as well and is plainer."""
    judge = Judge(failing.scenario, check)
    for threads in _merged(failing.recording.run):
        found = _tried(failing, failing.scenario, threads, judge)
        if found is not None and found.size < failing.size:
            return found
    for scenario, threads in (*_without_a_call(failing), *_without_setup(failing)):
        found = _tried(failing, scenario, threads, Judge(scenario, check))
        if found is not None and found.preemptions <= failing.preemptions:
            return found
    return None


def _tried(
    failing: Failing, scenario: Scenario, threads: tuple[int, ...], judge: Judge
) -> Failing | None:
    """The run of a scenario in an order of threads, if it violates the specification."""
    recording: Recording = run_scenario(
        scenario, Lenient(threads), failing.planted, layout=failing.layout
    )
    judged = judge.of(recording)
    if judged.verdict != VIOLATED:
        return None
    return Failing(scenario, failing.planted, failing.layout, recording, judged.reason)


def _merged(run: Run) -> Iterator[tuple[int, ...]]:
    """Orders in which one preemption is gone: the stopped thread does its next piece first."""
    threads = run.threads
    for place, choice in enumerate(run.choices):
        stopped = choice.current
        if stopped is None or not choice.is_preemption(threads[place]):
            continue
        later = [n for n in range(place, len(threads)) if threads[n] == stopped]
        stop = next((n for n in later if n + 1 not in later), len(threads))
        piece = [n for n in later if n <= stop]
        rest = [n for n in range(place, len(threads)) if n not in piece]
        yield (*threads[:place], *(threads[n] for n in (*piece, *rest)))


def _without_a_call(failing: Failing) -> Iterator[tuple[Scenario, tuple[int, ...]]]:
    """Scenarios with one call less, each with the order that the other calls' steps had."""
    scenario, run = failing.scenario, failing.recording.run
    calls: dict[int, int] = {}
    whose = []
    for step in run.steps:
        if step.at.startswith("ask "):
            calls[step.thread] = calls.get(step.thread, -1) + 1
        whose.append((step.thread, calls.get(step.thread, 0)))
    for number, asked in enumerate(scenario.clients):
        for place in range(len(asked)):
            rest = (*asked[:place], *asked[place + 1 :])
            kept = tuple(each[0] for each in whose if each != (number, place))
            if not rest:
                kept = tuple(thread - (thread > number) for thread in kept if thread != number)
            clients = (
                *scenario.clients[:number],
                *([rest] if rest else []),
                *scenario.clients[number + 1 :],
            )
            yield attrs.evolve(scenario, clients=clients), kept


def _without_setup(failing: Failing) -> Iterator[tuple[Scenario, tuple[int, ...]]]:
    """Scenarios whose setup lacks some events in a row, and is still accepted; the longest rows first."""
    setup = failing.scenario.setup
    for length in range(len(setup), 0, -1):
        for begin in range(len(setup) - length + 1):
            rest = (*setup[:begin], *setup[begin + length :])
            scenario = attrs.evolve(failing.scenario, setup=rest)
            try:
                scenario.start()
            except SetupError:
                continue
            yield scenario, failing.recording.run.threads
