"""The least of a history that fails: the answers that no order of the operations explains together.

An operation whose answer is forgotten still takes effect at some moment between its call and its
return, but may have been told anything. Forgetting an answer only allows more, so what still fails says
something about the whole history, whatever the forgotten answers were. A window is a set of answers
that fails with all others forgotten; it is minimal if it holds once any one more is forgotten.

First the end is cut: of all moments, the first at which what was answered so far cannot be explained.
What is asked later is left out, and what is not answered by then is pending.
"""

from __future__ import annotations

import attrs

from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.linearizability.check import HOLDS, VIOLATED, Checker
from kvspec.properties.linearizability.history import History, Operation

SHRINK_STATES = 100_000
"""Configurations for one question; an answer that takes more is kept in the window."""


@attrs.frozen
class Window:
    """Answers that fail together.

    operations: places in the history. until: the moment at which the last of them was given, in ticks.
    minimal: forgetting any one of these answers was seen to make the rest hold.
    """

    operations: tuple[int, ...]
    until: int
    minimal: bool


class Shrinker:
    """Shrinks one history that is not linearizable, within limits."""

    def __init__(self, checker: Checker, history: History, limits: Limits) -> None:
        self.checker = checker
        self.history = history
        states = min(limits.max_states or SHRINK_STATES, SHRINK_STATES)
        self.limits = attrs.evolve(limits, max_states=states).begun()

    def window(self) -> Window:
        """A window, as small as the limits let it become."""
        until = self._first_failing_moment()
        history = cut_after(self.history, until)
        places = [n for n, o in enumerate(self.history.operations) if o.invoked <= until]
        kept = [n for n, o in enumerate(history.operations) if o.answer is not None]
        kept = self._without_chunks(history, kept)
        minimal = True
        for place in list(kept):
            verdict = self._verdict(history, [other for other in kept if other != place])
            if verdict == VIOLATED:
                kept.remove(place)
            elif verdict != HOLDS:
                minimal = False
        return Window(tuple(places[n] for n in kept), until, minimal)

    def _first_failing_moment(self) -> int:
        """The earliest return until which the history fails; what holds then holds before."""
        moments = sorted({o.returned for o in self.history.operations if o.returned is not None})
        low, high = 0, len(moments) - 1
        while low < high:
            middle = (low + high) // 2
            history = cut_after(self.history, moments[middle])
            if self._verdict(history, range(len(history.operations))) == VIOLATED:
                high = middle
            else:
                low = middle + 1
        return moments[high]

    def _without_chunks(self, history: History, kept: list[int]) -> list[int]:
        """Forget as many answers as fail without, in ever smaller runs, the earliest first."""
        size = len(kept) // 2
        while size >= 1:
            at = 0
            while at < len(kept):
                fewer = kept[:at] + kept[at + size :]
                if fewer and self._verdict(history, fewer) == VIOLATED:
                    kept = fewer
                else:
                    at += size
            size //= 2
        return kept

    def _verdict(self, history: History, kept: list[int] | range) -> str:
        """The verdict with all but these answers forgotten."""
        forgotten = frozenset(range(len(history.operations))) - frozenset(kept)
        judged = self.checker.judge(history, self.limits, forgotten=forgotten, order=False)
        return judged.verdict


def cut_after(history: History, moment: int) -> History:
    """The history as it was known at a moment: what was not answered yet is pending."""
    return attrs.evolve(
        history,
        operations=tuple(
            _pending(operation, moment)
            for operation in history.operations
            if operation.invoked <= moment
        ),
    )


def _pending(operation: Operation, moment: int) -> Operation:
    if operation.returned is not None and operation.returned <= moment:
        return operation
    return attrs.evolve(operation, answer=None, returned=None)
