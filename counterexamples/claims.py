"""Where a run breaks a claim: the formula evaluated on every state or step of it, by plain Python."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from kvspec.models.concrete import Machine, State, evaluate
from kvspec.models.concrete.evaluate import Bound, Environment
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import values_of
from kvspec.spec.language import Property

Move = tuple[Event, str | None]
"""The event of a step, and the code if it was refused."""


def broken_at(
    machine: Machine,
    states: Sequence[State],
    moves: Sequence[Move],
    claim: Property,
    loop: int | None = None,
) -> int | None:
    """The number of the first state or step that breaks the claim (or reaches the witness), if any.

    states: one more than moves. loop: the state that the last one leads back to; for a leads_to, which
    without a loop is broken only by a run whose last state stays for ever. Fairness is not looked at.
    """
    if claim.kind == "step":
        for number, (event, code) in enumerate(moves, 1):
            before, after = states[number - 1], states[number]
            env = machine.environment(before, after=after, fired=(event.action, code))
            if not evaluate(claim.body, env):
                return number
        return None
    if claim.kind == "leads_to":
        return _waits_for_ever(machine, states, claim, len(states) - 1 if loop is None else loop)
    wanted = claim.kind == "witness"
    for number, state in enumerate(states):
        if bool(evaluate(claim.body, machine.environment(state))) is wanted:
            return number
    return None


def is_stuck(machine: Machine, state: State) -> bool:
    """Whether no transition leads to another state."""
    return all(outcome.state == state for _, outcome in machine.transitions(state))


def _waits_for_ever(
    machine: Machine, states: Sequence[State], claim: Property, loop: int
) -> int | None:
    """The first state from which the goal never comes, for some of the members claimed."""
    goal = claim.goal
    if goal is None:
        return None
    for values in product(*(values_of(symbol.type, machine.instance) for symbol in claim.bound)):
        names: dict[str, Bound] = {s.name: v for s, v in zip(claim.bound, values, strict=True)}
        environments = [_environment(machine, state, names) for state in states]
        for number, env in enumerate(environments):
            if evaluate(claim.body, env) and not any(
                evaluate(goal, later) for later in environments[min(number, loop) :]
            ):
                return number
    return None


def _environment(machine: Machine, state: State, names: dict[str, Bound]) -> Environment:
    return machine.environment(state, names=names)
