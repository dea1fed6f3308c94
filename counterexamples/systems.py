"""The systems that can be named: each with its instances and its claims, found where they are defined.

Every module of `kvspec.spec`, of `kvspec.spec.runtimes` and of `kvspec.spec.examples` is looked through for
systems and for instances of them (also within a dict, a list or a tuple). A system is known by its own
name. Its claims are a `Properties` beside it, or else in the module of the same name under
`kvspec.properties` (that of `kvspec.spec.runtimes.vllm` is `kvspec.properties.runtimes.vllm`).
"""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
from collections.abc import Iterator
from functools import cache
from types import ModuleType
from typing import Any

import attrs

from kvspec.counterexamples.errors import TraceError, UnknownNameError
from kvspec.counterexamples.named import named
from kvspec.spec.language import DefinitionError, Instance, Properties, System

SPECIFICATION = (
    "core",
    "serving",
    "numbering",
    "scheduling",
    "journal",
    "tickets",
    "ownership",
    "tables",
    "pressure",
    "tiers",
    "transfer",
    "handoff",
    "completion",
    "coverage",
    "locks",
    "fan_out",
    "run_ahead",
    "drafting",
    "index",
    "identity",
    "bundle",
    "residency",
    "positions",
    "sessions",
    "observation",
    "replica",
)
"""The systems that are the specification: all that is said of them is checked, and every rule is broken."""

_FOLDERS = ("kvspec.spec", "kvspec.spec.runtimes", "kvspec.spec.examples")


@attrs.frozen(eq=False)
class KnownSystem:
    """A system, the module that defines it, and its named instances in the order of their definition.

    address: `module:attribute`, where it is not one of this package.
    """

    name: str
    module: str
    system: System
    instances: dict[str, Instance]
    address: str = ""

    @property
    def key(self) -> str:
        """The name by which `find_system` finds it."""
        return self.address or self.name

    def properties(self) -> Properties:
        """The claims about the system; loaded when asked for, and empty if there are none."""
        own = _properties_in(importlib.import_module(self.module), self.system)
        if own is not None:
            return own
        beside = self.module.replace("kvspec.spec.", "kvspec.properties.", 1)
        if _exists(beside):
            found = _properties_in(importlib.import_module(beside), self.system)
            if found is not None:
                return found
        return Properties(self.system)


@cache
def known_systems() -> dict[str, KnownSystem]:
    """Every system by name, in the order of the modules that define them."""
    modules = [importlib.import_module(name) for name in _module_names()]
    found: dict[str, KnownSystem] = {}
    for module in modules:
        for system in _values(module, System):
            before = found.get(system.name)
            if before is None:
                instances = _instances(modules, system)
                found[system.name] = KnownSystem(system.name, module.__name__, system, instances)
            elif before.system is not system:
                raise DefinitionError(
                    f"two systems are named {system.name}, in {before.module} and "
                    f"{module.__name__}: give each its own name",
                    (_file(module), 1),
                )
    return found


def find_system(name: str) -> KnownSystem:
    """The system of that name, or an error that lists all of them; `module:attribute` is one of yours."""
    if ":" in name:
        return _found_in(name)
    known = known_systems()
    if name not in known:
        raise UnknownNameError("system", name, known)
    return known[name]


def _found_in(address: str) -> KnownSystem:
    """A system that another package defines, with the instances in the module that is named."""
    system = named(
        address, "system", "module:system", "System", lambda found: isinstance(found, System)
    )
    module = importlib.import_module(address.partition(":")[0])
    claims = [v for v in vars(module).values() if isinstance(v, Properties) and v.system is system]
    if len(set(map(id, claims))) != 1:
        raise TraceError(
            f"the system {address}",
            f"{len(claims)} Properties of it in {module.__name__}",
            "one, with all of its claims",
            "put the claims into the module that is named, beside the system",
        )
    instances = _instances([module], system)
    return KnownSystem(system.name, module.__name__, system, instances, address)


def find_instance(system: KnownSystem | str, name: str) -> Instance:
    """The named instance of a system, or an error that lists its instances."""
    known = find_system(system) if isinstance(system, str) else system
    if name not in known.instances:
        raise UnknownNameError("instance", name, known.instances, f"system {known.name}")
    return known.instances[name]


def _exists(module: str) -> bool:
    package = module.rpartition(".")[0]
    known = importlib.util.find_spec
    return known(package) is not None and known(module) is not None


def _file(module: ModuleType) -> str:
    return getattr(module, "__file__", None) or module.__name__


def _module_names() -> Iterator[str]:
    for folder in _FOLDERS:
        package = importlib.import_module(folder)
        for found in pkgutil.iter_modules(package.__path__, f"{folder}."):
            if not found.ispkg:
                yield found.name


def _values(module: ModuleType, kind: type[Any]) -> Iterator[Any]:
    for value in vars(module).values():
        if isinstance(value, kind):
            yield value
            continue
        inside = value.values() if isinstance(value, dict) else value
        if isinstance(inside, list | tuple) or isinstance(value, dict):
            yield from (item for item in inside if isinstance(item, kind))


def _instances(modules: list[ModuleType], system: System) -> dict[str, Instance]:
    found: dict[str, Instance] = {}
    for module in modules:
        for instance in _values(module, Instance):
            if instance.system is not system:
                continue
            if found.setdefault(instance.name, instance) is not instance:
                raise DefinitionError(
                    f"two instances of {system.name} are named {instance.name}: give each its own name",
                    (_file(module), 1),
                )
    return found


def _properties_in(module: ModuleType, system: System) -> Properties | None:
    for value in vars(module).values():
        if isinstance(value, Properties) and value.system is system:
            return value
    return None
