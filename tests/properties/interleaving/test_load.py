import time

import pytest

from kvspec.models.decode.concurrent import ConcurrentBackend
from kvspec.models.decode.concurrent_clients import (
    LOAD,
    body_of,
    random_client,
    run_load,
    run_threads,
)
from kvspec.models.decode.concurrent_record import Recorder
from kvspec.models.interleaving import RandomWalk, Scheduler
from kvspec.properties.interleaving import history_of


@pytest.mark.parametrize("seed", range(3))
def test_histories_of_real_threads_are_linearizable(seed: int, check) -> None:
    """Four clients at a time on real threads leave a history that is an order of atomic steps (C5, D5)."""
    load = run_load(ConcurrentBackend(device="cpu"), clients=4, calls=25, seed=seed)
    assert not load.errors
    assert check(history_of(LOAD, load.asked)).verdict == "holds"


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["dynamic", "static"])
def test_many_histories_of_real_threads_are_linearizable(layout: str, check) -> None:
    """Twenty loads of more than a hundred calls each, on each layout (C5, D5)."""
    backend, overlaps = ConcurrentBackend(layout, device="cpu"), 0
    for seed in range(20):
        load = run_load(backend, clients=4, calls=30, seed=seed)
        assert not load.errors
        assert check(history_of(LOAD, load.asked)).verdict == "holds", f"seed {seed}"
        ends = [each.returned or 0 for each in load.asked]
        overlaps += sum(
            max(ends[:place], default=0) > each.invoked for place, each in enumerate(load.asked)
        )
    assert overlaps > 0


def test_real_threads_show_a_torn_publication(check) -> None:
    """A publisher that gives way between two parts is seen torn by threads that nobody controls (D5)."""
    backend = ConcurrentBackend(
        "dynamic", ("publish.torn",), device="cpu", watch=lambda: time.sleep(0.002)
    )
    assert any(
        check(history_of(LOAD, run_load(backend, clients=4, calls=25, seed=seed).asked)).verdict
        == "violated"
        for seed in range(40)
    )


@pytest.mark.slow
def test_random_clients_hold_under_random_schedules(check) -> None:
    """The same clients under a controlled scheduler, which stops them anywhere (C5, D5)."""
    for seed in range(25):
        scheduler = Scheduler(RandomWalk(seed))
        backend = ConcurrentBackend(device="cpu", scheduler=scheduler)
        backend.reset(LOAD)
        recorder = Recorder(backend)
        run = scheduler.run(
            [body_of(recorder, n, random_client(LOAD, n, 4, seed, 12)) for n in range(4)]
        )
        assert (run.ending, run.errors) == ("whole", ())
        assert run.preemptions > 50
        assert check(history_of(LOAD, recorder.asked())).verdict == "holds", f"seed {seed}"


def test_errors_of_real_threads_are_carried() -> None:
    """A thread that raises is told with its number, and all have ended."""

    def failing() -> None:
        raise OSError("gone")

    ((number, error),) = run_threads([lambda: None, failing])
    assert (number, str(error)) == (1, "gone")
