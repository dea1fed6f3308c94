"""What transactions cost: decode steps a second with them and without, on the same decoder.

Modelled: the same tokens are decoded several ways at once, a step of each in turn, so that whatever else
the machine does hits all of them alike. Without a transaction a call writes its rows to where the next
call reads them, and nothing more: into a preallocated buffer, or behind a tensor by concatenation. With
one, the same call stages them in an append of a layout and publishes that. A ratio is that of two steps
beside each other, with and without; of a way's ratios the median counts, and the quartiles tell how far
they spread, and so how sure it is. Times are of the thread's CPU: a step that is interrupted is not
counted as slow. The aim is held against the layouts whose rows have a counterpart without transactions,
stored alike; what another layout costs is told beside it, but how it stores rows is in that too. Left
out: the tables of the backend (handles, versions, digests), whose decoder has one small size; CUDA,
where a publication also waits for its events.

``python -m kvspec.models.decode.transaction_cost`` prints the table.
"""

from __future__ import annotations

import math
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final

import torch
from attrs import field, frozen
from torch import Tensor

from kvspec.models.decode.agreement import agrees
from kvspec.models.decode.calls import append
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.decoder import Decoder, positions_from
from kvspec.models.decode.hooks import KVView, Part
from kvspec.models.decode.kinds import LAYOUT_KINDS, StoreSizes, open_store
from kvspec.models.decode.shapes import CacheShape, Cell
from kvspec.models.decode.staging import copy_rows

AIM: Final = 0.02
"""A step with a transaction takes at most this share longer, where the decoder's arithmetic dominates."""

IN_PLACE: Final = "rows in place, no transaction"
GROWN: Final = "rows concatenated, no transaction"


@frozen
class Load:
    """What is decoded.

    Attributes:
        name: what the shape is called.
        config: sizes of the decoder.
        batch: sequences that are decoded in lockstep.
        prompt: tokens of each that are there before the first step that is measured.
        steps: steps of one token that are measured, each way.
    """

    name: str
    config: DecoderConfig
    batch: int
    prompt: int
    steps: int


TINY: Final = Load("tiny", DecoderConfig(), batch=1, prompt=16, steps=200)
"""Rows of 4 numbers: the book-keeping is all there is."""

BIG: Final = Load(
    "big",
    DecoderConfig(layers=2, d_model=2048, heads=16, kv_heads=4, head_dim=128, d_ff=8192, vocab=512),
    batch=4,
    prompt=16,
    steps=48,
)
"""Two layers of 61 million weights each, four sequences: the matrix products are nearly all there is."""


class InPlace:
    """A cache without transactions: a preallocated buffer, written where the next call reads."""

    def __init__(self, shape: CacheShape, capacity: int) -> None:
        size = (shape.layers, *shape.rows(capacity))
        self._rows = {part: torch.zeros(size, dtype=shape.dtype) for part in Part}
        self._last = shape.layers - 1
        self.length = 0
        self._count = 0

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Write the rows behind those that are there."""
        self._count = rows.shape[2]
        target = self._rows[part][layer, :, :, self.length : self.length + self._count]
        copy_rows(target, rows)

    def view(self, layer: int) -> KVView:
        """All rows up to those of this call; after the last layer they are there for good."""
        stop = self.length + self._count
        keys, values = (self._rows[part][layer, :, :, :stop] for part in Part)
        if layer == self._last:
            self.length = stop
        return KVView(keys, values, torch.arange(stop))


class Grown:
    """A cache without transactions: a tensor for each part, that grows by concatenation."""

    def __init__(self, shape: CacheShape, capacity: int) -> None:
        del capacity
        empty = torch.empty(shape.rows(0), dtype=shape.dtype)
        self._rows: dict[Cell, Tensor] = dict.fromkeys(shape.cells(), empty)
        self._last = shape.layers - 1
        self.length = 0

    def stage(self, layer: int, part: Part, rows: Tensor) -> None:
        """Put the rows behind those that are there."""
        self._rows[layer, part] = torch.cat((self._rows[layer, part], rows), dim=2)

    def view(self, layer: int) -> KVView:
        """All rows up to those of this call; after the last layer they are there for good."""
        keys, values = self._rows[layer, Part.KEY], self._rows[layer, Part.VALUE]
        if layer == self._last:
            self.length = keys.shape[2]
        return KVView(keys, values, torch.arange(keys.shape[2]))


BARE: Final[Mapping[str, Callable[[CacheShape, int], InPlace | Grown]]] = {
    IN_PLACE: InPlace,
    GROWN: Grown,
}
"""The caches without transactions."""

COUNTERPARTS: Final[Mapping[str, str]] = {"dynamic": GROWN, "static": IN_PLACE}
"""The cache without transactions that stores rows as a layout does; others go beside rows in place."""


@frozen(eq=False)
class Cost:
    """What decoding one way took.

    Attributes:
        way: its name.
        base: the way without transactions that it is compared with; itself for such a one.
        seconds: CPU time of each step.
        ratios: time of each step as a share of the base's step beside it.
        logits: what came out, [B, steps, vocab].
    """

    way: str
    base: str
    seconds: tuple[float, ...] = field(repr=False)
    ratios: tuple[float, ...] = field(repr=False)
    logits: Tensor = field(repr=False)

    @property
    def rate(self) -> float:
        """Decode steps a second, from the median step."""
        return 1 / statistics.median(self.seconds)

    @property
    def rate_ratio(self) -> float:
        """Steps a second as a share of those without transactions, from the median of the ratios."""
        return 1 / statistics.median(self.ratios)

    @property
    def quartiles(self) -> tuple[float, float]:
        """The first and third quartile of that share, over the steps."""
        low, _, high = statistics.quantiles((1 / ratio for ratio in self.ratios), n=4)
        return low, high

    @property
    def slowdown(self) -> float:
        """The share by which a step takes longer than without a transaction."""
        return statistics.median(self.ratios) - 1

    @property
    def margin(self) -> float:
        """How far `slowdown` may be off: two standard errors of a median, told by the quartiles.

        For a normal spread the standard error of a median of n is sqrt(pi / 2n) deviations, and the
        quartiles are 1.349 deviations apart.
        """
        low, _, high = statistics.quantiles(self.ratios, n=4)
        return 2 * math.sqrt(math.pi / 2 / len(self.ratios)) * (high - low) / 1.349


@frozen
class Result:
    """All ways of one load.

    Attributes:
        load: what was decoded.
        costs: each way's cost, those without transactions first.
    """

    load: Load
    costs: tuple[Cost, ...]

    @property
    def is_same(self) -> bool:
        """Every way gave the same logits, but for rounding."""
        return all(agrees(cost.logits, self.costs[0].logits) for cost in self.costs)

    @property
    def judged(self) -> tuple[Cost, ...]:
        """The costs of the layouts that have a counterpart without transactions."""
        return tuple(cost for cost in self.costs if cost.way in COUNTERPARTS)

    @property
    def is_within_aim(self) -> bool | None:
        """Steps of all layouts that are judged take at most `AIM` longer; None if that cannot be told."""
        if any(cost.slowdown - cost.margin > AIM for cost in self.judged):
            return False
        return True if all(cost.slowdown + cost.margin <= AIM for cost in self.judged) else None


Step = Callable[[Tensor], Tensor]
"""Processes tokens [1, T] behind those before, and gives their logits."""


def measure(load: Load, kinds: Sequence[str] = LAYOUT_KINDS) -> Result:
    """Decode the load every way, a step of each in turn, on one thread of the CPU."""
    device = torch.device("cpu")
    with _one_thread():
        decoder = Decoder(load.config, device)
        ways = _ways(decoder, load, kinds)
        draw = torch.Generator().manual_seed(load.config.seed)
        size = (load.batch, load.prompt + load.steps)
        tokens = torch.randint(0, load.config.vocab, size, generator=draw)
        seconds: dict[str, list[float]] = {way: [] for way in ways}
        logits: dict[str, list[Tensor]] = {way: [] for way in ways}
        for step in ways.values():
            step(tokens[:, : load.prompt])
        # A way stands beside its base, and comes before it as often as behind.
        order = sorted(ways, key=lambda way: (_base(way), way not in BARE))
        for turn in range(load.steps):
            given = tokens[:, load.prompt + turn :][:, :1]
            for way in order if turn % 2 else reversed(order):
                started = time.thread_time()
                found = ways[way](given)
                seconds[way].append(time.thread_time() - started)
                logits[way].append(found)
    return Result(load, tuple(_cost(way, seconds, logits) for way in ways))


def _ways(decoder: Decoder, load: Load, kinds: Sequence[str]) -> dict[str, Step]:
    """How each way takes a step, from an empty cache on."""
    shape = CacheShape.of(decoder.config, decoder.device, load.batch)
    capacity = load.prompt + load.steps

    def bare(cache: InPlace | Grown) -> Step:
        return lambda tokens: decoder.forward(
            tokens, positions_from(cache.length, tokens.shape[1], decoder.device), cache
        )

    def published(kind: str) -> Step:
        layout = open_store(kind, shape, StoreSizes(capacity, layouts=1))()
        return lambda tokens: append(decoder, layout, tokens)

    ways = {way: bare(make(shape, capacity)) for way, make in BARE.items()}
    return ways | {kind: published(kind) for kind in kinds}


def _base(way: str) -> str:
    """The way without transactions that a way is compared with."""
    return way if way in BARE else COUNTERPARTS.get(way, IN_PLACE)


def _cost(way: str, seconds: Mapping[str, list[float]], logits: Mapping[str, list[Tensor]]) -> Cost:
    base = _base(way)
    ratios = [own / bare for own, bare in zip(seconds[way], seconds[base], strict=True)]
    return Cost(way, base, tuple(seconds[way]), tuple(ratios), torch.cat(logits[way], dim=1))


@contextmanager
def _one_thread() -> Iterator[None]:
    """One thread for torch, whose time is the thread's own, and then as many as before."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def text(result: Result) -> str:
    """One line for each way, with its ratio to the way without transactions."""
    load, config = result.load, result.load.config
    size = f"{config.layers} layers of width {config.d_model}, batch {load.batch}"
    lines = [f"{load.name}: {size}, {load.steps} steps each way"]
    for cost in result.costs:
        line = f"  {cost.way:34} {cost.rate:7.1f} steps/s"
        if cost.way != cost.base:
            low, high = cost.quartiles
            line += f"  {cost.rate_ratio:.3f} [{low:.3f}, {high:.3f}] of {cost.base.split(',')[0]}"
        lines.append(line)
    return "\n".join(lines)


def main() -> None:
    """Print the tables."""
    for load in (TINY, BIG):
        sys.stdout.write(text(measure(load)) + "\n")


if __name__ == "__main__":
    main()
