"""Transformers with receipts: what a wrapper around cache and loop owns, so that the vector is known.

Modelled: the rules of `transformers`, a table of the requests that hold a row, and a receipt at each step
after which all layers agree: the return of the forward call, a crop, a reordering.
Left out and assumed: as in `transformers`; that the caller reads the receipts and not the layers while a
forward pass runs.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Generation, Handle, Layer, Length, Version
from kvspec.spec.language import Counts, Expr, Option, Step, System, instance, limit, none
from kvspec.spec.runtimes import transformers as cache
from kvspec.spec.runtimes.receipts import Receipts

receipts = Receipts.of(cache.transformers)
holder = receipts.module.variable(
    "holder", Handle, to=Option[Request], init=none(Request), meaning="request that holds the row"
)


@receipts.module.observe(cache.start)
def begin_receipts(step: Step, h: Handle, r: Request) -> None:
    """The wrapper notes the request, and its receipts begin anew."""
    step.assign(holder[h], r)
    receipts.begun(step, h)


@receipts.module.observe(cache.end_forward)
def receive_forward(step: Step, h: Handle) -> None:
    """The receipt is of the rows that every layer has."""
    receipts.published(step, h, cache.pass_end[h])


@receipts.module.observe(cache.crop)
def receive_crop(step: Step, h: Handle, n: Length) -> None:
    """The receipt is of the rows that are kept."""
    receipts.published(step, h, n)


@receipts.module.observe(cache.reorder_cache)
def receive_reordering(step: Step, h: Handle, p: Handle) -> None:
    """The receipt is of the other beam's rows."""
    receipts.published(step, h, receipts.rows[p])


@receipts.module.observe(cache.repeat_interleave)
def receive_copy(step: Step, p: Handle, h: Handle, r: Request) -> None:
    """The wrapper notes the request of the copy, whose receipts begin with the rows it has."""
    step.assign(holder[h], r)
    receipts.begun(step, h)
    step.assign(receipts.rows[h], receipts.rows[p])


@receipts.module.observe(cache.drop)
def receive_release(step: Step, h: Handle) -> None:
    """The generation is fenced, and the row has no request."""
    step.assign(holder[h], none(Request))
    receipts.released(step, h)


system = System.of(
    "transformers_receipts",
    "Transformers, with receipts of a wrapper.",
    cache.transformers,
    receipts.module,
)


@limit(cache.start)
def starts_below_the_last_generation(h: Handle) -> Expr:
    """The release can be counted."""
    return receipts.can_begin(h)


@limit(cache.repeat_interleave)
def copies_below_the_last_generation(h: Handle) -> Expr:
    """The release of the copy can be counted."""
    return receipts.can_begin(h)


@limit(cache.begin_forward)
def passes_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(cache.crop)
def crops_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(cache.reorder_cache)
def reorders_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


LIMITS = (
    *cache.LIMITS,
    starts_below_the_last_generation,
    copies_below_the_last_generation,
    passes_below_the_last_version,
    crops_below_the_last_version,
    reorders_below_the_last_version,
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Layer: 2, Request: 2, Length: 4, Version: 5, Generation: 2},
    constants={longest: 3},
    limits=LIMITS,
    expected=Counts(614, 880, 21, 10, 159),
    doc="one row of a batch, two layers",
)

BEAMS = instance(
    "BEAMS",
    system,
    {Handle: 2, Layer: 2, Request: 1, Length: 3, Version: 3, Generation: 1},
    constants={longest: 2},
    limits=LIMITS,
    expected=Counts(3_070, 7_512, 19, 18, 786),
    doc="two beams, two layers",
)
