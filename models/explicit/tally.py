"""Tally: one array of counters that generated code adds to, and what each place in it counts."""

from __future__ import annotations

import attrs

from kvspec.spec.language.modules import System
from kvspec.spec.language.properties import Property

CUT, TERMINAL, STUCK = 0, 1, 2
_FIXED = 3


@attrs.frozen(eq=False)
class Tally:
    """Places of the counters of an exploration.

    CUT: steps cut. TERMINAL: states without a transition to another. STUCK: those of them without a cut step,
    listed apart. After these, for each action the transitions, for each guard its refusals and the
    transitions that refusals with an effect made, for each claim the place of its first breach
    (plus one) and its source, and how often its antecedent held; for each variable of an enumeration
    whether each member was reached.
    """

    actions: dict[str, int]
    guards: dict[tuple[str, str], int]
    breaches: dict[str, int]
    antecedents: dict[str, int]
    members: dict[str, int]
    size: int


def make_tally(system: System, properties: tuple[Property, ...]) -> Tally:
    """The places for a system and claims about it."""
    at = _FIXED
    actions: dict[str, int] = {}
    guards: dict[tuple[str, str], int] = {}
    breaches: dict[str, int] = {}
    antecedents: dict[str, int] = {}
    for action in system.actions.values():
        actions[action.name], at = at, at + 1
        for guard in action.guards:
            guards[action.name, guard.code.name], at = at, at + 2
    for claim in properties:
        breaches[claim.name], at = at, at + 2
        antecedents[claim.name], at = at, at + 1
    members: dict[str, int] = {}
    for variable in system.variables.values():
        if variable.type.kind == "enum":
            members[variable.name], at = at, at + len(variable.type.members)
    return Tally(actions, guards, breaches, antecedents, members, at)
