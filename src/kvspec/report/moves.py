"""Moves: which step takes which variable of an enumeration from which member to which.

They are found by running a small instance, not by reading the text of actions, so that a diagram shows
what happens. That it shows everything that can happen, on instances of any size, is a claim of its own:
`are_all_moves` states it for a solver.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import attrs

from kvspec.models.concrete import Machine, State, evaluate
from kvspec.spec.language import (
    Const,
    Expr,
    Instance,
    Open,
    Properties,
    Symbol,
    System,
    Variable,
    after,
    any_of,
    fired,
    forall,
    type_of,
)

LARGEST = 20_000


@attrs.frozen(order=True)
class Move:
    """A step of `action` (refused with `code`, if that is given) changes the value of `variable`."""

    variable: str
    before: str
    after: str
    action: str
    code: str | None


class TooLargeError(Exception):
    """The instance has more states than are wanted."""

    def __init__(self, instance: Instance, limit: int) -> None:
        self.instance, self.limit = instance, limit
        super().__init__(f"{instance!r} has more than {limit:,} states")


def enumerated(system: System) -> list[Variable]:
    """The variables whose values are members of an enumeration."""
    return [v for v in system.variables.values() if v.type.kind == "enum"]


def starts(instance: Instance, variable: str) -> list[str]:
    """The members from which the variable starts."""
    machine = Machine(instance)
    place = list(machine.system.variables).index(variable)
    found = {str(value) for state in machine.initial_states() for value in state.tables[place]}
    return sorted(found)


def moves_on(instance: Instance, largest: int = LARGEST) -> set[Move]:
    """Every move on one instance, which must be small."""
    machine = Machine(instance)
    places = [
        (place, variable.name)
        for place, variable in enumerate(machine.system.variables.values())
        if variable.type.kind == "enum"
    ]
    found: set[Move] = set()
    seen: set[State] = set(machine.initial_states())
    frontier = list(seen)
    while frontier:
        state = frontier.pop()
        for event, outcome in machine.transitions(state):
            for place, name in places:
                pairs = zip(state.tables[place], outcome.state.tables[place], strict=True)
                found |= {
                    Move(name, str(old), str(new), event.action, outcome.code)
                    for old, new in pairs
                    if old != new
                }
            if outcome.state not in seen:
                seen.add(outcome.state)
                frontier.append(outcome.state)
                if len(seen) > largest:
                    raise TooLargeError(instance, largest)
    return found


def instances_to_draw(system: System, named: Sequence[Instance]) -> list[Instance]:
    """Small instances on which every move of the system happens."""
    from kvspec.spec import core

    if system is not core.system:
        return list(named[:1])
    lives = core.make_instance(
        "LIVES", "two requests, no append", handles=2, txns=0, layers=0, generations=2
    )
    return [lives, core.TINY]


def moves_of(instances: Iterable[Instance]) -> list[Move]:
    """Every move on some instance: by variable, then in the order of the enumerations and actions."""
    listed = list(instances)
    found = {move for instance in listed for move in moves_on(instance)}
    if not listed:
        return []
    system = listed[0].system
    actions = list(system.actions)

    def key(move: Move) -> tuple[int, int, int, int, int]:
        members = system.variables[move.variable].type.members
        codes = [guard.code.name for guard in system.actions[move.action].guards]
        return (
            list(system.variables).index(move.variable),
            members.index(move.before),
            members.index(move.after),
            actions.index(move.action),
            codes.index(move.code) if move.code else -1,
        )

    return sorted(found, key=key)


def are_all_moves(properties: Properties, moves: Iterable[Move]) -> Properties:
    """The claims about a system with one more for each enumeration: it makes these moves and no others.

    The added claims are step properties named `moves_of_VARIABLE`.
    """
    result = Properties(properties.system)
    result.by_name.update(properties.by_name)
    listed = list(moves)
    for variable in enumerated(properties.system):
        formula = _nothing_else(variable, [m for m in listed if m.variable == variable.name])

        def claim(formula: Expr = formula) -> Expr:
            return formula

        claim.__name__ = f"moves_of_{variable.name}"
        claim.__doc__ = f"{variable.name} makes the moves of the diagram and no others."
        result.step(claim)
    return result


def projected_moves(
    instances: Iterable[Instance], name: str, index: type[Open], formula: Callable[[Expr], Expr]
) -> list[Move]:
    """The moves of a projection, a formula of one member whose value is a member of an enumeration."""
    from kvspec.models.explicit import graph

    bound = Symbol(type_of(index), "member", "bound")
    body = formula(bound)
    found: set[Move] = set()
    actions: list[str] = []
    for instance in instances:
        machine = Machine(instance)
        actions = list(machine.system.actions)
        members = range(instance.sizes[bound.type.name])
        whole = graph(instance, max_states=LARGEST)
        if not whole.complete:
            raise TooLargeError(instance, LARGEST)
        values = [
            [
                evaluate(body, machine.environment(whole.state(n), names={"member": m}))
                for m in members
            ]
            for n in range(len(whole))
        ]
        for edge, (source, target) in enumerate(zip(whole.source, whole.target, strict=True)):
            for old, new in zip(values[source], values[target], strict=True):
                if old != new:
                    event, code = whole.event(edge)
                    found.add(Move(name, str(old), str(new), event.action, code))
    order = body.type.members
    return sorted(
        found,
        key=lambda m: (
            order.index(m.before),
            order.index(m.after),
            actions.index(m.action),
            m.code or "",
        ),
    )


def are_all_projected_moves(
    properties: Properties,
    index: type[Open],
    formula: Callable[[Expr], Expr],
    moves: list[Move],
    last: str,
) -> Properties:
    """The claims about a system with one more: up to `last` the projection makes these moves alone."""
    result = Properties(properties.system, given=properties.given)
    result.by_name.update(properties.by_name)

    @result.step
    def moves_of_the_projection() -> Expr:
        """The projection makes the moves of the diagram and no others."""
        return forall(
            index,
            lambda h: any_of(
                formula(h) == Const(formula(h).type, last), _moves_from(formula(h), moves)
            ),
        )

    return result


def _nothing_else(variable: Variable, moves: list[Move]) -> Expr:
    def at(*index: Expr) -> Expr:
        return _moves_from(variable[index], moves)

    return forall(*variable.domain, at) if variable.domain else at()


def _moves_from(old: Expr, moves: list[Move]) -> Expr:
    new = after(old)
    return any_of(
        old == new,
        *(
            fired(move.action, move.code)
            & (old == Const(old.type, move.before))
            & (new == Const(old.type, move.after))
            for move in moves
        ),
    )
