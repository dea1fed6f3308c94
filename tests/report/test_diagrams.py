"""Diagrams follow from the actions, and are all there is."""

import networkx as nx
import pytest

from kvspec.counterexamples import find_instance, find_system
from kvspec.models.symbolic import prove
from kvspec.properties.core import properties
from kvspec.properties.serving import serving as serving_claims
from kvspec.report.diagrams import diagram, labels
from kvspec.report.graphs import state_graph
from kvspec.report.moves import (
    Move,
    are_all_moves,
    are_all_projected_moves,
    instances_to_draw,
    moves_of,
    starts,
)
from kvspec.report.readme import service_moves
from kvspec.spec import core, serving
from kvspec.spec.handles import Handle
from kvspec.spec.serving import service_phase

CORE = instances_to_draw(core.system, ())


def test_the_moves_of_the_peer_model_are_found() -> None:
    """Each change of an enumeration, by the step that makes it."""
    peer = find_system("peer")
    found = moves_of(instances_to_draw(peer.system, list(peer.instances.values())))
    phases = [(m.before, m.after, m.action) for m in found if m.variable == "phase"]
    assert phases == [
        ("READY", "FINISHED", "finish"),
        ("READY", "CANCELLED", "cancel_request"),
        ("FINISHED", "RELEASED", "release"),
        ("CANCELLED", "RELEASED", "release"),
    ]


def test_a_refusal_with_an_effect_is_a_move() -> None:
    """A stale publication ends its append, and the diagram says by which codes."""
    codes = {m.code for m in moves_of(CORE) if (m.before, m.after) == ("PREPARED", "REJECTED")}
    assert codes == {"STALE_GENERATION", "STALE_SNAPSHOT", "HANDLE_TERMINAL"}


def test_no_other_move_exists_at_any_size() -> None:
    """Z3 proves that the core system makes the moves of the diagrams alone."""
    claims = are_all_moves(properties, moves_of(CORE))
    assert prove(core.system, claims, only=["step:moves_of_*"]).verdict == "holds"


def test_a_move_that_is_left_out_is_noticed() -> None:
    """Without one of the moves the same proof fails."""
    moves = [m for m in moves_of(CORE) if (m.before, m.action) != ("DECODE_READY", "finish")]
    report = prove(core.system, are_all_moves(properties, moves), only=["step:moves_of_*:finish"])
    assert [item.name for item in report.items if item.verdict == "failed"] == [
        "step:moves_of_phase:finish"
    ]


def test_each_format_draws_the_start_and_every_move() -> None:
    """Text, Mermaid and Graphviz."""
    moves = [Move("v", "A", "B", "go", None), Move("v", "B", "A", "try", "NO")]
    assert diagram(moves, ["A"], "text").splitlines()[1:] == [
        "(start)                    A",
        "A        go                B",
        "B        try refused (NO)  A",
    ]
    assert diagram(moves, ["A"], "mermaid").splitlines()[1:] == [
        "    [*] --> A",
        "    A --> B: go",
        "    B --> A: try refused (NO)",
    ]
    assert '    A -> B [label="go"];' in diagram(moves, ["A"], "dot").splitlines()


def test_starts_are_those_of_the_initial_states() -> None:
    """Requests start vacant."""
    assert starts(core.TINY, "phase") == ["VACANT"]


def test_a_state_graph_is_a_networkx_graph() -> None:
    """It can be asked what networkx answers: here, the depth of the search."""
    graph = state_graph(find_instance("peer", "1,1,1,2,2"))
    assert (graph.number_of_nodes(), graph.number_of_edges()) == (109, 284)
    assert max(nx.single_source_shortest_path_length(graph, 0).values()) == 14


@pytest.fixture(scope="module")
def service():
    """The moves of the service phase that the instances show."""
    return service_moves()


def test_the_service_phase_makes_these_moves_and_no_others(service):
    """Z3 proves it at any size, up to release; each move happens on some instance (A11)."""
    claims = are_all_projected_moves(serving_claims, Handle, service_phase, service, "RELEASED")
    only = ["step:moves_of_the_projection:*"]
    report = prove(serving.system, claims, only=only, workers=0)
    assert report.verdict == "holds"
    assert len({move.action for move in service}) >= 9


def test_a_missing_move_of_the_service_phase_is_noticed(service):
    """Without the move of one action, the claim is refuted (A11)."""
    some = [move for move in service if move.action != "emit"]
    claims = are_all_projected_moves(serving_claims, Handle, service_phase, some, "RELEASED")
    only = ["step:moves_of_the_projection:emit"]
    assert prove(serving.system, claims, only=only, workers=0).verdict == "violated"


def test_an_action_that_is_also_refused_is_told_twice():
    """A step that leads from one member to another by success and by refusal has both labels."""
    moves = [Move("v", "A", "B", "go", None), Move("v", "A", "B", "go", "CODE")]
    assert labels(moves) == {("A", "B"): ["go", "go refused (CODE)"]}
