"""`kvspec show`: read the specification, its diagrams and the state graph of a small instance."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from kvspec.cli.errors import UsageError, unknown
from kvspec.cli.lookup import instance_named, system_named
from kvspec.cli.output import Flag, Output, deliver
from kvspec.cli.verdicts import HOLDS, Answer

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem

Format = Literal["text", "dot", "mermaid"]


def show(
    system: str | None = None,
    name: str | None = None,
    *,
    graph: Flag = False,
    format: Format = "text",  # noqa: A002  # the option is called so
    output: Output = Output(),  # noqa: B008  # frozen, and how cyclopts takes a group
) -> int:
    """Read the specification: its systems, one system, one action or claim, a diagram, a graph.

    As dot or mermaid, a system is the transition diagram of its enumerations, found by running a
    small instance, and an action is the part of it that the action moves.

    Args:
        system: the system; without it, the list of all systems and instances.
        name: an action or a claim of the system; with --graph, one of its instances.
        graph: the states and transitions of a small instance, by default of the first.
        format: text, dot (Graphviz) or mermaid.
        output: how the answer is told.
    """
    if system is None:
        return deliver(_systems(), output)
    subject = system_named(system, "show")
    if graph:
        return deliver(_graph(subject, name, format), output)
    if name is None:
        return deliver(_system(subject, format), output)
    return deliver(_part(subject, name, format), output)


def _systems() -> Answer:
    """All systems and their instances."""
    from kvspec.counterexamples.systems import known_systems
    from kvspec.report.tables import text_table

    rows, data = [], []
    for known in known_systems().values():
        data.append(
            {"system": known.name, "doc": known.system.doc, "instances": list(known.instances)}
        )
        rows.append((known.name, known.system.doc, ""))
        for one in known.instances.values():
            states = f"{one.expected.states:,}" if one.expected else ""
            rows.append(("", f"  {one.name}{f': {one.doc}' if one.doc else ''}", states))
    text = text_table(("system", "what it is, and its instances", "states"), rows, right=(2,))
    return Answer("show", HOLDS, {"systems": data}, text)


def _system(subject: KnownSystem, form: Format) -> Answer:
    """A system as text with its claims, or its diagrams."""
    from kvspec.spec.language.show import show_assignment, show_parameter, show_system

    system, claims = subject.system, subject.properties().by_name.values()
    if form != "text":
        return _diagrams(subject, None, form)
    lines = [show_system(system)]
    for claim in claims:
        lines.extend(("", f"{claim.kind} {claim.name}", f"  | {claim.doc}", f"  {claim.body!r}"))
        if claim.goal is not None:
            lines.append(f"  leads to {claim.goal!r}")
    data: dict[str, Any] = {
        "system": system.name,
        "doc": system.doc,
        "sorts": {s.name: list(s.members) or s.kind for s in system.sorts().values()},
        "constants": {s.name: str(s.type) for s in system.constants.values()},
        "variables": [
            {
                "name": v.name,
                "signature": v.signature,
                "initial": repr(v.initial),
                "meaning": v.meaning,
            }
            for v in system.variables.values()
        ],
        "actions": [
            {
                "name": action.name,
                "doc": action.doc,
                "parameters": [show_parameter(p) for p in action.parameters],
                "guards": [
                    {"code": g.code.name, "condition": repr(g.condition)} for g in action.guards
                ],
                "assignments": [show_assignment(done) for done in action.assignments],
            }
            for action in system.actions.values()
        ],
        "properties": [
            {"name": c.name, "kind": c.kind, "doc": c.doc, "formula": repr(c.body)} for c in claims
        ],
        "instances": list(subject.instances),
    }
    return Answer("show", HOLDS, data, "\n".join(lines))


def _part(subject: KnownSystem, name: str, form: Format) -> Answer:
    """One action or one claim."""
    from kvspec.spec.language.show import show_action

    actions, claims = subject.system.actions, subject.properties().named()
    if name in actions:
        if form != "text":
            return _diagrams(subject, name, form)
        action = actions[name]
        meanings = [f"  {g.code.name}: {g.code.meaning}" for g in action.guards]
        text = "\n".join((show_action(action), "", *meanings)).rstrip()
        codes = {g.code.name: g.code.meaning for g in action.guards}
        return Answer(
            "show", HOLDS, {"action": name, "text": show_action(action), "codes": codes}, text
        )
    if name in claims and form == "text":
        claim = claims[name]
        text = f"{claim.kind} {claim.name}\n  | {claim.doc}\n  {claim.body!r}"
        if claim.goal is not None:
            text += f"\n  leads to {claim.goal!r}"
        data = {"property": name, "kind": claim.kind, "doc": claim.doc, "formula": repr(claim.body)}
        return Answer("show", HOLDS, data, text)
    kind = "action" if form != "text" else "action or claim"
    known = [*actions, *(claims if form == "text" else ())]
    do = f"kvspec show {subject.key} {next(iter(actions))}"
    raise unknown(f"{kind} in {subject.name}", name, known, "NAME of kvspec show", do)


def _diagrams(subject: KnownSystem, action: str | None, form: Format) -> Answer:
    """The transition diagrams of a system, or what one action moves in them."""
    from kvspec.report.diagrams import diagram
    from kvspec.report.moves import enumerated, instances_to_draw, moves_of, starts

    drawn = instances_to_draw(subject.system, list(subject.instances.values()))
    moves = [m for m in moves_of(drawn) if action is None or m.action == action]
    pictures: dict[str, str] = {}
    for variable in enumerated(subject.system):
        own = [move for move in moves if move.variable == variable.name]
        if own:
            start = [] if action else starts(drawn[0], variable.name)
            pictures[variable.name] = diagram(own, start, form)
    if not pictures:
        raise UsageError(
            f"{action or subject.name} moves no variable of an enumeration",
            "no such variable",
            "a system with an enumeration, and an action that changes it",
            "--format of kvspec show",
            f"kvspec show {subject.key} {action or ''}".rstrip(),
        )
    return Answer("show", HOLDS, {"diagrams": pictures}, "\n\n".join(pictures.values()))


def _graph(subject: KnownSystem, name: str | None, form: Format) -> Answer:
    """The state graph of a small instance."""
    from kvspec.report.graphs import show_graph, state_graph
    from kvspec.report.moves import TooLargeError

    instance = instance_named(subject, name, "show --graph")
    try:
        graph = state_graph(instance)
    except TooLargeError as error:
        raise UsageError(
            f"{subject.name}/{instance.name} is too large to be drawn",
            f"more than {error.limit} states",
            f"an instance of at most {error.limit} states",
            "INSTANCE of kvspec show --graph",
            f"kvspec explore {subject.key} {instance.name}",
        ) from error
    text = show_graph(graph, form)
    data = {
        "instance": instance.name,
        "states": graph.number_of_nodes(),
        "transitions": graph.number_of_edges(),
        "graph": text,
    }
    return Answer("show", HOLDS, data, text)
