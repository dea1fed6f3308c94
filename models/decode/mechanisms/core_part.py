"""The core's part of an instance and of a state, for caches that speak of a system which extends the core."""

from __future__ import annotations

import attrs

from kvspec.models.concrete.state import State, Value
from kvspec.spec.core import system as core
from kvspec.spec.language import Instance

LAYERS = 2
"""Layers of a cache whose instance has none, since rows must lie somewhere."""


def core_part(instance: Instance, *, layers: int = LAYERS) -> Instance:
    """The instance with the sorts and constants of the core alone; without layers it gets so many."""
    sorts = core.sorts()
    sizes = {name: n for name, n in instance.sizes.items() if name in sorts}
    return attrs.evolve(
        instance,
        system=core,
        sizes={**sizes, "Layer": sizes["Layer"] or layers},
        bounds={name: n for name, n in instance.bounds.items() if name in sorts},
        constants={name: n for name, n in instance.constants.items() if name in core.constants},
        limits=(),
        initial={},
        expected=None,
    )


def core_tables(seen: State, *, has_layers: bool) -> list[tuple[Value, ...]]:
    """The tables of a state of the core; those of layers are empty if the instance has none."""
    return [
        () if not has_layers and any(kind.name == "Layer" for kind in variable.domain) else table
        for variable, table in zip(core.variables.values(), seen.tables, strict=True)
    ]
