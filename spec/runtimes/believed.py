"""Believed projections: mistakes that are easily made, each refuted by its shortest run.

Each claims more than the view of its runtime does: a near correspondence as a field, one length for two
frontiers, a default in the place of a fact that nobody has, an operation of the cache as one of the request.
"""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from kvspec.spec import canonical_lifecycle as sigma
from kvspec.spec.language import Variable
from kvspec.spec.language.refinement import call
from kvspec.spec.projections import Fact, Projection, derived, direct, projection
from kvspec.spec.runtimes import sglang as sgl
from kvspec.spec.runtimes import tensorrt_llm as trt
from kvspec.spec.runtimes import tensorrt_llm_rewind as rewind
from kvspec.spec.runtimes import transformers as hf
from kvspec.spec.runtimes import transformers_crop as crop
from kvspec.spec.runtimes import views
from kvspec.spec.runtimes import vllm as vl


def _facts(view: Projection, changed: Mapping[Variable, Fact]) -> dict[Variable, Fact]:
    """The facts of a view, with some of them claimed otherwise."""
    return {v: changed.get(v, view.seen[v.name].fact) for v in sigma.SIGMA}


layer_0_is_the_cache = projection(
    "layer_0_is_the_cache",
    hf.system,
    _facts(
        views.transformers,
        {sigma.committed: direct(hf.seq_length, "Cache", "Cache.get_seq_length")},
    ),
    views.TRANSFORMERS_STEPS,
    "The length of layer 0 is taken for that of all layers, while a forward pass runs too.",
)
crop_is_truncation = projection(
    "crop_is_truncation",
    crop.system,
    _facts(
        views.transformers,
        {
            sigma.outputs: derived(
                lambda h: hf.input_ids[h] - hf.prompt_ids[h], "caller", "input_ids"
            )
        },
    ),
    {**views.TRANSFORMERS_STEPS, crop.crop_alone: lambda h, n: call(sigma.truncate, h, n)},
    "A crop of the cache is taken for a truncation of the request.",
)
scheduled_is_committed = projection(
    "scheduled_is_committed",
    vl.system,
    _facts(
        views.vllm,
        {
            sigma.committed: direct(
                lambda h: vl.num_computed_tokens[h],
                "scheduler",
                "Request.num_computed_tokens",
                views.is_in_scheduler,
            )
        },
    ),
    views.VLLM_STEPS,
    "The counter that the scheduler advances is taken for the rows that are there.",
)
absent_means_zero = projection(
    "absent_means_zero",
    vl.system,
    _facts(
        views.vllm,
        {
            sigma.generation: direct(lambda _: 0, "adapter", "a default"),
            sigma.snapshot: derived(
                lambda h: vl.num_computed_tokens[h], "adapter", "Request.num_computed_tokens"
            ),
        },
    ),
    views.VLLM_STEPS,
    "A generation that nobody keeps is taken for 0, and the length of the cache for its snapshot.",
)
finished_is_released = projection(
    "finished_is_released",
    vl.system,
    _facts(
        views.vllm,
        {
            sigma.closed: derived(
                lambda h: vl.status[h] == vl.Status.FINISHED,
                "Request",
                "Request.status",
                views.is_in_scheduler,
            )
        },
    ),
    views.VLLM_STEPS,
    "The end of the output is taken for the release of the rows.",
)
named_is_proved = projection(
    "named_is_proved",
    sgl.system,
    _facts(
        views.sglang,
        {
            sigma.committed: direct(
                lambda h: sgl.kv_committed_len[h], "Req", "Req.kv_committed_len", views.has_req
            )
        },
    ),
    views.SGLANG_STEPS,
    "A length that is called committed is taken for rows that were published.",
)
one_length_for_both = projection(
    "one_length_for_both",
    trt.system,
    _facts(
        views.tensorrt_llm,
        {
            sigma.committed: derived(
                lambda h: trt.tokens[h],
                "GenericLlmRequest",
                "GenericLlmRequest token vectors",
                views.has_llm_request,
            )
        },
    ),
    views.TENSORRT_LLM_STEPS,
    "Outputs and committed rows are both taken from the length of one token list.",
)
rewind_is_truncation = projection(
    "rewind_is_truncation",
    rewind.system,
    _facts(views.tensorrt_llm, {}),
    {
        **views.TENSORRT_LLM_STEPS,
        rewind.rewind_kv_cache: lambda h, n: call(sigma.truncate, h, n),
    },
    "A rewind of the K/V sequence is taken for a truncation of the request.",
)
response_is_output = projection(
    "response_is_output",
    trt.system,
    _facts(
        views.tensorrt_llm,
        {
            sigma.outputs: derived(
                lambda h: trt.answered[h],
                "executor",
                "Executor.awaitResponses",
                views.has_llm_request,
            )
        },
    ),
    views.TENSORRT_LLM_STEPS,
    "What the application has seen is taken for what the engine has emitted.",
)


@attrs.frozen
class Believed:
    """A projection that does not commute. coordinate: the one in which it fails."""

    projection: Projection
    coordinate: str


BELIEVED = (
    Believed(layer_0_is_the_cache, "committed"),
    Believed(crop_is_truncation, "outputs"),
    Believed(scheduled_is_committed, "committed"),
    Believed(absent_means_zero, "generation"),
    Believed(finished_is_released, "closed"),
    Believed(named_is_proved, "committed"),
    Believed(one_length_for_both, "committed"),
    Believed(rewind_is_truncation, "outputs"),
    Believed(response_is_output, "outputs"),
)
