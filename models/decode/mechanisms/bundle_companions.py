"""Companions of a request's rows, on tensors: recurrent state, the draft model's cache, a grammar.

Modelled: a recurrent state is the decayed sum of k v^T over the rows of the decoder's last layer, whose
reading is added to the logits. It goes back by taking the last row out again, since no earlier value is kept.
The draft model is a decoder of its own, whose cache appends at the count that it has itself. A grammar is an
automaton over token ids; its mask forbids the tokens that its state does not allow.
Assumed: all requests are of one text, which the sampler follows and the drafts are of, so that a request
which continues another has its tokens from the outset. The text is one that the grammar allows.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Final

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.decode.backend_model import PREFIX_ROWS, VOCAB, Model, model_of, token_of
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.hooks import KVView, Part

DECAY: Final = 0.8
"""What is left of a recurrent state after one more row."""

_CLASSES: Final = 4
_PLACES: Final = 64


def _token_at(place: int) -> int:
    return token_of("text", place) // _CLASSES * _CLASSES + place % _CLASSES


TEXT: Final = tuple(_token_at(place) for place in range(_PLACES))
"""The text that all requests are of: the token at each place behind the prefix."""

PREFIX: Final = tuple(token_of("prefix", place) for place in range(PREFIX_ROWS))
"""The tokens of every prefix block."""


@cache
def draft_model() -> Model:
    """The draft model: a decoder of one layer, with weights of its own."""
    return model_of(DecoderConfig(layers=1, vocab=VOCAB, seed=7), 0, torch.device("cpu"))


@cache
def _readout(size: int) -> Tensor:
    draw = torch.Generator().manual_seed(11)
    return torch.rand(VOCAB, size, generator=draw, dtype=torch.float64) - 0.5


@define(eq=False)
class Recurrent:
    """A recurrent state and its position, that is the rows behind the prefix which it has taken in."""

    state: Tensor
    position: int = 0

    @classmethod
    def behind(cls, keys: Tensor, values: Tensor) -> Recurrent:
        """The state behind the rows [H_kv, R, d_h] of a layer, the prefix's among them."""
        heads, count, width = keys.shape
        made = cls.empty(heads, width)
        made.position = -PREFIX_ROWS
        for place in range(count):
            made.take_in(keys[:, place], values[:, place])
        return made

    @classmethod
    def empty(cls, heads: int, width: int) -> Recurrent:
        """The state before the first row, of so many KV heads of a width."""
        return cls(torch.zeros(heads, width, width, dtype=torch.float64))

    def take_in(self, key: Tensor, value: Tensor) -> None:
        """Go forward by one row [H_kv, d_h]."""
        self.state = DECAY * self.state + _outer(key, value)
        self.position += 1

    def take_out(self, key: Tensor, value: Tensor) -> None:
        """Go back by one row, which is the last that was taken in."""
        self.state = (self.state - _outer(key, value)) / DECAY
        self.position -= 1

    def copy(self) -> Recurrent:
        """The same state, for another request."""
        return Recurrent(self.state.clone(), self.position)

    def reading(self) -> Tensor:
        """What it adds to the logits, [vocab]."""
        return _readout(self.state.numel()) @ self.state.flatten()


def _outer(key: Tensor, value: Tensor) -> Tensor:
    return key.double().unsqueeze(-1) * value.double().unsqueeze(-2)


class DraftRows:
    """The draft model's cache of one request: rows for ids, each at the place where it was appended."""

    def __init__(self, ids: Sequence[int] = PREFIX) -> None:
        self.ids: list[int] = []
        self.rows: dict[tuple[int, Part], Tensor] = {}
        self.feed(ids)

    @property
    def count(self) -> int:
        """Rows behind the prefix."""
        return len(self.ids) - PREFIX_ROWS

    @torch.inference_mode()
    def feed(self, ids: Sequence[int]) -> Tensor | None:
        """Append rows for ids at the cache's own count; logits behind the last, None without any."""
        if not ids:
            return None
        where = torch.arange(len(self.ids), len(self.ids) + len(ids))
        self.ids += ids
        logits = draft_model().decoder.forward(torch.tensor([list(ids)]), where, self)
        return logits[0, -1]

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Put the rows of this call behind those that are there."""
        before = self.rows.get((layer, part))
        self.rows[layer, part] = rows if before is None else torch.cat((before, rows), dim=2)

    def view(self, layer: int) -> KVView:
        """Every row at its place."""
        keys, values = (self.rows[layer, part] for part in Part)
        return KVView(keys, values, torch.arange(keys.shape[2]))

    def cut(self, count: int) -> None:
        """Keep at most so many rows behind the prefix."""
        kept = PREFIX_ROWS + count
        self.ids = self.ids[:kept]
        self.rows = {cell: rows[:, :, :kept] for cell, rows in self.rows.items()}

    def copy(self) -> DraftRows:
        """The same rows, in a cache of their own."""
        made = DraftRows(())
        made.ids, made.rows = list(self.ids), dict(self.rows)
        return made

    def catch_up(self, tokens: Sequence[int], committed: int) -> None:
        """Process the tokens that the rows lack: a sound cache lacks at most one of the committed ones."""
        self.feed(unfed(self, tokens, committed))

    @property
    def row_bytes(self) -> int:
        """Bytes of one row, K and V of all layers."""
        return sum(rows[:, :, 0].numel() * rows.element_size() for rows in self.rows.values())


def unfed(rows: DraftRows, tokens: Sequence[int], committed: int) -> list[int]:
    """What an engine feeds the draft model next: it looks whether the last committed row is there."""
    return list(tokens[max(0, committed - 1) if rows.count < committed else committed :])


@define(eq=False)
class Grammar:
    """The grammar of a handle's request: the state in which it begins, and the outputs it has consumed."""

    handle: int
    start: int
    consumed: list[int] = field(factory=list)

    @property
    def state(self) -> int:
        """Where the automaton is; every token leads to the class behind its own."""
        return ((self.consumed[-1] + 1) if self.consumed else self.start) % _CLASSES

    def mask(self) -> Tensor:
        """What is added to logits, [vocab]: nothing for an allowed token, minus infinity for others."""
        allowed = torch.arange(VOCAB) % _CLASSES == self.state
        return torch.where(allowed, 0.0, -torch.inf)


def next_shares(logits: Tensor, grammar: Grammar | None) -> Tensor:
    """How likely each token is, [vocab], under the mask of a grammar or without one."""
    masked = logits if grammar is None else logits + grammar.mask()
    return masked.double().softmax(dim=0)
