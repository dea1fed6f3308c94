"""A recorded schedule again: on the cache that it was found on, and on a sound one.

Modelled: a replay follows the schedule to the letter, step by step and point by point. A sound cache has
points of its own, so a schedule of a faulty one need not apply there; then the place where it departs is
told, and the same order of threads is taken as far as it goes.
"""

from __future__ import annotations

import attrs

from kvspec.models.backend import Reply
from kvspec.models.decode.concurrent_record import Asked
from kvspec.models.decode.concurrent_scenarios import Recording, Scenario, run_scenario
from kvspec.models.interleaving import Follow, Lenient, NotApplicableError, Step
from kvspec.properties.interleaving.judging import Check, Judge, Judgement


@attrs.frozen
class Replayed:
    """A replay: the run, its verdict, and how near it is to the recorded one.

    Attributes:
        applies: every step was taken as recorded.
        departs: why not, with the number of the step.
        is_same: the history is the recorded one.
    """

    recording: Recording
    judged: Judgement
    applies: bool
    departs: str
    is_same: bool


def replay_schedule(
    scenario: Scenario,
    schedule: tuple[Step, ...],
    planted: tuple[str, ...] = (),
    *,
    check: Check,
    layout: str | None = None,
    asked: tuple[Asked, ...] | None = None,
    is_exposed: bool = False,
) -> Replayed:
    """Run a scenario in a recorded order; where that does not apply, in its order of threads.

    asked: the recorded history, to be compared with. is_exposed: the schedule has the points of a cache
    that leaves its lock out, and so has this one.
    """
    departs = ""
    try:
        recording = run_scenario(
            scenario, Follow(schedule), planted, layout=layout, is_exposed=is_exposed
        )
        if len(recording.run.steps) < len(schedule):
            departs = (
                f"step {len(recording.run.steps)} of the schedule: found the end of the run "
                f"({recording.run.told or recording.run.ending}), expected thread "
                f"{schedule[len(recording.run.steps)].thread} to go on"
            )
    except NotApplicableError as error:
        departs = str(error)
        order = [step.thread for step in schedule]
        recording = run_scenario(
            scenario, Lenient(order), planted, layout=layout, is_exposed=is_exposed
        )
    judged = Judge(scenario, check).of(recording)
    return Replayed(recording, judged, not departs, departs, plain_of(recording.asked) == asked)


def plain_of(asked: tuple[Asked, ...]) -> tuple[Asked, ...]:
    """Recorded calls without what only a reader needs: the words of a refusal."""
    return tuple(
        attrs.evolve(each, answer=Reply(each.answer.accepted, each.answer.code))
        if isinstance(each.answer, Reply)
        else each
        for each in asked
    )
