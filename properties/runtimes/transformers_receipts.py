"""Claims about Transformers with receipts: layers disagree during a pass, and a receipt never says so."""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import longest
from kvspec.spec.handles import Handle, Layer
from kvspec.spec.language import Expr, Properties, after, exists, fired, forall, implies, where
from kvspec.spec.runtimes import transformers as hf
from kvspec.spec.runtimes.transformers_receipts import holder, receipts, system

properties = Properties(system)
rows, ids, prompt = receipts.rows, hf.input_ids, hf.prompt_ids


def _is_next(h: Expr) -> Expr:
    """The tokens without rows: the whole prompt, or the last token."""
    return where(rows[h] == 0, ids[h] == prompt[h], ids[h] == rows[h] + 1)


@properties.lemma
def an_idle_row_is_empty() -> Expr:
    """A row of the batch without a loop has no tokens, no rows, no pass and no holder."""
    return forall(
        Handle,
        lambda h: implies(
            hf.loop[h] == hf.Loop.IDLE,
            (holder[h] == None)  # noqa: E711  # an expression, true of none
            & (ids[h] == 0)
            & (prompt[h] == 0)
            & (rows[h] == 0)
            & (hf.pass_end[h] == 0),
        ),
    )


@properties.lemma
def logits_are_of_a_loop() -> Expr:
    """A caller that has logits loops."""
    return forall(Handle, lambda h: implies(hf.has_logits[h], hf.loop[h] == hf.Loop.LOOPING))


@properties.lemma
def token_ids_begin_with_the_prompt() -> Expr:
    """The caller's token ids begin with a prompt that is not empty."""
    return forall(
        Handle,
        lambda h: (prompt[h] <= ids[h]) & implies(hf.loop[h] != hf.Loop.IDLE, prompt[h] >= 1),
    )


@properties.invariant
def between_passes_every_layer_has_the_receipt() -> Expr:
    """Where no forward pass runs, every layer has the rows of the last receipt."""
    return forall(
        Handle, Layer, lambda h, l: implies(hf.pass_end[h] == 0, hf.layer_rows[h, l] == rows[h])
    )


@properties.invariant
def during_a_pass_a_layer_is_old_or_new() -> Expr:
    """Where a forward pass runs, a layer has the rows of the receipt or those of the pass's end."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(
            hf.pass_end[h] >= 1,
            (hf.layer_rows[h, l] == rows[h]) | (hf.layer_rows[h, l] == hf.pass_end[h]),
        ),
    )


@properties.lemma
def a_pass_is_for_the_tokens_without_rows() -> Expr:
    """A forward pass runs in a loop, ends at the last token, and has no logits yet."""
    return forall(
        Handle,
        lambda h: implies(
            hf.pass_end[h] >= 1,
            (hf.loop[h] == hf.Loop.LOOPING)
            & (hf.pass_end[h] == ids[h])
            & (hf.pass_end[h] <= longest)
            & (rows[h] < ids[h])
            & ~hf.has_logits[h]
            & _is_next(h),
        ),
    )


@properties.lemma
def logits_follow_the_last_row() -> Expr:
    """In a loop between passes there are logits if and only if every token has its row."""
    return forall(
        Handle,
        lambda h: implies(
            (hf.loop[h] == hf.Loop.LOOPING) & (hf.pass_end[h] == 0),
            where(hf.has_logits[h], (rows[h] >= 1) & (ids[h] == rows[h]), _is_next(h)),
        ),
    )


@properties.step
def an_update_moves_no_receipt() -> Expr:
    """An update of one layer moves no receipt."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(
            fired(hf.update) & (after(hf.layer_rows[h, l]) != hf.layer_rows[h, l]),
            (after(rows[h]) == rows[h]) & (after(receipts.snapshots[h]) == receipts.snapshots[h]),
        ),
    )


@properties.witness
def reaches_layers_that_disagree() -> Expr:
    """During a pass one layer is ahead of another."""
    return exists(Handle, Layer, Layer, lambda h, l, m: hf.layer_rows[h, l] < hf.layer_rows[h, m])
