"""SGLang with receipts: the fields a wrapper needs so that the request's whole canonical vector is known.

Modelled: the rules of `sglang`, and at each step that moves the frontier of a request a receipt, written when
the result of a batch arrives and so never when the batch is prepared.
Left out and assumed: as in `sglang`; that the wrapper sees these steps in order and misses none.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Generation, Handle, Length, Version
from kvspec.spec.language import Counts, Expr, Step, System, instance, limit
from kvspec.spec.runtimes import sglang
from kvspec.spec.runtimes.receipts import Receipts

receipts = Receipts.of(sglang.sglang)


@receipts.module.observe(sglang.create)
def begin_receipts(step: Step, h: Handle) -> None:
    """Its receipts begin anew."""
    receipts.begun(step, h)


@receipts.module.observe(sglang.prefill_result)
def receive_prefill(step: Step, h: Handle) -> None:
    """The receipt is of all rows that were prepared."""
    receipts.published(step, h, sglang.kv_committed_len[h])


@receipts.module.observe(sglang.decode_result)
def receive_decode(step: Step, h: Handle) -> None:
    """The receipt is of one row more."""
    receipts.published(step, h, sglang.kv_committed_len[h])


@receipts.module.observe(sglang.retract)
def receive_retraction(step: Step, h: Handle) -> None:
    """The receipt is of no rows."""
    receipts.published(step, h, 0)


@receipts.module.observe(sglang.cache_finished)
def receive_release(step: Step, h: Handle) -> None:
    """The generation is fenced."""
    receipts.released(step, h)


system = System.of(
    "sglang_receipts", "SGLang, with receipts of a wrapper.", sglang.sglang, receipts.module
)


@limit(sglang.create)
def creates_below_the_last_generation(h: Handle) -> Expr:
    """The release can be counted."""
    return receipts.can_begin(h)


@limit(sglang.prepare_for_extend)
def prefills_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(sglang.prepare_for_decode)
def decodes_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(sglang.retract)
def retracts_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


LIMITS = (
    *sglang.LIMITS,
    creates_below_the_last_generation,
    prefills_below_the_last_version,
    decodes_below_the_last_version,
    retracts_below_the_last_version,
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 4, Version: 5, Generation: 2},
    constants={longest: 3},
    limits=LIMITS,
    expected=Counts(946, 1_859, 19, 5, 492),
    doc="one request at a time",
)
