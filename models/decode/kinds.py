"""The layouts by name, so that a test or a command can go through all of them.

Modelled: one way to allocate any layout. Left out: sizes that only one layout has; a caller that
cares for them constructs that layout itself.
"""

from collections.abc import Callable
from typing import Any, Final

from kvspec.models.decode.dynamic import DynamicLayout
from kvspec.models.decode.errors import BadConfigError
from kvspec.models.decode.layouts import Layout
from kvspec.models.decode.shapes import SOUND, CacheShape, LayoutFaults
from kvspec.models.decode.static import StaticLayout

AnyLayout = Layout[Any]
"""A layout of whatever kind."""


def _dynamic(shape: CacheShape, capacity: int, faults: LayoutFaults) -> AnyLayout:
    del capacity
    return DynamicLayout(shape, faults)


def _static(shape: CacheShape, capacity: int, faults: LayoutFaults) -> AnyLayout:
    return StaticLayout(shape, capacity, faults)


_KINDS: Final[dict[str, Callable[[CacheShape, int, LayoutFaults], AnyLayout]]] = {
    DynamicLayout.name: _dynamic,
    StaticLayout.name: _static,
}

LAYOUT_KINDS: Final = tuple(_KINDS)
"""The names that ``allocate`` knows."""


def allocate(
    kind: str, shape: CacheShape, *, capacity: int, faults: LayoutFaults = SOUND
) -> AnyLayout:
    """An empty layout of the named kind; ``capacity`` in rows is ignored where a layout has none.

    Raises:
        BadConfigError: there is no such kind.
    """
    if kind not in _KINDS:
        raise BadConfigError(
            where="allocate",
            found=f"layout kind {kind!r}",
            expected="one of " + ", ".join(LAYOUT_KINDS),
            fix="name one of these",
        )
    return _KINDS[kind](shape, capacity, faults)
