"""Run: drives a backend through the planned walks with Hypothesis, and reports.

The walks are dealt into parts, each the state machine of its own few examples: so every walk is drawn
as often as the profile asks, whatever Hypothesis makes of the rest. The walks to the goals come first,
several times; then all others once, so that a fault that any walk shows is found early; then the rest.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Sequence

import attrs
from hypothesis import HealthCheck, Phase, Verbosity, settings
from hypothesis import seed as seeded
from hypothesis.errors import Flaky
from hypothesis.stateful import run_state_machine_as_test

from kvspec.properties.stateful.machine import (
    WALKS_AT_MOST,
    BackendFactory,
    WalkMachine,
    load_factory,
    machine_of,
    split,
)
from kvspec.properties.stateful.mismatch import Failure, Mismatch
from kvspec.properties.stateful.oracle import Oracle
from kvspec.properties.stateful.plan import Plan, make_plan
from kvspec.properties.stateful.profiles import Profile, current_profile, find_profile
from kvspec.properties.stateful.report import RunProgress, StatefulReport, missed
from kvspec.properties.stateful.tally import Tally
from kvspec.properties.stateful.walks import Walk
from kvspec.spec.language import Instance, Property

Save = Callable[[Failure], str | None]
"""Keeps a failure, as a trace say, and gives the name under which it can be found."""

GOAL_REPEATS = 6
"""How often the walks to the goals are drawn, so that no refusal is missed by chance; they take at
most half of the examples, but each is drawn once."""
GOALS_AT_ONCE = 6
"""Walks to goals in one example: few, because faults are found here, and shrinking goes through all."""

_SEED_BITS = 32
_QUIET = settings(
    database=None,
    deadline=None,
    verbosity=Verbosity.quiet,
    phases=(Phase.generate, Phase.shrink),
    report_multiple_bugs=False,
    print_blob=False,
    derandomize=False,
    suppress_health_check=list(HealthCheck),
)


def run(
    instance: Instance,
    properties: Iterable[Property],
    backend: str | BackendFactory,
    *,
    max_examples: int | None = None,
    seed: int | None = None,
    profile: str | None = None,
    save: Save | None = None,
    progress: Callable[[RunProgress], None] | None = None,
    plan: Plan | None = None,
    damage_every: int = 16,
) -> StatefulReport:
    """Hold a backend against the specification of an instance.

    backend: what makes one, or its name as `package.module:factory`. max_examples, seed: by default
    those of the profile (dev, ci or deep; by default the one that the environment asks for). save:
    given the shrunk failure. plan: by default the one of the profile's size. damage_every: look for
    damage after so many events. Nothing is printed and no file is written but the plan's.
    """
    started = time.perf_counter()
    size = find_profile(current_profile() if profile is None else profile)
    if max_examples is not None:
        size = attrs.evolve(size, examples=max_examples)
    if seed is None:
        seed = 0 if size.is_fixed else random.SystemRandom().getrandbits(_SEED_BITS)
    claims = list(properties)
    if plan is None:
        plan = make_plan(instance, claims, length=size.length, most=size.walks)
    runner = _Runner(
        Oracle(instance, claims, plan.checked), plan, load_factory(backend), size, seed,
        progress, damage_every,
    )  # fmt: skip
    failure = runner.run()
    saved = save(failure) if save is not None and failure is not None else None
    return runner.report(failure, saved, time.perf_counter() - started)


def stateful_test(
    instance: Instance,
    properties: Iterable[Property],
    backend: str | BackendFactory,
    *,
    max_examples: int | None = None,
    profile: str | None = None,
    save: Save | None = None,
) -> Callable[[], None]:
    """A test function for pytest: it fails unless the verdict of `run` is `holds`."""
    claims = list(properties)

    def test() -> None:
        report = run(
            instance, claims, backend, max_examples=max_examples, profile=profile, save=save
        )
        if not report.holds:
            raise AssertionError(report.text())

    test.__doc__ = f"The backend does what the specification of {instance!r} says."
    return test


@attrs.define(eq=False)
class _Runner:
    """One run: its parts, in rounds."""

    oracle: Oracle
    plan: Plan
    factory: BackendFactory
    size: Profile
    seed: int
    progress: Callable[[RunProgress], None] | None
    damage_every: int
    tally: Tally = attrs.field(factory=Tally)

    def parts(self) -> tuple[list[Sequence[Walk]], list[Sequence[Walk]]]:
        """The walks to the goals, and the others, each in parts for one example.

        There are as many walks in a part as it takes to draw each walk as often as asked.
        """
        goals, others = self.plan.walks[: self.plan.goals], self.plan.walks[self.plan.goals :]
        wanted = -(-len(others) * self.size.repeats // max(1, self.size.examples))
        return split(goals, GOALS_AT_ONCE), split(others, min(WALKS_AT_MOST, max(1, wanted)))

    def run(self) -> Failure | None:
        """Go through the parts round by round until the examples are used up or one fails."""
        goals, others = self.parts()
        left = self.size.examples
        first = min(GOAL_REPEATS * len(goals), max(len(goals), left // 2))
        rounds = ((goals, first), (others, len(others)), (others, left))
        for turn, (parts, most) in enumerate(rounds):
            share, more = divmod(min(most, left), max(1, len(parts)))
            for number, walks in enumerate(parts):
                count = share + (number < more)
                if count > 0:
                    failure = self._part(walks, count, f"{self.seed}/{turn}/{number}")
                    left -= count
                    if failure is not None:
                        return failure
                    self._tell()
        return None

    def _part(self, walks: Sequence[Walk], count: int, name: str) -> Failure | None:
        machine = machine_of(
            self.oracle, walks, self.factory, self.tally, damage_every=self.damage_every
        )

        # Hypothesis reads the source of what it is given, and this is less than a class.
        def make() -> WalkMachine:
            return machine()

        drawn = random.Random(name).getrandbits(_SEED_BITS)
        # The first example of Hypothesis is the simplest: it drops every walk, and is one more.
        sized = settings(_QUIET, max_examples=count + 1, stateful_step_count=len(walks))
        try:
            run_state_machine_as_test(seeded(drawn)(make), settings=sized)  # type: ignore[arg-type]
        except Mismatch as found:
            return Failure(found.kind, found.message, found.steps, self.seed)
        except Flaky as found:
            return self._flaky(found)
        return None

    def _flaky(self, found: BaseException) -> Failure:
        """A failure that did not come again when Hypothesis repeated it."""
        inner = getattr(found, "exceptions", ())
        first = next((error for error in inner if isinstance(error, Mismatch)), None)
        text = first.message if first is not None else str(found)
        steps = first.steps if first is not None else ()
        return Failure(
            "flaky", f"{text}; the same events did not fail again: the backend is not repeatable "
            "after a reset", steps, self.seed,
        )  # fmt: skip

    def _tell(self) -> None:
        if self.progress is not None:
            done = self.tally
            self.progress(
                RunProgress(
                    done.examples, self.size.examples, done.steps, len(done.touched),
                    self.plan.transitions,
                )
            )  # fmt: skip

    def report(self, failure: Failure | None, saved: str | None, seconds: float) -> StatefulReport:
        """The report of this run."""
        taken, probed = missed(self.plan, self.tally)
        verdict, reason = "holds", ""
        if failure is not None:
            verdict, reason = "violated", f"the backend differs ({failure.kind})"
        elif taken or probed:
            names = [*taken, *(f"{action} refused with {code}" for action, code in probed)]
            verdict, reason = "unknown", f"never reached: {', '.join(names)}"
        actions = self.oracle.instance.system.actions.values()
        every = [(a.name, None) for a in actions]
        every += [(a.name, g.code.name) for a in actions for g in a.guards]  # type: ignore[misc]
        return StatefulReport(
            instance=repr(self.oracle.instance),
            verdict=verdict,
            reason=reason,
            examples=self.tally.examples,
            sequences=self.tally.sequences,
            steps=self.tally.steps,
            accepted=self.tally.accepted,
            refused=self.tally.refused,
            touched=len(self.tally.touched),
            transitions=self.plan.transitions,
            planned=self.plan.planned,
            is_whole=self.plan.whole,
            actions=len(self.plan.actions),
            refusals=len(self.plan.refusals),
            never_taken=taken,
            never_probed=probed,
            out_of_reach=tuple(pair for pair in every if pair not in self.plan.pairs),
            failure=failure,
            seed=self.seed,
            profile=self.size.name,
            seconds=seconds,
            saved=saved,
        )
