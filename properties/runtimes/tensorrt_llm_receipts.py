"""Claims about TensorRT-LLM with receipts: the sequence has room before there are rows."""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import longest
from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Properties, after, exists, fired, forall, implies
from kvspec.spec.runtimes import tensorrt_llm as trt
from kvspec.spec.runtimes.tensorrt_llm_receipts import receipts, system

properties = Properties(system)
rows, sequence = receipts.rows, trt.sequence_tokens
State = trt.RequestState


@properties.lemma
def a_request_that_is_gone_leaves_nothing_of_its_own() -> Expr:
    """Of a request that the executor has not, every field has its first value."""
    return forall(
        Handle,
        lambda h: implies(
            trt.state[h] == State.NONE,
            (trt.executor_id[h] == None)  # noqa: E711  # an expression, true of none
            & (trt.tokens[h] == 0)
            & (trt.prompt_len[h] == 0)
            & (sequence[h] == 0)
            & (rows[h] == 0)
            & ~trt.running[h]
            & (trt.new_tokens[h] == 0)
            & (trt.draft_tokens[h] == 0),
        ),
    )


@properties.lemma
def tokens_begin_with_the_prompt() -> Expr:
    """The tokens of a request are those of its prompt and what came after."""
    return forall(
        Handle,
        lambda h: (
            (trt.prompt_len[h] <= trt.tokens[h])
            & (trt.prompt_len[h] <= longest)
            & implies(trt.state[h] != State.NONE, trt.prompt_len[h] >= 1)
        ),
    )


@properties.lemma
def a_context_has_no_receipt() -> Expr:
    """Before the context pass is done there is no receipt, though the sequence may have its tokens."""
    return forall(
        Handle,
        lambda h: implies(
            trt.state[h] == State.CONTEXT_INIT,
            (rows[h] == 0)
            & (trt.tokens[h] == trt.prompt_len[h])
            & (trt.new_tokens[h] == 0)
            & (trt.draft_tokens[h] == 0)
            & implies(trt.running[h], sequence[h] == trt.prompt_len[h]),
        ),
    )


@properties.invariant
def a_running_sequence_is_ahead_of_its_rows() -> Expr:
    """While a generation pass runs, the sequence has room for one row more and for the drafts."""
    return forall(
        Handle,
        lambda h: implies(
            (trt.state[h] == State.GENERATION_IN_PROGRESS) & trt.running[h],
            (rows[h] >= 1)
            & (rows[h] + 1 == trt.tokens[h])
            & (sequence[h] == rows[h] + 1 + trt.draft_tokens[h])
            & (sequence[h] <= longest)
            & (trt.new_tokens[h] == 0),
        ),
    )


@properties.invariant
def an_idle_sequence_has_its_rows_and_rejected_drafts() -> Expr:
    """Between passes the sequence has the rows of the receipt, and those of drafts not yet rewound."""
    return forall(
        Handle,
        lambda h: implies(
            (trt.state[h] == State.GENERATION_IN_PROGRESS) & ~trt.running[h],
            (rows[h] >= 1)
            & (sequence[h] == rows[h] + trt.draft_tokens[h])
            & (trt.tokens[h] + trt.new_tokens[h] == rows[h] + 1),
        ),
    )


@properties.lemma
def a_complete_request_is_at_rest() -> Expr:
    """A complete request has no pass, no drafts and no tokens left to add."""
    return forall(
        Handle,
        lambda h: implies(
            trt.state[h] == State.GENERATION_COMPLETE,
            ~trt.running[h] & (trt.draft_tokens[h] == 0) & (trt.new_tokens[h] == 0),
        ),
    )


@properties.step
def a_rewind_moves_neither_receipt_nor_tokens() -> Expr:
    """Rewinding rejected drafts shortens the sequence, and nothing of the request."""
    return forall(
        Handle,
        lambda h: implies(
            fired(trt.rewind_drafts) & (after(sequence[h]) != sequence[h]),
            (after(rows[h]) == rows[h])
            & (after(trt.tokens[h]) == trt.tokens[h])
            & (after(sequence[h]) == rows[h]),
        ),
    )


@properties.witness
def reaches_responses_behind_the_tokens() -> Expr:
    """The application has seen less than the engine has."""
    return exists(Handle, lambda h: trt.answered[h] < trt.tokens[h] - trt.prompt_len[h])


@properties.witness
def reaches_rejected_drafts_in_the_sequence() -> Expr:
    """After a pass the sequence has rows that no receipt has."""
    return exists(Handle, lambda h: ~trt.running[h] & (trt.draft_tokens[h] >= 1))
