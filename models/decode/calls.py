"""Whole model calls: without a cache, and as appends to a layout.

Modelled: recomputation of every position from the tokens alone, which is what a cache must agree
with, and an append that either publishes all layers or leaves nothing. Left out: who owns a handle
and whether its base is still current; the transactional backend asks that.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from kvspec.models.decode.completion import Submit, run_now
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import CallRows
from kvspec.models.decode.kinds import AnyLayout


def uncached_logits(decoder: Decoder, tokens: Tensor) -> Tensor:
    """Logits [B, T, vocab] of ``tokens`` [B, T] at positions [0, T), every row computed anew."""
    positions = positions_from(0, tokens.shape[-1], decoder.device)
    return decoder.forward(tokens, positions, CallRows(positions))


def append(decoder: Decoder, layout: AnyLayout, tokens: Tensor, submit: Submit = run_now) -> Tensor:
    """Process ``tokens`` [B, T_new] behind the visible rows, publish theirs, give the logits.

    The logits are [B, T_new, vocab]. If the call or the publication fails, nothing is published.
    """
    staging = layout.begin(tokens.shape[-1], submit)
    try:
        positions = positions_from(staging.start, staging.count, decoder.device)
        logits = decoder.forward(tokens, positions, staging)
        layout.install(staging)
    finally:
        # Harmless after success: installing has closed it.
        staging.discard()
    return logits


def cached_logits(
    decoder: Decoder, layout: AnyLayout, tokens: Tensor, chunks: Iterable[int]
) -> Tensor:
    """Logits [B, T, vocab] of ``tokens`` [B, T], appended in calls of ``chunks`` tokens each."""
    pieces = torch.split(tokens, list(chunks), dim=-1)
    return torch.cat([append(decoder, layout, piece) for piece in pieces], dim=1)
