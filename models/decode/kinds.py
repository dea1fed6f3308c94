"""The layouts by name, so that a test or a command can go through all of them.

Modelled: one way to open a store of any kind and to allocate layouts from it. Layouts of one store may
share memory (a pool of blocks, a device buffer), and a fork stays in the store of its parent. Left out:
sizes that only one layout has and that nothing else needs; a caller that cares for them constructs that
layout itself.
"""

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from kvspec.models.decode.dynamic import DynamicLayout
from kvspec.models.decode.errors import BadConfigError
from kvspec.models.decode.layouts import Layout
from kvspec.models.decode.offloaded import OffloadedLayout
from kvspec.models.decode.paged import PagedLayout
from kvspec.models.decode.pages import BLOCK_SIZE, BlockPool
from kvspec.models.decode.residency import DeviceRoom
from kvspec.models.decode.shapes import SOUND, CacheShape, LayoutFaults
from kvspec.models.decode.static import StaticLayout
from kvspec.models.decode.window import WindowLayout

AnyLayout = Layout[Any]
"""A layout of whatever kind."""

Store = Callable[[], AnyLayout]
"""Gives an empty layout at each call."""


@frozen
class StoreSizes:
    """How large a store is; a kind takes what it needs of this.

    Attributes:
        capacity: most rows that one layout may hold.
        layouts: most layouts that are live at a time, forks among them.
        window: a query at position p sees keys in (p - window, p]; None lets it see all of them.
        rewind: rows that a truncate may take back, which a windowed layout keeps beyond its window.
        block_size: rows of a block of a paged store.
        blocks: blocks of a paged store; by default twice what ``layouts`` of ``capacity`` rows fill, so
            that there is room for open appends, copies of shared blocks, and snapshots of readers.
    """

    capacity: int
    layouts: int = 4
    window: int | None = None
    rewind: int = 0
    block_size: int = BLOCK_SIZE
    blocks: int | None = None


def _dynamic(shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults) -> Store:
    del sizes
    return lambda: DynamicLayout(shape, faults)


def _static(shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults) -> Store:
    return lambda: StaticLayout(shape, sizes.capacity, faults)


def _window(shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults) -> Store:
    return lambda: WindowLayout(shape, sizes.window, sizes.rewind, faults)


def _paged(shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults) -> Store:
    each = -(-sizes.capacity // sizes.block_size)
    blocks = 2 * sizes.layouts * each if sizes.blocks is None else sizes.blocks
    pool = BlockPool(shape, blocks, sizes.block_size)
    return lambda: PagedLayout(pool, faults)


def _offloaded(shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults) -> Store:
    del sizes
    room = DeviceRoom(shape, faults)
    return lambda: OffloadedLayout(room, faults)


_KINDS: Final[dict[str, Callable[[CacheShape, StoreSizes, LayoutFaults], Store]]] = {
    DynamicLayout.name: _dynamic,
    StaticLayout.name: _static,
    PagedLayout.name: _paged,
    WindowLayout.name: _window,
    OffloadedLayout.name: _offloaded,
}

LAYOUT_KINDS: Final = tuple(_KINDS)
"""The names that ``open_store`` knows."""


def open_store(
    kind: str, shape: CacheShape, sizes: StoreSizes, faults: LayoutFaults = SOUND
) -> Store:
    """A store of the named kind.

    Raises:
        BadConfigError: there is no such kind.
    """
    if kind not in _KINDS:
        raise BadConfigError(
            where="open_store",
            found=f"layout kind {kind!r}",
            expected="one of " + ", ".join(LAYOUT_KINDS),
            fix="name one of these",
        )
    return _KINDS[kind](shape, sizes, faults)


def allocate(
    kind: str, shape: CacheShape, *, capacity: int, faults: LayoutFaults = SOUND
) -> AnyLayout:
    """An empty layout of the named kind in a store of its own, for at most ``capacity`` rows.

    Raises:
        BadConfigError: there is no such kind.
    """
    return open_store(kind, shape, StoreSizes(capacity), faults)()
