"""The system with a trace's mutation: what re-runs the steps that the specification does not take so."""

from __future__ import annotations

from difflib import get_close_matches
from functools import cache

import attrs

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.resolve import Resolved
from kvspec.models.concrete import Machine
from kvspec.properties.atlas import faults
from kvspec.properties.mutation import Mutant, mutate
from kvspec.spec.language import System

NEAR = 5


def faulty_machine(found: Resolved, faulty_system: System | None = None) -> Machine | None:
    """The machine that has the trace's mutation; None if the trace is of the specification itself.

    faulty_system: for a mutation that is none of `mutate`'s. A trace that departs from the
    specification must name its mutation, or be of the conformance of a backend.
    """
    trace = found.trace
    if trace.mutation is not None:
        system = faulty_system or _named(found, trace.mutation.name)
        return Machine(attrs.evolve(found.machine.instance, system=system, expected=None))
    if trace.sound is None or (trace.property is not None and trace.property.kind == "conformance"):
        return None
    raise TraceError(
        f"{found.where}, mutation",
        f"null, and a departure from the specification at step {trace.sound.step}",
        "the name of the mutation that makes this step",
        "name the mutation, or set sound to null if the specification takes every step just so",
    )


def _named(found: Resolved, name: str) -> System:
    system = found.machine.system
    if name not in _mutants(system):
        fault = faults(system).get(name)
        if fault is not None:
            return fault.changed
        names = list(_mutants(system))
        same_action = [n for n in names if n.partition(".")[0] == name.partition(".")[0]]
        near = get_close_matches(name, same_action or names, NEAR, 0) or names[:NEAR]
        raise TraceError(
            f"{found.where}, mutation",
            repr(name),
            f"a mutation of {system.name}, near to it {', '.join(near) or 'none'}, or a fault of the atlas",
            f"correct the name (kvspec mutants {system.name} lists all {len(names)}); a fault of "
            "your own is given as `faulty_system=`",
        )
    return _selected(system, name)


@cache
def _mutants(system: System) -> dict[str, Mutant]:
    return {mutant.name: mutant for mutant in mutate(system).mutants}


@cache
def _selected(system: System, name: str) -> System:
    """The system of one mutant."""
    return mutate(system).select(_mutants(system)[name])
