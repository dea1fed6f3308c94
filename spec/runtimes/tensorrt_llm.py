"""TensorRT-LLM v1.2.1: an executor request, its internal state, and a K/V sequence that a manager owns.

Modelled: the application enqueues a request, gets an id, awaits responses and may cancel. Within, the
request has a state, its tokens and its context position; the K/V cache manager has a sequence for it, which
`addSequence` registers, `addToken` lengthens, `rewindKVCache` shortens and `removeSequence` takes away.
Sequence operations come before the forward pass whose rows they make room for. Blocks of an ended sequence
may stay for reuse by other requests.

Left out: chunked context, disaggregated states, beams, block events, what the pools look like.
Assumed: the text describes these sources without their order of calls; here the sequence grows before the
pass and is rewound after it by the drafts that were rejected. Responses arrive late, in one piece.
"""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import PROMPT_TOO_LONG, Request, longest
from kvspec.spec.handles import Handle, Length
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Option,
    Step,
    System,
    instance,
    limit,
    member,
    none,
    one_of,
    where,
)


class RequestState(Enum):
    """`LlmRequestState` without its disaggregated members; NONE: the executor has no request."""

    NONE = member()
    CONTEXT_INIT = member()
    GENERATION_IN_PROGRESS = member()
    GENERATION_COMPLETE = member()


tensorrt_llm = Module("tensorrt_llm", "An executor request and its K/V sequence.")
tensorrt_llm.share(longest)

executor_id = tensorrt_llm.variable(
    "executor_id",
    Handle,
    to=Option[Request],
    init=none(Request),
    meaning="id that enqueueRequest gave",
)
state = tensorrt_llm.variable(
    "state", Handle, to=RequestState, init=RequestState.NONE, meaning="LlmRequestState"
)
prompt_len = tensorrt_llm.variable(
    "prompt_len", Handle, to=Length, init=0, meaning="tokens that the request began with"
)
tokens = tensorrt_llm.variable(
    "tokens", Handle, to=Length, init=0, meaning="tokens of the request, prompt and generated"
)
context_position = tensorrt_llm.variable(
    "context_position", Handle, to=Length, init=0, meaning="prompt tokens whose context is computed"
)
sequence_tokens = tensorrt_llm.variable(
    "sequence_tokens", Handle, to=Length, init=0, meaning="tokens of the K/V sequence; 0: none"
)
running = tensorrt_llm.variable(
    "running", Handle, to=Bool, init=False, meaning="a forward pass has the request"
)
draft_tokens = tensorrt_llm.variable(
    "draft_tokens",
    Handle,
    to=Length,
    init=0,
    meaning="draft rows of the sequence not accepted so far",
)
new_tokens = tensorrt_llm.variable(
    "new_tokens", Handle, to=Length, init=0, meaning="sampled tokens still to be added"
)
answered = tensorrt_llm.variable(
    "answered", Handle, to=Length, init=0, meaning="output tokens that awaitResponses has given"
)
reusable = tensorrt_llm.variable(
    "reusable", to=Length, init=0, meaning="rows of ended sequences that are kept for reuse"
)

KNOWN_REQUEST = ErrorCode("KNOWN_REQUEST", "the executor has the request already")
NO_PROMPT = ErrorCode("NO_PROMPT", "the prompt has no token")
NOT_CONTEXT = ErrorCode("NOT_CONTEXT", "the request is not in its context phase")
NOT_GENERATING = ErrorCode("NOT_GENERATING", "the request does not generate")
HAS_SEQUENCE = ErrorCode("HAS_SEQUENCE", "the K/V sequence is registered already")
PASS_RUNS = ErrorCode("PASS_RUNS", "a forward pass has the request")
NO_PASS = ErrorCode("NO_PASS", "no forward pass has the request")
TOKENS_LEFT = ErrorCode("TOKENS_LEFT", "sampled tokens are still to be added")
NOTHING_SAMPLED = ErrorCode("NOTHING_SAMPLED", "no sampled token is left to be added")
DRAFTS_LEFT = ErrorCode("DRAFTS_LEFT", "rejected drafts are still in the sequence")
NO_DRAFTS = ErrorCode("NO_DRAFTS", "the sequence has no rejected drafts")
NO_ROOM = ErrorCode("NO_ROOM", "the sequence would have more tokens than a request may commit")
MORE_THAN_DRAFTED = ErrorCode("MORE_THAN_DRAFTED", "more drafts are accepted than there are")
NO_RESPONSE = ErrorCode("NO_RESPONSE", "there is no new response")
NOT_LIVE = ErrorCode("NOT_LIVE", "the request is complete, or there is none")
NOT_COMPLETE = ErrorCode("NOT_COMPLETE", "the request is not complete")
NOTHING_REUSABLE = ErrorCode("NOTHING_REUSABLE", "no rows are kept for reuse")


@tensorrt_llm.action
def enqueue_request(step: Step, h: Handle, r: Request, n: Length) -> None:
    """`enqueueRequest`: the executor takes a request with n prompt tokens and gives its id."""
    step.require(state[h] == RequestState.NONE, KNOWN_REQUEST)
    step.require(n >= 1, NO_PROMPT)
    step.require(n <= longest, PROMPT_TOO_LONG)
    step.assign(executor_id[h], r)
    step.assign(state[h], RequestState.CONTEXT_INIT)
    step.assign(prompt_len[h], n)
    step.assign(tokens[h], n)


@tensorrt_llm.action
def add_sequence(step: Step, h: Handle) -> None:
    """`addSequence`: room for the prompt's rows; then the context pass runs."""
    step.require(state[h] == RequestState.CONTEXT_INIT, NOT_CONTEXT)
    step.require(sequence_tokens[h] == 0, HAS_SEQUENCE)
    step.assign(sequence_tokens[h], prompt_len[h])
    step.assign(running[h], True)


@tensorrt_llm.action
def context_done(step: Step, h: Handle) -> None:
    """The context pass has run: the request generates from now on, and a token is sampled."""
    step.require(state[h] == RequestState.CONTEXT_INIT, NOT_CONTEXT)
    step.require(running[h], NO_PASS)
    step.assign(context_position[h], prompt_len[h])
    step.assign(state[h], RequestState.GENERATION_IN_PROGRESS)
    step.assign(running[h], False)
    step.assign(new_tokens[h], 1)


@tensorrt_llm.action
def add_token(step: Step, h: Handle, d: Length) -> None:
    """`addToken`: room for the row of the last token and of d drafts; then the pass runs."""
    step.require(state[h] == RequestState.GENERATION_IN_PROGRESS, NOT_GENERATING)
    step.require(~running[h], PASS_RUNS)
    step.require(new_tokens[h] == 0, TOKENS_LEFT)
    step.require(draft_tokens[h] == 0, DRAFTS_LEFT)
    step.require(sequence_tokens[h] + 1 + d <= longest, NO_ROOM)
    step.assign(sequence_tokens[h], sequence_tokens[h] + 1 + d)
    step.assign(draft_tokens[h], d)
    step.assign(running[h], True)


@tensorrt_llm.action
def generation_done(step: Step, h: Handle, a: Length) -> None:
    """The pass has run: a drafts are accepted, and one more token is sampled after them."""
    step.require(state[h] == RequestState.GENERATION_IN_PROGRESS, NOT_GENERATING)
    step.require(running[h], NO_PASS)
    step.require(a <= draft_tokens[h], MORE_THAN_DRAFTED)
    step.assign(running[h], False)
    step.assign(draft_tokens[h], draft_tokens[h] - a)
    step.assign(new_tokens[h], a + 1)


@tensorrt_llm.action
def rewind_drafts(step: Step, h: Handle) -> None:
    """`rewindKVCache` by the rows of rejected drafts."""
    step.require(~running[h], PASS_RUNS)
    step.require(draft_tokens[h] >= 1, NO_DRAFTS)
    step.assign(sequence_tokens[h], sequence_tokens[h] - draft_tokens[h])
    step.assign(draft_tokens[h], 0)


@tensorrt_llm.action
def add_new_token(step: Step, h: Handle) -> None:
    """One sampled token joins the tokens of the request."""
    step.require(new_tokens[h] >= 1, NOTHING_SAMPLED)
    step.assign(tokens[h], tokens[h] + 1)
    step.assign(new_tokens[h], new_tokens[h] - 1)


@tensorrt_llm.action
def await_responses(step: Step, h: Handle) -> None:
    """`awaitResponses`: the application gets the output so far."""
    step.require(answered[h] < tokens[h] - prompt_len[h], NO_RESPONSE)
    step.assign(answered[h], tokens[h] - prompt_len[h])


@tensorrt_llm.action
def complete(step: Step, h: Handle) -> None:
    """The request is complete, or the application has cancelled it; its sequence is still there."""
    step.require(
        one_of(state[h], RequestState.CONTEXT_INIT, RequestState.GENERATION_IN_PROGRESS), NOT_LIVE
    )
    step.require(~running[h], PASS_RUNS)
    step.require(new_tokens[h] == 0, TOKENS_LEFT)
    step.require(draft_tokens[h] == 0, DRAFTS_LEFT)
    step.assign(state[h], RequestState.GENERATION_COMPLETE)


@tensorrt_llm.action
def remove_sequence(step: Step, h: Handle) -> None:
    """`removeSequence`: the executor lets go of request and sequence; its blocks may be reused."""
    step.require(state[h] == RequestState.GENERATION_COMPLETE, NOT_COMPLETE)
    step.assign(
        reusable.value,
        where(reusable.value < sequence_tokens[h], sequence_tokens[h], reusable.value),
    )
    step.assign(executor_id[h], none(Request))
    step.assign(state[h], RequestState.NONE)
    step.assign(prompt_len[h], 0)
    step.assign(tokens[h], 0)
    step.assign(context_position[h], 0)
    step.assign(sequence_tokens[h], 0)
    step.assign(answered[h], 0)


@tensorrt_llm.action
def evict_reusable(step: Step) -> None:
    """The manager takes blocks of ended sequences for something else."""
    step.require(reusable.value >= 1, NOTHING_REUSABLE)
    step.assign(reusable.value, 0)


system = System.of("tensorrt_llm", "An executor request and a managed K/V sequence.", tensorrt_llm)


@limit(add_new_token)
def adds_within_bounds(h: Handle) -> Expr:
    """The tokens can be counted."""
    return tokens[h] < Length.top


LIMITS = (adds_within_bounds,)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 5},
    constants={longest: 4},
    limits=LIMITS,
    expected=Counts(1_505, 4_104, 17, 0, 755),
    doc="one request at a time, with drafts",
)
