"""Footprints: which cells an operation may read and write, taken from the trees of its action.

Two operations conflict if one may write what the other may read or write. Operations that share no
conflict, directly or through others, are checked apart; and one that conflicts with nothing that could
still come before it need not wait (`models.explicit.linear`).

A cell that has one value in all states reached is no cell that matters, and a write that leaves it so is
none. An index that a cell tells (the handle of an append) is followed: to the cells that it may name in
the states reached. An operation that was told its answer reads what decides that answer and writes what
such an answer writes, no more.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import attrs

from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import State, Value, values_of
from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.linearizability.abstract import Evaluator, Reached, Values
from kvspec.properties.linearizability.history import Read as CellRead
from kvspec.properties.linearizability.history import Told
from kvspec.spec.language import (
    Action,
    Assignment,
    Expr,
    Instance,
    MapSymbol,
    Op,
    Read,
    Symbol,
    Variant,
)
from kvspec.spec.language.expr import key


@attrs.frozen
class Shape:
    """An event without its naturals: its action, and its parameters in order, None for a natural."""

    action: str
    values: tuple[Bound, ...]


@attrs.frozen
class Footprint:
    """The cells that an operation may read, may write and certainly writes, as bits."""

    reads: int
    writes: int
    certain: int = 0

    def conflicts(self, other: Footprint) -> bool:
        """One may write what the other may read or write."""
        return bool(
            self.writes & (other.reads | other.writes) or other.writes & (self.reads | self.writes)
        )


def shape_of(action: Action, values: tuple[Bound, ...]) -> Shape:
    """The shape of an event by its values in the order of the parameters."""
    kept = [
        None if _is_natural(p) else value
        for p, value in zip(action.parameters, values, strict=True)
    ]
    return Shape(action.name, tuple(kept))


class Footprints:
    """The footprints of events of some shapes, in the states that these reach from a start."""

    def __init__(
        self, instance: Instance, start: State, shapes: Iterable[Shape], limits: Limits
    ) -> None:
        self.instance = instance
        self.shapes: frozenset[Shape] = frozenset()
        self.reached = Reached(instance, start, limits)
        self._made: dict[tuple[Shape, Told | None], Footprint] = {}
        self.extend(shapes)

    def extend(self, shapes: Iterable[Shape]) -> bool:
        """Take in more shapes; whether that changes what was found of the others."""
        waiting: Iterable[Shape] = frozenset(shapes) - self.shapes
        self.shapes |= frozenset(waiting)
        changes = False
        while True:
            self.reached.grown = False
            for shape in waiting:
                _Walk(self, shape, None).run()
            if not self.reached.grown:
                break
            changes, waiting = True, self.shapes
        if changes:
            self._made = {}
        return changes

    def of_event(self, shape: Shape, told: Told | None) -> Footprint:
        """The footprint of an event that was told this; None: it may be told anything, or nothing."""
        if (shape, told) not in self._made:
            walk = _Walk(self, shape, told)
            walk.run()
            if self.reached.grown:
                raise RuntimeError(
                    f"{shape} reaches states that it did not: it is none of the shapes"
                )
            self._made[shape, told] = Footprint(walk.reads, walk.writes, max(walk.certain, 0))
        return self._made[shape, told]

    def of_read(self, read: CellRead) -> Footprint:
        """The footprint of a read."""
        variables = self.instance.system.variables
        bits = 0
        for cell in read.cells:
            place = self.reached.place(variables[cell.variable], *cell.index)
            values = self.reached.cells[place]
            bits |= 0 if values is not None and len(values) == 1 else 1 << place
        return Footprint(bits, 0)


class _Walk:
    """One event through its guards and assignments, over abstract values."""

    def __init__(self, footprints: Footprints, shape: Shape, told: Told | None) -> None:
        self.reached = footprints.reached
        self.instance = footprints.instance
        self.action = self.instance.system.action(shape.action)
        self.shape = shape
        self.told = told
        self.reads = 0
        self.writes = 0
        self.certain = -1  # all, until a case has been seen
        self.eval = Evaluator(self.reached)
        for parameter, value in zip(self.action.parameters, shape.values, strict=True):
            if value is not None or not _is_natural(parameter):
                self.eval.names[parameter.name] = value

    def run(self) -> None:
        """Walk through each case of the records that the parameters name."""
        owners = list(self._owners())
        for owner in owners:
            self.reads |= self._record_bits(owner)
        choices = [sorted(self.reached.records[owner], key=repr) for owner in owners]
        for chosen in product(*choices):
            self.eval.case = {}
            for owner, record in zip(owners, chosen, strict=True):
                self.eval.case.update(zip(self._places(owner), record, strict=True))
            self._case()
        self.eval.case = {}

    def _owners(self) -> Iterator[tuple[str, int]]:
        seen = set()
        for parameter, value in zip(self.action.parameters, self.shape.values, strict=True):
            if isinstance(parameter, Symbol) and parameter.type.kind == "open":
                owner = parameter.type.name, int(value)  # type: ignore[arg-type]
                if owner[0] in self.reached.groups and owner not in seen:
                    seen.add(owner)
                    yield owner

    def _places(self, owner: tuple[str, int]) -> list[int]:
        sort, member = owner
        return [self.reached.place(v, member) for v in self.reached.groups[sort]]

    def _record_bits(self, owner: tuple[str, int]) -> int:
        bits = 0
        for place in self._places(owner):
            values = self.reached.cells[place]
            bits |= 0 if values is not None and len(values) == 1 else 1 << place
        return bits

    def _case(self) -> None:
        """The guards in order, as far as the answer depends on them."""
        self.reached.limits.check()
        told = self.told
        codes = [guard.code.name for guard in self.action.guards]
        last = len(codes)
        if told is not None and not told.accepted and told.code is not None:
            last = max((n for n, code in enumerate(codes, 1) if code == told.code), default=0)
        for guard in self.action.guards[:last]:
            condition = self.eval.find(guard.condition)
            self.reads |= condition.reads
            if condition.is_only(True):
                continue
            if told is None or (not told.accepted and told.code in (None, guard.code.name)):
                self._assign(guard.refusal)
            if condition.is_only(False):
                return
        if told is None or told.accepted:
            self._assign(self.action.assignments)
            self.certain &= self._certainly(self.action.assignments) if told is not None else 0

    def _certainly(self, assignments: tuple[Assignment, ...]) -> int:
        """The cells that assignments put whatever the state, outside of `every`."""
        bits, outer = 0, dict(self.eval.names)
        for done in assignments:
            for _ in self.eval.members(done.binders):
                cells, _reads = self.eval.cells(done.variable, done.index)
                bits |= 1 << cells[0] if len(cells) == 1 else 0
        self.eval.names = outer
        return bits

    def _assign(self, assignments: tuple[Assignment, ...]) -> None:
        """What the assignments may write, apart for each member that they are made for."""
        outer = dict(self.eval.names)
        fixed = set(self._owners())
        apart: dict[tuple[tuple[str, int], ...], list[tuple[Assignment, dict[str, Any]]]] = {}
        for done in assignments:
            for members in self.eval.members(done.binders):
                owners = tuple(
                    (binder.type.name, int(member or 0))
                    for binder, member in zip(done.binders, members, strict=True)
                    if binder.type.name in self.reached.groups
                    and (binder.type.name, member) not in fixed
                )
                apart.setdefault(owners, []).append((done, dict(self.eval.names)))
        for owners, items in apart.items():
            self._assign_for(owners, items)
        self.eval.names = outer

    def _assign_for(
        self, owners: tuple[tuple[str, int], ...], items: list[tuple[Assignment, dict[str, Any]]]
    ) -> None:
        """Assignments for members that no parameter names, in each case of their records."""
        case, writes = dict(self.eval.case), False
        for records in product(*(sorted(self.reached.records[o], key=repr) for o in owners)):
            for owner, record in zip(owners, records, strict=True):
                self.eval.case.update(zip(self._places(owner), record, strict=True))
            for assumed in self._assumptions(items):
                self.eval.assumed = assumed
                put: dict[int, Values] = {}
                for done, names in items:
                    self.eval.names = names
                    writes |= self._one(done, put)
                self._grow(put)
            self.eval.assumed = {}
        self.eval.case = case
        if writes:
            for owner in owners:
                self.reads |= self._record_bits(owner)

    def _assumptions(self, items: list[tuple[Assignment, dict[str, Any]]]) -> list[dict[Any, bool]]:
        """Both ways of the one open condition on which the records' new values depend, if it is one."""
        conditions = set()
        for done, names in items:
            if any(done.variable in group for group in self.reached.groups.values()):
                self.eval.names = names
                value = self._resolved(done.value)
                if isinstance(value, Op) and value.op == "ite":
                    conditions.add(key(value.args[0]))
        if len(conditions) != 1:
            return [{}]
        (only,) = conditions
        return [{only: True}, {only: False}]

    def _resolved(self, value: Expr) -> Expr:
        """The value as far as its conditions are known."""
        while True:
            if isinstance(value, Variant):
                value = value.plain
            elif isinstance(value, Op) and value.op == "ite":
                condition = self.eval.condition(value.args[0])
                if not condition.known:
                    return value
                self.reads |= condition.reads
                value = value.args[1 if condition.is_only(True) else 2]
            else:
                return value

    def _one(self, done: Assignment, put: dict[int, Values]) -> bool:
        """Whether the assignment may change a cell; `put` then has what it may be."""
        cells, reads = self.eval.cells(done.variable, done.index)
        value = self._resolved(done.value)
        if (
            isinstance(value, Read)
            and value.variable is done.variable
            and len(cells) == 1
            and self.eval.cells(value.variable, value.index)[0] == cells
        ):
            return False
        result = self.eval.find(value)
        if result.known and all(self.eval.values(cell) == result.values for cell in cells):
            return False
        self.reads |= reads | result.reads
        for cell in cells:
            self.writes |= 1 << cell
            self.reached.add(cell, result.values)
            old = frozenset() if len(cells) == 1 else self.eval.values(cell)
            new = result.values
            put[cell] = None if new is None or old is None else new | old
        return True

    def _grow(self, put: dict[int, Values]) -> None:
        """The records that there may be after cells were put."""
        for owner, records in self.reached.records.items():
            places = self._places(owner)
            if not any(place in put for place in places):
                continue
            known: tuple[Any, ...] = tuple(self.eval.case.get(p, _open) for p in places)
            before = sorted(records, key=repr) if _open in known else [known]
            for record in before:
                for new in product(*(
                    self._new_values(place, old, put)
                    for place, old in zip(places, record, strict=True)
                )):  # fmt: skip
                    self.reached.add_record(*owner, new)

    def _new_values(self, place: int, old: Value, put: dict[int, Values]) -> list[Any]:
        if place not in put:
            return [old]
        values = put[place]
        every = values_of(self.reached.types[place], self.instance)
        return [value for value in every if values is None or value in values]


_open = object()
"""Of a cell whose value no case tells."""


def _is_natural(parameter: Symbol | MapSymbol) -> bool:
    return isinstance(parameter, Symbol) and parameter.type.kind == "natural"
