"""Why a rule matters, in one sentence: from the specification's claims where they tell it.

For a guard that a cache does not enforce, the call is carried out in the specification without that
action's guards, and a few steps further, until a claim fails: that claim is what the guard protects.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

import attrs

from kvspec.models.concrete import Event, Machine, Outcome, State
from kvspec.properties.conformance.confirm import Trace
from kvspec.properties.conformance.graph import Graph
from kvspec.properties.conformance.judge import CRASHES, HARM, REFUSES, SILENT, STATE, WRONG_CODE
from kvspec.properties.conformance.rules import CLAIM, CLAIM_KINDS, GUARD, REPEATABLE, Rule
from kvspec.properties.core import properties
from kvspec.spec.language import Property, Read
from kvspec.spec.language.expr import walk

LOOKED_AT = 40
"""States that are looked at beyond a call that should have been refused."""

_BY_MANNER = {
    REFUSES: "A caller that keeps to the rules has no way on from here.",
    CRASHES: "A caller cannot tell a refusal from a defect, nor in what state the cache was left.",
    HARM: "The rows themselves are wrong, and with them every token that is computed from them.",
}


def why(rule: Rule, trace: Trace, graph: Graph) -> str:
    """One sentence on what goes wrong where the rule is broken as in the trace."""
    manner = trace.finding.manner
    if rule.id == REPEATABLE or not trace.repeats:
        return "No test of such a cache tells anything about its next run."
    if rule.kind == GUARD and manner == SILENT:
        protected = protects(rule, graph, trace.place, trace.events[-1])
        if protected is not None:
            said = _said(protected)
            return f"Carried out all the same, it would break what everybody relies on: {said}."
        return "The caller is told that something was done which cannot be done here."
    if rule.kind == GUARD and manner == WRONG_CODE:
        return "A caller decides by the code what to do next: begin anew, wait, or give up."
    if rule.kind == GUARD and manner == STATE:
        return "A caller that was refused takes it that nothing else has happened."
    if manner in _BY_MANNER:
        return _BY_MANNER[manner]
    if rule.kind == CLAIM:
        return f"Everybody who reads the cache relies on this: {rule.sentence}."
    last = trace.calls[-1].broken if trace.calls else ()
    broken = [name for name in last if name.startswith("claim/")]
    if broken:
        claim = properties.by_name[broken[0].removeprefix("claim/")]
        return f"It breaks what everybody relies on: {_said(claim)}."
    return "Whoever reads this of the cache is told something else than what the calls amount to."


def protects(rule: Rule, graph: Graph, place: int, number: int) -> Property | None:
    """The first claim that fails if the call is carried out although the guard fails.

    Claims that read what the guard reads come first: should other guards fail as well, they protect others.
    """
    if rule.action is None:
        return None
    event, before = graph.events[number], graph.state(place)
    instance = graph.instance
    roomy = attrs.evolve(instance, bounds={n: b + 2 for n, b in instance.bounds.items()}, limits=())
    forced = attrs.evolve(rule.action, guards=())
    actions = {**instance.system.actions, rule.action.name: forced}
    system = attrs.evolve(instance.system, actions=actions)
    done = Machine(attrs.evolve(roomy, system=system)).step(before, event)
    if done.kind != "accepted":
        return None
    condition = () if rule.guard is None else walk(rule.guard.condition)
    read = {node.variable.name for node in condition if isinstance(node, Read)}
    machine, claims = Machine(roomy), properties.of_kind(*CLAIM_KINDS)
    claims.sort(key=lambda claim: read.isdisjoint(_names_in(claim)))
    found = _first_broken(machine, claims, before, event, done)
    return found or _later(machine, claims, done.state)


def _names_in(claim: Property) -> set[str]:
    return {node.variable.name for node in walk(claim.body) if isinstance(node, Read)}


def _later(machine: Machine, claims: list[Property], state: State) -> Property | None:
    """The first claim that fails on the way on from a state, nearest states first."""
    seen, line = {state}, deque([state])
    while line and len(seen) < LOOKED_AT:
        before = line.popleft()
        for event, outcome in machine.transitions(before):
            found = _first_broken(machine, claims, before, event, outcome)
            if found is not None:
                return found
            if outcome.state not in seen:
                seen.add(outcome.state)
                line.append(outcome.state)
    return None


def _first_broken(
    machine: Machine, claims: Iterable[Property], before: State, event: Event, outcome: Outcome
) -> Property | None:
    for claim in claims:
        if claim.kind == "step":
            holds = machine.holds(claim, before, event, outcome)
        else:
            holds = machine.holds(claim, outcome.state)
        if not holds:
            return claim
    return None


def _said(claim: Property) -> str:
    return f"{' '.join(claim.doc.split()).rstrip('.')} ({claim.name})"
