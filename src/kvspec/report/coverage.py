"""What searches exercised, as a table, and what they never exercised."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs

from kvspec.report.tables import text_table
from kvspec.spec.language import Properties

if TYPE_CHECKING:
    from kvspec.models.explicit import Coverage, Exploration, Gap


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


def merged(runs: Sequence[Mapping[str, Any]]) -> Exploration:
    """Several explorations of one system, given as JSON objects, as one with the sum of their counts."""
    from kvspec.models.explicit import Coverage, Exploration, Witness

    parts = [run["coverage"] for run in runs]
    depths: dict[str, int] = {}
    for run in runs:
        for name, depth in run["witnesses"].items():
            depths[name] = min(depth, depths.get(name, depth))
    coverage = Coverage(
        **{
            field.name: _sum([part[field.name] for part in parts])
            for field in attrs.fields(Coverage)
        }
    )
    fields = {field.name: _neutral(str(field.type)) for field in attrs.fields(Exploration)}
    return Exploration(
        **{
            **fields,
            "system": runs[0]["system"],
            "instance": ", ".join(run["instance"] for run in runs),
            "states": sum(run["states"] for run in runs),
            "complete": all(run["complete"] for run in runs),
            "verdict": "unknown",
            "witnesses": tuple(Witness(name, depth, tuple) for name, depth in depths.items()),
            "coverage": coverage,
        }
    )


def union_gaps(properties: Properties, runs: Sequence[Mapping[str, Any]]) -> tuple[Gap, ...]:
    """What none of the runs exercised, although every one of them is complete and has coverage."""
    from kvspec.models.explicit import gaps

    if not runs or not all(run.get("coverage") and run["complete"] for run in runs):
        return ()
    found = gaps(merged(runs), properties.by_name.values())
    return tuple(gap for gap in found if not _is_given(properties, gap))


def _is_given(properties: Properties, gap: Gap) -> bool:
    """What was not exercised belongs to a system whose claims are given, and is looked for there."""
    if properties.given is None:
        return False
    system, (first, *rest) = properties.given.system, gap.name.split(".")
    if gap.kind == "guard" and first in system.actions:
        return rest[0] in [guard.code.name for guard in system.actions[first].guards]
    return first in system.actions or first in system.variables


def _sum(tables: Sequence[Any]) -> Any:
    """Tables of counts (and of flags) of the same shape, added up."""
    first = tables[0]
    if isinstance(first, Mapping):
        return {name: _sum([table[name] for table in tables]) for name in first}
    return any(tables) if isinstance(first, bool) else sum(tables)


def _neutral(kind: str) -> Any:
    """A value that says nothing, for a field of this type."""
    blank = {"str": "", "bool": False, "float": 0.0, "int": 0, "dict[str, int]": {}}
    return () if kind.startswith("tuple") else blank.get(kind)
