"""The atlas: public faults of real caches, each as a change of one rule that breaks a claim.

`model` says what a group is, `run` runs one, and each other module has the groups of one system.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import Fault
from kvspec.spec.language import DefinitionError, System

__all__ = ["Case", "Evidence", "Group", "faults", "groups"]


@cache
def groups() -> dict[str, Group]:
    """Every group by its name, in the order of the names."""
    found: dict[str, Group] = {}
    for info in pkgutil.iter_modules(__path__, f"{__name__}."):
        module = importlib.import_module(info.name)
        for group in getattr(module, "GROUPS", ()):
            if group.name in found:
                raise DefinitionError(f"two groups of the atlas are named {group.name}")
            found[group.name] = group
    return dict(sorted(found.items()))


def faults(system: System) -> dict[str, Fault]:
    """The faults of a system that the atlas names, by their names."""
    cases = [case for group in groups().values() for case in group.cases]
    return {case.fault.name: case.fault for case in cases if case.fault.system is system}
