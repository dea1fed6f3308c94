"""TensorRT-LLM with a rewind that nothing else follows.

Modelled: the rules of `tensorrt_llm`, and `rewindKVCache` called for more than rejected drafts: the sequence
gets shorter, and the tokens of the request stay as they are. The manager allows it; it is a physical
operation, and no proof that output, positions and sampling state were cut alike.
Left out and assumed: as in `tensorrt_llm`.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import Request, longest
from kvspec.spec.handles import Handle, Length
from kvspec.spec.language import Counts, ErrorCode, Module, Step, System, instance
from kvspec.spec.runtimes import tensorrt_llm as engine

rewinding = Module(
    "rewinding",
    "A rewind by itself.",
    uses=(engine.tensorrt_llm,),
    writes=(engine.sequence_tokens,),
)

CUTS_PROMPT = ErrorCode("CUTS_PROMPT", "the rewind goes into the prompt")
NOT_SHORTER = ErrorCode("NOT_SHORTER", "the rewind keeps every token")


@rewinding.action
def rewind_kv_cache(step: Step, h: Handle, n: Length) -> None:
    """`rewindKVCache` to n tokens, and nothing else."""
    step.require(
        engine.state[h] == engine.RequestState.GENERATION_IN_PROGRESS, engine.NOT_GENERATING
    )
    step.require(~engine.running[h], engine.PASS_RUNS)
    step.require(engine.draft_tokens[h] == 0, engine.DRAFTS_LEFT)
    step.require(engine.prompt_len[h] <= n, CUTS_PROMPT)
    step.require(n < engine.sequence_tokens[h], NOT_SHORTER)
    step.assign(engine.sequence_tokens[h], n)


system = System.of(
    "tensorrt_llm_rewind", "TensorRT-LLM, with a rewind alone.", engine.tensorrt_llm, rewinding
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 1, Length: 4},
    constants={longest: 3},
    limits=engine.LIMITS,
    expected=Counts(724, 2_083, 19, 3, 724),
    doc="one request at a time",
)
