"""Claims about SGLang with receipts: `kv_committed_len` is ahead while a batch runs."""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import longest
from kvspec.spec.handles import Handle
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    where,
)
from kvspec.spec.runtimes import sglang as sgl
from kvspec.spec.runtimes.sglang_receipts import receipts, system

properties = Properties(system)
rows, length = receipts.rows, sgl.kv_committed_len


def _known(h: Expr) -> Expr:
    return sgl.origin_input_ids[h] + sgl.output_ids[h]


@properties.lemma
def a_request_that_is_gone_leaves_nothing_of_its_own() -> Expr:
    """Where there is no Req, every field of it has its first value; the tree may have rows."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_some(sgl.rid[h]),
            (_known(h) == 0) & ~sgl.has_slot[h] & ~sgl.finished_reason[h],
        ),
    )


@properties.lemma
def a_req_has_a_prompt() -> Expr:
    """A Req began with a token at least, and counts no more rows than it may commit."""
    return forall(
        Handle,
        lambda h: implies(
            is_some(sgl.rid[h]), (sgl.origin_input_ids[h] >= 1) & (length[h] <= longest)
        ),
    )


@properties.lemma
def without_a_slot_there_are_no_rows() -> Expr:
    """A request without a slot has no rows, and no batch has it."""
    return forall(
        Handle,
        lambda h: implies(~sgl.has_slot[h], (length[h] == 0) & (rows[h] == 0) & sgl.is_at_rest(h)),
    )


@properties.invariant
def a_prefill_counts_rows_that_are_not_there() -> Expr:
    """While a prefill runs `kv_committed_len` has every known token, and there is no receipt of rows."""
    return forall(
        Handle,
        lambda h: implies(
            sgl.batch[h] == sgl.Batch.EXTEND,
            (rows[h] == 0) & (length[h] == _known(h)) & ~sgl.sampled[h] & ~sgl.finished_reason[h],
        ),
    )


@properties.invariant
def a_decode_step_counts_one_row_that_is_not_there() -> Expr:
    """While a decode step runs `kv_committed_len` is one ahead of the receipt."""
    return forall(
        Handle,
        lambda h: implies(
            sgl.batch[h] == sgl.Batch.DECODE,
            (rows[h] >= 1)
            & (length[h] == rows[h] + 1)
            & (length[h] == _known(h))
            & ~sgl.sampled[h]
            & ~sgl.finished_reason[h],
        ),
    )


@properties.invariant
def at_rest_the_length_is_the_receipt() -> Expr:
    """Of a request with a slot that no batch has, `kv_committed_len` is the rows of the last receipt."""
    return forall(
        Handle,
        lambda h: implies(
            sgl.has_slot[h] & (sgl.batch[h] == sgl.Batch.IDLE),
            (length[h] == rows[h])
            & (rows[h] >= 1)
            & (_known(h) == where(sgl.sampled[h], rows[h], rows[h] + 1))
            & implies(sgl.sampled[h], ~sgl.finished_reason[h]),
        ),
    )


@properties.step
def a_release_leaves_rows_in_the_tree() -> Expr:
    """When a finished request with rows is released, the tree has rows at least as many."""
    return forall(
        Handle,
        lambda h: implies(
            fired(sgl.cache_finished) & is_some(sgl.rid[h]) & ~after(is_some(sgl.rid[h])),
            (after(rows[h]) == 0) & (after(sgl.tree_rows.value) >= length[h]),
        ),
    )


@properties.witness
def reaches_rows_in_the_tree_of_nobody() -> Expr:
    """The tree keeps rows when no request is there."""
    return (sgl.tree_rows.value >= 1) & forall(Handle, lambda h: ~is_some(sgl.rid[h]))


@properties.witness
def reaches_a_retracted_request_with_outputs() -> Expr:
    """A retracted request has outputs and no rows."""
    return exists(Handle, lambda h: sgl.is_retracted[h] & (sgl.output_ids[h] >= 1) & (rows[h] == 0))
