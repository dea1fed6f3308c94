"""The explicit engine finds what a plain search over the concrete machine finds."""

import importlib.util
import sys
from pathlib import Path

import pytest

from kvspec.models.concrete.machine import Machine
from kvspec.models.explicit import compile_instance
from kvspec.models.explicit.program import Program
from kvspec.spec.examples import livelock, lock, peer, products, river, two_phase_commit


def _sibling(name):
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(f"explicit_{name}", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


brute_force = _sibling("brute").brute_force
small = _sibling("small_systems")

CASES = {
    "peer 1,1,1,2,2": (peer.ROWS["1,1,1,2,2"], peer.properties),
    "peer 1,1,2,3,4": (peer.ROWS["1,1,2,3,4"], peer.properties),
    "two-phase commit": (two_phase_commit.THREE, two_phase_commit.properties),
    "river": (river.PUZZLE, river.properties),
    "lock": (lock.PAIR, lock.properties),
    "broken lock": (lock.BROKEN_PAIR, lock.broken_properties),
    "livelock": (livelock.HOUSE, livelock.properties),
    "products": (products.FEW, products.properties),
    "everything, two rows": (small.TWO, small.properties),
    "everything, two owners": (small.WIDE, small.properties),
    "everything, anywhere": (small.ANYWHERE, small.properties),
}
FORMS = {"one word": {}, "loops": {"unroll": 0}, "several words": {"word_bits": 7}}


@pytest.fixture(scope="module", params=CASES, ids=str)
def case(request):
    """An instance, claims about it, and what brute force finds."""
    instance, properties = CASES[request.param]
    return instance, tuple(properties.by_name.values()), brute_force(instance)


@pytest.mark.parametrize("form", FORMS)
def test_states_and_transitions_are_those_of_the_concrete_machine(case, form):
    """States with their depth and transitions by action agree, however states are packed."""
    instance, claims, found = case
    program = Program(instance, claims, **FORMS[form])
    assert form != "several words" or program.layout.words > 1 or program.layout.bits <= 7
    result = program.explore(coverage=False, stop_at_first=False)
    assert result.states == len(found.levels)
    assert result.depth == max(found.levels.values())
    assert {n: c for n, c in result.by_action.items() if c} == dict(found.transitions)
    assert result.transitions == sum(found.transitions.values())
    assert (result.terminal, result.cut) == (found.terminal, found.cut)


@pytest.mark.parametrize("form", FORMS)
def test_refusals_are_those_of_the_concrete_machine(case, form):
    """The full form counts every refusal under its guard, and effects apart."""
    instance, claims, found = case
    result = Program(instance, claims, **FORMS[form]).explore(coverage=True, stop_at_first=False)
    refused = {(a, c): n for a, codes in result.coverage.guards.items() for c, n in codes.items()}
    assert {key: n for key, n in refused.items() if n} == dict(found.refusals)
    effects = {(a, c): n for a, codes in result.coverage.effects.items() for c, n in codes.items()}
    assert {k: n for k, n in effects.items() if n} == {
        k: n for k, n in found.effects.items() if k[1]
    }
    assert {n: c for n, c in result.by_action.items() if c} == dict(found.transitions)
    assert result.states == len(found.levels)


def test_the_graph_has_the_edges_of_the_concrete_machine(case):
    """States of the graph stand in breadth-first order; its edges are the transitions."""
    instance, _, found = case
    graph = compile_instance(instance).graph()
    states = [graph.state(place) for place in range(len(graph))]
    assert {s: int(d) for s, d in zip(states, graph.depth, strict=True)} == found.levels
    assert sorted(graph.depth) == list(graph.depth)
    edges = {}
    for edge in range(len(graph.source)):
        event, code = graph.event(edge)
        key = states[graph.source[edge]], event, code, states[graph.target[edge]]
        edges[key] = edges.get(key, 0) + 1
    assert edges == dict(found.edges)


def test_claims_have_the_truth_of_the_concrete_machine(case):
    """Which claims fail, and at what depth, is what evaluating them on every state gives."""
    instance, claims, found = case
    machine = Machine(instance)
    result = compile_instance(instance, claims).explore(stop_at_first=False, deadlock=False)
    violated = {v.property: len(v.trace) - 1 for v in result.violations if v.kind != "leads_to"}
    reached = {w.property: w.depth for w in result.witnesses}
    for claim in claims:
        if claim.kind in ("invariant", "lemma", "witness"):
            wanted = claim.kind == "witness"
            depths = [d for s, d in found.levels.items() if machine.holds(claim, s) == wanted]
            table = reached if wanted else violated
            assert table.get(claim.name) == min(depths, default=None)
        if claim.kind == "step":
            depths = [
                found.levels[source] + 1
                for source, depth in found.levels.items()
                for event, outcome in machine.transitions(source)
                if not machine.holds(claim, source, event, outcome)
            ]
            assert violated.get(claim.name) == min(depths, default=None)
