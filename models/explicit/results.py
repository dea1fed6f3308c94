"""Results: what an exploration found, and what makes a run vacuous."""

from __future__ import annotations

from collections.abc import Callable

import attrs

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State


@attrs.frozen
class TraceStep:
    """A state and how it was reached; the first step of a trace has no event.

    outcome: "initial", "accepted" or "refused" (with an effect); code: that of the refusal.
    """

    event: Event | None
    outcome: str
    state: State
    code: str | None = None


@attrs.frozen
class Violation:
    """A property that does not hold, with a shortest trace to where it fails.

    For a leads_to the trace is a lasso: from `loop` on, its steps repeat for ever.
    """

    property: str
    kind: str
    message: str
    trace: tuple[TraceStep, ...] = ()
    loop: int | None = None


@attrs.frozen
class Witness:
    """A reachable state that satisfies a witness: how deep it lies, and a way to it if asked for."""

    property: str
    depth: int
    trace: Callable[[], tuple[TraceStep, ...]] = attrs.field(repr=False, eq=False)


@attrs.frozen
class Coverage:
    """What an exploration exercised.

    actions: accepted steps of each action. guards: refusals by each guard of each action. effects:
    transitions made by refusals with an effect. antecedents: states or steps in which what a claim
    presupposes held. members: for each variable of an enumeration, its members reached.
    """

    actions: dict[str, int]
    guards: dict[str, dict[str, int]]
    effects: dict[str, dict[str, int]]
    antecedents: dict[str, int]
    members: dict[str, dict[str, bool]]


@attrs.frozen
class Progress:
    """How far a running exploration is."""

    states: int
    transitions: int
    per_second: float
    frontier: int
    depth: int
    seconds: float


@attrs.frozen
class Exploration:
    """The result of an exploration.

    verdict: "holds", "violated" or "unknown"; reason says why it is unknown. states: distinct states
    found, of the quotient under symmetry; represented: states that those stand for. transitions:
    accepted steps and refusals with an effect; by_action: the same for each action. depth: steps to
    the farthest state. terminal: states without a transition to another; deadlocks: those that are
    no proper end. cut: steps not taken because they leave the bounds. seconds and cpu_seconds are
    of the search, compile_seconds of what came before, which the cache saves the next time.
    bytes_per_state: of the visited set and the frontier together, at their largest.
    """

    system: str
    instance: str
    variant: int
    states: int
    represented: int
    transitions: int
    depth: int
    seconds: float
    cpu_seconds: float
    compile_seconds: float
    complete: bool
    verdict: str
    reason: str
    violations: tuple[Violation, ...]
    witnesses: tuple[Witness, ...]
    deadlocks: int
    terminal: int
    cut: int
    by_action: dict[str, int]
    coverage: Coverage | None
    bytes_per_state: float
    symmetric: tuple[str, ...] = ()
    threads: int = 1

    @property
    def holds(self) -> bool:
        """Only `holds` passes."""
        return self.verdict == "holds"
