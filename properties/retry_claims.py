"""What is claimed of retries: who is told which receipt."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_version,
    count,
    is_ended,
    key,
    receipt,
    state,
    target,
)
from kvspec.spec.language import Expr, after, exists, fired, forall, implies, is_some
from kvspec.spec.retry import ack_base, ack_count, ack_handle, ack_key, ack_receipt, acked, forget


@core.invariant
def only_a_published_append_is_acknowledged() -> Expr:
    """A client is given a receipt of a published append alone."""
    return forall(Txn, lambda x: implies(acked[x], state[x] == TxnState.PUBLISHED))


@core.invariant
def a_receipt_goes_to_the_handle_that_was_named() -> Expr:
    """A client that was given a receipt had named the handle of the append."""
    return forall(Txn, lambda x: implies(acked[x], ack_handle[x] == target[x]))


@core.invariant
def a_receipt_goes_to_the_key_that_was_given() -> Expr:
    """A client that was given a receipt had given the key of the append."""
    return forall(Txn, lambda x: implies(acked[x], ack_key[x] == key[x]))


@core.invariant
def a_receipt_goes_to_the_base_that_was_named() -> Expr:
    """A client that was given a receipt had named the base snapshot of the append."""
    return forall(Txn, lambda x: implies(acked[x], ack_base[x] == base_version[x]))


@core.invariant
def a_receipt_goes_to_the_interval_that_was_asked() -> Expr:
    """A client that was given a receipt had asked for as many rows as were appended."""
    return forall(Txn, lambda x: implies(acked[x], ack_count[x] == count[x]))


@core.invariant
def a_retry_is_told_the_original_receipt() -> Expr:
    """A client that asks again is told the receipt that the publication made."""
    return forall(Txn, lambda x: implies(acked[x], ack_receipt[x] == receipt[x]))


@core.invariant
def what_nobody_asked_is_not_on_record() -> Expr:
    """An append that nobody asked for again has no record of an answer."""
    return forall(
        Txn,
        lambda x: implies(
            ~acked[x],
            ~is_some(ack_handle[x])
            & ~is_some(ack_key[x])
            & (ack_base[x] == 0)
            & (ack_count[x] == 0)
            & (ack_receipt[x] == 0),
        ),
    )


@core.step
def forgetting_frees_an_id() -> Expr:
    """Forget takes an ended append to IDLE."""
    return implies(
        fired(forget), exists(Txn, lambda x: is_ended(x) & after(state[x] == TxnState.IDLE))
    )
