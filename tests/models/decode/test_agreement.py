"""Tests that cached and uncached logits agree, and that a wrong cache does not."""

import math

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    TOLERANCES,
    CacheShape,
    Decoder,
    DecoderConfig,
    agrees,
    allocate,
    append,
    cached_logits,
    disagreement,
    positions_from,
    uncached_logits,
)
from kvspec.models.decode.config import SUPPORTED_DTYPES
from kvspec.models.decode.measure import SCHEDULES, measure

QUICK = {name: chunks for name, chunks in SCHEDULES.items() if name != "one at a time"}
"""All schedules but the one that costs most; decode is in the second as well."""


@pytest.mark.parametrize("dtype", SUPPORTED_DTYPES, ids=str)
def test_cached_and_uncached_logits_agree(cpu, dtype):
    """Prefill, decode and chunks; both layouts; group sizes 1, 2 and 4; tied and untied head."""
    cases = list(measure(dtype, cpu, seeds=1, schedules=QUICK))
    seen = {(c.layout, c.schedule, c.config.group, c.config.tied) for c in cases}
    assert len(seen) == len(LAYOUT_KINDS) * len(QUICK) * 3 * 2 == len(cases)
    worst = max(cases, key=lambda case: case.disagreement)
    assert worst.disagreement <= TOLERANCES[dtype], worst


def test_every_schedule_covers_the_same_tokens():
    """All schedules split 24 tokens, and one of them has T_past > 0 and T_new > 1."""
    assert {sum(chunks) for chunks in SCHEDULES.values()} == {24}
    assert any(len(chunks) > 1 and max(chunks[1:]) > 1 for chunks in SCHEDULES.values())


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
def test_agreement_holds_with_a_window(cpu, tokens, kind):
    """A sliding window in the decoder is the same cached and uncached."""
    decoder = Decoder(DecoderConfig(dtype=torch.float64, window=3), cpu)
    layout = allocate(kind, CacheShape.of(decoder.config, cpu), capacity=12)
    found = cached_logits(decoder, layout, tokens, (5, 1, 1, 5))
    assert agrees(found, uncached_logits(decoder, tokens))


@pytest.mark.parametrize("kind", LAYOUT_KINDS)
@pytest.mark.parametrize("offset", [-1, 1, 5])
def test_wrong_positions_are_seen_in_the_logits(
    decoder, shape, tokens, kind, offset, record_property
):
    """A cached call whose positions are off disagrees by more than 10^9 times the tolerance."""
    layout = allocate(kind, shape, capacity=12)
    append(decoder, layout, tokens[:, :8])
    staging = layout.begin(1)
    at = positions_from(8 + offset, 1, decoder.device)
    found = decoder.forward(tokens[:, 8:9], at, staging)
    off = disagreement(found[:, 0], uncached_logits(decoder, tokens)[:, 8])
    record_property("disagreement", off)
    assert off > 1e9 * TOLERANCES[torch.float64]


def test_disagreement_is_a_share_of_the_largest_logit():
    """A difference of one beside a largest logit of four is a quarter."""
    assert disagreement(torch.tensor([1.0, 4.0]), torch.tensor([2.0, -4.0])) == 2.0
    assert disagreement(torch.tensor([1.0, -4.0]), torch.tensor([2.0, -4.0])) == 0.25


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_never_agree(bad):
    """A NaN or an infinity on either side is a disagreement."""
    fine, spoilt = torch.tensor([1.0, 2.0]), torch.tensor([1.0, bad])
    assert not agrees(spoilt, fine)
    assert not agrees(fine, spoilt)
