"""Views with receipts: what a wrapper adds makes each projection total, so that it is a refinement.

Each takes from the runtime what its fields carry, and from the wrapper the generation, the snapshot and the
committed rows. A handle without a request was released if its generation says so, and else never used.
"""

from __future__ import annotations

from collections.abc import Callable

from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.canonical_lifecycle import Stage
from kvspec.spec.language import Expr, Variable, is_some, where
from kvspec.spec.projections import Fact, as_refinement, derived, direct, projection
from kvspec.spec.runtimes import sglang as sgl
from kvspec.spec.runtimes import (
    sglang_receipts,
    tensorrt_llm_receipts,
    transformers_receipts,
    vllm_receipts,
)
from kvspec.spec.runtimes import tensorrt_llm as trt
from kvspec.spec.runtimes import transformers as hf
from kvspec.spec.runtimes import vllm as vl
from kvspec.spec.runtimes.receipts import Receipts
from kvspec.spec.runtimes.views import (
    SGLANG_STEPS,
    TENSORRT_LLM_STEPS,
    TRANSFORMERS_STEPS,
    VLLM_STEPS,
    WRAPPER,
)

Test = Callable[[Expr], Expr]


def _facts(
    receipts: Receipts, gone: Test, ended: Test, identity: Fact, outputs: Fact
) -> dict[Variable, Fact]:
    """The eight facts: `gone` and `ended` say that there is no request, and that its output ended."""

    def stage(h: Expr) -> Expr:
        used = where(receipts.generations[h] == 0, Stage.VACANT, Stage.RELEASED)
        live = where(receipts.rows[h] == 0, Stage.NEW, Stage.DECODE_READY)
        return where(gone(h), used, where(ended(h), Stage.FINISHED_RETAINED, live))

    def released(h: Expr) -> Expr:
        return gone(h) & (receipts.generations[h] >= 1)

    return {
        sigma.identity: identity,
        sigma.generation: direct(lambda h: receipts.generations[h], WRAPPER, "generations"),
        sigma.snapshot: direct(lambda h: receipts.snapshots[h], WRAPPER, "snapshots"),
        sigma.outputs: outputs,
        sigma.committed: direct(lambda h: receipts.rows[h], WRAPPER, "receipt_rows"),
        sigma.stage: derived(stage, WRAPPER, "generations, receipt_rows and the runtime's state"),
        sigma.terminal: derived(
            lambda h: released(h) | ended(h), WRAPPER, "generations and the runtime's state"
        ),
        sigma.closed: derived(released, WRAPPER, "generations and the runtime's state"),
    }


with_transformers = projection(
    "transformers_with_receipts",
    transformers_receipts.system,
    _facts(
        transformers_receipts.receipts,
        lambda h: hf.loop[h] == hf.Loop.IDLE,
        lambda h: hf.loop[h] == hf.Loop.STOPPED,
        direct(lambda h: transformers_receipts.holder[h], WRAPPER, "holder"),
        derived(lambda h: hf.input_ids[h] - hf.prompt_ids[h], "caller", "input_ids"),
    ),
    TRANSFORMERS_STEPS,
    "A wrapper that notes the request and writes a receipt when the forward call returns.",
)
with_vllm = projection(
    "vllm_with_receipts",
    vllm_receipts.system,
    _facts(
        vllm_receipts.receipts,
        lambda h: vl.status[h] == vl.Status.ABSENT,
        lambda h: vl.status[h] == vl.Status.FINISHED,
        direct(lambda h: vl.request_id[h], "Request", "Request.request_id"),
        direct(lambda h: vl.output_token_ids[h], "Request", "Request.output_token_ids"),
    ),
    VLLM_STEPS,
    "A wrapper that writes a receipt when the output of a step is reconciled.",
)
with_sglang = projection(
    "sglang_with_receipts",
    sglang_receipts.system,
    _facts(
        sglang_receipts.receipts,
        lambda h: ~is_some(sgl.rid[h]),
        lambda h: sgl.finished_reason[h],
        direct(lambda h: sgl.rid[h], "Req", "Req.rid"),
        direct(lambda h: sgl.output_ids[h], "Req", "Req.output_ids"),
    ),
    SGLANG_STEPS,
    "A wrapper that writes a receipt when the result of a batch arrives.",
)
with_tensorrt_llm = projection(
    "tensorrt_llm_with_receipts",
    tensorrt_llm_receipts.system,
    _facts(
        tensorrt_llm_receipts.receipts,
        lambda h: trt.state[h] == trt.RequestState.NONE,
        lambda h: trt.state[h] == trt.RequestState.GENERATION_COMPLETE,
        direct(lambda h: trt.executor_id[h], "executor", "Executor.enqueueRequest"),
        derived(
            lambda h: trt.tokens[h] - trt.prompt_len[h],
            "GenericLlmRequest",
            "GenericLlmRequest token vectors",
        ),
    ),
    TENSORRT_LLM_STEPS,
    "A wrapper within the engine that writes a receipt when a forward pass is done.",
)

WITH_RECEIPTS = (with_transformers, with_vllm, with_sglang, with_tensorrt_llm)

transformers_refines = as_refinement(
    with_transformers, {sigma.prompt: lambda h: hf.prompt_ids[h]}, TRANSFORMERS_STEPS
)
vllm_refines = as_refinement(
    with_vllm, {sigma.prompt: lambda h: vl.num_prompt_tokens[h]}, VLLM_STEPS
)
sglang_refines = as_refinement(
    with_sglang, {sigma.prompt: lambda h: sgl.origin_input_ids[h]}, SGLANG_STEPS
)
tensorrt_llm_refines = as_refinement(
    with_tensorrt_llm, {sigma.prompt: lambda h: trt.prompt_len[h]}, TENSORRT_LLM_STEPS
)
