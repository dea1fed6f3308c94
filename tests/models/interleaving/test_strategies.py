import pytest
from controlled_programs import counting, crossing, steps, there_and_back

from kvspec.models.interleaving import (
    Follow,
    Keep,
    Lenient,
    NotApplicableError,
    Priorities,
    RandomWalk,
    Steered,
    Step,
)


@pytest.mark.parametrize(
    ("schedule", "told"),
    [
        (
            (Step(0, "read"), Step(0, "look")),
            "step 1 .* found thread 0 at write, expected .* at look",
        ),
        ((Step(0, "read"), Step(0, "write"), Step(0, "read")), "found thread 0 at its end"),
        ((Step(0, "read"),), "step 1 .* found threads that go on .* expected the end of the run"),
    ],
)
def test_a_schedule_that_does_not_apply_is_told(schedule: tuple[Step, ...], told: str) -> None:
    """Replay departs where a thread stands elsewhere, has ended, or goes on behind the end (D5)."""
    with pytest.raises(NotApplicableError, match=told):
        counting(Follow(schedule))


def test_a_schedule_cannot_run_a_thread_that_waits() -> None:
    """A step through a lock that another thread holds does not apply."""
    steps_ = (
        Step(0, "first acquire"),
        Step(0, "second acquire"),
        Step(1, "second acquire"),
    )
    with pytest.raises(NotApplicableError, match="at second acquire, where it waits"):
        crossing(Follow(steps_))


def test_a_prefix_that_does_not_apply_is_told() -> None:
    """The first steps of a steered run are taken as told or not at all."""
    with pytest.raises(NotApplicableError, match="found thread 1 at its end"):
        steps(Steered((1, 1)), (2, 1))


def test_a_lenient_order_is_taken_as_far_as_it_goes() -> None:
    """A thread that has ended gives its turn up; behind the order nobody is preempted."""
    assert steps(Lenient((1, 1, 1, 0)), (2, 2))[1] == (1, 1, 0, 0)
    assert steps(Lenient(()), (2, 2))[1] == steps(Keep(), (2, 2))[1]


@pytest.mark.parametrize("strategy", [RandomWalk, lambda seed: Priorities(seed, 3, 12)])
def test_chance_depends_on_its_seed_alone(strategy) -> None:
    """One seed gives one run, and not all seeds the same."""
    runs = [steps(strategy(seed), (4, 4, 4))[1] for seed in range(10)]
    assert runs == [steps(strategy(seed), (4, 4, 4))[1] for seed in range(10)]
    assert len(set(runs)) > 1


def test_priorities_preempt_no_more_often_than_they_change() -> None:
    """A thread is stopped at a change of priorities alone, as nobody here waits."""
    for seed in range(50):
        for changes in (0, 1, 3):
            run, _ = steps(Priorities(seed, 3, 12, changes), (4, 4, 4))
            assert run.preemptions <= changes


def test_priorities_meet_a_deep_fault_as_often_as_promised() -> None:
    """A fault of depth 4, over 3 threads and 5 steps, has a chance of at least 1/375 in each run."""
    hits = sum(there_and_back(Priorities(seed, 3, 5, changes=3))[1] for seed in range(600))
    assert hits >= 600 / 375
