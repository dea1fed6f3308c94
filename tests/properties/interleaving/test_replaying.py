import attrs
import pytest

from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
from kvspec.models.decode.concurrent_scenarios import SCENARIOS, run_scenario
from kvspec.models.interleaving import Follow, Priorities, RandomWalk, Step
from kvspec.properties.interleaving import explore_scenario, replay_schedule
from kvspec.properties.interleaving.replaying import plain_of
from kvspec.properties.interleaving.telling import show_calls, show_pieces


@pytest.fixture(scope="module")
def failing(check):
    """The plainest order in which a finish loses a publication."""
    scenario = SCENARIOS["publish-and-finish"]
    found = explore_scenario(scenario, ("finish.lost-update",), preemptions=1, check=check).failing
    assert found is not None
    return found


def test_a_schedule_gives_the_same_history_a_hundred_times() -> None:
    """Step by step and answer by answer, ticks included, each of 100 replays is the recorded run (D5)."""
    scenario = SCENARIOS["busy"]
    recorded = run_scenario(scenario, RandomWalk(11))
    assert recorded.run.preemptions > 20
    for _ in range(100):
        assert run_scenario(scenario, Follow(recorded.run.steps)) == recorded


@pytest.mark.parametrize("fault", CONCURRENCY_FAULTS)
def test_a_faulty_run_of_four_clients_gives_itself_again(fault: str) -> None:
    """Under every fault the schedule alone decides what every client is told (D5)."""
    busy = SCENARIOS["busy"]
    recorded = run_scenario(busy, Priorities(5, 4, 120), (fault,))
    again = run_scenario(busy, Follow(recorded.run.steps), (fault,))
    assert (again.asked, again.run.steps) == (recorded.asked, recorded.run.steps)


def test_a_failing_order_fails_again(failing, check) -> None:
    """On the cache with the fault the history is the recorded one, and violated (D5)."""
    asked = plain_of(failing.recording.asked)
    found = replay_schedule(
        failing.scenario, failing.recording.run.steps, failing.planted, check=check, asked=asked
    )
    assert (found.applies, found.is_same, found.judged.verdict) == (True, True, "violated")
    assert found.judged.reason == failing.reason


def test_a_failing_order_does_no_harm_to_a_sound_cache(failing, check) -> None:
    """A sound cache departs where it takes the lock, which is told, and holds in that order (D5)."""
    steps = failing.recording.run.steps
    found = replay_schedule(failing.scenario, steps, check=check, is_exposed=True)
    assert (found.applies, found.is_same, found.judged.verdict) == (False, False, "holds")
    assert "found thread 1 at lock acquire" in found.departs
    assert "expected thread 1 at handle0.entry read" in found.departs


def test_a_schedule_that_ends_late_or_early_is_told(failing, check) -> None:
    """Steps behind the end of a run, or too few of them, do not apply."""
    steps = failing.recording.run.steps
    for schedule, told in (
        ((*steps, Step(0, "lock acquire")), "found the end of the run"),
        (steps[:-1], "expected the end of the run"),
    ):
        found = replay_schedule(failing.scenario, schedule, failing.planted, check=check)
        assert not found.applies
        assert told in found.departs


def test_another_history_is_not_the_same(failing, check) -> None:
    """One tick more is another history."""
    asked = plain_of(failing.recording.asked)
    other = (attrs.evolve(asked[0], returned=99), *asked[1:])
    found = replay_schedule(
        failing.scenario, failing.recording.run.steps, failing.planted, check=check, asked=other
    )
    assert (found.applies, found.is_same) == (True, False)


def test_a_failing_order_can_be_read(failing) -> None:
    """Calls come with their answers and ticks, pieces with the point at which a thread was stopped."""
    calls = show_calls(failing.scenario, failing.recording)
    assert "finish(h=handle0): accepted" in "\n".join(calls)
    assert "look(handle0): phase=DECODE_READY version=1" in "\n".join(calls)
    pieces = show_pieces(failing.recording)
    assert [piece for piece in pieces if piece.endswith("<- stopped before: handle0.entry write")]
    assert sum("stopped before" in piece for piece in pieces) == failing.preemptions


def test_the_reason_says_why_nothing_comes_next(failing) -> None:
    """What was told last stands beside what the specification would have told (C5)."""
    assert "after publish(x=txn0); finish(h=handle0)" in failing.reason
    assert "found phase=DECODE_READY" in failing.reason
    assert "expected phase=FINISHED" in failing.reason
