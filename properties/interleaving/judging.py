"""The verdict on one run of a scenario: by the linearizability checker, or by how the run ended.

Modelled: a run violates the specification if its history is no order of atomic steps, if its threads come
to a deadlock, or if one of them raises an error, which no call of a cache may do. A run that was cut
before that says nothing. Equal histories are checked once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import attrs

from kvspec.models.decode.concurrent_record import Asked
from kvspec.models.decode.concurrent_scenarios import Recording, Scenario
from kvspec.properties.interleaving.histories import history_of
from kvspec.properties.linearizability.history import History

HOLDS: Final = "holds"
VIOLATED: Final = "violated"
UNKNOWN: Final = "unknown"


@attrs.frozen
class Judgement:
    """A verdict ("holds", "violated" or "unknown"), with the reason if it does not hold."""

    verdict: str
    reason: str = ""


Check = Callable[[History], Judgement]
"""Judges one history."""


class Judge:
    """Judges the runs of one scenario.

    Attributes:
        histories: how many different histories it has seen.
    """

    def __init__(self, scenario: Scenario, check: Check) -> None:
        self.scenario = scenario
        self._check = check
        self._start = scenario.start()
        self._known: dict[tuple[Asked, ...], Judgement] = {}

    @property
    def histories(self) -> int:
        """How many different histories it has seen."""
        return len(self._known)

    def of(self, recording: Recording) -> Judgement:
        """The verdict on a run."""
        run = recording.run
        if run.errors:
            number, error = run.errors[0]
            told = " ".join(str(error).split()) or "no message"
            return Judgement(
                VIOLATED,
                f"client {number} got no answer: found {type(error).__name__} ({told}), expected "
                "a reply or a refusal",
            )
        if run.ending == "cut":
            return Judgement(UNKNOWN, f"the run was cut: {run.told}")
        if run.ending == "deadlock":
            return Judgement(VIOLATED, f"deadlock: {run.told}")
        known = self._known.get(recording.asked)
        if known is None:
            history = history_of(self.scenario.instance, recording.asked, self._start)
            known = self._known[recording.asked] = self._check(history)
        return known
