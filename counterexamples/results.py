"""The result of a replay, and its text: what each step did, what it should have done, what changed."""

from __future__ import annotations

from typing import Any

import attrs

from kvspec.counterexamples.format import Trace
from kvspec.models.backend import Damage

PASSED = ("agrees", "refused_as_specified", "differs_as_specified", "damage_shown")


@attrs.frozen
class ReplayStep:
    """A step that was replayed.

    changes: what the step changed, `version[handle0]: 0 -> 1`. differences: values that are not as
    expected; from the fault on a faulty cache may have some and still agree (shown with ~, not !).
    damage: all harm that could be measured after it.
    """

    number: int
    event: str
    expected: str
    found: str
    agrees: bool
    changes: tuple[str, ...] = ()
    differences: tuple[str, ...] = ()
    damage: tuple[Damage, ...] = ()

    def show(self) -> str:
        """The step as lines of text."""
        lines = [f"{self.number:3}. {self.event}  {self.found}"]
        lines.extend(f"       {change}" for change in self.changes)
        if not self.agrees:
            lines.append(f"     ! expected {self.expected}")
        mark = "~" if self.agrees else "!"
        lines.extend(f"     {mark} {difference}" for difference in self.differences)
        lines.extend(
            f"     * damage: {d.kind} at {d.where}: {d.amount:g} ({d.text})" for d in self.damage
        )
        return "\n".join(lines)


@attrs.frozen
class Replay:
    """What a replay found.

    outcome:
      agrees                every step went as specified
      refused_as_specified  the faulty step was refused with the specified code, and changed no more
      differs_as_specified  the specification accepts the faulty step and does something else
      damage_shown          a backend with the fault took every step and came to harm
      no_damage             it took every step and no harm could be measured
      not_replayable        the trace begins in a state that a backend cannot be put in
      disagrees             something went otherwise; `message` says what
    The first four pass. steps: those that were run; a run ends at the step that decides.
    differs_from_mutant: a cache with the fault took the steps, and its states at the departing step or
    after are not those of the mutation: its fault does more, or less, than the mutation says.
    """

    trace: Trace
    where: str
    target: str
    outcome: str
    message: str
    steps: tuple[ReplayStep, ...]
    differs_from_mutant: bool = False

    @property
    def passed(self) -> bool:
        """Whether all went as the trace and the specification say."""
        return self.outcome in PASSED

    @property
    def damage(self) -> tuple[Damage, ...]:
        """The harm measured after the last step."""
        return self.steps[-1].damage if self.steps else ()

    def show(self) -> str:
        """The replay as text: a line for each step, its changes, and the outcome."""
        trace = self.trace
        lines = [f"replay of {self.where} against {self.target}", f"system {trace.system}"]
        if trace.instance.name:
            lines[-1] += f", instance {trace.instance.name}"
        if trace.mutation is not None:
            lines.append(f"mutation {trace.mutation.name}: {trace.mutation.description}")
        if trace.property is not None:
            lines.append(f"shows {trace.property.name} ({trace.property.kind})")
        lines.extend(step.show() for step in self.steps)
        left = len(trace.steps) - len(self.steps)
        if left:
            lines.append(f"     ({left} more in the trace, not run)")
        lines.append(f"{self.outcome.replace('_', ' ')}: {self.message}")
        return "\n".join(lines)

    def as_json(self) -> dict[str, Any]:
        """The replay as plain data."""
        return {
            "trace": self.where,
            "target": self.target,
            "outcome": self.outcome,
            "passed": self.passed,
            "message": self.message,
            "differs_from_mutant": self.differs_from_mutant,
            "steps": [attrs.asdict(step) for step in self.steps],
        }
