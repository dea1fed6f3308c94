"""Look-ups by name: systems, instances and refinements. A miss lists what exists."""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING

from kvspec.cli.errors import unknown

if TYPE_CHECKING:
    from kvspec.counterexamples.systems import KnownSystem
    from kvspec.spec.language import Instance
    from kvspec.spec.language.refinement import Refinement


def system_named(name: str, command: str) -> KnownSystem:
    """The system of that name, or of a user's at `module:attribute`."""
    from kvspec.counterexamples.systems import find_system, known_systems

    if ":" in name:
        return find_system(name)
    known = known_systems()
    if name not in known:
        where = f"SYSTEM of kvspec {command}"
        raise unknown("system", name, known, where, f"kvspec {command} core")
    return known[name]


def instance_named(
    system: KnownSystem, name: str | None, command: str, option: str = ""
) -> Instance:
    """The instance of that name, by default the first one. option: what is written before the name."""
    known = system.instances
    if name is None and known:
        return next(iter(known.values()))
    if name is None or name not in known:
        first = next(iter(known), "")
        do = " ".join(f"kvspec {command} {system.key} {option} {first}".split())
        raise unknown(
            f"instance of {system.name}",
            name or "(none given)",
            known,
            f"{option or 'INSTANCE'} of kvspec {command}",
            do if known else "choose another system",
        )
    return known[name]


def refinements_of(system: KnownSystem) -> list[Refinement]:
    """The refinements that are claimed of a system."""
    from kvspec.properties import lives, refinements, runtime_refinements
    from kvspec.spec.language.refinement import Refinement

    modules = (refinements, lives, runtime_refinements)
    values = [value for module in modules for value in vars(module).values()]
    beside = f"kvspec.properties.{system.module.rsplit('.', 1)[-1]}"
    if importlib.util.find_spec(beside) is not None:
        values += vars(importlib.import_module(beside)).values()
    found = {r.name: r for r in values if isinstance(r, Refinement) and r.concrete is system.system}
    return list(found.values())
