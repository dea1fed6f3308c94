"""The plan of `kvspec verify`: which stages a system has, and what each of them does."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from kvspec.cli.atlas import systems as shown_on
from kvspec.cli.atlas_cases import Asked
from kvspec.cli.stages import Stage, Tell, unknown_answer
from kvspec.cli.verdicts import Answer
from kvspec.counterexamples.systems import SPECIFICATION

if TYPE_CHECKING:
    from kvspec.cli.test import Drive
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.models.explicit import Progress

KINDS = (
    "prove",
    "explore",
    "mutants",
    "atlas",
    "test",
    "replay",
    "concurrency",
    "formulas",
    "documents",
)
ORDER = (
    "mutants",
    "atlas",
    "prove",
    "test",
    "replay",
    "concurrency",
    "documents",
    "formulas",
    "explore",
)
"""The order in which stages begin."""
LAYERED = "LAYERS"
"""The instance with two layers on which the torch cache is tested as well."""
SAMPLED: dict[str, Any] = {"profile": "ci", "examples": 24, "walks": 100}
"""How: it has many more transitions than can be taken, so that a part of them is."""
STATIC = "kvspec.cli.backends:static_cache"
OTHERS = tuple(f"kvspec.cli.backends:{kind}_cache" for kind in ("paged", "window", "offloaded"))
"""The torch caches of other layouts than the first one, each tested on the smallest instance."""
PREEMPTIONS = 1
"""How often a thread may be taken off in the orders of steps that are explored."""
_HERE = "kvspec.cli.plan"


def plan(subject: KnownSystem, kinds: list[str], jobs: int) -> list[Stage]:
    """The stages of these kinds, those that take longest first; what is kept here is of our own systems."""
    name, ours = subject.name, not subject.address
    whole = ours and name == "core"
    claims = subject.properties().by_name
    quick = [one.name for one in subject.instances.values() if not one.slow]
    stages: list[Stage] = []
    if "mutants" in kinds and ours and name in SPECIFICATION:
        stages.append(Stage(f"mutants {name}", f"{_HERE}:mutants_stage", (name, quick)))
    if "prove" in kinds and claims:
        stages.append(
            Stage(f"prove {name}", f"{_HERE}:prove_stage", (subject.key, max(1, jobs - 1)))
        )
    if "atlas" in kinds and ours and name in shown_on():
        stages.append(Stage(f"atlas {name}", "kvspec.cli.atlas:system_stage", (name, Asked())))
    if "replay" in kinds and whole:
        stages.append(Stage("replay library", f"{_HERE}:replay_stage"))
    if "test" in kinds and whole:
        stages.append(Stage(f"test {name}/{LAYERED}", f"{_HERE}:layers_stage", (name, LAYERED)))
        stages.append(Stage(f"test {name}/{quick[0]}", f"{_HERE}:test_stage", (name, quick[0])))
        stages.extend(
            Stage(f"test {name}/{quick[0]} {other.rpartition(':')[2]}", f"{_HERE}:layout_stage",
                  (name, quick[0], other))
            for other in OTHERS
        )  # fmt: skip
    if "concurrency" in kinds and whole:
        stages.append(Stage("concurrency histories", f"{_HERE}:histories_stage"))
        stages.append(Stage("concurrency interleavings", f"{_HERE}:interleavings_stage"))
        stages.append(Stage("concurrency orders", f"{_HERE}:orders_stage"))
    if "formulas" in kinds and whole:
        stages.append(Stage("formulas", f"{_HERE}:formulas_stage"))
    if "documents" in kinds and whole:
        stages.append(Stage("documents", f"{_HERE}:documents_stage"))
    if "explore" in kinds:
        stages.extend(
            Stage(f"explore {name}/{one}", f"{_HERE}:explore_stage", (subject.key, one))
            for one in quick
        )
    return stages


def left_out(stages: Iterable[Stage], kinds: Iterable[str]) -> tuple[str, ...]:
    """The kinds of which the system has no stage."""
    there = {stage.name.split()[0] for stage in stages}
    return tuple(kind for kind in kinds if kind not in there)


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


def mutants_stage(system: str, instances: list[str], tell: Tell) -> Answer:
    """Every mutant of the system."""
    from kvspec.cli.lookup import system_named
    from kvspec.cli.mutants import answer, run

    subject = system_named(system, "verify")
    report = run(subject, instances, None, lambda done, total: tell(done, total, "explorations"))
    return answer(subject, report)


def test_stage(system: str, instance: str, tell: Tell) -> Answer:
    """The stateful test of the torch cache, always the same run."""
    from kvspec.cli.test import Drive

    return _drive(system, instance, None, Drive(profile="ci"), tell)


def layers_stage(system: str, instance: str, tell: Tell) -> Answer:
    """The same with two layers and the static layout, along a sample of walks."""
    from kvspec.cli.test import Drive

    return _drive(system, instance, STATIC, Drive(**SAMPLED), tell)


def layout_stage(system: str, instance: str, backend: str, tell: Tell) -> Answer:
    """The same with another layout, every transition of a small instance."""
    from kvspec.cli.test import Drive

    return _drive(system, instance, backend, Drive(profile="ci"), tell)


def _drive(system: str, instance: str, backend: str | None, how: Drive, tell: Tell) -> Answer:
    from kvspec.cli.backends import backend_name, torch_absent
    from kvspec.cli.lookup import instance_named, system_named
    from kvspec.cli.test import answer, run

    subject = system_named(system, "verify")
    chosen = instance_named(subject, instance, "verify")
    name, absent = backend or backend_name(system), torch_absent()
    if name is None or absent is not None:
        return unknown_answer("test", absent or f"no cache speaks of {system}")
    return answer(subject, chosen, name, run(subject, chosen, name, how, tell))


def replay_stage(tell: Tell) -> Answer:
    """Every trace of the library, against the specification, a sound cache and a faulty one."""
    from kvspec.cli.replay import TARGETS, answer, library, run

    return answer(run(library(), TARGETS, tell, whole=True), detailed=False, must_run=True)


def histories_stage(tell: Tell) -> Answer:
    """Every stored history of concurrent clients has the verdict that it must have."""
    from kvspec.cli.histories import stored_histories

    tell(0, 1, "")
    return stored_histories()


def interleavings_stage(tell: Tell) -> Answer:
    """Every stored order of steps, on the torch cache with its fault and on a sound one."""
    from kvspec.cli.backends import torch_absent
    from kvspec.cli.interleave_replay import replay_files

    tell(0, 1, "")
    absent = torch_absent()
    return unknown_answer("interleave", absent) if absent else replay_files(())


def orders_stage(tell: Tell) -> Answer:
    """Every scenario on a sound torch cache, in every order with at most `PREEMPTIONS`."""
    from kvspec.cli.backends import torch_absent
    from kvspec.cli.interleave import explored

    absent = torch_absent()
    return unknown_answer("interleave", absent) if absent else explored(PREEMPTIONS, tell)


def formulas_stage(tell: Tell) -> Answer:
    """What holds between the formulas, for all values."""
    from kvspec.cli.formulas import proved

    tell(0, 1, "")
    return proved()


def documents_stage(tell: Tell) -> Answer:
    """Every valid document, and every contract broken by one change of it."""
    from kvspec.cli.check import negative_answer
    from kvspec.counterexamples.negative_cases import kinds_with_cases

    tell(0, 1, "")
    return negative_answer(kinds_with_cases())
