"""What searches exercised, as a table, and what they never exercised."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.report.tables import text_table
from kvspec.spec.language import Properties

if TYPE_CHECKING:
    from kvspec.models.explicit import Coverage


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


def gaps(properties: Properties, runs: Iterable[Mapping[str, Any]]) -> list[Gap]:
    """What none of the runs exercised: actions, guards, antecedents of claims, witnesses.

    runs: JSON objects of explorations.
    """
    listed = list(runs)
    covered = [run["coverage"] for run in listed if run.get("coverage")]
    where = ", ".join(str(run["instance"]) for run in listed) or "no instance"
    result: list[Gap] = []
    for action in properties.system.actions.values():
        name = action.name
        if not any(each["actions"][name] for each in covered):
            told = f"the action {name} never fired on {where}"
            result.append(Gap("action", name, told, action.place))
        for guard in action.guards:
            code = guard.code.name
            if not any(each["guards"][name][code] for each in covered):
                told = f"the guard {code} of {name} never refused on {where}"
                result.append(Gap("guard", f"{name}.{code}", told, guard.place))
    for claim in properties.of_kind("invariant", "lemma", "step"):
        if claim.antecedent is not None and not any(
            each["antecedents"].get(claim.name) for each in covered
        ):
            told = f"{claim.name} says nothing: its antecedent never held on {where}"
            result.append(Gap("property", claim.name, told, claim.place))
    for claim in properties.of_kind("witness"):
        if not any(claim.name in run["witnesses"] for run in listed):
            told = f"the witness {claim.name} was not reached on {where}"
            result.append(Gap("witness", claim.name, told, claim.place))
    return result
