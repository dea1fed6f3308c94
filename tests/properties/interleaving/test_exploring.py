from functools import partial

import attrs
import pytest
from every_order import is_linearizable

from kvspec.models.decode import concurrent_scenarios
from kvspec.models.decode.concurrent import ConcurrentBackend, Look
from kvspec.models.decode.concurrent_faults import CONCURRENCY_FAULTS
from kvspec.models.decode.concurrent_scenarios import SCENARIOS, run_scenario
from kvspec.models.decode.kinds import LAYOUT_KINDS
from kvspec.models.interleaving import RandomWalk, Scheduler, explore
from kvspec.properties.interleaving import (
    Judge,
    Judgement,
    explore_scenario,
    history_of,
    sample_scenario,
    shrink,
)

COUNTS = {
    "publish-and-look": (2, 18, 130),
    "two-appends": (2, 26, 2),
    "publish-and-finish": (2, 22, 59),
    "publish-and-truncate": (2, 25, 47),
    "cancel-and-prepare": (2, 15, 56),
    "prepare-twice": (2, 6, 2),
    "release-and-look": (2, 14, 90),
    "fork-and-look": (2, 31, 263),
    "two-requests": (2, 31, 59),
    "read-and-reuse": (2, 34, 200),
}
"""Schedules of a sound cache with 0, 1 and 2 preemptions."""

LONG = {"there-and-back": (6, 157, 1037), "read-and-rewrite": (2, 77, 572)}
"""The same for those that take longer."""

SHOWN = [(name, fault) for name, each in SCENARIOS.items() for fault in each.shows]
FEWEST = dict.fromkeys(CONCURRENCY_FAULTS, 1) | {"read.checks-length": 2}
"""Preemptions without which no order of a scenario shows the fault."""


@pytest.mark.parametrize("name", COUNTS)
def test_a_sound_cache_holds_in_every_order(name: str, check) -> None:
    """With up to two preemptions every history of a sound cache is linearizable (C5, D5)."""
    found = explore_scenario(SCENARIOS[name], preemptions=2, check=check)
    assert (found.verdict, found.is_whole, found.reason) == ("holds", True, "")
    assert found.schedules == COUNTS[name]
    assert found.histories > 1


@pytest.mark.slow
@pytest.mark.parametrize("name", LONG)
def test_a_sound_cache_holds_in_many_orders(name: str, check) -> None:
    """So it does where there are hundreds of orders, or a thousand (C5, D5)."""
    found = explore_scenario(SCENARIOS[name], preemptions=2, check=check)
    assert (found.verdict, found.schedules) == ("holds", LONG[name])


@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_no_layout_rewrites_what_a_reader_is_at(layout: str, check) -> None:
    """Rows read layer by layer are those of the moment of the look, whatever is released then (D2, D3)."""
    for name in ("read-and-reuse", "publish-and-look"):
        found = explore_scenario(SCENARIOS[name], preemptions=1, check=check, layout=layout)
        assert (found.verdict, found.is_whole) == ("holds", True)


@pytest.mark.slow
@pytest.mark.parametrize("layout", LAYOUT_KINDS)
def test_every_layout_holds_in_every_scenario(layout: str, check) -> None:
    """With one preemption all scenarios hold on all layouts (D2, D5)."""
    for scenario in SCENARIOS.values():
        if not scenario.is_large:
            found = explore_scenario(scenario, preemptions=1, check=check, layout=layout)
            assert found.verdict == "holds", scenario.name


def test_every_scenario_is_explored_or_sampled() -> None:
    """No scenario is left out of the counts, but the large one."""
    rest = set(SCENARIOS) - set(COUNTS)
    assert rest == {*LONG, "busy"}
    assert SCENARIOS["busy"].is_large


def test_every_fault_has_a_scenario_that_shows_it() -> None:
    """Each planted fault is looked for somewhere."""
    assert {fault for _, fault in SHOWN} == set(CONCURRENCY_FAULTS)


def test_a_field_of_a_record_is_a_place_to_be_stopped_at(check) -> None:
    """A preparation without the lock is stopped between its look at the state and its change (C5, D5)."""
    scenario = SCENARIOS["prepare-twice"]
    failing = explore_scenario(scenario, ("prepare.unlocked",), preemptions=1, check=check).failing
    assert failing is not None
    run = failing.recording.run
    stops = [
        choice.point(choice.current)
        for choice, thread in zip(run.choices, run.threads, strict=True)
        if choice.is_preemption(thread)
    ]
    assert len(stops) == 1
    assert stops[0].startswith("txn0.")


@pytest.mark.parametrize("name", COUNTS)
def test_points_that_are_left_out_under_the_lock_give_no_other_history(name: str) -> None:
    """Stopped at every guarded field as well, a sound cache tells its clients nothing new (D5)."""
    found = []
    for is_exposed in (False, True):

        def execute(strategy, is_exposed=is_exposed):
            recording = run_scenario(SCENARIOS[name], strategy, is_exposed=is_exposed)
            return recording.run, recording.asked

        found.append([each.found for each in explore(execute, 1)])
    few, many = found
    assert len(many) > len(few)
    assert set(many) == set(few)


def test_a_lock_that_is_left_out_unseen_is_no_pass(check, monkeypatch) -> None:
    """An action that lost its lock, and is not known to, is found without any preemption (C5, D5)."""
    monkeypatch.setattr(
        ConcurrentBackend, "perform", lambda self, each: self._act(each.action, dict(each.values))
    )
    found = explore_scenario(SCENARIOS["prepare-twice"], preemptions=0, check=check)
    assert found.verdict == "violated"
    assert "client 0 got no answer: found UnguardedError (txn0.state read" in found.reason


@pytest.mark.parametrize(("name", "fault"), [p for p in SHOWN if FEWEST[p[1]] == 1])
def test_a_planted_fault_is_found_with_the_fewest_preemptions(name: str, fault: str, check) -> None:
    """Whoever waits for each other sees nothing of it; stopped once, an order shows it (C5, D5)."""
    scenario = SCENARIOS[name]
    below = explore_scenario(scenario, (fault,), preemptions=0, check=check)
    assert below.verdict == "holds"
    found = explore_scenario(scenario, (fault,), preemptions=2, check=check)
    assert found.verdict == "violated"
    assert found.failing is not None
    assert found.failing.preemptions == 1
    assert found.reason == found.failing.reason


@pytest.mark.slow
def test_a_fault_that_needs_two_preemptions_is_found_with_two(check) -> None:
    """A reader that compares lengths is not shown wrong with one preemption (C5, D5)."""
    scenario, fault = SCENARIOS["there-and-back"], ("read.checks-length",)
    assert explore_scenario(scenario, fault, preemptions=1, check=check).verdict == "holds"
    found = explore_scenario(scenario, fault, preemptions=2, check=check)
    assert found.verdict == "violated"
    assert found.failing is not None
    assert found.failing.preemptions == 2


def test_the_static_layout_holds_and_fails_alike(check) -> None:
    """Rows that are written in place are published in one step as well."""
    scenario = SCENARIOS["publish-and-look"]
    sound = explore_scenario(scenario, preemptions=1, check=check, layout="static")
    torn = explore_scenario(
        scenario, ("publish.torn",), preemptions=1, check=check, layout="static"
    )
    assert (sound.verdict, torn.verdict) == ("holds", "violated")


@pytest.mark.parametrize("fault", [None, "finish.lost-update", "cancel_request.abort-late"])
def test_a_second_opinion_agrees(fault: str | None, check) -> None:
    """Trying every order of a history by hand gives the checker's verdict on each (C5)."""
    name = "cancel-and-prepare" if fault == "cancel_request.abort-late" else "publish-and-finish"
    scenario, start = SCENARIOS[name], SCENARIOS[name].start()
    seen = set()
    for seed in range(60):
        asked = run_scenario(scenario, RandomWalk(seed), () if fault is None else (fault,)).asked
        history = history_of(scenario.instance, asked, start)
        judged = check(history).verdict
        assert judged == ("holds" if is_linearizable(history) else "violated")
        seen.add(judged)
    assert seen == ({"holds"} if fault is None else {"holds", "violated"})


def test_an_exploration_that_is_cut_is_unknown(check) -> None:
    """Not every schedule was run, so nothing is said of those left."""
    found = explore_scenario(SCENARIOS["fork-and-look"], preemptions=2, check=check, most=20)
    assert (found.verdict, sum(found.schedules), found.is_whole) == ("unknown", 20, False)
    assert found.reason == "cut after 20 schedules, at 1 preemptions"


def test_a_history_that_cannot_be_judged_makes_it_unknown() -> None:
    """A checker that gives up is not a checker that finds nothing."""
    found = explore_scenario(
        SCENARIOS["two-appends"],
        preemptions=0,
        check=lambda _: Judgement("unknown", "out of time"),
    )
    assert (found.verdict, found.reason) == ("unknown", "out of time")


def test_a_sample_never_holds_and_may_find_a_fault(check) -> None:
    """Orders by chance are a sample: unknown on a sound cache, violated where they meet a fault."""
    busy = SCENARIOS["busy"]
    sound = sample_scenario(busy, seeds=range(5), check=check)
    assert (sound.verdict, sum(sound.schedules), sound.bound) == ("unknown", 5, None)
    assert "a sample" in sound.reason
    faulty = sample_scenario(busy, ("publish.check-then-act",), seeds=range(20), check=check)
    assert faulty.verdict == "violated"
    evenly = sample_scenario(
        busy, ("read.stale-after-release",), seeds=range(60), changes=None, check=check
    )
    assert evenly.verdict == "violated"


@pytest.mark.slow
def test_a_failing_order_by_chance_is_made_plainer(check) -> None:
    """Preemptions, calls and setup that do not matter are left out, and it still fails (D5)."""
    busy, fault = SCENARIOS["busy"], ("publish.check-then-act",)
    failing = sample_scenario(busy, fault, seeds=range(20), changes=None, check=check).failing
    assert failing is not None
    plainer = shrink(failing, check=check, most=200)
    assert plainer.preemptions == 1 < failing.preemptions
    assert sum(map(len, plainer.scenario.clients)) < sum(map(len, busy.clients)) / 2
    assert len(plainer.scenario.clients) == 2
    assert all(plainer.scenario.clients)
    again = run_scenario(plainer.scenario, RandomWalk(0)).asked
    start = plainer.scenario.start()
    assert check(history_of(busy.instance, again, start)).verdict == "holds"


def test_a_plain_order_stays_as_it_is(check) -> None:
    """Made plainer, the plainest order of the plainest calls is itself."""
    found = explore_scenario(
        SCENARIOS["release-and-look"], ("read.stale-after-release",), preemptions=1, check=check
    )
    assert found.failing is not None
    once = shrink(found.failing, check=check)
    assert shrink(once, check=check).size == once.size
    assert [len(calls) for calls in once.scenario.clients] == [2, 1]


def test_a_call_that_raises_violates_the_specification(check, monkeypatch) -> None:
    """An error out of the cache is no answer, and is told with the client's number."""

    def look(self, handle: int, client: int = 0, *, with_rows: bool = False):
        raise KeyError("no such row")

    monkeypatch.setattr(ConcurrentBackend, "look", look)
    found = explore_scenario(SCENARIOS["publish-and-look"], preemptions=0, check=check)
    assert found.verdict == "violated"
    assert found.reason.startswith("client 1 got no answer: found KeyError ('no such row')")


def test_an_error_in_a_run_that_is_cut_violates_the_specification(check, monkeypatch) -> None:
    """What a client was told instead of an answer is not forgotten because others went on for too long."""

    def look(self, handle: int, client: int = 0, *, with_rows: bool = False):
        raise KeyError("no such row")

    monkeypatch.setattr(ConcurrentBackend, "look", look)
    monkeypatch.setattr(concurrent_scenarios, "Scheduler", partial(Scheduler, most_steps=14))
    scenario = attrs.evolve(
        SCENARIOS["publish-and-look"], clients=((Look(0),), *SCENARIOS["busy"].clients[:2])
    )
    recording = run_scenario(scenario, RandomWalk(1))
    assert (recording.run.ending, len(recording.run.errors)) == ("cut", 1)
    judged = Judge(scenario, check).of(recording)
    assert judged.verdict == "violated"
    assert "found KeyError ('no such row')" in judged.reason


def test_a_deadlock_violates_the_specification(check, monkeypatch) -> None:
    """A reader that keeps the lock stops the others for ever, which is told with who waits for what."""
    sound = ConcurrentBackend.look

    def look(self, handle: int, client: int = 0, *, with_rows: bool = False):
        self._held().lock.acquire()
        return sound(self, handle, client)

    monkeypatch.setattr(ConcurrentBackend, "look", look)
    found = explore_scenario(SCENARIOS["publish-and-look"], preemptions=1, check=check)
    assert found.verdict == "violated"
    assert found.reason == (
        "deadlock: no thread can go on: thread 0 at lock acquire (waits for lock)"
    )


def test_a_setup_that_is_refused_is_an_error(check) -> None:
    """A scenario begins where accepted events lead, and nowhere else."""
    scenario = SCENARIOS["release-and-look"]
    broken = attrs.evolve(scenario, setup=scenario.setup[1:])
    with pytest.raises(
        ValueError, match=r"setup event 1: found begin\(.* refused .*change the setup"
    ):
        explore_scenario(broken, preemptions=0, check=check)
