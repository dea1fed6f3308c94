"""The caches at hand that can be held against the specification, and why one is not at hand."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kvspec.models.backend import Backend

TORCH_MISSING = "torch is not installed: pip install 'kvspec[torch]'"


def torch_absent() -> str | None:
    """Why the torch backend cannot be used here, or None if it can."""
    return TORCH_MISSING if find_spec("torch") is None else None


def backend_name(system: str) -> str | None:
    """The factory of the cache that speaks of the system, whether torch is there or not."""
    from kvspec.counterexamples.targets import SOUND

    return SOUND.get(system)


def make_backend(system: str, mutation: str | None = None) -> Backend | None:
    """The cache for a system; with the fault of a mutation, or None if it has no such fault."""
    from kvspec.counterexamples.targets import faulty_backend, sound_backend

    return sound_backend(system) if mutation is None else faulty_backend(system, mutation)


def static_cache() -> Backend:
    """The torch cache with rows of a fixed number (layout static)."""
    from kvspec.models.decode.backend import DecodeBackend

    return DecodeBackend(layout="static")


def window_cache() -> Backend:
    """The torch cache that drops rows (layout window), for a decoder whose queries see one key."""
    from kvspec.models.decode.backend import DecodeBackend

    return DecodeBackend(layout="window", window=1)


def offloaded_cache() -> Backend:
    """The torch cache whose rows lie on the host (layout offloaded)."""
    from kvspec.models.decode.backend import DecodeBackend

    return DecodeBackend(layout="offloaded")


def paged_cache() -> Backend:
    """The torch cache with rows in blocks of a pool (layout paged)."""
    from kvspec.models.decode.backend import DecodeBackend

    return DecodeBackend(layout="paged")


def is_stand_in(system: str, mutation: str | None) -> bool:
    """Whether the fault that a cache is given for a mutation is another one, near to it."""
    if system != "core" or mutation is None:
        return False
    from kvspec.models.decode.backend_faults import fault_for

    return fault_for(mutation) != mutation
