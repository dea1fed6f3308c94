"""Pages of prefix rows that a real decoder computed, and what a request finds when it reads one.

Modelled: one page a block, with the K and V rows of every layer for the tokens of one content. An ABI is a
decoder of its own, and so are the weights of each epoch. A page carries beside its rows which decoder
wrote them; nothing that decides about pages reads that, and which content the rows are of is told by
their bytes. Left out: several pages to a prompt.
"""

from __future__ import annotations

from functools import cache

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.pages_memory import BlockMemory
from kvspec.models.decode.shapes import CacheShape, Cell

ROWS = 4
"""Rows of a page: the tokens of a content."""

LOADED = ROWS // 2
"""Rows that a load under way has brought so far."""

_FIRST = 3
_STEP = 5


@frozen
class Kind:
    """What a page should hold: the content, and the decoder by ABI and epoch of the weights."""

    content: int
    abi: int
    weights: int

    @property
    def tokens(self) -> list[int]:
        """The tokens of the content; two contents have no token in common."""
        vocab = DecoderConfig().vocab
        return [(_FIRST + self.content * ROWS + place) % vocab for place in range(ROWS)]

    @property
    def next_token(self) -> int:
        """The token that a request goes on with behind the page."""
        return (self.tokens[-1] + _STEP) % DecoderConfig().vocab


@cache
def decoder_of(abi: int, weights: int) -> Decoder:
    """The decoder of an ABI with the weights of an epoch."""
    return Decoder(DecoderConfig(seed=100 * abi + weights), torch.device("cpu"))


class _Rows:
    """A cache with a past: rows that stand at the positions from 0 on, and those of one call."""

    def __init__(self, past: dict[Cell, Tensor]) -> None:
        self.past = past
        self.staged: dict[Cell, Tensor] = {}

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
def rows_of(kind: Kind) -> dict[Cell, Tensor]:
    """The K and V rows [1, H_kv, ROWS, d_h] of every layer, as the decoder of the kind computes them."""
    made = _Rows({})
    model = decoder_of(kind.abi, kind.weights)
    where = positions_from(0, ROWS, model.device)
    model.forward(torch.tensor([kind.tokens]), where, made)
    return made.staged


@cache
def _laid_out(kind: Kind) -> dict[Part, Tensor]:
    """The rows of a kind as a page has them, [L, ROWS, 1, H_kv, d_h] for each part."""
    rows, layers = rows_of(kind), range(DecoderConfig().layers)
    return {
        part: torch.stack([rows[layer, part].permute(2, 0, 1, 3) for layer in layers])
        for part in Part
    }


@cache
def uncached_logits(kind: Kind) -> Tensor:
    """Logits behind the page and one token more, by a run that reads no page."""
    model = decoder_of(kind.abi, kind.weights)
    tokens = torch.tensor([[*kind.tokens, kind.next_token]])
    where = positions_from(0, ROWS + 1, model.device)
    return model.forward(tokens, where, _Rows({}))[:, -1]


class Pages:
    """The device's pages.

    Attributes:
        written: for each page the ABI of its last writer, or None.
        written_weights: for each page the epoch of the weights of its last writer.
        coming: for each page what a load under way brings, or None.
    """

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        shape = CacheShape.of(DecoderConfig(), torch.device("cpu"))
        self._memory = BlockMemory(shape, blocks, ROWS)
        self.written: list[int | None] = [None] * blocks
        self.written_weights = [0] * blocks
        self.coming: list[Kind | None] = [None] * blocks

    @property
    def bytes(self) -> int:
        """Bytes of one page, K and V of all layers."""
        rows = self._memory.rows.values()
        return sum(each.numel() * each.element_size() for each in rows) // self.blocks

    def write(self, block: int, kind: Kind) -> None:
        """Put all rows of a kind into a page."""
        self._put(block, kind, ROWS)
        self.written[block], self.written_weights[block] = kind.abi, kind.weights

    def begin_load(self, block: int, kind: Kind) -> None:
        """The first rows of a kind arrive, and what the page had before is gone."""
        self._memory.fill_blocks([block], 0.0)
        self._put(block, kind, LOADED)
        self.coming[block] = kind
        self.written[block], self.written_weights[block] = kind.abi, kind.weights

    def end_load(self, block: int) -> None:
        """All rows of a load under way have arrived; they are those that it began with."""
        kind = self.coming[block]
        if kind is None:
            raise ValueError(f"no load into block{block} is under way: begin one")
        self.write(block, kind)
        self.coming[block] = None

    def fail_load(self, block: int) -> None:
        """No more rows of a load arrive."""
        self.coming[block] = None

    def spoil(self, block: int) -> None:
        """The rows of a page are no longer what was written."""
        self._memory.fill_blocks([block], 0.25)

    def drop(self) -> None:
        """All memory is gone; what is there instead is zero."""
        self._memory.fill_blocks(range(self.blocks), 0.0)

    def content(self, block: int, contents: int) -> int | None:
        """The content that the rows of a page are of, by the decoder that wrote them; None for no content."""
        abi = self.written[block]
        if abi is None:
            return None
        kinds = (Kind(c, abi, self.written_weights[block]) for c in range(contents))
        return next((k.content for k in kinds if not self.wrong_rows(block, k)), None)

    def wrong_rows(self, block: int, kind: Kind, count: int = ROWS) -> int:
        """How many of the first rows of a page are not those of the kind, in whatever layer."""
        wrong = torch.zeros(ROWS, dtype=torch.bool)
        for part, right in _laid_out(kind).items():
            page = self._memory.rows[part][:, block * ROWS : (block + 1) * ROWS]
            wrong |= (page != right).any(dim=(0, 2, 3, 4))
        return int(wrong[:count].sum())

    def logits(self, block: int, kind: Kind) -> Tensor:
        """Logits of the token behind a page, for a request of that kind which reads the page."""
        model = decoder_of(kind.abi, kind.weights)
        past = {cell: self._at(block, cell) for cell in rows_of(kind)}
        where = positions_from(ROWS, 1, model.device)
        return model.forward(torch.tensor([[kind.next_token]]), where, _Rows(past))[:, -1]

    def _at(self, block: int, cell: Cell) -> Tensor:
        return self._memory.gather(cell, self._memory.index_of([block]), ROWS)

    def _put(self, block: int, kind: Kind, count: int) -> None:
        slots = self._memory.index_of(range(block * ROWS, block * ROWS + count))
        for cell, rows in rows_of(kind).items():
            self._memory.write(cell, slots, rows[:, :, :count])
