"""vLLM v0.23.0: a request, a scheduler that runs ahead of the model, and a manager of cache blocks.

Modelled: `Request` has its id, status, output token ids and `num_computed_tokens`. The scheduler advances
that counter when it schedules, so before the model has run, and takes back what it had advanced for drafts
that the model rejects, in `update_from_output`; then it appends the sampled tokens one by one. A preemption
sets the counter to 0 and frees the blocks. A finished request keeps its blocks while a connector still
sends them (`_free_request`); freeing them removes the request.

Left out: chunked prefill, asynchronous scheduling, prefix caching, encoder inputs, streamed input, a stop
within accepted drafts, what the queues look like.
Taken from the pinned `scheduler.py` itself: that rejected drafts go before the sampled tokens are appended.
Assumed: a step of one request is under way at a time; `slots` are those that the manager has for it, and
blocks have one slot. `update_from_output` is here two actions, of a prefill and of a decode step.
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
)


class Status(Enum):
    """`RequestStatus`, without its reasons to wait and to finish; ABSENT: the scheduler has no request."""

    ABSENT = member()
    WAITING = member()
    RUNNING = member()
    PREEMPTED = member()
    FINISHED = member()


vllm = Module("vllm", "A request, its scheduler and its cache manager.")
vllm.share(longest)

request_id = vllm.variable(
    "request_id", Handle, to=Option[Request], init=none(Request), meaning="Request.request_id"
)
status = vllm.variable("status", Handle, to=Status, init=Status.ABSENT, meaning="Request.status")
num_prompt_tokens = vllm.variable(
    "num_prompt_tokens", Handle, to=Length, init=0, meaning="Request.num_prompt_tokens"
)
output_token_ids = vllm.variable(
    "output_token_ids", Handle, to=Length, init=0, meaning="how many Request.output_token_ids has"
)
num_computed_tokens = vllm.variable(
    "num_computed_tokens", Handle, to=Length, init=0, meaning="Request.num_computed_tokens"
)
scheduled = vllm.variable(
    "scheduled", Handle, to=Length, init=0, meaning="tokens of the step under way; 0: none is"
)
drafts = vllm.variable("drafts", Handle, to=Length, init=0, meaning="how many of those are drafts")
sampled = vllm.variable(
    "sampled", Handle, to=Length, init=0, meaning="sampled tokens that are still to be appended"
)
slots = vllm.variable(
    "slots", Handle, to=Length, init=0, meaning="slots that KVCacheManager has for the request"
)
sending = vllm.variable(
    "sending", Handle, to=Bool, init=False, meaning="a connector still sends the blocks"
)

KNOWN_REQUEST = ErrorCode("KNOWN_REQUEST", "the scheduler has the request already")
NO_PROMPT = ErrorCode("NO_PROMPT", "the prompt has no token")
NOT_WAITING = ErrorCode("NOT_WAITING", "the request neither waits nor was preempted")
NO_SLOTS = ErrorCode("NO_SLOTS", "the request would need more slots than it may have")
NOT_RUNNING = ErrorCode("NOT_RUNNING", "the request does not run")
STEP_UNDER_WAY = ErrorCode("STEP_UNDER_WAY", "a step of the request is not reconciled yet")
NO_STEP = ErrorCode("NO_STEP", "no step of the request is under way")
NOT_PREFILL = ErrorCode("NOT_PREFILL", "the step under way is a decode step")
NOT_DECODE = ErrorCode("NOT_DECODE", "the step under way is a prefill step")
MORE_THAN_DRAFTED = ErrorCode("MORE_THAN_DRAFTED", "more drafts are accepted than there are")
NOTHING_SAMPLED = ErrorCode("NOTHING_SAMPLED", "no sampled token is left to be appended")
NOT_LIVE = ErrorCode("NOT_LIVE", "the request is finished, or there is none")
NOT_FINISHED = ErrorCode("NOT_FINISHED", "the request is not finished")
NOT_SENDING = ErrorCode("NOT_SENDING", "no connector sends the blocks")
STILL_SENDING = ErrorCode("STILL_SENDING", "a connector still sends the blocks")


def is_between_steps(h: Expr) -> Expr:
    """No step of the request is scheduled and not yet reconciled in full."""
    return (scheduled[h] == 0) & (sampled[h] == 0)


@vllm.action
def add_request(step: Step, h: Handle, r: Request, n: Length) -> None:
    """A request with a prompt of n tokens joins the waiting queue."""
    step.require(status[h] == Status.ABSENT, KNOWN_REQUEST)
    step.require(n >= 1, NO_PROMPT)
    step.require(n <= longest, PROMPT_TOO_LONG)
    step.assign(request_id[h], r)
    step.assign(status[h], Status.WAITING)
    step.assign(num_prompt_tokens[h], n)


@vllm.action
def schedule_prefill(step: Step, h: Handle) -> None:
    """Schedule every known token of a waiting request, and count them as computed at once."""
    step.require(one_of(status[h], Status.WAITING, Status.PREEMPTED), NOT_WAITING)
    step.require(num_prompt_tokens[h] + output_token_ids[h] <= longest, NO_SLOTS)
    step.assign(status[h], Status.RUNNING)
    step.assign(scheduled[h], num_prompt_tokens[h] + output_token_ids[h])
    step.assign(num_computed_tokens[h], num_prompt_tokens[h] + output_token_ids[h])
    step.assign(slots[h], num_prompt_tokens[h] + output_token_ids[h])


@vllm.action
def schedule_decode(step: Step, h: Handle, d: Length) -> None:
    """Schedule the last token of a running request with d drafts, and count all as computed at once."""
    step.require(status[h] == Status.RUNNING, NOT_RUNNING)
    step.require(is_between_steps(h), STEP_UNDER_WAY)
    step.require(num_computed_tokens[h] + 1 + d <= longest, NO_SLOTS)
    step.assign(scheduled[h], 1 + d)
    step.assign(drafts[h], d)
    step.assign(num_computed_tokens[h], num_computed_tokens[h] + 1 + d)
    step.assign(slots[h], num_computed_tokens[h] + 1 + d)


@vllm.action
def reconcile_prefill(step: Step, h: Handle) -> None:
    """`update_from_output` of a prefill step: all rows are there, and one token is sampled."""
    step.require(scheduled[h] >= 1, NO_STEP)
    step.require(scheduled[h] == num_computed_tokens[h], NOT_PREFILL)
    step.assign(scheduled[h], 0)
    step.assign(sampled[h], 1)


@vllm.action
def reconcile_decode(step: Step, h: Handle, a: Length) -> None:
    """`update_from_output` of a decode step: a drafts are accepted, and the counter goes back by the rest."""
    step.require(scheduled[h] >= 1, NO_STEP)
    step.require(scheduled[h] < num_computed_tokens[h], NOT_DECODE)
    step.require(a <= drafts[h], MORE_THAN_DRAFTED)
    step.assign(num_computed_tokens[h], num_computed_tokens[h] - (drafts[h] - a))
    step.assign(scheduled[h], 0)
    step.assign(drafts[h], 0)
    step.assign(sampled[h], a + 1)


@vllm.action
def append_output(step: Step, h: Handle) -> None:
    """`append_output_token_ids` of one sampled token."""
    step.require(sampled[h] >= 1, NOTHING_SAMPLED)
    step.assign(output_token_ids[h], output_token_ids[h] + 1)
    step.assign(sampled[h], sampled[h] - 1)


@vllm.action
def preempt(step: Step, h: Handle) -> None:
    """Free the blocks of a running request and count nothing as computed; its outputs stay."""
    step.require(status[h] == Status.RUNNING, NOT_RUNNING)
    step.require(is_between_steps(h), STEP_UNDER_WAY)
    step.assign(status[h], Status.PREEMPTED)
    step.assign(num_computed_tokens[h], 0)
    step.assign(slots[h], 0)


@vllm.action
def finish_request(step: Step, h: Handle) -> None:
    """Finish a request whose blocks nobody else needs; they are still held."""
    step.require(one_of(status[h], Status.WAITING, Status.RUNNING, Status.PREEMPTED), NOT_LIVE)
    step.require(is_between_steps(h), STEP_UNDER_WAY)
    step.assign(status[h], Status.FINISHED)


@vllm.action
def finish_and_send(step: Step, h: Handle) -> None:
    """Finish a running request whose blocks a connector still sends: they are freed later."""
    step.require(status[h] == Status.RUNNING, NOT_RUNNING)
    step.require(is_between_steps(h), STEP_UNDER_WAY)
    step.assign(status[h], Status.FINISHED)
    step.assign(sending[h], True)


@vllm.action
def end_sending(step: Step, h: Handle) -> None:
    """The connector has sent the blocks of a finished request."""
    step.require(sending[h], NOT_SENDING)
    step.assign(sending[h], False)


@vllm.action
def free_blocks(step: Step, h: Handle) -> None:
    """`_free_blocks`: the manager frees the blocks of a finished request, and the scheduler forgets it."""
    step.require(status[h] == Status.FINISHED, NOT_FINISHED)
    step.require(~sending[h], STILL_SENDING)
    step.assign(request_id[h], none(Request))
    step.assign(status[h], Status.ABSENT)
    step.assign(num_prompt_tokens[h], 0)
    step.assign(output_token_ids[h], 0)
    step.assign(num_computed_tokens[h], 0)
    step.assign(slots[h], 0)


system = System.of("vllm", "A request, a scheduler and a cache manager.", vllm)


@limit(append_output)
def appends_within_bounds(h: Handle) -> Expr:
    """The outputs can be counted, with the prompt."""
    return num_prompt_tokens[h] + output_token_ids[h] < Length.top


LIMITS = (appends_within_bounds,)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 5},
    constants={longest: 4},
    limits=LIMITS,
    expected=Counts(219, 344, 11, 0, 110),
    doc="one request at a time, with drafts",
)
