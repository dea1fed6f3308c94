"""What the rows of a cache look like, and what a snapshot of them tells.

Modelled: sizes of rows, visible lengths of each part of each layer, and the switches that take
single guards of a layout away. Left out: how rows are stored; ``dynamic`` and ``static`` tell that.
"""

from collections.abc import Iterator
from typing import Protocol, Self

import torch
from attrs import field, frozen
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig, concrete_device
from kvspec.models.decode.errors import BadConfigError, NoSuchLayerError, UnevenRowsError
from kvspec.models.decode.hooks import Part
from kvspec.spec.formulas import token_bytes

Cell = tuple[int, Part]
"""One layer's K or V."""

Lengths = list[tuple[int, int]]
"""Rows of K and of V, for each layer."""


@frozen
class CacheShape:
    """What every row of a cache looks like.

    Attributes:
        layers: cache-producing layers L.
        kv_heads: key/value heads H_kv.
        head_dim: head width d_h.
        dtype: dtype of K and V.
        device: where rows live.
        batch: sequences that share one handle B, in lockstep; one for a request.
    """

    layers: int
    kv_heads: int
    head_dim: int
    dtype: torch.dtype
    device: torch.device = field(converter=concrete_device)
    batch: int = 1

    def __attrs_post_init__(self) -> None:
        for name in ("layers", "kv_heads", "head_dim", "batch"):
            if getattr(self, name) < 1:
                raise BadConfigError(
                    where="CacheShape",
                    found=f"{name} = {getattr(self, name)}",
                    expected="at least 1",
                    fix="give a positive size",
                )

    @classmethod
    def of(cls, config: DecoderConfig, device: torch.device, batch: int = 1) -> Self:
        """The shape of the rows that a decoder of ``config`` on ``device`` produces."""
        return cls(
            layers=config.layers,
            kv_heads=config.kv_heads,
            head_dim=config.head_dim,
            dtype=config.dtype,
            device=device,
            batch=batch,
        )

    def rows(self, count: int) -> tuple[int, int, int, int]:
        """The shape of ``count`` rows of one part of one layer: [B, H_kv, count, d_h]."""
        return (self.batch, self.kv_heads, count, self.head_dim)

    @property
    def bytes_per_token(self) -> int:
        """Bytes of K and V over all layers for one token of one sequence."""
        width = self.dtype.itemsize
        return token_bytes(self.layers, self.kv_heads, self.head_dim, width, width)

    def cells(self) -> Iterator[Cell]:
        """Every part of every layer, in the order in which a call produces them."""
        for layer in range(self.layers):
            for part in Part:
                yield layer, part

    def check_layer(self, layer: int, where: str) -> None:
        """Refuse a layer that this cache does not have."""
        if not 0 <= layer < self.layers:
            raise NoSuchLayerError(
                where=where,
                found=f"layer {layer}",
                expected=f"a layer in [0, {self.layers})",
                fix="count layers from 0, and use the cache of this decoder",
            )


@frozen
class LayoutFaults:
    """Guards taken away, each by its own switch; a sound layout has none set.

    Attributes:
        tear: install and truncate advance one part of one layer after another, seen by readers.
        allow_missing: install publishes what is staged although parts are missing.
        allow_incomplete: install neither waits for nor checks that rows are written.
        allow_interval: install takes parts that cover another interval than the append claims.
        allow_start: install takes rows that do not begin where the visible rows end.
        allow_foreign: install takes rows begun on another layout.
        allow_beyond: truncate and fork take more rows than are visible.
        overwrite: a static layout writes over rows that older snapshots still show, and over the
            room of another append.
        alias_fork: a static child writes into the buffer of its parent, a paged one into all blocks
            of its parent's table. A dynamic, windowed or offloaded layout never writes in place, so
            there this switch changes nothing.
        share_tail: an append of a paged layout writes into the last block of its table although
            others hold it too, without making a copy first. With blocks of one row no block is ever
            written to again, so there this switch changes nothing.
        early_reuse: a paged layout gives blocks back at install, truncate, release and discard,
            although a snapshot still shows them or a write to them is still in flight.
        double_free: releasing a paged layout drops its references to blocks twice.
        lost_reference: a paged fork adds no references to the blocks that it shares.
        allow_gone: a windowed layout truncates and forks to where rows of the window are gone. This
            switch and the next two change nothing where the layout has no window, so that no row is
            dropped, or a window of 1, so that no row is needed or kept.
        window_early: a windowed layout drops one row more than its window and rewind allow.
        row_as_position: a windowed layout counts positions from its first resident row.
        read_before_fetch: an offloaded layout reads a layer before its transfer is over.
        free_before_store: an offloaded layout gives a layer's rows on the device up, and takes them
            for written, before the host has them.
    """

    tear: bool = False
    allow_missing: bool = False
    allow_incomplete: bool = False
    allow_interval: bool = False
    allow_start: bool = False
    allow_foreign: bool = False
    allow_beyond: bool = False
    overwrite: bool = False
    alias_fork: bool = False
    share_tail: bool = False
    early_reuse: bool = False
    double_free: bool = False
    lost_reference: bool = False
    allow_gone: bool = False
    window_early: bool = False
    row_as_position: bool = False
    read_before_fetch: bool = False
    free_before_store: bool = False

    @property
    def uneven(self) -> bool:
        """Layers may come to hold different numbers of rows."""
        return self.tear or self.allow_missing or self.allow_interval


SOUND = LayoutFaults()


class Snapshot(Protocol):
    """The visible rows at one moment; it never changes, whatever its layout does afterwards."""

    @property
    def length(self) -> int:
        """The one length of all parts of all layers.

        Raises:
            UnevenRowsError: there is no such length.
        """
        ...

    def lengths(self) -> Lengths:
        """Rows of K and of V for each layer."""
        ...

    def kept(self) -> Lengths:
        """Rows of K and of V for each layer that are still held: fewer where a window dropped some."""
        ...

    def read(self, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, [B, H_kv, R, d_h] each; not to be written to.

        R is the number of visible rows, or less where a layout keeps a part of them.
        """
        ...

    def positions(self, layer: int) -> Tensor:
        """The position of each row that ``read`` gives of a layer, int64 [R]."""
        ...


def common_length(lengths: Lengths, where: str) -> int:
    """The one number that all lengths agree on.

    Raises:
        UnevenRowsError: they disagree.
    """
    first = lengths[0][0]
    if any(pair != (first, first) for pair in lengths):
        raise UnevenRowsError(
            where=where,
            found=f"(K, V) lengths {lengths}",
            expected="one length for K and V of every layer",
            fix="publish all layers in one step",
        )
    return first
