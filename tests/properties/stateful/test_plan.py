"""Plans: what is to be reached on a state graph, and walks that reach it."""

import pytest

from kvspec.models.concrete import Machine
from kvspec.models.explicit import compile_instance, explore
from kvspec.properties.stateful import Plan, make_plan
from kvspec.properties.stateful.goals import find_goals
from kvspec.properties.stateful.walks import Cover
from kvspec.spec import core
from kvspec.spec.examples import livelock, lock, peer, river
from kvspec.spec.language import Instance


def taken(instance: Instance, walks: tuple[tuple[int, ...], ...]) -> set[object]:
    """The transitions that walks take, by the plain-Python machine."""
    machine, found = Machine(instance), set()
    events = machine.events()
    for walk in walks:
        state = machine.initial_states()[0]
        for number in walk:
            assert machine.within_limits(state, events[number])
            outcome = machine.step(state, events[number])
            assert outcome.kind != "cut"
            if outcome.is_transition:
                found.add((state, number))
            state = outcome.state
    return found


def instances_of(module: object) -> list[Instance]:
    """The instances that a module names."""
    return [value for value in vars(module).values() if isinstance(value, Instance)]


def test_the_walks_take_every_transition_of_the_peer_row(row: Instance, plan: Plan) -> None:
    """All 3,188 transitions are taken, counted again by plain Python; no walk is longer than 50."""
    assert (plan.states, plan.transitions, plan.planned, plan.whole) == (828, 3188, 3188, True)
    assert len(taken(row, plan.walks)) == 3188
    assert max(map(len, plan.walks)) <= 50


@pytest.mark.parametrize("module", [lock, river, livelock], ids=lambda m: m.__name__)
def test_the_walks_take_every_transition_of_toy_systems(module: object) -> None:
    """Small systems of other shapes are covered, too."""
    for instance in instances_of(module):
        plan = make_plan(instance)
        assert plan.planned == plan.transitions == len(taken(instance, plan.walks))


@pytest.mark.parametrize("instance", [peer.ROWS["1,1,2,3,4"], core.TINY, core.BRANCH], ids=repr)
def test_a_pair_is_to_be_reached_if_and_only_if_the_search_counts_it(instance: Instance) -> None:
    """What can be accepted or refused agrees with the coverage of an exhaustive search."""
    coverage = explore(instance).coverage
    assert coverage is not None
    counted = {(action, None) for action, count in coverage.actions.items() if count}
    for action, guards in coverage.guards.items():
        counted |= {(action, code) for code, count in guards.items() if count}
    assert make_plan(instance, most=100).pairs == counted


def test_every_pair_is_reached_by_the_walks_to_the_goals(row: Instance, plan: Plan) -> None:
    """Following the first walks as planned, each action is accepted and each refusal is seen."""
    machine = Machine(row)
    events, seen = machine.events(), set()
    for walk in plan.walks[: plan.goals]:
        state = machine.initial_states()[0]
        for number in walk:
            outcome = machine.step(state, events[number])
            seen.add((events[number].action, outcome.code))
            state = outcome.state
    assert seen == plan.pairs


def test_a_goal_is_reached_on_a_shortest_way() -> None:
    """The way to a stale publication has the 15 steps that breadth-first search needs."""
    graph = compile_instance(peer.ROWS["1,1,2,3,4"]).graph()
    (goal,) = [g for g in find_goals(graph) if g.pair == ("publish", "STALE_GENERATION")]
    cover = Cover(graph, 50)
    cover.reach([goal], 1)
    assert graph.depth[goal.place] == 15
    assert cover.walks[0][15] == goal.number


def test_a_plan_is_a_function_of_its_instance(
    row: Instance, plan: Plan, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Computed anew in an empty folder and read back from it, the plan is the same."""
    monkeypatch.setenv("KVSPEC_CACHE", str(tmp_path))
    claims = list(peer.properties.by_name.values())
    computed = make_plan(row, claims)
    assert computed == plan
    assert make_plan(row, claims) == computed


def test_claims_that_hold_are_known_to_hold(plan: Plan) -> None:
    """Invariants, lemmas and step claims were checked on every state and step of the row."""
    assert plan.checked == {c.name for c in peer.properties.of_kind("invariant", "lemma", "step")}


def test_a_large_instance_is_covered_in_part_and_says_so() -> None:
    """With 40 walks a plan takes what they can, and every pair is still aimed at."""
    plan = make_plan(core.BRANCH, most=40)
    assert len(plan.walks) == 40
    assert 0 < plan.planned < plan.transitions == 347_061
    assert make_plan(core.BRANCH, most=100).pairs == plan.pairs
