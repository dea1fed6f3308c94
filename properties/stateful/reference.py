"""Backends that follow the specification, or a changed one: they show what the machine can catch.

`SpecBackend` is sound, and `MutantBackend` is a mutant of the specification. The others are sound but for
one fault that no mutant has: it lies in the answer, in what can be observed, or in the moment at which a
change becomes visible. The decode backend of `kvspec.models.decode` is a cache with data of its own.
"""

from __future__ import annotations

import attrs

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete import Event, Machine, Outcome, State
from kvspec.properties.mutation import mutate
from kvspec.spec.language import Instance, Variable


class SpecBackend:
    """The specification itself as a backend: sound by definition."""

    def __init__(self) -> None:
        self._instance: Instance | None = None
        self._at_hand: Machine | None = None
        self._outcomes: dict[tuple[State, Event], Outcome] = {}
        self._state = State(())

    @property
    def machine(self) -> Machine:
        """The machine that answers; there is one after a reset."""
        if self._at_hand is None:
            raise RuntimeError("the backend has no instance yet: call reset first")
        return self._at_hand

    def make_machine(self, instance: Instance) -> Machine:
        """The machine for an instance."""
        return Machine(instance)

    def reset(self, instance: Instance) -> None:
        """Begin anew in the first initial state."""
        if instance is not self._instance:
            self._instance, self._at_hand = instance, self.make_machine(instance)
            self._outcomes = {}
        self._state = self.machine.initial_states()[0]

    def perform(self, event: Event) -> Reply:
        """Do what the machine does."""
        outcome = self.step(event)
        self._state = outcome.state
        detail = str(outcome.refusal) if outcome.refusal else ""
        return Reply(outcome.kind == "accepted", outcome.code, detail)

    def step(self, event: Event) -> Outcome:
        """What the machine makes of an event."""
        key = (self._state, event)
        if key not in self._outcomes:
            self._outcomes[key] = self.machine.step(*key)
        return self._outcomes[key]

    def observe(self) -> State:
        """The machine's state."""
        return self._state

    def damage(self) -> list[Damage]:
        """None: the specification has no rows that could be harmed."""
        return []


class MutantBackend(SpecBackend):
    """A mutant of the specification as a backend: `MutantBackend("publish.drop-guard.NOT_PREPARED")`."""

    def __init__(self, mutant: str) -> None:
        super().__init__()
        self.mutant = mutant

    def make_machine(self, instance: Instance) -> Machine:
        """The machine of the instance with the mutant's rule."""
        mutated = mutate(instance.system)
        return Machine(mutated.on(instance), mutated.named(self.mutant).number)


class AcceptsBackend(SpecBackend):
    """Accepts what it should refuse with one code, and does nothing: a refusal that nobody hears of."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code

    def perform(self, event: Event) -> Reply:
        """Hide the refusal."""
        reply = super().perform(event)
        return Reply(accepted=True) if reply.code == self.code else reply


class WrongCodeBackend(SpecBackend):
    """Refuses what it must, but gives one code for another."""

    def __init__(self, code: str, instead: str) -> None:
        super().__init__()
        self.code = code
        self.instead = instead

    def perform(self, event: Event) -> Reply:
        """Replace the code."""
        reply = super().perform(event)
        return attrs.evolve(reply, code=self.instead) if reply.code == self.code else reply


class MeddlingBackend(SpecBackend):
    """A refusal with one code changes the state all the same: the assignments are carried out."""

    def __init__(self, action: str, code: str) -> None:
        super().__init__()
        self.action = action
        self.code = code

    def perform(self, event: Event) -> Reply:
        """Refuse, and do it nevertheless."""
        before = self._state
        reply = super().perform(event)
        if reply.code == self.code and event.action == self.action:
            rule = self.machine.system.action(event.action)
            unguarded = attrs.evolve(rule, guards=())
            actions = {**self.machine.system.actions, event.action: unguarded}
            system = attrs.evolve(self.machine.system, actions=actions)
            forced = Machine(attrs.evolve(self.machine.instance, system=system))
            self._state = forced.step(before, event).state
        return reply


class LayerwiseBackend(SpecBackend):
    """Makes what one action writes visible layer by layer: the last layer at the next event only."""

    def __init__(self, action: str, *tables: Variable) -> None:
        super().__init__()
        self.action = action
        self.tables = tables
        self._shown: State | None = None

    def reset(self, instance: Instance) -> None:
        """Begin anew with nothing held back."""
        super().reset(instance)
        self._shown = None

    def perform(self, event: Event) -> Reply:
        """Publish; the last layer stays as it was until the next event."""
        before = self._state
        reply = super().perform(event)
        held = reply.accepted and event.action == self.action
        self._shown = self._without_last_layer(before) if held else None
        return reply

    def observe(self) -> State:
        """What a reader sees: the last layer may lag behind."""
        return self._shown or self._state

    def _without_last_layer(self, before: State) -> State:
        order = list(self.machine.system.variables.values())
        tables = list(self._state.tables)
        for variable in self.tables:
            place = order.index(variable)
            layers = self.machine.instance.members(variable.domain[-1])
            pairs = zip(before.tables[place], tables[place], strict=True)
            tables[place] = tuple(
                old if n % layers == layers - 1 else new for n, (old, new) in enumerate(pairs)
            )
        return State(tuple(tables))


class StaleBackend(SpecBackend):
    """Its observation lies: after one action it shows the state before it."""

    def __init__(self, action: str) -> None:
        super().__init__()
        self.action = action
        self._shown: State | None = None

    def reset(self, instance: Instance) -> None:
        """Begin anew with nothing to hide."""
        super().reset(instance)
        self._shown = None

    def perform(self, event: Event) -> Reply:
        """Do as specified and remember what to show."""
        before = self._state
        reply = super().perform(event)
        self._shown = before if reply.accepted and event.action == self.action else None
        return reply

    def observe(self) -> State:
        """The state before the last event, if that is the one about which this backend lies."""
        return self._shown or self._state
