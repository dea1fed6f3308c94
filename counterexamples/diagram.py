"""What a space-time diagram shows: lanes, and for each step who takes part and what changes there.

A lane is a member of an open sort: of `Handle` and `Txn` where a system has them, otherwise of every
open sort that is a parameter of an action. In the lane of a handle stand phase, generation, version and
what a reader sees of each layer (`K 1,1 V 1,1`); in the lane of an append its state, base, interval and
how far each layer is staged. Whatever else changes in a lane is told by name, and what belongs to no
lane stands beside the step.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kvspec.counterexamples.format import Trace
from kvspec.counterexamples.resolve import Resolved, Taken, resolve
from kvspec.models.concrete import Event, Machine, State, show_event
from kvspec.models.concrete.state import Index, indices
from kvspec.models.concrete.text import show_value
from kvspec.spec.language import MapSymbol, System, Variable

PREFERRED = ("Handle", "Txn")
PUBLICATIONS = ("publish",)

Part = tuple[str, tuple[str, ...]]
"""A prefix and the names under which systems have the variable."""

LINES: dict[str, tuple[tuple[Part, ...], ...]] = {
    "Handle": (
        (("", ("phase",)), ("g", ("generation", "gen")), ("v", ("version",))),
        (("len ", ("length", "len")), ("K ", ("k_rows",)), ("V ", ("v_rows",))),
    ),
    "Txn": (
        (
            ("", ("state", "status")),
            ("of ", ("target", "base")),
            ("g", ("base_generation", "base_gen")),
            ("v", ("base_version",)),
        ),
        (
            ("at ", ("start",)),
            ("+", ("count",)),
            ("K ", ("k_end", "staged_k")),
            ("V ", ("v_end", "staged_v")),
        ),
    ),
}


@attrs.frozen
class Lane:
    """A member of an open sort."""

    sort: str
    member: int

    @property
    def name(self) -> str:
        """`handle0`."""
        return f"{self.sort.lower()}{self.member}"


@attrs.frozen
class Row:
    """A step of the diagram, or with number 0 its beginning.

    text: the event. outcome: empty for an accepted step, else the refusal. lanes: positions of the
    lanes that take part, as parameters or by change. told: for each of these, what it has now.
    beside: changes in no lane. departs: what the specification does instead, if it departs here.
    """

    number: int
    text: str
    outcome: str
    lanes: tuple[int, ...]
    told: dict[int, tuple[str, ...]]
    beside: tuple[str, ...]
    is_publication: bool = False
    departs: str = ""


@attrs.frozen
class Diagram:
    """A trace as lanes and rows; loop: the number of the row to which the last one leads back."""

    title: tuple[str, ...]
    lanes: tuple[Lane, ...]
    rows: tuple[Row, ...]
    layers: int
    loop: int | None


def diagram_of(trace: Trace | Resolved, system: System | None = None) -> Diagram:
    """The diagram of a trace; lanes in which nothing happens are left out."""
    found = trace if isinstance(trace, Resolved) else resolve(trace, system=system)
    machine = found.machine
    every = all_lanes(machine)
    before = found.initial
    rows = [Row(0, "initial state", "", (), {}, ())]
    for number, step in enumerate(found.steps, 1):
        rows.append(_row(found, every, number, before, step))
        before = step.state
    used = sorted({place for row in rows for place in row.lanes})
    new = {old: place for place, old in enumerate(used)}
    kept = tuple(every[old] for old in used)
    begin = {p: _summary(machine, lane, found.initial) for p, lane in enumerate(kept)}
    first = attrs.evolve(rows[0], told={p: lines for p, lines in begin.items() if any(lines)})
    return Diagram(
        _title(found),
        kept,
        (first, *(_renumbered(row, new) for row in rows[1:])),
        machine.instance.sizes.get("Layer", 0),
        found.trace.loop,
    )


def all_lanes(machine: Machine) -> tuple[Lane, ...]:
    """Every lane that the system could have in this instance."""
    sorts: dict[str, None] = {}
    for action in machine.system.actions.values():
        for parameter in action.parameters:
            kinds = (
                (parameter.domain, parameter.codomain)
                if isinstance(parameter, MapSymbol)
                else (parameter.type,)
            )
            sorts.update((kind.name, None) for kind in kinds if kind.kind == "open")
    preferred = [sort for sort in PREFERRED if sort in sorts]
    return tuple(
        Lane(sort, member)
        for sort in preferred or sorts
        for member in range(machine.instance.sizes[sort])
    )


def _row(found: Resolved, lanes: Sequence[Lane], number: int, before: State, step: Taken) -> Row:
    machine, sound = found.machine, found.trace.sound
    changed, beside = _changes(machine, lanes, before, step.state)
    named = _named(machine, lanes, step.event)
    part = tuple(p for p in range(len(lanes)) if p in changed or p in named)
    told = {}
    for place in part:
        lines = _difference(machine, lanes[place], before, step.state, changed.get(place, []))
        if lines:
            told[place] = lines
    departs = ""
    if sound is not None and sound.step == number:
        departs = f"{sound.outcome} {sound.code}" if sound.code else f"{sound.outcome}, otherwise"
    return Row(
        number,
        show_event(machine, step.event),
        f"refused {step.code}" if step.outcome == "refused" else "",
        part,
        told,
        tuple(beside),
        step.event.action in PUBLICATIONS and step.outcome == "accepted",
        departs,
    )


def _renumbered(row: Row, new: dict[int, int]) -> Row:
    lanes = tuple(new[place] for place in row.lanes)
    return attrs.evolve(row, lanes=lanes, told={new[p]: lines for p, lines in row.told.items()})


def _title(found: Resolved) -> tuple[str, ...]:
    trace = found.trace
    name = f"/{trace.instance.name}" if trace.instance.name else ""
    lines = [f"{trace.system}{name}"]
    if trace.mutation is not None:
        lines.append(f"mutation {trace.mutation.name}: {trace.mutation.description}")
    if trace.property is not None:
        lines.append(f"shows {trace.property.name} ({trace.property.kind})")
    return tuple(lines)


def _named(machine: Machine, lanes: Sequence[Lane], event: Event) -> set[int]:
    """The lanes that the event names; of a set of members those in it."""
    found: set[int] = set()
    for parameter in machine.system.action(event.action).parameters:
        value = event.names[parameter.name]
        if isinstance(parameter, MapSymbol) and isinstance(value, tuple):
            members = [m for m, item in enumerate(value) if item is not False]
            sort = parameter.domain.name
        elif isinstance(value, int) and not isinstance(value, bool):
            members, sort = [value], getattr(parameter, "type", parameter).name
        else:
            continue
        found.update(
            place
            for place, lane in enumerate(lanes)
            if lane.sort == sort and lane.member in members
        )
    return found


def _owner(variable: Variable, index: Index, lanes: Sequence[Lane]) -> int | None:
    """The lane of a variable at an index: that of the first index that has one."""
    for kind, member in zip(variable.domain, index, strict=True):
        for place, lane in enumerate(lanes):
            if (lane.sort, lane.member) == (kind.name, member):
                return place
    return None


def _changes(
    machine: Machine, lanes: Sequence[Lane], before: State, after: State
) -> tuple[dict[int, list[tuple[Variable, str]]], list[str]]:
    """What changed, by lane as variable and text, and what is in no lane."""
    changed: dict[int, list[tuple[Variable, str]]] = {}
    beside = []
    tables = zip(machine.system.variables.values(), before.tables, after.tables, strict=True)
    for variable, old, new in tables:
        for index, left, right in zip(indices(variable, machine.instance), old, new, strict=True):
            if left == right:
                continue
            place = _owner(variable, index, lanes)
            rest = [
                show_value(kind, value)
                for kind, value in zip(variable.domain, index, strict=True)
                if place is None or (kind.name, value) != (lanes[place].sort, lanes[place].member)
            ]
            where = f"[{','.join(rest)}]" if rest else ""
            text = f"{variable.name}{where}={show_value(variable.type, right)}"
            if place is None:
                beside.append(text)
            else:
                changed.setdefault(place, []).append((variable, text))
    return changed, beside


def _difference(
    machine: Machine,
    lane: Lane,
    before: State,
    after: State,
    changed: list[tuple[Variable, str]],
) -> tuple[str, ...]:
    """The summary lines that changed, then by name what no summary has."""
    old, new = _summary(machine, lane, before), _summary(machine, lane, after)
    lines = [line for was, line in zip(old, new, strict=True) if line != was]
    covered = {variable.name for variable in _summarized(machine, lane)}
    lines.extend(text for variable, text in changed if variable.name not in covered)
    return tuple(lines)


def _summary(machine: Machine, lane: Lane, state: State) -> tuple[str, ...]:
    """The lines that say what a lane has in a state."""
    lines = []
    for parts in LINES.get(lane.sort, ()):
        shown = []
        for prefix, names in parts:
            variable = _variable(machine.system, names, lane.sort)
            if variable is not None:
                text = _told(machine, lane, state, variable)
                if text != "none":
                    shown.append(f"{prefix}{text}")
        lines.append(" ".join(shown))
    return tuple(lines)


def _summarized(machine: Machine, lane: Lane) -> list[Variable]:
    found = (
        _variable(machine.system, names, lane.sort)
        for parts in LINES.get(lane.sort, ())
        for _, names in parts
    )
    return [variable for variable in found if variable is not None]


def _variable(system: System, names: tuple[str, ...], sort: str) -> Variable | None:
    """The variable of one of these names, if the sort is its first index and layers the rest."""
    for name in names:
        variable = system.variables.get(name)
        if variable is not None:
            domain = [kind.name for kind in variable.domain]
            if domain[:1] == [sort] and all(kind == "Layer" for kind in domain[1:]):
                return variable
    return None


def _told(machine: Machine, lane: Lane, state: State, variable: Variable) -> str:
    table = state.tables[list(machine.system.variables).index(variable.name)]
    values = [
        value
        for index, value in zip(indices(variable, machine.instance), table, strict=True)
        if index[0] == lane.member
    ]
    if variable.type.kind == "bool":
        return ",".join("1" if value else "0" for value in values)
    return ",".join(show_value(variable.type, value) for value in values)
