"""Oracle: what the specification does on an event, remembered, and which claims a state breaks.

What is remembered is a function of state and event alone, so it saves time and guides nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.concrete import Event, Machine, Outcome, State
from kvspec.properties.stateful.plan import KINDS
from kvspec.spec.language import Instance, Property


class Oracle:
    """The specification of an instance. Events go by number, as in `Machine.events()`.

    checked: names of claims that need no evaluation, because they hold of every state and step.
    """

    def __init__(
        self,
        instance: Instance,
        properties: Iterable[Property] = (),
        checked: frozenset[str] = frozenset(),
    ) -> None:
        self.instance = instance
        self.machine = Machine(instance)
        self.events = self.machine.events()
        self.initial = self.machine.initial_states()
        self.claims = [claim for claim in properties if claim.kind in KINDS]
        self._open = [claim for claim in self.claims if claim.name not in checked]
        self._outcomes: dict[tuple[State, int], Outcome | None] = {}
        self._broken: dict[tuple[State, int], str] = {}
        self._sorted: dict[State, tuple[list[int], list[int]]] = {}
        self._by_action: list[list[int]] = []
        for action in instance.system.actions:
            numbers = [n for n, event in enumerate(self.events) if event.action == action]
            if numbers:
                self._by_action.append(numbers)

    def outcome(self, state: State, number: int) -> Outcome | None:
        """What the event does; None if the instance does not try it here or it leaves the bounds."""
        key = (state, number)
        if key not in self._outcomes:
            event = self.events[number]
            found = None
            if self.machine.within_limits(state, event):
                found = self.machine.step(state, event)
                if found.kind == "cut":
                    found = None
            self._outcomes[key] = found
        return self._outcomes[key]

    def enabled(self, state: State) -> list[int]:
        """The events that are accepted in a state."""
        return self._sorted_out(state)[0]

    def refused(self, state: State) -> list[int]:
        """The events that are refused in a state."""
        return self._sorted_out(state)[1]

    def _sorted_out(self, state: State) -> tuple[list[int], list[int]]:
        if state not in self._sorted:
            found = [(n, self.outcome(state, n)) for n in range(len(self.events))]
            self._sorted[state] = (
                [n for n, outcome in found if outcome is not None and outcome.refusal is None],
                [n for n, outcome in found if outcome is not None and outcome.refusal is not None],
            )
        return self._sorted[state]

    def is_enabled(self, state: State, number: int) -> bool:
        """Whether the event is accepted in the state."""
        found = self.outcome(state, number)
        return found is not None and found.kind == "accepted"

    def plainest(self, state: State, number: int) -> int:
        """The first event of the same action that is accepted here; the event itself if none is."""
        name = self.events[number].action
        for other, event in enumerate(self.events):
            if event.action == name and self.is_enabled(state, other):
                return other
        return number

    def pick(self, state: State, which: int, of: int, turn: int) -> int:
        """An event for a number that was drawn from `of` numbers: all actions are about as likely.

        Of the numbers that stand for an action the least gives its plainest event, so that shrinking
        leads there; what the others give changes from turn to turn, so that all have theirs.
        """
        each = max(1, of // len(self._by_action))
        action, rest = divmod(which, each)
        numbers = self._by_action[action % len(self._by_action)]
        if rest == 0 and each > 1:
            return self.plainest(state, numbers[0])
        return numbers[(rest + turn) % len(numbers)]

    def broken(self, state: State) -> list[str]:
        """The claims about states that a state breaks, which may be one that no run reaches."""
        return [
            claim.name
            for claim in self.claims
            if claim.kind != "step" and not self.machine.holds(claim, state)
        ]

    def broken_by(self, before: State, number: int, outcome: Outcome) -> str:
        """The first claim, of those that need evaluation, that a step or its last state breaks."""
        if not self._open:
            return ""
        key = (before, number)
        if key not in self._broken:
            event = self.events[number]
            self._broken[key] = self._first_broken(before, event, outcome)
        return self._broken[key]

    def _first_broken(self, before: State, event: Event, outcome: Outcome) -> str:
        for claim in self._open:
            if claim.kind != "step":
                if not self.machine.holds(claim, outcome.state):
                    return claim.name
            elif outcome.is_transition and not self.machine.holds(claim, before, event, outcome):
                return claim.name
        return ""
