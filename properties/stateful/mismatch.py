"""Mismatch: the backend did something else than the specification, with all that led there."""

from __future__ import annotations

import attrs

from kvspec.models.concrete import Event, State


@attrs.frozen
class Entry:
    """A step of a run as the specification takes it; the first entry is the initial state.

    outcome: "initial", "accepted" or "refused"; code: that of the refusal.
    """

    event: Event | None
    outcome: str
    state: State
    code: str | None = None


class Mismatch(AssertionError):  # noqa: N818 - it is what is found, not an error of this program
    """The backend and the specification differ.

    steps: the run as the specification takes it, the last step being the one at which they differ.
    """

    kind = "mismatch"

    def __init__(self, message: str, steps: tuple[Entry, ...]) -> None:
        super().__init__(message)
        self.message = message
        self.steps = steps


class WrongStart(Mismatch):
    """After a reset the backend is in no initial state."""

    kind = "start"


class WronglyRefused(Mismatch):
    """An enabled event was refused."""

    kind = "refused"


class WronglyAccepted(Mismatch):
    """A disabled event was accepted."""

    kind = "accepted"


class WrongCode(Mismatch):
    """A disabled event was refused with another code than the guard's."""

    kind = "code"


class WrongState(Mismatch):
    """An accepted event led to another state than the specification's."""

    kind = "state"


class Torn(Mismatch):
    """A reader inside a step saw neither the state before it nor the state after it."""

    kind = "torn"


class RefusalChanged(Mismatch):
    """A refusal changed what it must not change, or left undone what it must do."""

    kind = "effect"


class BrokenClaim(Mismatch):
    """A claim about the system fails on the specification's own run."""

    kind = "claim"


class Damaged(Mismatch):
    """The backend has come to harm that can be measured."""

    kind = "damage"


class Raised(Mismatch):
    """The backend raised an exception instead of answering."""

    kind = "raised"


@attrs.frozen
class Failure:
    """The shortest run that Hypothesis found on which a backend and the specification differ.

    kind: which kind of mismatch. steps: the run as the specification takes it, from the initial state;
    the backend differs at the last one. seed: what reproduces the run. It can be made a trace.
    """

    kind: str
    message: str
    steps: tuple[Entry, ...]
    seed: int

    @property
    def events(self) -> tuple[Event, ...]:
        """The events of the run."""
        return tuple(step.event for step in self.steps if step.event is not None)

    @property
    def length(self) -> int:
        """How many events the run has."""
        return len(self.events)
