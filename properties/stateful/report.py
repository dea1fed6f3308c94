"""Report: what a run did, what it never reached, and the failure it found."""

from __future__ import annotations

import attrs

from kvspec.properties.stateful.mismatch import Failure
from kvspec.properties.stateful.plan import Plan
from kvspec.properties.stateful.tally import Tally


@attrs.frozen
class RunProgress:
    """How far a run is."""

    examples: int
    of: int
    steps: int
    touched: int
    transitions: int


@attrs.frozen
class StatefulReport:
    """The result of a run.

    verdict: "holds", "violated" or "unknown"; reason says why it is unknown. examples: those that did
    anything. sequences: runs from a reset; at a violation, up to the one that failed. steps: events
    performed, of which so many were accepted and refused. touched: transitions taken of the
    `transitions` of the instance; planned: those that the walks take. is_whole: the instance was
    explored to its end. actions, refusals: how many the instance allows.
    never_taken: actions that the instance can take and the run did not. never_probed: refusals, as
    (action, code), that the instance can give and the run did not ask for. out_of_reach: what no state
    of the instance allows, as an action or (action, code). saved: where `save` put the failure.
    """

    instance: str
    verdict: str
    reason: str
    examples: int
    sequences: int
    steps: int
    accepted: int
    refused: int
    touched: int
    transitions: int
    planned: int
    is_whole: bool
    actions: int
    refusals: int
    never_taken: tuple[str, ...]
    never_probed: tuple[tuple[str, str], ...]
    out_of_reach: tuple[tuple[str, str | None], ...]
    failure: Failure | None
    seed: int
    profile: str
    seconds: float
    saved: str | None = None

    @property
    def holds(self) -> bool:
        """Only `holds` passes."""
        return self.verdict == "holds"

    @property
    def coverage(self) -> float:
        """The part of the instance's transitions that was taken."""
        return self.touched / self.transitions if self.transitions else 1.0

    def text(self) -> str:
        """The report for a reader: what failed or was missed comes first."""
        lines = [f"{self.instance}: {self.verdict}" + (f": {self.reason}" if self.reason else "")]
        if self.failure is not None:
            lines.append(f"  {self.failure.message}")
            lines.append(f"  shortest run found: {self.failure.length} events, seed {self.seed}")
        if self.saved is not None:
            lines.append(f"  saved as {self.saved}")
        lines += [f"  NEVER TAKEN: {name}" for name in self.never_taken]
        lines += [
            f"  NEVER PROBED: {action} refused with {code}" for action, code in self.never_probed
        ]
        lines.append(
            f"  {self.examples:,} examples, {self.sequences:,} sequences, {self.steps:,} events "
            f"({self.accepted:,} accepted, {self.refused:,} refused), {self.seconds:.1f} s"
        )
        whole = "" if self.is_whole else ", explored in part"
        lines.append(
            f"  {self.touched:,} of {self.transitions:,} transitions touched "
            f"({100 * self.coverage:.1f} %{whole}; planned {self.planned:,})"
        )
        lines.append(
            f"  {self.actions - len(self.never_taken)} of {self.actions} actions taken, "
            f"{self.refusals - len(self.never_probed)} of {self.refusals} refusals probed"
        )
        if self.out_of_reach:
            names = [f"{action}/{code}" if code else action for action, code in self.out_of_reach]
            lines.append(f"  out of reach in this instance: {', '.join(names)}")
        return "\n".join(lines)


def missed(plan: Plan, tally: Tally) -> tuple[tuple[str, ...], tuple[tuple[str, str], ...]]:
    """The actions never taken and the refusals never probed, of those that the instance allows."""
    taken = tuple(name for name in plan.actions if (name, None) not in tally.seen)
    probed = tuple(pair for pair in plan.refusals if pair not in tally.seen)
    return taken, probed
