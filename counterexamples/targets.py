"""Caches to replay on: one named as `module:factory`, and this project's own where torch is there."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any, cast

from kvspec.counterexamples.errors import TraceError
from kvspec.counterexamples.named import named
from kvspec.models.adapter import Adapter
from kvspec.models.backend import Backend

_MECHANISMS = "kvspec.models.decode.mechanisms"
_WITH_MECHANISMS = (
    "bundle",
    "completion",
    "coverage",
    "drafting",
    "fan_out",
    "handoff",
    "identity",
    "index",
    "locks",
    "observation",
    "ownership",
    "positions",
    "pressure",
    "replica",
    "residency",
    "run_ahead",
    "sessions",
    "tables",
    "tickets",
    "tiers",
    "transfer",
)
SOUND = {"core": "kvspec.models.decode.backend:DecodeBackend"} | {
    name: f"{_MECHANISMS}.{name}:Cache" for name in _WITH_MECHANISMS
}
"""For each system the factory of the sound cache that speaks of it."""
FAULTS = {"core": "kvspec.models.decode.backend_faults:fault_for"} | {
    name: f"{_MECHANISMS}.{name}:fault_for" for name in _WITH_MECHANISMS
}
"""For each system a function from a mutation's name to the name of the cache's fault, or None."""


def load_backend(name: str, **options: Any) -> Backend:
    """The backend that a factory makes, named as `package.module:factory`; options are passed on."""
    made = _attribute(name)(**options)
    lacking = [n for n in ("reset", "perform", "observe", "damage") if not hasattr(made, n)]
    if lacking and isinstance(made, Adapter):
        raise TraceError(
            f"the backend {name}",
            f"the Adapter {type(made).__name__}",
            "a Backend (kvspec.models.backend)",
            f"use kvspec conform {name}, which takes an Adapter",
        )
    if lacking:
        raise TraceError(
            f"the backend {name}",
            f"a {type(made).__name__} without {', '.join(lacking)}",
            "a Backend (kvspec.models.backend)",
            "give it these methods",
        )
    return cast("Backend", made)


def sound_backend(system: str) -> Backend | None:
    """This project's sound cache for a system; None if there is none, or torch is not installed."""
    return load_backend(SOUND[system]) if _is_at_hand(system) else None


def faulty_backend(system: str, mutation: str) -> Backend | None:
    """The same cache with the fault of a mutation; None also if it has no such fault."""
    fault = _fault(system, mutation)
    return None if fault is None else load_backend(SOUND[system], faults=(fault,))


def has_fault(system: str, mutation: str) -> bool:
    """Whether the cache for a system is here and can be given the fault of a mutation."""
    return _fault(system, mutation) is not None


def _fault(system: str, mutation: str) -> str | None:
    if not _is_at_hand(system) or system not in FAULTS:
        return None
    found: str | None = _attribute(FAULTS[system])(mutation)
    return found


def _is_at_hand(system: str) -> bool:
    name = SOUND.get(system)
    if name is None or importlib.util.find_spec("torch") is None:
        return False
    return importlib.util.find_spec(name.partition(":")[0]) is not None


def _attribute(name: str) -> Callable[..., Any]:
    """What `package.module:factory` names."""
    found = named(name, "backend", "module:factory", "function or class", callable)
    return cast("Callable[..., Any]", found)
