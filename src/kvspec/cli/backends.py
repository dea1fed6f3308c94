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


def torch_backend(mutation: str | None = None) -> Backend | None:
    """The decode backend; with the fault of a mutation, or None if it has no such fault."""
    raise NotImplementedError
