"""All schedules with few preemptions, those with none first.

Modelled: stateless search with iterative context bounding (Musuvathi and Qadeer, "Iterative context
bounding for systematic testing of multithreaded programs", PLDI 2007): a program is run again and again
from its beginning; each run is told how to begin and preempts nobody afterwards. A switch away from a
thread that has ended, or that waits, costs nothing. Each schedule within the bound is run once.
Left out: partial-order reduction. Runs that differ in steps alone which do not matter to each other are
all run; whoever judges them can tell equal outcomes by what they are.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import attrs

from kvspec.models.interleaving.schedule import Run
from kvspec.models.interleaving.strategies import Steered, Strategy

T = TypeVar("T")

Execute = Callable[[Strategy], tuple[Run, T]]
"""Runs a program from its beginning under a strategy; gives the run and what came of it."""


@attrs.frozen
class Explored(Generic[T]):
    """A run of an exploration, its preemptions, and what came of it."""

    preemptions: int
    run: Run
    found: T


def explore(execute: Execute[T], preemptions: int) -> Iterator[Explored[T]]:
    """Every run with at most so many preemptions, once, in the order of their preemptions.

    Ends when there is none left; a caller that stops earlier has not seen all. The program must be
    deterministic but for its schedule.

    Raises:
        NotApplicableError: the program did not do the same when it was begun alike.
        ValueError: the bound is negative.
    """
    if preemptions < 0:
        raise ValueError(f"found a bound of {preemptions} preemptions, expected at least 0")
    waiting: list[deque[tuple[int, ...]]] = [deque() for _ in range(preemptions + 1)]
    waiting[0].append(())
    for spent, prefixes in enumerate(waiting):
        while prefixes:
            prefix = prefixes.popleft()
            run, found = execute(Steered(prefix))
            yield Explored(spent, run, found)
            for cost, branch in _branches(run, len(prefix)):
                if spent + cost <= preemptions:
                    waiting[spent + cost].append(branch)


def _branches(run: Run, begun: int) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Other beginnings that leave a run behind the steps it was told, with what each costs more."""
    threads = run.threads
    for place in range(begun, len(threads)):
        choice = run.choices[place]
        for thread in choice.enabled:
            if thread != threads[place]:
                yield int(choice.is_preemption(thread)), (*threads[:place], thread)
