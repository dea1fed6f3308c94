"""The state graph of a small instance, to be looked at: networkx in, text, Mermaid or Graphviz out."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kvspec.models.concrete import Machine, State, show_event
from kvspec.models.concrete.text import cells
from kvspec.report.moves import TooLargeError

if TYPE_CHECKING:
    import networkx as nx

    from kvspec.spec.language import Instance

LARGEST_TO_DRAW = 300


def state_graph(instance: Instance, largest: int = LARGEST_TO_DRAW) -> nx.MultiDiGraph:
    """Every state, numbered breadth first, and every transition.

    Nodes have `cells` (the values that differ from the initial state 0, as text) and `depth`; edges
    have `event` and `code`, which is None for an accepted step.
    """
    import networkx as nx

    machine = Machine(instance)
    graph = nx.MultiDiGraph(name=f"{instance.system.name}/{instance.name}")
    number: dict[State, int] = {}
    first = dict(cells(machine, machine.initial_states()[0]))

    def add(state: State, depth: int) -> bool:
        if state in number:
            return False
        if len(number) == largest:
            raise TooLargeError(instance, largest)
        number[state] = len(number)
        shown = [f"{k} = {v}" for k, v in cells(machine, state) if first[k] != v]
        graph.add_node(number[state], cells=shown, depth=depth)
        return True

    frontier = [state for state in machine.initial_states() if add(state, 0)]
    depth = 0
    while frontier:
        depth += 1
        level: list[State] = []
        for state in frontier:
            for event, outcome in machine.transitions(state):
                if add(outcome.state, depth):
                    level.append(outcome.state)
                label = show_event(machine, event)
                ends = number[state], number[outcome.state]
                graph.add_edge(*ends, event=label, code=outcome.code)
        frontier = level
    return graph


def show_graph(graph: nx.MultiDiGraph, form: str) -> str:
    """The graph in one of the formats `text`, `mermaid` and `dot`; steps that change nothing are left out."""
    return {"text": _text, "mermaid": _mermaid, "dot": _dot}[form](graph)


def _edges(graph: nx.MultiDiGraph) -> list[tuple[int, int, str]]:
    return [
        (
            before,
            after,
            f"{data['event']} refused ({data['code']})" if data["code"] else data["event"],
        )
        for before, after, data in graph.edges(data=True)
        if before != after
    ]


def _text(graph: nx.MultiDiGraph) -> str:
    lines = [
        f"{graph.name}: {graph.number_of_nodes()} states, {graph.number_of_edges()} transitions"
    ]
    leaving: dict[int, list[str]] = {}
    for before, after, label in _edges(graph):
        leaving.setdefault(before, []).append(f"    {label} -> {after}")
    for node, data in graph.nodes(data=True):
        lines.append(f"{node}: {', '.join(data['cells']) or 'as at the start'}")
        lines.extend(leaving.get(node, ()))
    return "\n".join(lines)


def _mermaid(graph: nx.MultiDiGraph) -> str:
    lines = ["flowchart TD"]
    for node, data in graph.nodes(data=True):
        lines.append(f'    s{node}["{"<br/>".join((str(node), *data["cells"]))}"]')
    lines.extend(f'    s{before} -->|"{label}"| s{after}' for before, after, label in _edges(graph))
    return "\n".join(lines)


def _dot(graph: nx.MultiDiGraph) -> str:
    lines = [f'digraph "{graph.name}" {{', "    node [shape=box];"]
    for node, data in graph.nodes(data=True):
        text = "\\n".join((str(node), *data["cells"]))
        lines.append(f'    s{node} [label="{text}"];')
    lines.extend(
        f'    s{before} -> s{after} [label="{label}"];' for before, after, label in _edges(graph)
    )
    return "\n".join((*lines, "}"))
