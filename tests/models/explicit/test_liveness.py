"""Leads-to: verdicts that are known, lassos that are runs, and agreement with a plain search."""

from itertools import pairwise

import attrs
import networkx as nx
import pytest

from kvspec.models.concrete.machine import Machine
from kvspec.models.explicit import compile_instance, explore, graph
from kvspec.models.explicit.liveness import check_leads_to
from kvspec.spec.examples import livelock, lock, peer
from kvspec.spec.language import Expr, Properties, strong, weak

BEGUN = peer.properties["every_begun_append_ends"]


def is_lasso(instance, claim, violation):
    """The trace is a run of the system, ends where its loop begins, and the loop is fair and barren."""
    machine = Machine(instance)
    steps, loop = violation.trace, violation.loop
    assert steps[0].state in machine.initial_states()
    for before, step in pairwise(steps):
        assert machine.step(before.state, step.event).state == step.state
    assert steps[-1].state == steps[loop].state
    states = [step.state for step in steps[loop:]]
    taken = [step.event for step in steps[loop + 1 :]]
    for fairness in claim.fairness:
        keys = {
            tuple(event.names[name] for name in fairness.parameters)
            for event in machine.events_of(fairness.action)
        }
        for key in keys:

            def belongs(event, fairness=fairness, key=key):
                values = tuple(event.names[name] for name in fairness.parameters)
                return event.action == fairness.action.name and values == key

            possible = [
                any(belongs(e) for e in machine.enabled(s) if e.action == fairness.action.name)
                for s in states
            ]
            wanted = any(possible) if fairness.strong else all(possible)
            used = any(belongs(e) for e in taken if e.action == fairness.action.name)
            assert used or not wanted


def test_begun_appends_end_in_the_peer_model():
    """Under weak fairness of staging, preparing and publishing, for each transaction apart."""
    for row in ("1,1,2,3,4", "1,2,2,3,4", "2,2,1,2,2"):
        assert explore(peer.ROWS[row], [BEGUN], coverage=False).verdict == "holds"


@pytest.mark.parametrize("left_out", ["stage_k", "stage_v", "prepare", "publish", "reject"])
def test_each_fairness_condition_is_needed(left_out):
    """Without fairness of one action an append may stay open for ever, and a lasso shows it."""
    kept = tuple(f for f in BEGUN.fairness if f.action.name != left_out)
    claim = attrs.evolve(BEGUN, fairness=kept)
    result = explore(peer.ROWS["1,2,2,3,4"], [claim], coverage=False)
    assert result.verdict == "violated"
    (violation,) = result.violations
    is_lasso(peer.ROWS["1,2,2,3,4"], claim, violation)


def test_fairness_of_any_value_is_less_than_of_each():
    """Fairness of staging some layer of some transaction is met by the other transaction alone."""
    loose = tuple(weak(f.action) for f in BEGUN.fairness)
    claim = attrs.evolve(BEGUN, fairness=loose)
    result = explore(peer.ROWS["1,2,2,3,4"], [claim], coverage=False)
    assert result.verdict == "violated"
    is_lasso(peer.ROWS["1,2,2,3,4"], claim, result.violations[0])
    assert result.violations[0].loop < len(result.violations[0].trace) - 1


def test_the_livelock_has_a_lasso_and_strong_fairness_ends_it():
    """The door opens and shuts for ever under weak fairness."""
    weakly, strongly = livelock.properties.by_name.values()
    result = explore(livelock.HOUSE, [weakly, strongly])
    (violation,) = result.violations
    assert violation.property == weakly.name
    is_lasso(livelock.HOUSE, weakly, violation)


def test_strong_fairness_of_one_process_does_not_help_another():
    """Each process gets in if each is treated fairly, strongly for the lock that keeps being freed."""
    actions = lock.system.actions
    claims = Properties(lock.system)
    place = lock.system.variables["place"]

    def fairness(kind):
        steps = [weak(actions["enter"], "p"), weak(actions["leave"], "p")]
        return [*steps, kind(actions["look"], "p")]

    @claims.leads_to(*fairness(weak))
    def weak_waiting_ends(p: lock.Process) -> tuple[Expr, Expr]:
        """Who waits gets inside, under weak fairness: false."""
        return place[p] == lock.Place.WAITING, place[p] == lock.Place.INSIDE

    @claims.leads_to(*fairness(strong))
    def strong_waiting_ends(p: lock.Process) -> tuple[Expr, Expr]:
        """Who waits gets inside, under strong fairness."""
        return place[p] == lock.Place.WAITING, place[p] == lock.Place.INSIDE

    result = explore(lock.PAIR, [weak_waiting_ends])
    assert result.verdict == "violated"
    assert "Fails for p = 0" in result.violations[0].message
    is_lasso(lock.PAIR, weak_waiting_ends, result.violations[0])
    assert explore(lock.PAIR, [strong_waiting_ends]).verdict == "holds"


def test_a_run_may_stop_where_nothing_is_owed():
    """Without fairness the system may stand still, which the message says."""
    claim = attrs.evolve(livelock.properties["weakly_fair_visits_succeed"], fairness=())
    (violation,) = explore(livelock.HOUSE, [claim]).violations
    assert "stops" in violation.message
    assert violation.loop == len(violation.trace) - 1


def test_a_part_of_the_graph_gives_unknown_or_a_true_lasso():
    """With too few states nothing is claimed; what is violated in a part is violated."""
    row = peer.ROWS["1,2,2,3,4"]
    part = compile_instance(row).graph(max_states=3_000)
    assert not part.complete
    assert check_leads_to(part, BEGUN)[0] == "unknown"
    result = explore(row, [BEGUN], coverage=False, max_graph=3_000)
    assert (result.verdict, "max_graph" in result.reason) == ("unknown", True)
    loose = attrs.evolve(BEGUN, fairness=())
    verdict, violation, _ = check_leads_to(part, loose)
    assert verdict == "violated"
    is_lasso(row, loose, violation)


def test_cut_steps_leave_the_claim_unknown():
    """A state with a step cut has no known successors, so standing still there proves nothing."""
    row = peer.ROWS["1,1,1,2,2"]
    lower = attrs.evolve(row, bounds={**row.bounds, "Generation": 0}, expected=None)
    result = explore(lower, [BEGUN], coverage=False)
    assert result.verdict == "unknown"


@pytest.mark.parametrize("row", ["1,1,1,2,2", "1,1,2,3,4"])
@pytest.mark.parametrize("left_out", [None, "stage_k", "prepare", "publish", "reject"])
def test_verdicts_agree_with_a_plain_search_for_components(row, left_out):
    """networkx finds the same strongly connected sets in which a run can stay."""
    claim = attrs.evolve(
        BEGUN, fairness=tuple(f for f in BEGUN.fairness if f.action.name != left_out)
    )
    instance = peer.ROWS[row]
    machine = Machine(instance)
    whole = graph(instance).to_networkx()
    live = {n for n, d in whole.nodes(data=True) if _is_live(machine, claim, d["state"])}
    fair = False
    for component in nx.strongly_connected_components(whole.subgraph(live)):
        inside = [e["event"] for a, b, e in whole.edges(data=True) if {a, b} <= component]
        fair |= all(
            any(_takes(f, key, event) for event in inside)
            or not all(
                any(_takes(f, key, e["event"]) for _, _, e in whole.out_edges(n, data=True))
                for n in component
            )
            for f in claim.fairness
            for key in {
                tuple(e.names[name] for name in f.parameters) for e in machine.events_of(f.action)
            }
        )
    verdict = explore(instance, [claim], coverage=False).verdict
    assert verdict == ("violated" if fair else "holds")


def _is_live(machine, claim, state):
    env = machine.environment(state, names={"t": 0})
    from kvspec.models.concrete.evaluate import evaluate

    return not evaluate(claim.goal, env)


def _takes(fairness, key, event):
    values = tuple(event.names.get(name) for name in fairness.parameters)
    return event.action == fairness.action.name and values == key


@pytest.mark.slow
def test_half_a_million_states_are_enough_for_leads_to():
    """The claim is decided on the row with 649,477 states and five million transitions."""
    result = explore(peer.ROWS["2,2,2,3,2"], [BEGUN], coverage=False)
    assert (result.verdict, result.states) == ("holds", 649_477)
