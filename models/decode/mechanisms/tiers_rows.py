"""Rows of cached prefixes on a device and on its host, as a real decoder computed them.

Modelled: pages on the device and buffers on the host, with K and V rows of every layer for the own tokens of
a node, at their positions behind those of its path. Copies between the two move bytes. Whose rows a page or
a buffer has is told by its bytes alone.
Left out: several pages to a node, copies that run on a stream beside the decoder (`residency` has them).
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

import torch
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.residency import transfer
from kvspec.models.decode.shapes import CacheShape, Cell

ROWS = 4
"""Rows of a node: its own tokens."""

Chain = tuple[int, ...]
"""The nodes of a path, from the shortest prefix to the node itself."""

Buffer = dict[Cell, Tensor]
"""K and V rows [1, H_kv, ROWS, d_h] of every layer."""

_FIRST = 3
_STEP = 5


def tokens_of(chain: Chain) -> list[int]:
    """The tokens of a path; two nodes have no token in common as long as the vocabulary lasts."""
    vocab = DecoderConfig().vocab
    return [(_FIRST + node * ROWS + place) % vocab for node in chain for place in range(ROWS)]


def next_token(chain: Chain) -> int:
    """The token that a request goes on with behind a path."""
    return (tokens_of(chain)[-1] + _STEP) % DecoderConfig().vocab


@cache
def decoder() -> Decoder:
    """The decoder that computes all rows."""
    return Decoder(DecoderConfig(), torch.device("cpu"))


class _Rows:
    """A cache with a past: rows that stand at the positions from 0 on, and those of one call."""

    def __init__(self, past: Buffer) -> None:
        self.past = past
        self.staged: Buffer = {}

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Keep the rows of the call."""
        self.staged[layer, part] = rows

    def view(self, layer: int) -> KVView:
        """The past and the call, one behind the other."""
        keys, values = (self._all((layer, part)) for part in Part)
        return KVView(keys, values, torch.arange(keys.shape[2]))

    def _all(self, cell: Cell) -> Tensor:
        rows = self.staged[cell]
        return rows if cell not in self.past else torch.cat((self.past[cell], rows), dim=2)


@cache
def rows_of(chain: Chain) -> Buffer:
    """The rows of the last node of a path, as an uncached run over the path computes them."""
    made, tokens = _Rows({}), tokens_of(chain)
    decoder().forward(
        torch.tensor([tokens]), positions_from(0, len(tokens), decoder().device), made
    )
    return {cell: rows[:, :, -ROWS:].clone() for cell, rows in made.staged.items()}


@cache
def uncached_logits(chain: Chain) -> Tensor:
    """Logits behind a path and one token more, by a run that reads no page."""
    tokens = [*tokens_of(chain), next_token(chain)]
    where = positions_from(0, len(tokens), decoder().device)
    return decoder().forward(torch.tensor([tokens]), where, _Rows({}))[:, -1]


def cached_logits(chain: Chain, pages: Iterable[Buffer]) -> Tensor:
    """Logits of the token behind a path, for a request that reads these pages one behind the other."""
    parts = list(pages)
    past = {cell: torch.cat([page[cell] for page in parts], dim=2) for cell in parts[0]}
    where = positions_from(len(parts) * ROWS, 1, decoder().device)
    return decoder().forward(torch.tensor([[next_token(chain)]]), where, _Rows(past))[:, -1]


def empty() -> Buffer:
    """A page or a host buffer without rows."""
    shape = CacheShape.of(DecoderConfig(), torch.device("cpu"))
    return {cell: torch.zeros(shape.rows(ROWS), dtype=shape.dtype) for cell in shape.cells()}


def copy(target: Buffer, source: Buffer) -> None:
    """Move the bytes of one buffer into another, whatever they are."""
    for cell, rows in source.items():
        transfer(target[cell], rows)


def clear(buffer: Buffer) -> None:
    """Overwrite a buffer that is given back."""
    for rows in buffer.values():
        rows.zero_()


def size_of(buffer: Buffer) -> int:
    """Bytes of a buffer."""
    return sum(rows.numel() * rows.element_size() for rows in buffer.values())


def wrong_rows(buffer: Buffer, chain: Chain) -> int:
    """How many rows of a buffer are not those of the last node of a path, in whatever layer."""
    wrong = set[int]()
    for cell, right in rows_of(chain).items():
        apart = (buffer[cell] != right).any(dim=3).any(dim=1)[0]
        wrong |= {place for place in range(ROWS) if bool(apart[place])}
    return len(wrong)
