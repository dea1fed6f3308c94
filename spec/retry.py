"""Retry: a repeated call gets the receipt of its publication, or a conflict, and changes nothing.

Modelled: the fingerprint of a published append is its id, handle, idempotency key, base snapshot and
interval. A client that lost the answer asks again with the same fingerprint; `ack_*` is what a client
was told. A receipt speaks of the past: it is returned after later publications and after release too,
until the id is forgotten.
Left out: how long receipts are kept, and retries of appends that were never published (they begin anew).
"""

from __future__ import annotations

from kvspec.spec.append import (
    CAPTURED,
    Key,
    Txn,
    TxnState,
    append,
    base_generation,
    base_version,
    count,
    is_ended,
    k_end,
    key,
    receipt,
    start,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.failures import (
    BASE_CONFLICT,
    HANDLE_CONFLICT,
    INTERVAL_CONFLICT,
    KEY_CONFLICT,
    NOT_PUBLISHED,
    TXN_LIVE,
)
from kvspec.spec.handles import Handle, Layer, Length, Version, handles
from kvspec.spec.language import Bool, Module, Option, Step, none

retry_module = Module(
    "retry",
    "Receipts, and calls that ask for them again.",
    uses=(append, handles),
    writes=(
        state,
        target,
        base_generation,
        base_version,
        txn_abi,
        key,
        start,
        count,
        k_end,
        v_end,
        receipt,
    ),
)

acked = retry_module.variable(
    "acked", Txn, to=Bool, init=False, meaning="a client was given the receipt again"
)
ack_handle = retry_module.variable(
    "ack_handle", Txn, to=Option[Handle], init=none(Handle), meaning="handle that this client named"
)
ack_key = retry_module.variable(
    "ack_key", Txn, to=Option[Key], init=none(Key), meaning="key that this client named"
)
ack_base = retry_module.variable(
    "ack_base", Txn, to=Version, init=0, meaning="base snapshot that this client named"
)
ack_count = retry_module.variable(
    "ack_count", Txn, to=Length, init=0, meaning="rows that this client asked for"
)
ack_receipt = retry_module.variable(
    "ack_receipt", Txn, to=Version, init=0, meaning="snapshot that this client was told"
)

ANSWER = (
    (acked, False),
    (ack_handle, none(Handle)),
    (ack_key, none(Key)),
    (ack_base, 0),
    (ack_count, 0),
    (ack_receipt, 0),
)
"""What a client was told, with the values where nobody asked."""


@retry_module.action
def retry(step: Step, x: Txn, h: Handle, k: Key, v: Version, n: Length) -> None:
    """Return the receipt of a published append to a call with the same fingerprint."""
    step.require(state[x] == TxnState.PUBLISHED, NOT_PUBLISHED)
    step.require(target[x] == h, HANDLE_CONFLICT)
    step.require(key[x] == k, KEY_CONFLICT)
    step.require(v == base_version[x], BASE_CONFLICT)
    step.require(n == count[x], INTERVAL_CONFLICT)
    step.assign(acked[x], True)
    step.assign(ack_handle[x], h)
    step.assign(ack_key[x], k)
    step.assign(ack_base[x], v)
    step.assign(ack_count[x], n)
    step.assign(ack_receipt[x], receipt[x])


@retry_module.action
def forget(step: Step, x: Txn) -> None:
    """Drop the record of an ended append, so that its id can be used again."""
    step.require(is_ended(x), TXN_LIVE)
    step.assign(state[x], TxnState.IDLE)
    for variable, blank in (*CAPTURED, (start, 0), (count, 0)):
        step.assign(variable[x], blank)
    for layer in step.every(Layer):
        step.assign(k_end[x, layer], 0)
        step.assign(v_end[x, layer], 0)
    for variable, blank in ((receipt, 0), *ANSWER):
        step.assign(variable[x], blank)
