"""Tests of the seeded weights."""

import pytest
import torch
from attrs import evolve

from kvspec.models.decode import Decoder, DecoderConfig
from kvspec.models.decode.weights import seeded_weights

# The integers behind the weights come from torch's own generator; should a release of torch change
# it, this digest tells.
DEFAULT_DIGEST = "d5582a69c4156b9f9fce6f7c63b0fe498120656eef71057cb86de13262fd26bd"


def test_two_constructions_have_the_same_weights(cpu):
    """Equal configs give equal bytes."""
    first, second = (Decoder(DecoderConfig(), cpu).weights for _ in range(2))
    for (name, one), (_, other) in zip(first.named(), second.named(), strict=True):
        assert torch.equal(one, other), name
    assert first.digest() == second.digest()


def test_weights_are_the_same_on_every_machine(cpu):
    """The default config has one known digest."""
    assert seeded_weights(DecoderConfig(), cpu).digest() == DEFAULT_DIGEST


@pytest.mark.parametrize("change", [{"seed": 1}, {"dtype": torch.bfloat16}, {"tied": False}])
def test_digest_tells_other_weights_apart(cpu, change):
    """Another seed, dtype or head has another digest."""
    config = DecoderConfig()
    other = seeded_weights(evolve(config, **change), cpu)
    assert other.digest() != seeded_weights(config, cpu).digest()


def test_digest_tells_one_bit(cpu):
    """One changed weight among all changes the digest."""
    weights = seeded_weights(DecoderConfig(), cpu)
    before = weights.digest()
    weights.layers[1].down[3, 5] += 2**-10
    assert weights.digest() != before


def test_narrow_weights_are_rounded_wide_ones(cpu):
    """A dtype changes the rounding of the weights and not the draw."""
    wide = seeded_weights(DecoderConfig(dtype=torch.float64), cpu)
    narrow = seeded_weights(DecoderConfig(dtype=torch.bfloat16), cpu)
    for (_, one), (_, other) in zip(wide.named(), narrow.named(), strict=True):
        assert torch.equal(one.to(torch.bfloat16), other)


def test_tied_head_is_the_embedding(cpu):
    """A tied head is the same tensor; an untied one is not."""
    tied = seeded_weights(DecoderConfig(tied=True), cpu)
    untied = seeded_weights(DecoderConfig(tied=False), cpu)
    assert tied.head is tied.embedding
    assert untied.head.shape == untied.embedding.shape
    assert not torch.equal(untied.head, untied.embedding)


def test_projections_keep_the_size_of_rows(cpu):
    """A projection's standard deviation is 1/sqrt(fan-in) within sampling error."""
    config = DecoderConfig(d_model=64, d_ff=256, vocab=512, dtype=torch.float64)
    layer = seeded_weights(config, cpu).layers[0]
    assert layer.gate.std().item() == pytest.approx(64**-0.5, rel=0.02)
    assert layer.down.std().item() == pytest.approx(256**-0.5, rel=0.02)
