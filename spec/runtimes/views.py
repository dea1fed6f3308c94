"""Views: the projection of each runtime, its facts with their sources, and what its steps stand for.

A step that moves no coordinate stands for none (a stutter): a schedule, an update of one layer, whatever the
tree or the block pool does. Where a fact is known only while the runtime has the request, it is bottom
before and after.
"""

from __future__ import annotations

from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.canonical_lifecycle import Stage
from kvspec.spec.language import Expr, is_some, one_of, where
from kvspec.spec.language.refinement import STUTTER, call
from kvspec.spec.projections import absent, derived, direct, foreign, near, projection
from kvspec.spec.runtimes import sglang as sgl
from kvspec.spec.runtimes import tensorrt_llm as trt
from kvspec.spec.runtimes import transformers as hf
from kvspec.spec.runtimes import vllm as vl

CALLER = "caller"
WRAPPER = "wrapper"

TRANSFORMERS_STEPS = {
    hf.start: lambda h, r, n: call(sigma.allocate, h, r, n),
    hf.begin_forward: STUTTER,
    hf.update: STUTTER,
    hf.end_forward: lambda h: (call(sigma.prefill_publish, h), call(sigma.decode_publish, h, 1)),
    hf.append_token: lambda h: call(sigma.output_emit, h),
    hf.crop: lambda h, n: call(sigma.truncate, h, n),
    hf.reorder_cache: lambda h, p: call(sigma.reorder, h, p),
    hf.repeat_interleave: lambda p, h, r: call(sigma.fork, p, h, r),
    hf.stop: lambda h: call(sigma.finish, h),
    hf.drop: lambda h: call(sigma.release, h),
}

transformers = projection(
    "transformers",
    hf.system,
    {
        sigma.identity: absent(CALLER),
        sigma.generation: absent(CALLER),
        sigma.snapshot: absent(CALLER),
        sigma.outputs: absent(CALLER),
        sigma.committed: near(hf.seq_length, "Cache", "Cache.get_seq_length"),
        sigma.stage: absent(CALLER),
        sigma.terminal: absent(CALLER),
        sigma.closed: absent(CALLER),
    },
    TRANSFORMERS_STEPS,
    "The cache object alone: the length of layer 0, and nothing of the request.",
)


def is_in_scheduler(h: Expr) -> Expr:
    """The scheduler of vLLM has the request."""
    return vl.status[h] != vl.Status.ABSENT


def vllm_stage(h: Expr) -> Expr:
    """The phase that is like the status."""
    waits = one_of(vl.status[h], vl.Status.WAITING, vl.Status.PREEMPTED)
    ended = where(vl.status[h] == vl.Status.FINISHED, Stage.FINISHED_RETAINED, Stage.DECODE_READY)
    return where(waits, Stage.NEW, ended)


VLLM_STEPS = {
    vl.add_request: lambda h, r, n: call(sigma.allocate, h, r, n),
    vl.schedule_prefill: STUTTER,
    vl.schedule_decode: STUTTER,
    vl.reconcile_prefill: lambda h: call(sigma.prefill_publish, h),
    vl.reconcile_decode: lambda h, a: call(sigma.decode_publish, h, a + 1),
    vl.append_output: lambda h: call(sigma.output_emit, h),
    vl.preempt: lambda h: call(sigma.retract, h),
    vl.finish_request: lambda h: call(sigma.finish, h),
    vl.finish_and_send: lambda h: call(sigma.finish, h),
    vl.end_sending: STUTTER,
    vl.free_blocks: lambda h: call(sigma.release, h),
}

vllm = projection(
    "vllm",
    vl.system,
    {
        sigma.identity: direct(
            lambda h: vl.request_id[h], "Request", "Request.request_id", is_in_scheduler
        ),
        sigma.generation: absent(WRAPPER),
        sigma.snapshot: absent(WRAPPER),
        sigma.outputs: direct(
            lambda h: vl.output_token_ids[h], "Request", "Request.output_token_ids", is_in_scheduler
        ),
        sigma.committed: near(
            lambda h: vl.num_computed_tokens[h],
            "scheduler",
            "Request.num_computed_tokens",
            is_in_scheduler,
        ),
        sigma.stage: near(vllm_stage, "Request", "Request.status", is_in_scheduler),
        sigma.terminal: derived(
            lambda h: vl.status[h] == vl.Status.FINISHED,
            "Request",
            "Request.status",
            is_in_scheduler,
        ),
        sigma.closed: foreign("scheduler", "Scheduler._free_request"),
    },
    VLLM_STEPS,
    "Request, scheduler and cache manager.",
)


def has_req(h: Expr) -> Expr:
    """SGLang has a Req."""
    return is_some(sgl.rid[h])


SGLANG_STEPS = {
    sgl.create: lambda h, r, n: call(sigma.allocate, h, r, n),
    sgl.prepare_for_extend: STUTTER,
    sgl.prefill_result: lambda h: call(sigma.prefill_publish, h),
    sgl.prepare_for_decode: STUTTER,
    sgl.decode_result: lambda h: call(sigma.decode_publish, h, 1),
    sgl.append_output_id: lambda h: call(sigma.output_emit, h),
    sgl.cache_unfinished: STUTTER,
    sgl.retract: lambda h: call(sigma.retract, h),
    sgl.check_finished: lambda h: call(sigma.finish, h),
    sgl.cache_finished: lambda h: call(sigma.release, h),
    sgl.evict: STUTTER,
}

sglang = projection(
    "sglang",
    sgl.system,
    {
        sigma.identity: direct(lambda h: sgl.rid[h], "Req", "Req.rid", has_req),
        sigma.generation: absent(WRAPPER),
        sigma.snapshot: absent(WRAPPER),
        sigma.outputs: direct(lambda h: sgl.output_ids[h], "Req", "Req.output_ids", has_req),
        sigma.committed: near(
            lambda h: sgl.kv_committed_len[h], "Req", "Req.kv_committed_len", has_req
        ),
        sigma.stage: derived(
            lambda h: where(sgl.finished_reason[h], Stage.FINISHED_RETAINED, Stage.NEW),
            "Req",
            "Req.finished_reason and Req.kv_committed_len",
            lambda h: has_req(h) & (sgl.finished_reason[h] | (sgl.kv_committed_len[h] == 0)),
        ),
        sigma.terminal: direct(
            lambda h: sgl.finished_reason[h], "Req", "Req.finished_reason", has_req
        ),
        sigma.closed: foreign("scheduler", "BasePrefixCache.cache_finished_req"),
    },
    SGLANG_STEPS,
    "A request and the prefix tree.",
)


def has_llm_request(h: Expr) -> Expr:
    """The executor of TensorRT-LLM has the request."""
    return trt.state[h] != trt.RequestState.NONE


def tensorrt_llm_stage(h: Expr) -> Expr:
    """The phase that is like the state."""
    state = trt.state[h]
    ended = where(
        state == trt.RequestState.GENERATION_COMPLETE, Stage.FINISHED_RETAINED, Stage.DECODE_READY
    )
    return where(state == trt.RequestState.CONTEXT_INIT, Stage.NEW, ended)


TENSORRT_LLM_STEPS = {
    trt.enqueue_request: lambda h, r, n: call(sigma.allocate, h, r, n),
    trt.add_sequence: STUTTER,
    trt.context_done: lambda h: call(sigma.prefill_publish, h),
    trt.add_token: STUTTER,
    trt.generation_done: lambda h, a: call(sigma.decode_publish, h, a + 1),
    trt.rewind_drafts: STUTTER,
    trt.add_new_token: lambda h: call(sigma.output_emit, h),
    trt.await_responses: STUTTER,
    trt.complete: lambda h: call(sigma.finish, h),
    trt.remove_sequence: lambda h: call(sigma.release, h),
    trt.evict_reusable: STUTTER,
}

tensorrt_llm = projection(
    "tensorrt_llm",
    trt.system,
    {
        sigma.identity: direct(
            lambda h: trt.executor_id[h], "executor", "Executor.enqueueRequest", has_llm_request
        ),
        sigma.generation: absent(WRAPPER),
        sigma.snapshot: absent(WRAPPER),
        sigma.outputs: derived(
            lambda h: trt.tokens[h] - trt.prompt_len[h],
            "GenericLlmRequest",
            "GenericLlmRequest token vectors",
            has_llm_request,
        ),
        sigma.committed: near(
            lambda h: trt.sequence_tokens[h],
            "KV cache manager",
            "BaseKVCacheManager addSequence, addToken and rewindKVCache",
            has_llm_request,
        ),
        sigma.stage: near(
            tensorrt_llm_stage, "GenericLlmRequest", "LlmRequestState", has_llm_request
        ),
        sigma.terminal: derived(
            lambda h: trt.state[h] == trt.RequestState.GENERATION_COMPLETE,
            "GenericLlmRequest",
            "LlmRequestState",
            has_llm_request,
        ),
        sigma.closed: foreign("executor", "BaseKVCacheManager.removeSequence"),
    },
    TENSORRT_LLM_STEPS,
    "An executor request and its K/V sequence.",
)

VIEWS = (transformers, vllm, sglang, tensorrt_llm)
