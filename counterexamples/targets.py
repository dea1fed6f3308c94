"""Caches to replay on: one named as `module:factory`, and this project's own where torch is there."""

from __future__ import annotations

import importlib
import importlib.util
from typing import cast

from kvspec.counterexamples.errors import TraceError
from kvspec.models.backend import Backend

SOUND = {"core": "kvspec.models.decode.backend:DecodeBackend"}
"""For each system the factory of the sound cache that speaks of it."""


def load_backend(name: str) -> Backend:
    """The backend that a factory without arguments makes, named as `package.module:factory`."""
    module_name, _, attribute = name.partition(":")
    if not module_name or not attribute:
        raise TraceError("the backend", repr(name), "module:factory", "name a function or class")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module_name}.".startswith(f"{error.name}."):
            raise  # the module is there and lacks something that it imports
        raise TraceError(
            f"the backend {name}", f"no module {error.name}", "a module", "check path and name"
        ) from error
    factory = getattr(module, attribute, None)
    if not callable(factory):
        raise TraceError(
            f"the backend {name}",
            f"no function or class {attribute} in {module_name}",
            "one that makes a backend",
            "check the name after the colon",
        )
    made = factory()
    lacking = [n for n in ("reset", "perform", "observe", "damage") if not hasattr(made, n)]
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
    name = SOUND.get(system)
    if name is None or importlib.util.find_spec("torch") is None:
        return None
    module_name = name.partition(":")[0]
    return None if importlib.util.find_spec(module_name) is None else load_backend(name)
