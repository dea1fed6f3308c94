"""Every interleaving of a scenario with few preemptions, each judged; or a sample of all, by chance.

Modelled: the verdict on a scenario is `holds` once every schedule within the bound has been run and every
history is linearizable; it speaks of this bound and these calls. An exploration that was cut is `unknown`,
and so is a sample that found nothing. Schedules with fewer preemptions come first; when one fails, the
others with as many preemptions are still run, for the shortest of those that fail.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import attrs

from kvspec.models.decode.concurrent_scenarios import Recording, Scenario, run_scenario
from kvspec.models.interleaving import (
    Priorities,
    RandomWalk,
    Run,
    Strategy,
    explore,
)
from kvspec.properties.interleaving.judging import (
    HOLDS,
    UNKNOWN,
    VIOLATED,
    Check,
    Judge,
    Judgement,
)

MOST_SCHEDULES: Final = 200_000
Progress = Callable[[int, int], None]
"""Told of schedules run so far, and of the preemptions of the last one."""


@attrs.frozen
class Failing:
    """A run that violates the specification, with all that is needed to have it again."""

    scenario: Scenario
    planted: tuple[str, ...]
    layout: str
    recording: Recording
    reason: str

    @property
    def preemptions(self) -> int:
        """How often a thread was stopped that could have gone on."""
        return self.recording.run.preemptions

    @property
    def size(self) -> tuple[int, int, tuple[int, ...]]:
        """What makes one failing run plainer than another: preemptions, steps, order of threads."""
        run = self.recording.run
        return run.preemptions, len(run.steps), run.threads


@attrs.frozen
class Interleavings:
    """What was found of a scenario.

    Attributes:
        verdict: "holds", "violated" or "unknown"; ``reason`` says why if it does not hold.
        bound: most preemptions of a schedule; None for a sample.
        schedules: how many were run with 0, 1, ... preemptions.
        is_whole: every schedule within the bound was run.
        histories: how many different histories came of them.
        failing: the plainest run that violates the specification.
    """

    scenario: Scenario
    planted: tuple[str, ...]
    verdict: str
    reason: str
    bound: int | None
    schedules: tuple[int, ...]
    is_whole: bool
    histories: int
    failing: Failing | None = None


def explore_scenario(
    scenario: Scenario,
    planted: tuple[str, ...] = (),
    *,
    preemptions: int = 2,
    check: Check,
    layout: str | None = None,
    most: int = MOST_SCHEDULES,
    progress: Progress | None = None,
) -> Interleavings:
    """Run every schedule of a scenario with at most so many preemptions, and judge each.

    It ends behind the first number of preemptions with which one fails, or after ``most`` schedules.
    """

    def execute(strategy: Strategy) -> tuple[Run, Recording]:
        recording = run_scenario(scenario, strategy, planted, layout=layout)
        return recording.run, recording

    tally = _Tally(scenario, planted, layout or scenario.layout, Judge(scenario, check))
    is_whole = True
    for found in explore(execute, preemptions):
        failing = tally.failing
        if failing is not None and found.preemptions > failing.preemptions:
            is_whole = False
            break
        if tally.runs >= most:
            is_whole = False
            tally.doubt(f"cut after {most:,} schedules, at {found.preemptions} preemptions")
            break
        tally.add(found.found)
        if progress is not None:
            progress(tally.runs, found.preemptions)
    return tally.result(preemptions, is_whole=is_whole)


def sample_scenario(
    scenario: Scenario,
    planted: tuple[str, ...] = (),
    *,
    seeds: Iterable[int],
    changes: int | None = 2,
    check: Check,
    layout: str | None = None,
    progress: Progress | None = None,
) -> Interleavings:
    """Run one schedule for each seed, up to the first that fails.

    changes: at how many steps a random priority falls; None chooses evenly at each step instead.
    """
    tally = _Tally(scenario, planted, layout or scenario.layout, Judge(scenario, check))
    for strategy in _chances(scenario, seeds, changes, lambda: tally.longest):
        tally.add(run_scenario(scenario, strategy, planted, layout=layout))
        if progress is not None:
            progress(tally.runs, 0)
        if tally.failing is not None:
            break
    tally.doubt(f"{tally.runs:,} schedules by chance are a sample, which no number makes whole")
    return tally.result(None, is_whole=False)


def _chances(
    scenario: Scenario, seeds: Iterable[int], changes: int | None, length: Callable[[], int]
) -> Iterator[Strategy]:
    """A strategy for each seed; priorities fall within the longest run so far."""
    for seed in seeds:
        if changes is None:
            yield RandomWalk(seed)
        else:
            yield Priorities(seed, len(scenario.clients), length(), changes)


class _Tally:
    """What runs so far have shown."""

    def __init__(
        self, scenario: Scenario, planted: tuple[str, ...], layout: str, judge: Judge
    ) -> None:
        self._scenario = scenario
        self._planted = planted
        self._layout = layout
        self._judge = judge
        self._counts: Counter[int] = Counter()
        self._doubt = ""
        self.failing: Failing | None = None
        self.longest = 16

    @property
    def runs(self) -> int:
        """Schedules run so far."""
        return self._counts.total()

    def add(self, recording: Recording) -> Judgement:
        """Judge a run; the plainest that fails is kept."""
        run = recording.run
        self._counts[run.preemptions] += 1
        self.longest = max(self.longest, len(run.steps))
        judged = self._judge.of(recording)
        if judged.verdict == UNKNOWN:
            self.doubt(judged.reason)
        if judged.verdict == VIOLATED:
            found = Failing(self._scenario, self._planted, self._layout, recording, judged.reason)
            if self.failing is None or found.size < self.failing.size:
                self.failing = found
        return judged

    def doubt(self, reason: str) -> None:
        """Note why nothing found does not mean that it holds; the first reason is kept."""
        self._doubt = self._doubt or reason

    def result(self, bound: int | None, *, is_whole: bool) -> Interleavings:
        """All of it, with the verdict."""
        verdict, reason = HOLDS, ""
        if self.failing is not None:
            verdict, reason = VIOLATED, self.failing.reason
        elif self._doubt:
            verdict, reason = UNKNOWN, self._doubt
        largest = max(self._counts, default=-1)
        return Interleavings(
            self._scenario,
            self._planted,
            verdict,
            reason,
            bound,
            tuple(self._counts[number] for number in range(largest + 1)),
            is_whole,
            self._judge.histories,
            self.failing,
        )
