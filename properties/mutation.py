"""Mutants: the specification with one place changed, to see that a claim notices.

A claim that no change of the specification breaks says nothing, and a guard that can go unnoticed has
no reason. Each mutant is made by one named operator at one place:

drop-guard        the guard always holds
drop-assignment   the variable keeps its value
plus-one          one more is assigned to a natural
minus-one         one less is assigned to a natural, if there is one less (not to the literal 0)
negate            the opposite is assigned to a truth value
next-member       the next member of the enumeration is assigned
nobody            none is assigned to an option
somebody          the first member is assigned to an option where none should be
skip-first        an assignment for all members of a sort leaves the first one out

Assigned values of refusals with an effect are mutated like those of accepted steps. Where a value is a
choice of `where(hit, new, old)`, the operator changes `new` alone.
All mutants are put into one system as `Variant` nodes, so that an engine compiles once and is told which
one to read; number 0 is the specification itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache

import attrs

from kvspec.spec.language import (
    TRUE,
    Action,
    Assignment,
    Const,
    Expr,
    Guard,
    Instance,
    Op,
    Read,
    System,
    Variant,
    same,
    where,
)
from kvspec.spec.language.expr import select_variant


@attrs.frozen
class Mutant:
    """One change: an operator at a place of an action.

    number: its variant. code: the guard that it drops, or in whose refusal it changes an assignment.
    variable: the variable whose assignment it changes.
    """

    number: int
    operator: str
    action: str
    code: str | None
    variable: str | None

    @property
    def name(self) -> str:
        """The mutant's name, `publish.drop-guard.STALE_SNAPSHOT`, unique in its system."""
        place = ".".join(part for part in (self.code, self.variable) if part)
        return f"{self.action}.{self.operator}.{place}"

    @property
    def description(self) -> str:
        """What is changed, as a sentence."""
        if self.variable is None:
            return f"{self.action} does not check {self.code}"
        where_ = f"{self.action} refused with {self.code}" if self.code else self.action
        return f"{where_}: {_SAID[self.operator].format(variable=self.variable)}"


_SAID = {
    "drop-assignment": "{variable} keeps its value",
    "plus-one": "{variable} gets one more",
    "minus-one": "{variable} gets one less",
    "negate": "{variable} gets the opposite",
    "next-member": "{variable} gets the next member of its enumeration",
    "nobody": "{variable} gets none",
    "somebody": "{variable} gets the first member instead of none",
    "skip-first": "{variable} is not assigned for the first member",
}


class _Numbering:
    """Hands out mutant numbers, and remembers what each one is."""

    def __init__(self) -> None:
        self.mutants: list[Mutant] = []

    def variant(
        self,
        plain: Expr,
        altered: Expr,
        operator: str,
        action: str,
        code: str | None,
        variable: str | None,
    ) -> Expr:
        number = len(self.mutants) + 1
        self.mutants.append(Mutant(number, operator, action, code, variable))
        return Variant(plain.type, number, plain, altered)


@attrs.frozen
class Mutated:
    """A system with all its mutants inside, and their list. original: the system without them."""

    original: System
    system: System
    mutants: tuple[Mutant, ...]

    def named(self, name: str) -> Mutant:
        """The mutant of that name."""
        for mutant in self.mutants:
            if mutant.name == name:
                return mutant
        near = [
            m.name for m in self.mutants if m.name.split(".")[0] == name.split(".", maxsplit=1)[0]
        ]
        raise KeyError(f"no mutant {name!r} of {self.system.name}; near it: {', '.join(near)}")

    def on(self, instance: Instance) -> Instance:
        """The instance of the specification, as one of this system; nothing is expected of counts."""
        return attrs.evolve(instance, system=self.system, expected=None)

    def select(self, mutant: Mutant) -> System:
        """The system of one mutant, free of variants: all actions but the one that it changes are its own."""
        changed = _map_action(
            self.system.actions[mutant.action], lambda e: select_variant(e, mutant.number)
        )
        actions = {**self.original.actions, mutant.action: changed}
        return attrs.evolve(self.original, actions=actions)


@cache
def mutate(system: System) -> Mutated:
    """The system with every mutant of every operator, in order of the text."""
    numbering = _Numbering()
    actions = {name: _mutate_action(action, numbering) for name, action in system.actions.items()}
    return Mutated(system, attrs.evolve(system, actions=actions), tuple(numbering.mutants))


def _mutate_action(action: Action, numbering: _Numbering) -> Action:
    guards = []
    for guard in action.guards:
        code = guard.code.name
        condition = numbering.variant(guard.condition, TRUE, "drop-guard", action.name, code, None)
        refusal = tuple(_mutate(done, numbering, action.name, code) for done in guard.refusal)
        guards.append(Guard(condition, guard.code, refusal, guard.place))
    assignments = tuple(_mutate(done, numbering, action.name, None) for done in action.assignments)
    return attrs.evolve(action, guards=tuple(guards), assignments=assignments)


def _mutate(done: Assignment, numbering: _Numbering, action: str, code: str | None) -> Assignment:
    value = done.value
    for operator, altered in _alterations(done):
        if not same(altered, done.value):
            value = numbering.variant(value, altered, operator, action, code, done.variable.name)
    return attrs.evolve(done, value=value)


def _alterations(done: Assignment) -> Iterator[tuple[str, Expr]]:
    """Every operator that fits an assignment, with the value it gives."""
    old = Read(done.variable.type, done.variable, done.index)
    yield "drop-assignment", old
    for operator, change in _changes(done.variable.type.kind):
        altered = _within_choice(done.value, old, change)
        if altered is not None:
            yield operator, altered
    if done.binders:
        first = Const(done.binders[-1].type, 0)
        if done.binders[-1].type.kind == "open":
            yield "skip-first", where(done.binders[-1] == first, old, done.value)


_Change = Callable[[Expr], Expr | None]


def _changes(kind: str) -> list[tuple[str, _Change]]:
    changes: dict[str, list[tuple[str, _Change]]] = {
        "natural": [("plus-one", _plus), ("minus-one", _minus)],
        "bool": [("negate", _negate)],
        "enum": [("next-member", _next)],
        "option": [("nobody", _nobody), ("somebody", _somebody)],
    }
    return changes.get(kind, [])


def _within_choice(value: Expr, old: Expr, change: _Change) -> Expr | None:
    """The change applied to a value, or to the new part of `where(hit, new, old)`; None: no change."""
    if isinstance(value, Op) and value.op == "ite" and same(value.args[2], old):
        inner = change(value.args[1])
        return None if inner is None else Op(value.type, "ite", (value.args[0], inner, old))
    return change(value)


def _plus(value: Expr) -> Expr | None:
    return value + 1


def _minus(value: Expr) -> Expr | None:
    if isinstance(value, Const) and value.value == 0:
        return None
    return where(value >= 1, value - 1, value)


def _negate(value: Expr) -> Expr | None:
    return ~value


def _next(value: Expr) -> Expr | None:
    if not isinstance(value, Const):
        return None
    members = value.type.members
    return Const(value.type, members[(members.index(str(value.value)) + 1) % len(members)])


def _is_none(value: Expr) -> bool:
    return isinstance(value, Const) and value.value is None


def _nobody(value: Expr) -> Expr | None:
    return None if _is_none(value) else Const(value.type, None)


def _somebody(value: Expr) -> Expr | None:
    if not _is_none(value) or value.type.of is None:
        return None
    return Op(value.type, "some", (Const(value.type.of, 0),))


def _map_action(action: Action, change: Callable[[Expr], Expr]) -> Action:
    """The action with every expression changed."""

    def mapped(done: Assignment) -> Assignment:
        index = tuple(change(part) for part in done.index)
        return attrs.evolve(done, index=index, value=change(done.value))

    guards = tuple(
        Guard(change(g.condition), g.code, tuple(mapped(d) for d in g.refusal), g.place)
        for g in action.guards
    )
    return attrs.evolve(
        action, guards=guards, assignments=tuple(mapped(done) for done in action.assignments)
    )
