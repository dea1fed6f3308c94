"""The machine of an instance: its initial states, and what every event does to a state."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import attrs

from kvspec.models.concrete.evaluate import Bound, Environment, evaluate
from kvspec.models.concrete.state import State, Value, indices, position, values_of
from kvspec.spec.language import (
    Action,
    Assignment,
    Expr,
    Guard,
    Instance,
    MapSymbol,
    Property,
    Symbol,
    Variable,
)


@attrs.frozen
class Event:
    """An action with a value for each parameter, in the order of the action's parameters."""

    action: str
    values: tuple[tuple[str, Bound], ...] = ()

    @property
    def names(self) -> dict[str, Bound]:
        """The parameters by name."""
        return dict(self.values)


@attrs.frozen
class Refusal:
    """Why an event was refused: the code, the guard as text, and what was found where it failed.

    found: each variable at an index that the guard reads, with its value. expected: the condition.
    """

    code: str
    expected: str
    found: str

    def __str__(self) -> str:
        return f"{self.code}: expected {self.expected}; found {self.found}"


@attrs.frozen
class Outcome:
    """What an event did. A refusal without effect leaves the state as it was.

    kind: "accepted", "refused" or "cut" (the step would leave the bounds of the instance).
    """

    kind: str
    state: State
    refusal: Refusal | None = None
    effect: bool = False

    @property
    def is_transition(self) -> bool:
        """An accepted step, or a refusal that assigns something."""
        return self.kind == "accepted" or (self.kind == "refused" and self.effect)

    @property
    def code(self) -> str | None:
        """The code of the refusal, if it was one."""
        return self.refusal.code if self.refusal else None


class Machine:
    """An instance, ready to step. `variant` reads the system as that mutant."""

    def __init__(self, instance: Instance, variant: int = 0) -> None:
        self.instance = instance
        self.system = instance.system
        self.variant = variant
        self._variables = list(self.system.variables.values())
        self._order = {variable.name: place for place, variable in enumerate(self._variables)}
        self._events: list[Event] | None = None

    def initial_states(self) -> list[State]:
        """Every state in which the instance may start."""
        blank = State(tuple(() for _ in self._variables))
        choices: list[list[Value]] = []
        shape: list[int] = []
        for variable in self._variables:
            places = list(indices(variable, self.instance))
            shape.append(len(places))
            choices.extend(self._initial(variable, index, blank) for index in places)
        states = []
        for picked in product(*choices):
            tables, start = [], 0
            for size in shape:
                tables.append(tuple(picked[start : start + size]))
                start += size
            states.append(State(tuple(tables)))
        return states

    def events(self) -> list[Event]:
        """Every action with every value of its parameters."""
        if self._events is None:
            self._events = [
                event for action in self.system.actions.values() for event in self.events_of(action)
            ]
        return self._events

    def events_of(self, action: Action) -> Iterator[Event]:
        """Every event of one action."""
        ranges = [self._range(parameter) for parameter in action.parameters]
        names = [parameter.name for parameter in action.parameters]
        for values in product(*ranges):
            yield Event(action.name, tuple(zip(names, values, strict=True)))

    def within_limits(self, state: State, event: Event) -> bool:
        """Whether the instance tries the event in this state at all."""
        action = self.system.action(event.action)
        env = self.environment(state, names=event.names)
        return all(evaluate(limit, env) for limit in self.instance.limits_on(action))

    def step(self, state: State, event: Event) -> Outcome:
        """What the event does to the state; limits are not looked at."""
        action = self.system.action(event.action)
        env = self.environment(state, names=event.names)
        for guard in action.guards:
            if not evaluate(guard.condition, env):
                refusal = Refusal(guard.code.name, repr(guard.condition), self.found(guard, env))
                after = self._apply(guard.refusal, env)
                if after is None:
                    return Outcome("cut", state)
                return Outcome("refused", after, refusal, effect=bool(guard.refusal))
        after = self._apply(action.assignments, env)
        return Outcome("cut", state) if after is None else Outcome("accepted", after)

    def transitions(self, state: State) -> list[tuple[Event, Outcome]]:
        """Every transition from a state: accepted steps and refusals with an effect, within limits."""
        found = []
        for event in self.events():
            if self.within_limits(state, event):
                outcome = self.step(state, event)
                if outcome.is_transition:
                    found.append((event, outcome))
        return found

    def enabled(self, state: State) -> list[Event]:
        """The events that would be accepted, within limits."""
        return [event for event, outcome in self.transitions(state) if outcome.kind == "accepted"]

    def environment(
        self,
        state: State,
        *,
        after: State | None = None,
        names: dict[str, Bound] | None = None,
        fired: tuple[str, str | None] | None = None,
    ) -> Environment:
        """An environment in which expressions of this system are evaluated."""
        return Environment(
            self.instance, self._order, state, after, names or {}, fired, self.variant
        )

    def holds(
        self,
        claim: Property | Expr,
        state: State,
        event: Event | None = None,
        outcome: Outcome | None = None,
    ) -> bool:
        """Whether a formula holds in a state, or of the step from it by `event`."""
        body = claim.body if isinstance(claim, Property) else claim
        after = outcome.state if outcome else None
        fired = (event.action, outcome.code if outcome else None) if event else None
        return bool(evaluate(body, self.environment(state, after=after, fired=fired)))

    def value(self, state: State, variable: str, *index: Value) -> Value:
        """The value of a variable at an index."""
        found = self.system.variables[variable]
        return state.tables[self._order[variable]][position(found, index, self.instance)]

    def found(self, guard: Guard, env: Environment) -> str:
        """The values that made a guard fail, as text."""
        from kvspec.models.concrete.text import show_reads

        return show_reads(guard.condition, env)

    def _initial(self, variable: Variable, index: tuple[Value, ...], blank: State) -> list[Value]:
        pinned = self.instance.initial.get(variable.name)
        start = pinned if pinned is not None else variable.initial
        if not isinstance(start, Expr):
            return values_of(variable.type, self.instance)
        names: dict[str, Bound] = {
            binder.name: value for binder, value in zip(variable.binders, index, strict=True)
        }
        value = evaluate(start, self.environment(blank, names=names))
        if value not in values_of(variable.type, self.instance):
            raise ValueError(
                f"{variable.name} starts at {value}, outside {variable.type} in {self.instance!r}: "
                "raise the bound or change the initial value"
            )
        return [value]

    def _range(self, parameter: Symbol | MapSymbol) -> list[Bound]:
        if isinstance(parameter, Symbol):
            return list(values_of(parameter.type, self.instance))
        size = self.instance.members(parameter.domain)
        return list(product(values_of(parameter.codomain, self.instance), repeat=size))

    def _apply(self, assignments: tuple[Assignment, ...], env: Environment) -> State | None:
        """The state after the assignments, or None if a value leaves its bounds."""
        tables: dict[int, list[Value]] = {}
        for done in assignments:
            place = self._order[done.variable.name]
            table = tables.setdefault(place, list(env.state.tables[place]))
            ranges = [values_of(binder.type, self.instance) for binder in done.binders]
            for members in product(*ranges):
                names: dict[str, Bound] = {
                    b.name: m for b, m in zip(done.binders, members, strict=True)
                }
                inner = env.bind(names) if names else env
                value = evaluate(done.value, inner)
                if done.variable.type.kind == "natural":
                    bound = self.instance.bounds[done.variable.type.name]
                    if not 0 <= int(value or 0) <= bound:
                        return None
                index = tuple(evaluate(part, inner) for part in done.index)
                table[position(done.variable, index, self.instance)] = value
        return State(
            tuple(
                tuple(tables[place]) if place in tables else old
                for place, old in enumerate(env.state.tables)
            )
        )
