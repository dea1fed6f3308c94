"""Record: the run of an instance that is worth making again, with what the cache answered and showed."""

from __future__ import annotations

import attrs

from kvspec.properties.conformance.judge import Judged
from kvspec.properties.conformance.observing import Shown
from kvspec.properties.conformance.subject import CRASHED, REFUSED, Answer


@attrs.frozen
class Step:
    """A call by number, the answer, and what the cache showed after it; number -1: the reset."""

    number: int
    answer: Answer
    shown: Shown | None

    @property
    def compared(self) -> tuple[str, str | None, Shown | None]:
        """What must come again: not the words of a refusal."""
        return self.answer.kind, self.answer.code, self.shown


@attrs.define
class Record:
    """The run of an instance that is made again: the one with most refusals, then the longest.

    run: the one that goes on. best: the one to repeat.
    """

    run: list[Step] = attrs.field(factory=list)
    best: tuple[Step, ...] = ()

    def begin(self, started: Judged) -> None:
        """A run begins with a reset."""
        self.run = [_step(started)]
        self._keep()

    def add(self, judged: Judged) -> None:
        """A call of the run."""
        if self.run:
            self.run.append(_step(judged))
        if judged.answer.kind == CRASHED:
            self.run = []
        self._keep()

    def _keep(self) -> None:
        if _worth(self.run) > _worth(self.best):
            self.best = tuple(self.run)


def _step(judged: Judged) -> Step:
    return Step(judged.number, judged.answer, judged.shown)


def _worth(run: list[Step] | tuple[Step, ...]) -> tuple[int, int]:
    return sum(step.answer.kind == REFUSED for step in run), len(run)
