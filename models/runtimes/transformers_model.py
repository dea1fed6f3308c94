"""A tiny random Llama, made from a configuration: no weights are loaded, nothing is downloaded.

Modelled: grouped-query attention (4 query heads, 2 KV heads), rotary positions, any number of layers,
one set of weights for each cache ABI. Left out: training, tokenizers, sliding layers.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import torch

from kvspec.models.backend import Damage
from kvspec.models.runtimes.transformers_calls import stop_between_layers

VOCAB = 32
PROMPT_ROWS = 4
"""Rows of the prompt that every new cache begins with, so that its layers are told apart from empty ones."""

TOLERANCE = 1e-4
"""Logits of two runs of equal batch shape may part by so much; wrong rows part them by far more."""

_SPREAD = 0.3


@cache
def tiny_llama(layers: int, abi: int = 0) -> Any:
    """A Llama of so many layers with random weights of the seed `abi`; its calls stop between layers."""
    from transformers import LlamaConfig, LlamaForCausalLM

    config = LlamaConfig(
        vocab_size=VOCAB,
        hidden_size=16,
        intermediate_size=32,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=256,
    )
    model = LlamaForCausalLM(config).eval()
    draws = torch.Generator().manual_seed(abi)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.normal_(0.0, _SPREAD, generator=draws)
    stop_between_layers(model)
    return model


def prompt_of(block: int) -> list[int]:
    """The prompt's token ids, one prompt for each prefix block."""
    return [1 + (5 * block + place) % (VOCAB - 1) for place in range(PROMPT_ROWS)]


def tokens_of(number: int, count: int) -> list[int]:
    """The token ids of the append with a number, so that no two appends in a row are for the same ids."""
    return [1 + (7 * number + 3 * place + 11) % (VOCAB - 1) for place in range(count)]


def logits_damage(h: int, apart: float) -> list[Damage]:
    """Damage if the next logits of a handle are so far from an uncached run's; a NaN is too far."""
    if apart <= TOLERANCE:
        return []
    text = f"the next logits of handle{h} are {apart:.3g} from an uncached run's"
    return [Damage("logits", f"handle{h}", apart, text)]
