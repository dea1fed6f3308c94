"""Batched calls of requests that differ in length, each with rows of its own.

Modelled: one model call for several requests. Each brings its own layout and as many tokens as it likes
(a chunk of a prompt beside the one token of a decode step); shorter rows are padded on the right, and what
padding computes is neither staged nor seen. Each request's append is installed by itself: a row that is
refused leaves the others as they are. Left out: kernels that skip the padding; who chooses the batch.

Sizes: B requests in the call, n_b new tokens of one, T_new the largest of these, T_k the longest view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import torch
from attrs import frozen
from torch import Tensor
from torch.nn.functional import pad

from kvspec.models.decode.completion import Submit, run_now
from kvspec.models.decode.decoder import Decoder, ForwardSteps
from kvspec.models.decode.errors import BadShapeError, DecodeError
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.staging import Staging

NO_ROW: Final = -1
"""The position of padding, of a token as of a slot in a view."""


@frozen(eq=False)
class Chunk:
    """What one request appends in a call.

    Attributes:
        layout: its rows.
        tokens: the token ids, int64 [n] with n >= 1.
    """

    layout: AnyLayout
    tokens: Tensor


@frozen(eq=False)
class RowResult:
    """What a call did for one request: exactly one of the two is there.

    Attributes:
        logits: [n, vocab], of its tokens alone, once its rows are visible.
        refused: why nothing of it was published.
    """

    logits: Tensor | None = None
    refused: DecodeError | None = None


class RaggedCall:
    """The ``LayerCache`` of one call over the open appends of several requests.

    ``starts`` are the positions that the model is told each row begins at; by default those where the
    appends begin, and anything else is a fault.

    Attributes:
        stagings: the append of each row.
        failures: the rows that were refused while the call ran, with the refusal. Their later rows are
            dropped, and the others go on.

    Raises:
        BadShapeError: there is no row, or the rows are of caches of different shapes, or of several
            sequences each.
    """

    def __init__(self, stagings: Sequence[Staging], starts: Sequence[int] | None = None) -> None:
        _check_shapes(stagings)
        self.stagings = tuple(stagings)
        self.failures: dict[int, DecodeError] = {}
        self._starts = [each.start for each in stagings] if starts is None else list(starts)

    @property
    def counts(self) -> list[int]:
        """New tokens of each row."""
        return [staging.count for staging in self.stagings]

    @property
    def positions(self) -> Tensor:
        """The position of each token, int64 [B, T_new], negative for padding."""
        found = [
            torch.arange(start, start + count)
            for start, count in zip(self._starts, self.counts, strict=True)
        ]
        return _padded(found, NO_ROW).to(self.stagings[0].shape.device)

    def tokens(self, rows: Sequence[Tensor]) -> Tensor:
        """Token ids [B, T_new] of rows [n_b] each, padded with id 0.

        Raises:
            BadShapeError: a row has another number of tokens than its append has rows.
        """
        found, expected = [tuple(row.shape) for row in rows], [(count,) for count in self.counts]
        if found != expected:
            raise BadShapeError(
                where="RaggedCall.tokens",
                found=f"tokens of shapes {found}",
                expected=f"one id for each row of the appends, shapes {expected}",
                fix="give each row the tokens that its append was begun for",
            )
        return _padded(rows, 0)

    def forward_layers(self, decoder: Decoder, rows: Sequence[Tensor]) -> ForwardSteps:
        """The call in steps, over token ids [n_b] of each row (`Decoder.forward_layers`)."""
        return decoder.forward_layers(self.tokens(rows), self.positions, self)

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Hand each append its own rows of [B, H_kv, T_new, d_h], without the padding."""
        for row, staging in enumerate(self.stagings):
            own = rows[row : row + 1, :, : staging.count]
            self._attempt(row, partial(staging.stage, layer, part, own))

    def view(self, layer: int) -> KVView:
        """The views of all rows side by side, each padded to the longest; a failed row sees nothing."""
        shape = self.stagings[0].shape
        none = torch.zeros(shape.rows(0), dtype=shape.dtype, device=shape.device)
        nothing = KVView(none, none, torch.zeros(0, dtype=torch.int64, device=shape.device))
        views: list[KVView] = []
        for row, staging in enumerate(self.stagings):
            found = self._attempt(row, partial(staging.view, layer))
            views.append(nothing if found is None else found)
        longest = max(view.positions.shape[-1] for view in views)
        return KVView(
            torch.cat([_grown(view.keys, longest) for view in views]),
            torch.cat([_grown(view.values, longest) for view in views]),
            _padded([view.positions.reshape(-1) for view in views], NO_ROW),
        )

    def discard(self) -> None:
        """Throw away the rows of every append that is still open."""
        for staging in self.stagings:
            staging.discard()

    def _attempt(self, row: int, act: Callable[[], Any]) -> Any:
        """What ``act`` gives for one row, or None once the row has been refused."""
        if row in self.failures:
            return None
        try:
            return act()
        except DecodeError as refused:
            self.failures[row] = refused
            self.stagings[row].discard()
            return None


def append_ragged(
    decoder: Decoder,
    chunks: Sequence[Chunk],
    submit: Submit = run_now,
    starts: Mapping[int, int] | None = None,
) -> list[RowResult]:
    """Process the chunks in one call and publish each behind the rows of its request.

    ``starts`` names other positions for some rows than those where their rows end: a fault.

    A request whose append is refused, at its begin, in the call or at its install, publishes nothing and
    has the refusal in its result. Any other failure ends the call for all, and nothing is published.
    """
    results: dict[int, RowResult] = {}
    opened: dict[int, Staging] = {}
    try:
        for row, chunk in enumerate(chunks):
            try:
                opened[row] = chunk.layout.begin(len(chunk.tokens), submit)
            except DecodeError as refused:
                results[row] = RowResult(refused=refused)
        if opened:
            told = [(starts or {}).get(row, staging.start) for row, staging in opened.items()]
            call = RaggedCall(list(opened.values()), told)
            tokens = call.tokens([chunks[row].tokens for row in opened])
            logits = decoder.forward(tokens, call.positions, call)
            for place, row in enumerate(opened):
                results[row] = _install(call, place, chunks[row].layout, logits)
    finally:
        for staging in opened.values():
            # Harmless for those that were installed.
            staging.discard()
    return [results[row] for row in range(len(chunks))]


def _install(call: RaggedCall, place: int, layout: AnyLayout, logits: Tensor) -> RowResult:
    """Publish one row of a call that has run."""
    if place in call.failures:
        return RowResult(refused=call.failures[place])
    staging = call.stagings[place]
    try:
        layout.install(staging)
    except DecodeError as refused:
        return RowResult(refused=refused)
    return RowResult(logits[place, : staging.count])


def _grown(rows: Tensor, count: int) -> Tensor:
    """Rows [1, H_kv, T, d_h] with zeros behind them up to ``count``."""
    return pad(rows, (0, 0, 0, count - rows.shape[2]))


def _padded(rows: Iterable[Tensor], filler: int) -> Tensor:
    """Integer rows [n_b] as one [B, max n_b], filled up on the right."""
    held = list(rows)
    longest = max(len(row) for row in held)
    return torch.stack([pad(row, (0, longest - len(row)), value=filler) for row in held])


def _check_shapes(stagings: Sequence[Staging]) -> None:
    shapes = {staging.shape for staging in stagings}
    if len(shapes) != 1 or next(iter(shapes)).batch != 1:
        raise BadShapeError(
            where="RaggedCall",
            found=f"{len(stagings)} appends of {len(shapes)} cache shapes",
            expected="at least one append, all of one shape with batch = 1",
            fix="give each request a layout of its own, made for this decoder",
        )
