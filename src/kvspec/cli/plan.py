"""The plan of `kvspec verify`: which stages a system has, and what each of them does."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvspec.cli.stages import Stage, Tell
from kvspec.cli.verdicts import Answer

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.models.explicit import Progress

KINDS = ("prove", "explore")
_HERE = "kvspec.cli.plan"


def plan(subject: KnownSystem, kinds: list[str], jobs: int) -> list[Stage]:
    """The stages of these kinds, those that take longest first."""
    name = subject.name
    stages: list[Stage] = []
    if "prove" in kinds and subject.properties().by_name:
        stages.append(Stage(f"prove {name}", f"{_HERE}:prove_stage", (name, max(1, jobs - 1))))
    if "explore" in kinds:
        stages.extend(
            Stage(f"explore {name}/{one}", f"{_HERE}:explore_stage", (name, one))
            for one in subject.instances
        )
    return stages


def explore_stage(system: str, instance: str, tell: Tell) -> Answer:
    """Every state of one instance."""
    from kvspec.cli.explore import Search, answer, run
    from kvspec.cli.lookup import instance_named, system_named

    subject = system_named(system, "verify")
    chosen = instance_named(subject, instance, "verify")
    expected = chosen.expected.states if chosen.expected else 0

    def told(now: Progress) -> None:
        text = f"{now.states:,} states, {now.per_second:,.0f} a second, depth {now.depth}"
        tell(now.states, expected, text)

    return answer(subject, chosen, run(subject, chosen, Search(), told))


def prove_stage(system: str, workers: int, tell: Tell) -> Answer:
    """Every obligation of the system."""
    from kvspec.cli.lookup import system_named
    from kvspec.cli.prove import Proof, answer, run

    subject = system_named(system, "verify")
    return answer(subject, run(subject, Proof(workers=workers), tell))
