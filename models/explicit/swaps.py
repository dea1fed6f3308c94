"""Symmetry (placeholder)."""

from __future__ import annotations

from collections.abc import Iterable

from kvspec.models.explicit.packing import Layout
from kvspec.spec.language.properties import Property


class Swaps:
    """Swaps."""

    names: tuple[str, ...] = ()


def make_swaps(layout: Layout, properties: tuple[Property, ...], symmetry: bool | Iterable[object]) -> Swaps | None:
    return None
