import threading

import pytest
from controlled_programs import counting, crossing, steps

from kvspec.models.interleaving import (
    ControlledLock,
    Follow,
    Keep,
    Lenient,
    RandomWalk,
    Scheduler,
    Steered,
    Step,
    StuckError,
)


def test_without_preemptions_threads_run_one_after_the_other() -> None:
    """The first thread runs to its end, then the next (D5)."""
    run, order = steps(Keep(), (2, 3, 1))
    assert order == (0, 0, 1, 1, 1, 2)
    assert run.steps[:3] == (Step(0, "step 0"), Step(0, "step 1"), Step(1, "step 0"))
    assert (run.ending, run.preemptions) == ("whole", 0)


@pytest.mark.parametrize("seed", range(20))
def test_a_schedule_gives_the_same_run_again(seed: int) -> None:
    """Followed to the letter, the steps of a random run give that run and its result again (D5)."""
    run, found = counting(RandomWalk(seed), clients=4)
    again, once_more = counting(Follow(run.steps), clients=4)
    assert (again.steps, again.choices, once_more) == (run.steps, run.choices, found)


def test_exactly_one_thread_runs_at_a_time() -> None:
    """Between two points no other thread does anything, however long a thread takes."""
    inside: list[int] = []
    scheduler, most = Scheduler(RandomWalk(3)), []

    def client() -> None:
        for _ in range(20):
            scheduler.point("in")
            inside.append(1)
            most.append(len(inside))
            threading.Event().wait(0.0005)
            inside.pop()

    scheduler.run([client] * 3)
    assert set(most) == {1}


def test_a_deadlock_is_told_and_leaves_no_thread() -> None:
    """Two locks taken crosswise end the run, with who waits for which."""
    before = threading.active_count()
    run, _ = crossing(Steered((0, 1)))
    assert run.ending == "deadlock"
    assert "thread 0 at second acquire (waits for second)" in run.told
    assert "thread 1 at first acquire (waits for first)" in run.told
    assert threading.active_count() == before


def test_a_lock_keeps_others_out_and_its_holder_may_take_it_again() -> None:
    """A thread that waits is not enabled; the holder goes on, and nobody else until it lets go."""
    scheduler, order = Scheduler(Lenient((0, 0, 1, 1, 1, 0))), []
    lock = ControlledLock(scheduler)

    def client(name: str):
        def body() -> None:
            with lock, lock:
                order.append(f"{name} in")
                scheduler.point("within")
                order.append(f"{name} out")

        return body

    run = scheduler.run([client("a"), client("b")])
    assert order == ["a in", "a out", "b in", "b out"]
    assert [step.at for step in run.steps if step.thread == 0] == [
        "lock acquire",
        "within",
        "lock release",
    ]


def test_a_lock_can_be_taken_outside_of_a_run_and_must_be_held_to_be_released() -> None:
    """Before and after a run nobody contends; a release without an acquire is refused."""
    lock = ControlledLock(Scheduler(Keep()), "table")
    with lock, lock:
        pass
    with pytest.raises(RuntimeError, match="table is not held by this thread: acquire it first"):
        lock.release()


def test_errors_of_threads_are_carried_and_locks_given_back() -> None:
    """A thread that raises ends, its error is told with its number, and the others go on."""
    scheduler = Scheduler(Keep())
    lock, done = ControlledLock(scheduler), []

    def failing() -> None:
        with lock:
            raise ValueError("no such block")

    def other() -> None:
        with lock:
            done.append(True)

    run = scheduler.run([failing, other])
    ((number, error),) = run.errors
    assert (number, str(error), done, run.ending) == (0, "no such block", [True], "whole")


def test_a_run_that_never_ends_is_cut_and_leaves_no_thread() -> None:
    """After so many steps the run is cut, which is told, and its threads are unwound."""
    before = threading.active_count()
    scheduler = Scheduler(Keep(), most_steps=50)

    def endless() -> None:
        while True:
            scheduler.point("again")

    run = scheduler.run([endless, endless])
    assert (run.ending, len(run.steps)) == ("cut", 50)
    assert run.told == "50 steps, and 2 threads have not ended"
    assert threading.active_count() == before


def test_a_thread_that_waits_for_something_else_is_stuck() -> None:
    """A wait that is not controlled is an error that says where it happened, not a run."""
    gate = threading.Event()
    scheduler = Scheduler(Keep(), patience=0.05)

    def waiting() -> None:
        scheduler.point("before")
        gate.wait(0.4)

    with pytest.raises(StuckError, match=r"found no point for 0.05 s after .*before"):
        scheduler.run([waiting])
    gate.set()


def test_what_a_thread_does_before_its_first_point_comes_first() -> None:
    """Threads come to their first points in their order, whatever the strategy then says."""
    scheduler, order = Scheduler(Steered((1, 0))), []

    def client(number: int):
        def body() -> None:
            order.append(f"start {number}")
            scheduler.point("go")
            order.append(f"go {number}")

        return body

    scheduler.run([client(0), client(1)])
    assert order == ["start 0", "start 1", "go 1", "go 0"]


def test_threads_without_points_and_no_threads_at_all_are_runs() -> None:
    """A program that shares nothing has no steps."""
    assert Scheduler(Keep()).run([]).steps == ()
    assert Scheduler(Keep()).run([lambda: None, lambda: None]).ending == "whole"


def test_a_scheduler_runs_once() -> None:
    """A second run needs a new scheduler: the strategy's choices are of one run."""
    scheduler = Scheduler(Keep())
    scheduler.run([lambda: scheduler.point("x")])
    with pytest.raises(ValueError, match="make a new one for each run"):
        scheduler.run([lambda: None])


def test_a_choice_that_cannot_be_made_is_an_error() -> None:
    """A strategy that names a thread which has ended is told so, and no thread is left."""

    class Stubborn:
        def choose(self, choice) -> int:
            return 0

    before, scheduler = threading.active_count(), Scheduler(Stubborn())
    with pytest.raises(ValueError, match="the strategy chose thread 0, expected one of"):
        scheduler.run([lambda: scheduler.point("x")] * 2)
    assert threading.active_count() == before
