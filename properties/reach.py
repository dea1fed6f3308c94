"""Whether a search reaches the state from which a proof fails.

A failed obligation shows a state that satisfies every invariant and a step that breaks a claim. If the
state is reachable, the system is wrong; if not, the invariants are too weak to tell. A bounded search of
the counterexample's own instance, with room above its numbers, often knows. A solver likes small
constants, under which little is reachable; they are raised as well, where the step stays the same.
"""

from __future__ import annotations

import attrs
import numpy as np

from kvspec.models.concrete import Machine
from kvspec.models.explicit import compile_instance
from kvspec.models.symbolic import Counterexample
from kvspec.spec.language import Instance

ROOM = 2
MOST_STATES = 500_000


def search_reaches(counterexample: Counterexample) -> bool | None:
    """Whether a search finds the state before the failing step; None if it was cut short."""
    bounds = {name: bound + ROOM for name, bound in counterexample.instance.bounds.items()}
    roomy = attrs.evolve(counterexample.instance, bounds=bounds)
    constants = {name: value + ROOM for name, value in roomy.constants.items()}
    found = _search(roomy, counterexample)
    if found or not constants:
        return found
    raised = attrs.evolve(roomy, constants=constants)
    if not _same_step(raised, counterexample):
        return found
    return _search(raised, counterexample) or found


def _search(instance: Instance, counterexample: Counterexample) -> bool | None:
    program = compile_instance(instance)
    graph = program.graph(max_states=MOST_STATES)
    wanted = np.array(program.pack(counterexample.before), dtype=np.int64)
    if bool((graph.packed == wanted).all(axis=1).any()):
        return True
    return False if graph.complete else None


def _same_step(instance: Instance, counterexample: Counterexample) -> bool:
    if counterexample.event is None:
        return True
    outcome = Machine(instance).step(counterexample.before, counterexample.event)
    return outcome.state == counterexample.after
