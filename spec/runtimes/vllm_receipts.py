"""vLLM with receipts: the fields a wrapper needs so that the request's whole canonical vector is known.

Modelled: the rules of `vllm`, and at each step that moves the frontier of a request a receipt, written when
the output of a step is reconciled and so never when it is scheduled.
Left out and assumed: as in `vllm`; that the wrapper sees these steps in order and misses none.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Generation, Handle, Length, Version
from kvspec.spec.language import Counts, Expr, Step, System, instance, limit
from kvspec.spec.runtimes import vllm
from kvspec.spec.runtimes.receipts import Receipts

receipts = Receipts.of(vllm.vllm)


@receipts.module.observe(vllm.add_request)
def begin_receipts(step: Step, h: Handle) -> None:
    """Its receipts begin anew."""
    receipts.begun(step, h)


@receipts.module.observe(vllm.reconcile_prefill)
def receive_prefill(step: Step, h: Handle) -> None:
    """The receipt is of all rows that were scheduled."""
    receipts.published(step, h, vllm.num_computed_tokens[h])


@receipts.module.observe(vllm.reconcile_decode)
def receive_decode(step: Step, h: Handle, a: Length) -> None:
    """The receipt is of one row more, and of those of accepted drafts."""
    receipts.published(step, h, receipts.rows[h] + 1 + a)


@receipts.module.observe(vllm.preempt)
def receive_preemption(step: Step, h: Handle) -> None:
    """The receipt is of no rows."""
    receipts.published(step, h, 0)


@receipts.module.observe(vllm.free_blocks)
def receive_release(step: Step, h: Handle) -> None:
    """The generation is fenced."""
    receipts.released(step, h)


system = System.of("vllm_receipts", "vLLM, with receipts of a wrapper.", vllm.vllm, receipts.module)


@limit(vllm.add_request)
def adds_below_the_last_generation(h: Handle) -> Expr:
    """The release can be counted."""
    return receipts.can_begin(h)


@limit(vllm.schedule_prefill)
def prefills_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(vllm.schedule_decode)
def decodes_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(vllm.preempt)
def preempts_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


LIMITS = (
    *vllm.LIMITS,
    adds_below_the_last_generation,
    prefills_below_the_last_version,
    decodes_below_the_last_version,
    preempts_below_the_last_version,
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 5, Version: 5, Generation: 2},
    constants={longest: 4},
    limits=LIMITS,
    expected=Counts(695, 1_064, 16, 5, 353),
    doc="one request at a time, with drafts",
)
