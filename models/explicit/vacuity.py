"""Vacuity: what an exploration never exercised, so that what it found would hold of nothing.

An action that never fires, a guard that never refuses, a claim whose antecedent is never true, a witness
that is not reached and a member of an enumeration that no variable ever has: each is named with what
stands in its way, and is an error unless it is known and allowed.
"""

from __future__ import annotations

from collections.abc import Iterable

import attrs

from kvspec.models.explicit.results import Exploration
from kvspec.spec.language.properties import Property


@attrs.frozen
class Gap:
    """Something never exercised. kind: action, guard, antecedent, witness or member."""

    kind: str
    name: str
    message: str


def gaps(result: Exploration, properties: Iterable[Property] = ()) -> tuple[Gap, ...]:
    """What a complete exploration with coverage never exercised.

    An incomplete one, or one without coverage, is no ground for an answer and is refused.
    """
    coverage = result.coverage
    if coverage is None:
        raise ValueError(
            f"the exploration of {result.instance} has no coverage: explore with coverage=True"
        )
    if not result.complete:
        raise ValueError(
            f"the exploration of {result.instance} is incomplete ({result.reason or result.verdict}): "
            "what it has not exercised may still come"
        )
    found = [*_actions(result), *_guards(result)]
    for name, count in coverage.antecedents.items():
        if not count:
            text = f"what {name} presupposes holds in no state or step, so the claim says nothing"
            found.append(Gap("antecedent", name, text))
    reached = {witness.property for witness in result.witnesses}
    found.extend(
        Gap("witness", claim.name, f"no reachable state: {claim.doc}")
        for claim in properties
        if claim.kind == "witness" and claim.name not in reached
    )
    for variable, members in coverage.members.items():
        for member, seen in members.items():
            if not seen:
                text = f"{variable} is never {member}"
                found.append(Gap("member", f"{variable}.{member}", text))
    return tuple(found)


def _actions(result: Exploration) -> Iterable[Gap]:
    if result.coverage is None:
        return
    for name, count in result.coverage.actions.items():
        if not count:
            refused = result.coverage.guards[name]
            last = max(
                (code for code in refused if refused[code]), key=list(refused).index, default=""
            )
            way = f"the last guard in its way is {last}" if last else "it is never tried"
            yield Gap("action", name, f"{name} never fires: {way}")


def _guards(result: Exploration) -> Iterable[Gap]:
    if result.coverage is None:
        return
    for action, refusals in result.coverage.guards.items():
        for code, count in refusals.items():
            if not count:
                text = (
                    f"the guard {code} of {action} never refuses: it is implied, or never looked at"
                )
                yield Gap("guard", f"{action}.{code}", text)
