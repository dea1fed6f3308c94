"""What a run of controlled threads was: its steps, the choices that led to them, and how it ended.

Modelled: a step is what a thread does from one point to its next: one access to something shared, and
then work that no other thread can see. Left out: what the threads computed; whoever started them keeps it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import attrs

Ending = Literal["whole", "deadlock", "cut"]


@attrs.frozen
class Step:
    """A step: the thread that took it, and the point at which it stood before."""

    thread: int
    at: str


@attrs.frozen
class Choice:
    """What there was to choose from.

    Attributes:
        number: of the step, from 0.
        current: the thread that took the step before, None at the first.
        enabled: the threads that can go on, in their order; a thread that waits for a lock cannot.
        at: the point at which each thread stands that has not ended, enabled or not.
    """

    number: int
    current: int | None
    enabled: tuple[int, ...]
    at: tuple[tuple[int, str], ...]

    @property
    def kept(self) -> int:
        """Who goes on if nobody is preempted: the current thread, else the first that can."""
        return self.current if self.current in self.enabled else self.enabled[0]

    def point(self, thread: int) -> str | None:
        """Where a thread stands, None when it has ended."""
        return dict(self.at).get(thread)

    def is_preemption(self, thread: int) -> bool:
        """Choosing this thread stops another one that could have gone on."""
        return self.current in self.enabled and thread != self.current


@attrs.frozen
class Run:
    """One run.

    Attributes:
        steps: in their order; with them the run can be had again.
        choices: what each step was chosen from.
        ending: "whole", "deadlock" (threads are left and none can go on) or "cut" (too many steps).
        told: what a deadlock or a cut is about, as text.
        errors: what a thread raised, by its number.
    """

    steps: tuple[Step, ...]
    choices: tuple[Choice, ...]
    ending: Ending = "whole"
    told: str = ""
    errors: tuple[tuple[int, BaseException], ...] = ()

    @property
    def threads(self) -> tuple[int, ...]:
        """The thread of each step."""
        return tuple(step.thread for step in self.steps)

    @property
    def preemptions(self) -> int:
        """How often a thread was stopped that could have gone on."""
        return count_preemptions(self.choices, self.threads)


def count_preemptions(choices: Iterable[Choice], threads: Iterable[int]) -> int:
    """Preemptions among the first choices, as many as there are threads."""
    pairs = zip(choices, threads, strict=False)
    return sum(choice.is_preemption(thread) for choice, thread in pairs)


class NotApplicableError(Exception):
    """A schedule names a step that cannot be taken; says which, what was found and what to do."""

    def __init__(self, step: int, found: str, expected: str) -> None:
        self.step = step
        self.found = found
        self.expected = expected
        super().__init__(
            f"step {step} of the schedule: found {found}, expected {expected}: "
            "replay it on the program that it was recorded on"
        )


class StuckError(RuntimeError):
    """A thread neither came to a point nor ended: it waits for something that is not controlled."""
