"""Where a decoder hands its K and V rows over, and where it gets back what its attention reads.

Modelled: a cache is anything that takes one layer's K rows, then its V rows, and answers with the
rows that this layer's attention of the same call uses. Whether those rows become visible to a later
call is none of the decoder's business. Left out: caches of anything but post-rotation K and plain
V.

Sizes: B batch, H_kv key/value heads, T_new rows of this call, T_k rows in view, d_h head width.
"""

from collections.abc import Callable
from enum import Enum
from typing import Protocol

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.errors import RowsMissingError, UnevenRowsError


class Part(Enum):
    """Which of a layer's two row sets: keys after rotation, or values."""

    KEY = "key"
    VALUE = "value"

    # A member is one object, as its comparison has it; the default goes through its name, each time.
    __hash__ = object.__hash__


@frozen(eq=False)
class KVView:
    """What one layer's attention reads.

    Attributes:
        keys: rotated key rows, [B, H_kv, T_k, d_h].
        values: value rows, [B, H_kv, T_k, d_h].
        positions: absolute position of each row, int64, [T_k], or [B, T_k] for a ragged batch;
            negative where the slot holds no row.

    Raises:
        UnevenRowsError: K, V and positions do not speak of equally many rows.
    """

    keys: Tensor
    values: Tensor
    positions: Tensor

    def __attrs_post_init__(self) -> None:
        counts = (self.keys.shape[2], self.values.shape[2], self.positions.shape[-1])
        if len(set(counts)) != 1:
            raise UnevenRowsError(
                where="the view of one layer",
                found=f"{counts[0]} key rows, {counts[1]} value rows and {counts[2]} positions",
                expected="one number of rows",
                fix="stage K and V over one interval, and publish them together",
            )


class LayerCache(Protocol):
    """The cache as one model call sees it.

    For each layer in order the decoder calls ``stage`` with K, ``stage`` with V, and then ``view``
    once.
    """

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Take the rows [B, H_kv, T_new, d_h] that ``layer`` produced in this call."""
        ...

    def view(self, layer: int) -> KVView:
        """What ``layer`` reads: the rows visible before this call, then the rows staged by it."""
        ...


def update(cache: LayerCache, layer: int, k: Tensor, v: Tensor) -> KVView:
    """Stage one layer's K and V and return its view: what many caches offer as one step."""
    cache.stage(layer, Part.KEY, k)
    cache.stage(layer, Part.VALUE, v)
    return cache.view(layer)


class CallRows:
    """A cache with no past: each layer sees the rows of this call alone, and nothing outlives it.

    ``positions`` [T_new] or [B, T_new] are those of the call.
    """

    def __init__(self, positions: Tensor) -> None:
        self._positions = positions
        self._rows: dict[tuple[int, Part], Tensor] = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep the rows for this call's view."""
        self._rows[layer, part] = rows

    def view(self, layer: int) -> KVView:
        """The rows of this call and no others."""
        return KVView(self._part(layer, Part.KEY), self._part(layer, Part.VALUE), self._positions)

    def _part(self, layer: int, part: Part) -> Tensor:
        return _staged(self._rows, layer, part, "a call without a past")


class UpdateCache:
    """A cache from outside, with one step ``update(layer, k, v) -> (K, V)``, behind the hook.

    The row at index j of what it returns is taken to stand at position j.
    """

    def __init__(self, step: Callable[[int, Tensor, Tensor], tuple[Tensor, Tensor]]) -> None:
        self._step = step
        self._rows: dict[tuple[int, Part], Tensor] = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Hold the rows back until ``view``, because such a cache takes K and V together."""
        self._rows[layer, part] = rows

    def view(self, layer: int) -> KVView:
        """Hand K and V over and return what the cache says this layer reads."""
        k = _staged(self._rows, layer, Part.KEY, "an update cache")
        v = _staged(self._rows, layer, Part.VALUE, "an update cache")
        keys, values = self._step(layer, k, v)
        return KVView(keys, values, torch.arange(keys.shape[2], device=keys.device))


def _staged(rows: dict[tuple[int, Part], Tensor], layer: int, part: Part, where: str) -> Tensor:
    if (layer, part) not in rows:
        raise RowsMissingError(
            where=where,
            found=f"no {part.value} rows of layer {layer}",
            expected="K and V staged before the view is asked for",
            fix="stage both parts first",
        )
    return rows[layer, part]
