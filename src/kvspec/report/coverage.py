"""What searches exercised, as a table, and what they never exercised."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import attrs

from kvspec.report.tables import text_table
from kvspec.spec.language import Properties

if TYPE_CHECKING:
    from kvspec.models.explicit import Coverage, Exploration


def coverage_table(found: Coverage) -> str:
    """Each action with how often it fired, each guard with how often it refused."""
    rows = []
    for action, fired in found.actions.items():
        rows.append((action, "fired", f"{fired:,}"))
        rows.extend(
            (action, f"refused: {code}", f"{times:,}")
            for code, times in found.guards[action].items()
        )
    return text_table(("action", "outcome", "times"), rows, right=(2,))


@attrs.frozen
class Gap:
    """Something that no search exercised: what the check is worth is not known.

    kind: "action", "guard", "property" or "witness". name: which. message: what did not happen.
    """

    kind: str
    name: str
    message: str
    place: tuple[str, int] | None = None


def gaps(properties: Properties, runs: Iterable[Exploration]) -> list[Gap]:
    """What none of the runs exercised: actions, guards, antecedents of claims, witnesses."""
    found = list(runs)
    covered = [run.coverage for run in found if run.coverage is not None]
    where = ", ".join(run.instance for run in found) or "no instance"
    result: list[Gap] = []
    for action in properties.system.actions.values():
        if not any(each.actions[action.name] for each in covered):
            told = f"the action {action.name} never fired on {where}"
            result.append(Gap("action", action.name, told, action.place))
        for guard in action.guards:
            if not any(each.guards[action.name][guard.code.name] for each in covered):
                name = f"{action.name}.{guard.code.name}"
                told = f"the guard {guard.code.name} of {action.name} never refused on {where}"
                result.append(Gap("guard", name, told, guard.place))
    for claim in properties.of_kind("invariant", "lemma", "step"):
        if claim.antecedent is not None and not any(
            each.antecedents.get(claim.name) for each in covered
        ):
            told = f"{claim.name} says nothing: its antecedent never held on {where}"
            result.append(Gap("property", claim.name, told, claim.place))
    reached = {each.property for run in found for each in run.witnesses}
    for claim in properties.of_kind("witness"):
        if claim.name not in reached:
            told = f"the witness {claim.name} was not reached on {where}"
            result.append(Gap("witness", claim.name, told, claim.place))
    return result
