"""SGLang v0.5.16: a request that refers to a shared prefix tree, and gives its rows to it.

Modelled: `Req` has its rid, `output_ids`, `kv_committed_len`, the reason why it finished, and what it holds
of physical state: a slot of the request pool and a protected prefix of the tree. `kv_committed_len` is moved
when a batch is prepared, before the model has run. A retraction gives up all that is local to the cache and
sets the counter to 0; the output ids stay. A request that finishes gives its rows to the tree, which keeps
them for others, and frees its slot; the tree evicts what nobody protects, whenever it likes.

Left out: pages of more than one row, chunked prefill, drafts, input embeddings (whose retraction discards
output ids), offloading, priorities.
Taken from the pinned `schedule_batch.py` itself: where the counter is written.
Assumed: all prompts begin alike, so that the tree is one path; a batch of one request runs at a time;
what was matched in the tree counts as rows of the prefill.
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
    forall,
    instance,
    is_some,
    limit,
    member,
    none,
    where,
)


class Batch(Enum):
    """`ForwardMode` of the batch that the request is in."""

    IDLE = member()
    EXTEND = member()
    DECODE = member()


sglang = Module("sglang", "A request and the prefix tree.")
sglang.share(longest)

rid = sglang.variable("rid", Handle, to=Option[Request], init=none(Request), meaning="Req.rid")
origin_input_ids = sglang.variable(
    "origin_input_ids", Handle, to=Length, init=0, meaning="how many Req.origin_input_ids has"
)
output_ids = sglang.variable(
    "output_ids", Handle, to=Length, init=0, meaning="how many Req.output_ids has"
)
kv_committed_len = sglang.variable(
    "kv_committed_len", Handle, to=Length, init=0, meaning="Req.kv_committed_len"
)
finished_reason = sglang.variable(
    "finished_reason", Handle, to=Bool, init=False, meaning="Req.finished_reason is set"
)
is_retracted = sglang.variable(
    "is_retracted", Handle, to=Bool, init=False, meaning="Req.is_retracted"
)
has_slot = sglang.variable(
    "has_slot", Handle, to=Bool, init=False, meaning="Req.req_pool_idx is set"
)
protected_len = sglang.variable(
    "protected_len",
    Handle,
    to=Length,
    init=0,
    meaning="Req.cache_protected_len: rows locked in the tree",
)
batch = sglang.variable(
    "batch_mode", Handle, to=Batch, init=Batch.IDLE, meaning="forward pass that the request is in"
)
sampled = sglang.variable(
    "has_sample", Handle, to=Bool, init=False, meaning="a sampled token is still to be appended"
)
tree_rows = sglang.variable(
    "tree_rows", to=Length, init=0, meaning="rows of the common prefix that RadixCache keeps"
)

KNOWN_REQUEST = ErrorCode("KNOWN_REQUEST", "there is a request already")
NO_PROMPT = ErrorCode("NO_PROMPT", "the prompt has no token")
NO_REQUEST = ErrorCode("NO_REQUEST", "there is no request")
IS_FINISHED = ErrorCode("IS_FINISHED", "the request has finished")
HAS_SLOT = ErrorCode("HAS_SLOT", "the request has been prefilled")
NO_SLOT = ErrorCode("NO_SLOT", "the request has no slot: it waits, or was retracted")
NO_ROOM = ErrorCode("NO_ROOM", "the request would have more rows than it may")
IN_BATCH = ErrorCode("IN_BATCH", "the result of a batch with the request is still to come")
NOT_EXTENDING = ErrorCode("NOT_EXTENDING", "no prefill of the request runs")
NOT_DECODING = ErrorCode("NOT_DECODING", "no decode step of the request runs")
NOTHING_SAMPLED = ErrorCode("NOTHING_SAMPLED", "no sampled token is left to be appended")
NOT_FINISHED = ErrorCode("NOT_FINISHED", "the request has not finished")
TREE_EMPTY = ErrorCode("TREE_EMPTY", "the tree keeps no rows")
NODE_LOCKED = ErrorCode("NODE_LOCKED", "a request protects rows of the tree")


def is_at_rest(h: Expr) -> Expr:
    """No batch has the request, and no result waits."""
    return (batch[h] == Batch.IDLE) & ~sampled[h]


@sglang.action
def create(step: Step, h: Handle, r: Request, n: Length) -> None:
    """A request with n input ids joins the waiting queue."""
    step.require(~is_some(rid[h]), KNOWN_REQUEST)
    step.require(n >= 1, NO_PROMPT)
    step.require(n <= longest, PROMPT_TOO_LONG)
    step.assign(rid[h], r)
    step.assign(origin_input_ids[h], n)


@sglang.action
def prepare_for_extend(step: Step, h: Handle) -> None:
    """Match the prefix, lock it, take a slot, and count every known token as committed: then it runs."""
    step.require(is_some(rid[h]), NO_REQUEST)
    step.require(~finished_reason[h], IS_FINISHED)
    step.require(~has_slot[h], HAS_SLOT)
    step.require(origin_input_ids[h] + output_ids[h] <= longest, NO_ROOM)
    step.assign(has_slot[h], True)
    step.assign(is_retracted[h], False)
    step.assign(
        protected_len[h],
        where(tree_rows.value < origin_input_ids[h], tree_rows.value, origin_input_ids[h] - 1),
    )
    step.assign(kv_committed_len[h], origin_input_ids[h] + output_ids[h])
    step.assign(batch[h], Batch.EXTEND)


@sglang.action
def prefill_result(step: Step, h: Handle) -> None:
    """The prefill has run: its rows are there, and a token is sampled."""
    step.require(batch[h] == Batch.EXTEND, NOT_EXTENDING)
    step.assign(batch[h], Batch.IDLE)
    step.assign(sampled[h], True)


@sglang.action
def prepare_for_decode(step: Step, h: Handle) -> None:
    """Count one more row as committed; then the decode step runs."""
    step.require(~finished_reason[h], IS_FINISHED)
    step.require(has_slot[h], NO_SLOT)
    step.require(is_at_rest(h), IN_BATCH)
    step.require(kv_committed_len[h] < longest, NO_ROOM)
    step.assign(kv_committed_len[h], kv_committed_len[h] + 1)
    step.assign(batch[h], Batch.DECODE)


@sglang.action
def decode_result(step: Step, h: Handle) -> None:
    """The decode step has run: its row is there, and a token is sampled."""
    step.require(batch[h] == Batch.DECODE, NOT_DECODING)
    step.assign(batch[h], Batch.IDLE)
    step.assign(sampled[h], True)


@sglang.action
def append_output_id(step: Step, h: Handle) -> None:
    """The sampled token is appended to the output ids."""
    step.require(sampled[h], NOTHING_SAMPLED)
    step.assign(output_ids[h], output_ids[h] + 1)
    step.assign(sampled[h], False)


@sglang.action
def cache_unfinished(step: Step, h: Handle) -> None:
    """`cache_unfinished_req`: the tree gets the rows so far, and the request locks them there."""
    step.require(~finished_reason[h], IS_FINISHED)
    step.require(has_slot[h], NO_SLOT)
    step.require(is_at_rest(h), IN_BATCH)
    step.assign(
        tree_rows.value,
        where(tree_rows.value < kv_committed_len[h], kv_committed_len[h], tree_rows.value),
    )
    step.assign(protected_len[h], kv_committed_len[h])


@sglang.action
def retract(step: Step, h: Handle) -> None:
    """`reset_for_retract`: give up slot, lock and rows; the output ids stay."""
    step.require(~finished_reason[h], IS_FINISHED)
    step.require(has_slot[h], NO_SLOT)
    step.require(is_at_rest(h), IN_BATCH)
    step.assign(has_slot[h], False)
    step.assign(protected_len[h], 0)
    step.assign(kv_committed_len[h], 0)
    step.assign(is_retracted[h], True)


@sglang.action
def check_finished(step: Step, h: Handle) -> None:
    """The request gets a reason why it is finished; it still has what it holds."""
    step.require(is_some(rid[h]), NO_REQUEST)
    step.require(~finished_reason[h], IS_FINISHED)
    step.require(is_at_rest(h), IN_BATCH)
    step.assign(finished_reason[h], True)


@sglang.action
def cache_finished(step: Step, h: Handle) -> None:
    """`cache_finished_req`: the tree keeps the rows, and lock, slot and request are given up."""
    step.require(finished_reason[h], NOT_FINISHED)
    step.assign(
        tree_rows.value,
        where(tree_rows.value < kv_committed_len[h], kv_committed_len[h], tree_rows.value),
    )
    step.assign(rid[h], none(Request))
    step.assign(origin_input_ids[h], 0)
    step.assign(output_ids[h], 0)
    step.assign(kv_committed_len[h], 0)
    step.assign(finished_reason[h], False)
    step.assign(is_retracted[h], False)
    step.assign(has_slot[h], False)
    step.assign(protected_len[h], 0)


@sglang.action
def evict(step: Step) -> None:
    """The tree frees rows that no request protects."""
    step.require(tree_rows.value >= 1, TREE_EMPTY)
    step.require(forall(Handle, lambda h: protected_len[h] == 0), NODE_LOCKED)
    step.assign(tree_rows.value, 0)


system = System.of("sglang", "A request and a shared prefix tree.", sglang)


@limit(append_output_id)
def appends_within_bounds(h: Handle) -> Expr:
    """The outputs can be counted, with the prompt."""
    return origin_input_ids[h] + output_ids[h] < Length.top


LIMITS = (appends_within_bounds,)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 4},
    constants={longest: 3},
    limits=LIMITS,
    expected=Counts(484, 967, 18, 0, 244),
    doc="one request at a time",
)

TWO = instance(
    "TWO",
    system,
    {Handle: 2, Request: 1, Length: 3},
    constants={longest: 2},
    limits=LIMITS,
    expected=Counts(3_144, 10_800, 24, 0, 1_616),
    doc="two requests that share the tree",
)
