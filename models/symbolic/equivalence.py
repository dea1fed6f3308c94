"""Whether a changed action makes the same steps as the original one, in every state that matters.

A mutant that no claim notices is either a hole in the claims or no change at all: its guard
follows from the invariants, or its value is the same in all states that satisfy them. The second
is proved here. If it holds, the two systems have the same reachable states, by induction along
their steps, so the invariants of the original may be taken for granted.

same:ACTION:accepted   both accept the same calls
same:ACTION:codes      both refuse with the same code (asked for by `codes`)
same:ACTION:VARIABLE   both leave the variable with the same value, refusals with an effect included
"""

from __future__ import annotations

from collections.abc import Iterator

import attrs
import z3

from kvspec.models.concrete import Event, Machine, State, show_event, show_state
from kvspec.models.concrete import Outcome as ConcreteOutcome
from kvspec.models.symbolic.domain import Term
from kvspec.models.symbolic.evaluate import Scope
from kvspec.models.symbolic.obligations import PROVE, Obligation, Query
from kvspec.models.symbolic.prove import Prover
from kvspec.models.symbolic.verdicts import Progress, ProofReport
from kvspec.models.symbolic.world import Outcome, Taken, World, outcomes
from kvspec.spec.language import Action, Properties, System, Variable


@attrs.frozen(eq=False)
class Effect:
    """The state after a call, whether accepted or refused; `taken` are the transitions of the action."""

    scope: Scope
    taken: tuple[Taken, ...]

    def read(self, variable: Variable, index: tuple[Term, ...]) -> Term:
        """What the transition that is taken leaves, or what was there."""
        value = self.scope.before.read(variable, index)
        for taken in self.taken:
            if variable.name in taken.outcome.writes:
                enabled = self.scope.domain.conjunction(list(taken.enabled))
                value = z3.If(enabled, taken.after.read(variable, index), value)
        return value


class SameTransitions:
    """Compares changed actions of one system with the original; keeps what all comparisons share."""

    def __init__(
        self, system: System, properties: Properties, *, seconds_per_obligation: float = 10.0
    ) -> None:
        self.system = system
        # Most changes are no equivalence, and a small model says so sooner than a proof gives up.
        self.prover = Prover(system, properties, seconds=seconds_per_obligation, first_try=0.2)

    def compare(
        self,
        original: Action,
        changed: Action,
        *,
        codes: bool = False,
        workers: int = 0,
        progress: Progress | None = None,
    ) -> ProofReport:
        """`holds` if both make the same steps wherever the invariants hold; else what differs.

        codes: whether a call that both refuse must be refused with the same code. Every natural
        that the changed action assigns is compared as an integer: a value below 0 is a
        difference.
        """
        if [repr(p) for p in original.parameters] != [repr(p) for p in changed.parameters]:
            raise ValueError(
                f"{original.name} has the parameters {original.parameters}, the changed action "
                f"{changed.parameters}: compare actions that are called alike"
            )
        chosen = list(self.obligations(original, changed, codes=codes))
        return self.prover.run(chosen, workers, progress, until_failed=True)

    def obligations(
        self, original: Action, changed: Action, *, codes: bool
    ) -> Iterator[Obligation]:
        """What must be shown for the two to make the same steps."""
        variables = [
            variable
            for name, variable in self.system.variables.items()
            if any(name in found.writes for a in (original, changed) for found in outcomes(a))
        ]
        parts: list[tuple[str, Variable | None]] = [("accepted", None)]
        parts.extend((variable.name, variable) for variable in variables)
        if codes:
            parts.append(("codes", None))
        for part, variable in parts:
            yield self._obligation(original, changed, part, variable, codes=codes)

    def _obligation(
        self,
        original: Action,
        changed: Action,
        part: str,
        variable: Variable | None,
        *,
        codes: bool,
    ) -> Obligation:
        def build(world: World) -> Query:
            call = world.call(original)
            one, two = (_transitions(world, action, original) for action in (original, changed))
            if variable is not None:
                same = world.domain.quantify(
                    "forall",
                    variable.domain,
                    lambda index: one.read(variable, index) == two.read(variable, index),
                )
            elif part == "codes":
                same = _same_codes(world, original, changed)
            else:
                same = _accepts(world, original, original) == _accepts(world, changed, original)
            return Query([*call.inside, z3.Not(same)], call)

        def confirm(
            machine: Machine, before: State, event: Event, found: ConcreteOutcome
        ) -> str | None:
            return _difference(changed, machine, before, event, found, codes=codes)

        name = f"same:{original.name}:{part}"
        target = f"equality of {original.name} ({part})"
        return Obligation(
            name, "same", PROVE, build, action=original, target=target, confirm_step=confirm
        )


def prove_same_transitions(
    system: System,
    original: Action,
    changed: Action,
    properties: Properties,
    *,
    codes: bool = False,
    seconds_per_obligation: float = 10.0,
    workers: int = 0,
) -> ProofReport:
    """Whether a changed action makes the same steps wherever the invariants of the system hold.

    The report's verdict is `holds` (equivalent), `violated` (with a step that shows the
    difference in a state that satisfies the invariants, reachable or not) or `unknown`. For many
    actions of one system, `SameTransitions` translates the invariants once.
    """
    checker = SameTransitions(system, properties, seconds_per_obligation=seconds_per_obligation)
    return checker.compare(original, changed, codes=codes, workers=workers)


def _take(world: World, outcome: Outcome, original: Action) -> Taken:
    """An outcome of either action, called with the parameters of the original."""
    return world.take(outcome, call=attrs.evolve(world.call(original), action=outcome.action))


def _transitions(world: World, action: Action, original: Action) -> Effect:
    taken = tuple(_take(world, outcome, original) for outcome in outcomes(action))
    return Effect(taken[0].scope, taken)


def _accepts(world: World, action: Action, original: Action) -> Term:
    taken = _take(world, Outcome(action), original)
    return world.domain.conjunction(
        [taken.scope.value(guard.condition) for guard in taken.outcome.action.guards]
    )


def _same_codes(world: World, original: Action, changed: Action) -> Term:
    """Each code refuses in both or in neither."""
    codes = [guard.code.name for action in (original, changed) for guard in action.guards]
    parts = []
    for code in dict.fromkeys(codes):
        refused = []
        for action in (original, changed):
            places = [n for n, guard in enumerate(action.guards) if guard.code.name == code]
            terms = [_refused(world, Outcome(action, place), original) for place in places]
            refused.append(world.domain.disjunction(terms))
        parts.append(refused[0] == refused[1])
    return world.domain.conjunction(parts)


def _refused(world: World, outcome: Outcome, original: Action) -> Term:
    taken = _take(world, outcome, original)
    return world.domain.conjunction(list(taken.enabled))


def _difference(
    changed: Action,
    machine: Machine,
    before: State,
    event: Event,
    found: ConcreteOutcome,
    *,
    codes: bool,
) -> str | None:
    """What the changed action does otherwise, in plain Python; None if nothing."""
    system = machine.system
    altered = attrs.evolve(system, actions={**system.actions, changed.name: changed})
    other = Machine(attrs.evolve(machine.instance, system=altered)).step(before, event)
    if (
        found.kind == other.kind
        and found.state == other.state
        and (not codes or found.code == other.code)
    ):
        return None
    return (
        f"the changed action: {show_event(machine, event)} is {other.kind} {other.code or ''}: "
        f"{show_state(machine, other.state, before) or 'nothing changes'}"
    )
