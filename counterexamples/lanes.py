"""A trace as a space-time diagram in text: time goes down, each handle and append has a lane.

    #===========#   the publication point: all layers become visible at once
    *-----------*   an accepted step, between the lanes that take part
    x           x   a refused step
    |               the lane goes on

Lanes that do not fit side by side go into further parts, one below the other.
"""

from __future__ import annotations

import re
from textwrap import wrap

from kvspec.counterexamples.diagram import Diagram, Row, diagram_of
from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.resolve import Resolved
from kvspec.spec.language import System

WIDTH = 100
LABEL = 30
NARROWEST = 16
WIDEST = 24


def lanes(trace: Trace | Resolved, *, width: int = WIDTH, system: System | None = None) -> str:
    """The diagram of a trace, `width` columns at most (and no fewer than 60 are used)."""
    found = diagram_of(trace, system)
    room = max(width, 60) - LABEL
    fit = max(1, room // NARROWEST)
    parts = [
        range(start, min(start + fit, len(found.lanes)))
        for start in range(0, len(found.lanes), fit)
    ] or [range(0)]
    heading = list(found.title)
    if found.layers:
        which = f"layers 0 to {found.layers - 1}" if found.layers > 1 else "the one layer"
        heading.append(
            f"K and V: rows of {which}; seen by readers (handles), staged so far (appends)"
        )
    lines = [piece for line in heading for piece in wrap(line, max(width, 60))]
    for part in parts:
        lines.append("")
        if len(parts) > 1:
            lines.append(f"lanes {part.start + 1} to {part.stop} of {len(found.lanes)}")
        lines.extend(_part(found, part, min(WIDEST, room // max(1, len(part)))))
    if found.loop is not None:
        stays = found.loop == len(found.rows) - 1
        lines.append("")
        lines.append(
            f"state {found.loop} stays for ever"
            if stays
            else f"back to state {found.loop}: steps {found.loop + 1} to {len(found.rows) - 1} "
            "repeat for ever"
        )
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _part(found: Diagram, part: range, width: int) -> list[str]:
    lines = [" " * LABEL + "".join(f"{found.lanes[place].name:{width}}" for place in part)]
    for row in found.rows:
        lines.extend(_row(row, part, width))
    return lines


def _row(row: Row, part: range, width: int) -> list[str]:
    """The lines of a step: markers and connectors, then what each lane has now."""
    labels = _labels(row)
    here = [place for place in row.lanes if place in part]
    bodies = {
        place: [piece for line in row.told.get(place, ()) for piece in _wrapped(line, width - 3)]
        for place in part
    }
    rail = _rail(row, part, here, width)
    columns = []
    if len(here) == 1:  # nothing to connect: the text stands beside the marker
        place = here[0]
        first, bodies[place] = bodies[place][:1], bodies[place][1:]
        at = (place - part.start) * width
        text = f"{rail[at]} {first[0] if first else ''}"
        rail = rail[:at] + f"{text:{width}}" + rail[at + width :]
    if row.number:
        columns.append(rail)
    depth = max((len(body) for body in bodies.values()), default=0)
    for line in range(depth):
        cells = [body[line] if line < len(body) else "" for body in bodies.values()]
        columns.append("".join(f"{f'| {cell}':{width}}" for cell in cells))
    idle = f"{'|':{width}}" * len(part)
    height = max(len(labels), len(columns))
    labels += [""] * (height - len(labels))
    columns += [idle] * (height - len(columns))
    return [f"{label:{LABEL}}{column}" for label, column in zip(labels, columns, strict=True)]


def _wrapped(line: str, width: int) -> list[str]:
    """The line in pieces, a number never apart from the letter that says what it counts."""
    glued = re.sub(r"(?<=\b[KV]) ", "\N{NO-BREAK SPACE}", line)
    return [piece.replace("\N{NO-BREAK SPACE}", " ") for piece in wrap(glued, width)]


def _labels(row: Row) -> list[str]:
    """What stands to the left of a step."""
    lines = wrap(row.text, LABEL - 6, break_long_words=True)
    lines = [f"{row.number:3} {lines[0]}", *(f"      {line}" for line in lines[1:])]
    marks = [row.outcome] if row.outcome else []
    if row.is_publication:
        marks.append("publication point")
    if row.departs:
        marks.append(f"! specification: {row.departs}")
    marks.extend(row.beside)
    lines.extend(f"      {piece}" for mark in marks for piece in wrap(mark, LABEL - 7))
    return lines


def _rail(row: Row, part: range, here: list[int], width: int) -> str:
    """The line of markers, with a connector from the first to the last lane that takes part."""
    mark = "#" if row.is_publication else "x" if row.outcome else "*"
    fill = "=" if row.is_publication else " " if row.outcome else "-"
    text = ""
    for place in part:
        inside = bool(row.lanes) and row.lanes[0] <= place < row.lanes[-1]
        marker = mark if place in here else "|"
        text += marker + (fill if inside else " ") * (width - 1)
    return text
