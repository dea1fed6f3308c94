"""Who runs next: a schedule again, a prefix of one, chance, or priorities.

Modelled: `Keep` preempts nobody; `Steered` begins as told and then preempts nobody, which is what
exploration takes; `Follow` is replay, to the letter; `Lenient` takes an order of threads as far as it
goes; `RandomWalk` chooses evenly; `Priorities` are random priorities that change at few random steps, so
that a fault of depth d over n threads and k steps is met with a chance of at least 1/(n k^(d-1))
(Burckhardt, Kothari, Musuvathi and Nagarakatte, "A randomized scheduler with probabilistic guarantees of
finding bugs", ASPLOS 2010).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Protocol

from kvspec.models.interleaving.schedule import Choice, NotApplicableError, Step


class Strategy(Protocol):
    """Chooses one of the enabled threads at each step; used for one run."""

    def choose(self, choice: Choice) -> int:
        """The thread that goes on."""
        ...


class Keep:
    """The current thread goes on as long as it can, then the first that can."""

    def choose(self, choice: Choice) -> int:
        """The current thread, or the first that can go on."""
        return choice.kept


class Steered:
    """The first steps as told, then nobody is preempted."""

    def __init__(self, prefix: Sequence[int]) -> None:
        self._prefix = tuple(prefix)

    def choose(self, choice: Choice) -> int:
        """The thread that the prefix names, behind its end the current one."""
        if choice.number >= len(self._prefix):
            return choice.kept
        wanted = self._prefix[choice.number]
        if wanted not in choice.enabled:
            raise NotApplicableError(
                choice.number,
                f"thread {wanted} at {choice.point(wanted) or 'its end'}, where it cannot go on",
                f"one of the threads {choice.enabled}",
            )
        return wanted


class Follow:
    """Each step as recorded: the thread, and the point at which it stands."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self._steps = tuple(steps)

    def choose(self, choice: Choice) -> int:
        """The thread of the recorded step.

        Raises:
            NotApplicableError: it stands elsewhere, cannot go on, or the record has no more steps.
        """
        if choice.number >= len(self._steps):
            raise NotApplicableError(
                choice.number, f"threads that go on at {dict(choice.at)}", "the end of the run"
            )
        step = self._steps[choice.number]
        at = choice.point(step.thread)
        if at != step.at or step.thread not in choice.enabled:
            held = "" if at != step.at else ", where it waits"
            raise NotApplicableError(
                choice.number,
                f"thread {step.thread} at {at or 'its end'}{held}",
                f"thread {step.thread} at {step.at}, and that it can go on",
            )
        return step.thread


class Lenient:
    """An order of threads as far as it goes: a thread that cannot go on gives its turn up."""

    def __init__(self, threads: Sequence[int]) -> None:
        self._left = list(threads)

    def choose(self, choice: Choice) -> int:
        """The first thread of what is left of the order that can go on, else the current one."""
        while self._left:
            wanted = self._left.pop(0)
            if wanted in choice.enabled:
                return wanted
        return choice.kept


class RandomWalk:
    """Every thread that can go on has the same chance at every step."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)

    def choose(self, choice: Choice) -> int:
        """One of the enabled threads."""
        return self._chance.choice(choice.enabled)


class Priorities:
    """The enabled thread of the highest priority goes on; at some steps its priority falls to the end.

    Args:
        seed: of all that is drawn.
        threads: how many threads there are.
        length: about how many steps the run has.
        changes: at how many of them a priority falls; one less than the depth of the faults looked for.
    """

    def __init__(self, seed: int, threads: int, length: int, changes: int = 2) -> None:
        chance = random.Random(seed)
        self._order = list(range(threads))
        chance.shuffle(self._order)
        self._falls = set(chance.sample(range(1, max(length, changes + 2)), changes))

    def choose(self, choice: Choice) -> int:
        """The first enabled thread in the order of priorities."""
        chosen = next(thread for thread in self._order if thread in choice.enabled)
        if choice.number in self._falls:
            self._order.remove(chosen)
            self._order.append(chosen)
            chosen = next(thread for thread in self._order if thread in choice.enabled)
        return chosen
