"""Transformers with a crop that the generation loop does not follow.

Modelled: the rules of `transformers`, and `Cache.crop` called alone: every layer gets shorter, and the
caller's token ids stay as they are. The cache allows it; what the caller then has is no truncated request.
Left out and assumed: as in `transformers`.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Handle, Layer, Length
from kvspec.spec.language import Counts, Module, Step, System, instance
from kvspec.spec.runtimes import transformers as cache

cropping = Module(
    "cropping", "A crop by itself.", uses=(cache.transformers,), writes=(cache.layer_rows,)
)


@cropping.action
def crop_alone(step: Step, h: Handle, n: Length) -> None:
    """`Cache.crop` to n rows, and nothing else."""
    step.require(cache.loop[h] == cache.Loop.LOOPING, cache.NOT_LOOPING)
    step.require(cache.pass_end[h] == 0, cache.PASS_RUNS)
    step.require(cache.prompt_ids[h] <= n, cache.CUTS_PROMPT)
    step.require(n < cache.seq_length(h), cache.NOT_SHORTER)
    for layer in step.every(Layer):
        step.assign(cache.layer_rows[h, layer], n)


system = System.of(
    "transformers_crop", "Transformers, with a crop alone.", cache.transformers, cropping
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Layer: 2, Request: 1, Length: 4},
    constants={longest: 3},
    limits=cache.LIMITS,
    expected=Counts(180, 304, 22, 0, 90),
    doc="one row of a batch, two layers",
)
