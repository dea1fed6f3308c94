"""A trace as a picture for other tools: a Mermaid sequence diagram, and a Graphviz graph in DOT."""

from __future__ import annotations

from itertools import pairwise

from kvspec.counterexamples.diagram import Diagram, Row, diagram_of
from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.resolve import Resolved
from kvspec.spec.language import System


def mermaid(trace: Trace | Resolved, *, system: System | None = None) -> str:
    """The trace as a Mermaid `sequenceDiagram`: a participant for each lane, the publication shaded."""
    found = diagram_of(trace, system)
    lines = ["sequenceDiagram"]
    lines.extend(f"  participant {lane.name}" for lane in found.lanes)
    if not found.lanes:
        lines.append("  participant system")
    for row in found.rows:
        body = _mermaid_row(found, row)
        if row.is_publication:
            body = ["rect rgb(220, 235, 255)", *(f"  {line}" for line in body), "end"]
        lines.extend(f"  {line}" for line in body)
    if found.loop is not None:
        text = _mermaid_text(f"back to state {found.loop}, for ever")
        lines.append(f"  Note over {_span(found, tuple(range(len(found.lanes))))}: {text}")
    return "\n".join(lines) + "\n"


def _mermaid_row(found: Diagram, row: Row) -> list[str]:
    text = _mermaid_text(_headline(row))
    lines = []
    if row.number and len(row.lanes) > 1:
        arrow = "-x" if row.outcome else "->>"
        source, target = found.lanes[row.lanes[-1]].name, found.lanes[row.lanes[0]].name
        lines.append(f"{source}{arrow}{target}: {text}")
    elif row.number and len(row.told) == 1:
        told = "<br/>".join(_mermaid_text(line) for line in next(iter(row.told.values())))
        return [f"Note over {_span(found, row.lanes)}: {text}<br/>{told}", *_departure(found, row)]
    else:
        lines.append(f"Note over {_span(found, row.lanes)}: {text}")
    for place in row.told:
        told = "<br/>".join(_mermaid_text(line) for line in row.told[place] if line)
        lines.append(f"Note over {found.lanes[place].name}: {told}")
    return [*lines, *_departure(found, row)]


def _departure(found: Diagram, row: Row) -> list[str]:
    if not row.departs:
        return []
    told = _mermaid_text(f"the specification: {row.departs}")
    return [f"Note over {_span(found, row.lanes)}: {told}"]


def _span(found: Diagram, lanes: tuple[int, ...]) -> str:
    """The lanes that a note lies over: from the first to the last, or all."""
    names = [found.lanes[place].name for place in lanes] or [lane.name for lane in found.lanes]
    names = names or ["system"]
    return names[0] if len(names) == 1 else f"{names[0]},{names[-1]}"


def _mermaid_text(text: str) -> str:
    """Text without the signs that end a line or begin an entity in Mermaid."""
    return text.replace("#", "#35;").replace(";", "#59;").replace("#35#59;", "#35;")


def dot(trace: Trace | Resolved, *, system: System | None = None) -> str:
    """The trace as a Graphviz graph: a lane is a column, a step a row, the publication a double box."""
    found = diagram_of(trace, system)
    lines = [
        "digraph trace {",
        f"  label={_quoted(chr(10).join(found.title))};",
        "  labelloc=t;",
        "  rankdir=TB;",
        '  node [shape=box, fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=10];',
    ]
    for place, lane in enumerate(found.lanes):
        lines.append(f"  lane_{place} [label={_quoted(lane.name)}, shape=plaintext];")
    lines.append('  lane_steps [label="", shape=plaintext];')
    names = [f"lane_{place}" for place in range(len(found.lanes))]
    lines.append(f"  {{ rank=same; {'; '.join(['lane_steps', *names])}; }}")
    for row in found.rows[1:]:
        lines.extend(_dot_row(found, row))
    lines.extend(_lifelines(found))
    if found.loop:
        lines.append(
            f"  step_{len(found.rows) - 1} -> step_{found.loop} "
            '[label="for ever", style=dashed, constraint=false];'
        )
    return "\n".join([*lines, "}"]) + "\n"


def _dot_row(found: Diagram, row: Row) -> list[str]:
    label = _headline(row) + (f"\nspecification: {row.departs}" if row.departs else "")
    colour = ", fontcolor=red" if row.outcome or row.departs else ""
    lines = [f"  step_{row.number} [label={_quoted(label)}, shape=plaintext{colour}];"]
    style = "peripheries=2, penwidth=2" if row.is_publication else "peripheries=1"
    names = [f"at_{row.number}_{place}" for place in row.lanes]
    for place, name in zip(row.lanes, names, strict=True):
        told = "\n".join(line for line in row.told.get(place, ()) if line)
        lines.append(f"  {name} [label={_quoted(told or found.lanes[place].name)}, {style}];")
    lines.append(f"  {{ rank=same; {'; '.join([f'step_{row.number}', *names])}; }}")
    edge = "dir=none, penwidth=3" if row.is_publication else "dir=none"
    lines.extend(f"  {left} -> {right} [{edge}];" for left, right in pairwise(names))
    return lines


def _lifelines(found: Diagram) -> list[str]:
    """Each lane from step to step, and the column of steps, which keeps the rows in order."""
    chains = [["lane_steps", *(f"step_{row.number}" for row in found.rows[1:])]]
    for place in range(len(found.lanes)):
        steps = [f"at_{row.number}_{place}" for row in found.rows[1:] if place in row.lanes]
        chains.append([f"lane_{place}", *steps])
    return [
        f"  {above} -> {below} [dir=none, style={'invis' if number == 0 else 'dotted'}, weight=9];"
        for number, chain in enumerate(chains)
        for above, below in pairwise(chain)
    ]


def _headline(row: Row) -> str:
    text = f"{row.number}. {row.text}" if row.number else row.text
    if row.outcome:
        text += f" {row.outcome}"
    return f"{text} (publication point)" if row.is_publication else text


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\l")
    escaped += "\\l" if "\n" in text else ""
    return f'"{escaped}"'
