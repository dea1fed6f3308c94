"""The measurement behind ``agreement.TOLERANCES``: many decoders, layouts and ways to split calls.

Modelled: every layout and schedule on decoders of all group sizes and both heads, without a window and
with one. Left out: long sequences and deep decoders, where rounding may add up further.

``python -m kvspec.models.decode.measure`` prints the largest disagreement of each dtype.
"""

import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import torch
from attrs import evolve, frozen

from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.calls import cached_logits, uncached_logits
from kvspec.models.decode.config import SUPPORTED_DTYPES, DecoderConfig, default_device
from kvspec.models.decode.decoder import Decoder
from kvspec.models.decode.kinds import LAYOUT_KINDS, StoreSizes, open_store
from kvspec.models.decode.shapes import CacheShape

SCHEDULES: Final[dict[str, tuple[int, ...]]] = {
    "prefill": (24,),
    "prefill, then one at a time": (8, *(1,) * 16),
    "one at a time": (1,) * 24,
    "chunks": (7, 5, 1, 8, 3),
}
"""Ways to split 24 tokens over calls: T_past from 0 to 23, T_new from 1 to 24."""

WINDOW: Final = 5
"""A window of fewer keys than the 24 tokens, and than the largest chunk of each schedule but one."""


@frozen
class Measured:
    """The disagreement of one cached run with the uncached one."""

    config: DecoderConfig
    layout: str
    schedule: str
    disagreement: float


def configs(dtype: torch.dtype, seeds: int, window: int | None = None) -> Iterator[DecoderConfig]:
    """The decoders a measurement goes through: group sizes 1, 2 and 4, both heads, all seeds."""
    base = DecoderConfig(layers=4, d_model=32, heads=4, head_dim=8, d_ff=64, vocab=64, dtype=dtype)
    base = evolve(base, window=window)
    for seed, kv_heads, tied in itertools.product(range(seeds), (4, 2, 1), (True, False)):
        yield evolve(base, seed=seed, kv_heads=kv_heads, tied=tied)


def measure(
    dtype: torch.dtype,
    device: torch.device,
    seeds: int,
    schedules: Mapping[str, Sequence[int]] = SCHEDULES,
    window: int | None = None,
) -> Iterator[Measured]:
    """Every layout and schedule on each decoder of ``configs``, on two sequences of 24 tokens.

    With a ``window`` the decoders see so many keys, and the windowed layout keeps no other rows.
    """
    for config in configs(dtype, seeds, window):
        decoder = Decoder(config, device)
        generator = torch.Generator().manual_seed(config.seed)
        tokens = torch.randint(0, config.vocab, (2, 24), generator=generator).to(device)
        expected = uncached_logits(decoder, tokens)
        shape = CacheShape.of(config, device, batch=2)
        for kind, (name, chunks) in itertools.product(LAYOUT_KINDS, schedules.items()):
            layout = open_store(kind, shape, StoreSizes(24, window=window))()
            found = cached_logits(decoder, layout, tokens, chunks)
            yield Measured(config, kind, name, disagreement(found, expected))


def main() -> None:
    """Print the largest disagreement of each dtype, without and with a window, and its case."""
    # The matrices are too small to share: more threads would only wait for each other.
    torch.set_num_threads(1)
    device = default_device()
    for dtype, window in itertools.product(SUPPORTED_DTYPES, (None, WINDOW)):
        cases = measure(dtype, device, seeds=50, window=window)
        worst = max(cases, key=lambda case: case.disagreement)
        case = f"seed {worst.config.seed}, {worst.layout}, {worst.schedule}, window {window}"
        sys.stdout.write(f"{dtype} on {device}: {worst.disagreement:.3g} ({case})\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
