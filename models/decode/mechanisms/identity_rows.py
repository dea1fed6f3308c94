"""Rows of prefixes by all that they depend on: tokens, weights, adapter, embeddings and where those are.

Modelled: a prefix of four inputs. One is the embedding of an image; a mask says which others are embeddings
that stand in place of a token. An adapter is a low-rank change of the query, key and value projections, and
each load of it under its name brings another. Rows lie in rooms of the device and of an external tier, which
are memory of one kind, and whose rows they are is written beside them when they are computed and goes with
them when they are copied: for a salt changes no row. Left out: the encoder that makes embeddings of an image.
"""

from __future__ import annotations

from functools import cache

import torch
from attrs import frozen

from kvspec.models.decode.agreement import TOLERANCES
from kvspec.models.decode.backend_model import Model, Run, model_of
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.mechanisms.ownership_rows import BlockRows
from kvspec.models.decode.mechanisms.slot_rows import ROW_SLACK

ROWS = 4
"""Inputs of a prefix, and rows of a room."""

VALUES = 16
"""Of each field an identity can have so many values: of a mask, fewer."""

_SLACK = ROW_SLACK * TOLERANCES[torch.float32]
_IMAGE_AT = 1
_TEXT_AT = (0, 2, 3)
_TOKENS = ROWS * VALUES
# Ids behind those of tokens stand for embeddings: each image has as many as a prefix has inputs.
_INPUTS = 2 * _TOKENS


@frozen
class Identity:
    """What rows are of: the fields of a key. A loading without an adapter says nothing."""

    tokens: int
    weights: int
    adapter: int | None
    loading: int
    salt: int | None
    mask: int
    images: int

    @property
    def inputs(self) -> tuple[int, ...]:
        """What the decoder is given, by place: ids of tokens, and of embeddings behind those."""
        given = [self.tokens * ROWS + place for place in range(ROWS)]
        masked = [at for bit, at in enumerate(_TEXT_AT) if self.mask >> bit & 1]
        for place in (_IMAGE_AT, *masked):
            given[place] = _TOKENS + self.images * ROWS + place
        return tuple(given)

    @property
    def model(self) -> Model:
        """The decoder with its adapter that computes the rows."""
        number = 0 if self.adapter is None else 1 + self.adapter * VALUES + self.loading
        return model_of(_config(self.weights), number, torch.device("cpu"))

    def run(self) -> Run:
        """The uncached run of the prefix."""
        return self.model.run(self.inputs)


@cache
def _config(weights: int) -> DecoderConfig:
    return DecoderConfig(vocab=_INPUTS, seed=weights)


class Rooms:
    """Rooms for the rows of one prefix each.

    Attributes:
        of: for each room whose rows it has, as written beside them; None where nothing was written.
    """

    def __init__(self, count: int) -> None:
        self._rows = BlockRows(model_of(_config(0), 0, torch.device("cpu")), count, ROWS)
        self.of: list[Identity | None] = [None] * count

    def compute(self, room: int, identity: Identity) -> None:
        """Rows of an identity, computed by its own decoder."""
        self._rows.model = identity.model
        self._rows.put(room, identity.inputs)
        self.of[room] = identity

    def copy(self, source: int, target: int) -> None:
        """The rows of one room in another, with what is written beside them."""
        self._rows.copy(source, target)
        self.of[target] = self.of[source]

    def empty(self, room: int) -> None:
        """The rows of a room are nobody's; their bytes stay until others are written."""
        self.of[room] = None

    def holds(self, room: int) -> Identity | None:
        """Whose rows a room has, if its bytes are what the decoder of that identity computes."""
        written = self.of[room]
        return None if written is None or self.wrong_rows(room, written) else written

    def wrong_rows(self, room: int, identity: Identity) -> int:
        """How many rows of a room are not what the decoder of an identity computes."""
        run, layers = identity.run(), self._layers(room)
        wrong = torch.zeros(ROWS, dtype=torch.bool)
        for part, right in enumerate((run.keys, run.values)):
            found = torch.cat([layer[part] for layer in layers])
            off = (found - right).abs().amax(dim=(1, 3))
            wrong |= ~(off <= _SLACK * right.abs().amax(dim=(1, 3))).all(dim=0)
        return int(wrong.sum())

    def logits(self, room: int, identity: Identity) -> torch.Tensor:
        """Logits behind the prefix, for a request of an identity that reads the rows of a room."""
        self._rows.model = identity.model
        return self._rows.next_logits(identity.inputs[-1], ROWS - 1, self._layers(room))

    def _layers(self, room: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
        return self._rows.layers(self._rows.slots(room, ROWS))
