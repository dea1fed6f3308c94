"""TensorRT-LLM with receipts: the fields a wrapper needs so that the whole canonical vector is known.

Modelled: the rules of `tensorrt_llm`, and at each step that moves the frontier of a request a receipt,
written when a forward pass is done and so never when the sequence grows.
Left out and assumed: as in `tensorrt_llm`; that the wrapper is within the engine, where these steps can be
seen in order. An application outside sees ids and responses alone.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Generation, Handle, Length, Version
from kvspec.spec.language import Counts, Expr, Step, System, instance, limit
from kvspec.spec.runtimes import tensorrt_llm as engine
from kvspec.spec.runtimes.receipts import Receipts

receipts = Receipts.of(engine.tensorrt_llm)


@receipts.module.observe(engine.enqueue_request)
def begin_receipts(step: Step, h: Handle) -> None:
    """Its receipts begin anew."""
    receipts.begun(step, h)


@receipts.module.observe(engine.context_done)
def receive_context(step: Step, h: Handle) -> None:
    """The receipt is of the prompt's rows."""
    receipts.published(step, h, engine.prompt_len[h])


@receipts.module.observe(engine.generation_done)
def receive_generation(step: Step, h: Handle, a: Length) -> None:
    """The receipt is of one row more, and of those of accepted drafts."""
    receipts.published(step, h, receipts.rows[h] + 1 + a)


@receipts.module.observe(engine.remove_sequence)
def receive_release(step: Step, h: Handle) -> None:
    """The generation is fenced."""
    receipts.released(step, h)


system = System.of(
    "tensorrt_llm_receipts",
    "TensorRT-LLM, with receipts of a wrapper.",
    engine.tensorrt_llm,
    receipts.module,
)


@limit(engine.enqueue_request)
def enqueues_below_the_last_generation(h: Handle) -> Expr:
    """The release can be counted."""
    return receipts.can_begin(h)


@limit(engine.add_sequence)
def prefills_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


@limit(engine.add_token)
def decodes_below_the_last_version(h: Handle) -> Expr:
    """The receipt can be counted."""
    return receipts.can_publish(h)


LIMITS = (
    *engine.LIMITS,
    enqueues_below_the_last_generation,
    prefills_below_the_last_version,
    decodes_below_the_last_version,
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 5, Version: 6, Generation: 2},
    constants={longest: 4},
    limits=LIMITS,
    expected=Counts(2_603, 6_724, 21, 5, 1_319),
    doc="one request at a time, with drafts",
)
