"""Whether a run that repeats for ever is fair, by plain Python: a lasso that is not shows nothing.

The search looks for lassos in the whole graph; here only the states and steps of one run are looked at,
so that its answer is checked by other code.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kvspec.counterexamples.claims import Move
from kvspec.counterexamples.errors import UnknownNameError
from kvspec.counterexamples.systems import find_system
from kvspec.models.concrete import Machine, State
from kvspec.models.concrete.evaluate import Bound
from kvspec.spec.language import Fairness, Property
from kvspec.spec.language.instances import Limit

Key = tuple[Bound, ...]


def unfair(
    machine: Machine,
    states: Sequence[State],
    moves: Sequence[Move],
    claim: Property,
    loop: int | None,
) -> str | None:
    """The fairness assumed by the claim that the run does not keep, as a sentence; None if it keeps all.

    states: one more than moves. loop: the state that the last one leads back to, or None for a run whose
    last state stays for ever.
    """
    start = len(states) - 1 if loop is None else loop
    for fairness in claim.fairness:
        taken = {
            _key(fairness, event.names)
            for state, (event, _) in zip(states[start:], moves[start:], strict=False)
            if event.action == fairness.action.name and machine.step(state, event).is_transition
        }
        possible = [_possible(machine, state, fairness) for state in dict.fromkeys(states[start:])]
        wanted = set.union(*possible) if fairness.strong else set.intersection(*possible)
        for key in sorted(wanted - taken, key=repr):
            values = ", ".join(
                f"{name} = {value}" for name, value in zip(fairness.parameters, key, strict=True)
            )
            how = "comes back for ever" if fairness.strong else "stays possible"
            return f"{fairness.action.name}({values}) {how} and is never taken"
    return None


def with_limits(machine: Machine) -> Machine:
    """The machine within the limits that all known instances of its system have.

    A trace tells sizes and no limits; without them a step beyond the bounds would seem possible.
    """
    if machine.instance.limits:
        return machine
    limits = _common_limits(machine.system.name)
    return Machine(attrs.evolve(machine.instance, limits=limits), machine.variant)


def _common_limits(system: str) -> tuple[Limit, ...]:
    try:
        instances = list(find_system(system).instances.values())
    except UnknownNameError:
        return ()
    if not instances:
        return ()
    return tuple(
        found
        for found in instances[0].limits
        if all(any(found is other for other in each.limits) for each in instances)
    )


def _possible(machine: Machine, state: State, fairness: Fairness) -> set[Key]:
    action = machine.system.action(fairness.action.name)
    return {
        _key(fairness, event.names)
        for event in machine.events_of(action)
        if machine.within_limits(state, event) and machine.step(state, event).is_transition
    }


def _key(fairness: Fairness, names: dict[str, Bound]) -> Key:
    return tuple(names[name] for name in fairness.parameters)
