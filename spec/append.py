"""Append transactions: rows are staged layer by layer, and published in one step.

Modelled: an append captures the handle, its generation and snapshot, the cache ABI and the interval
[start, start + count). K and V rows of each layer are staged apart, one row after the other: `k_end`
and `v_end` tell how far. Staged rows belong to the append; no reader of a handle sees them. Publish
compares and makes all layers visible: the linearization point. Decode (count 1), prefill (start 0)
and cached continuation are one action.
Left out: values of rows, the work inside a layer, rows staged out of order.
Assumed: a transaction id is used again only after `forget`.
"""

from __future__ import annotations

from kvspec.spec.batch import batch, move_rows_of, row_position
from kvspec.spec.failures import (
    ABI_MISMATCH,
    CONTEXT_FULL,
    EMPTY_APPEND,
    HANDLE_TERMINAL,
    INTERVAL_FULL,
    K_INCOMPLETE,
    NOT_PREPARED,
    POSITION_MISMATCH,
    STALE_GENERATION,
    STALE_SNAPSHOT,
    TXN_CLOSED,
    TXN_IN_USE,
    V_INCOMPLETE,
)
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Phase,
    Version,
    abi,
    context,
    generation,
    handles,
    k_rows,
    length,
    phase,
    v_rows,
    version,
)
from kvspec.spec.language import (
    TRUE,
    Enum,
    Expr,
    Module,
    Open,
    Option,
    Step,
    forall,
    member,
    none,
    one_of,
    the,
    where,
)


class Txn(Open):
    """The id of an append transaction."""


class Key(Open):
    """An idempotency key of a client."""


class TxnState(Enum):
    """Where an append transaction is in its life."""

    IDLE = member()
    OPEN = member()
    PREPARED = member()
    PUBLISHED = member()
    ABORTED = member()
    REJECTED = member()


append = Module(
    "append",
    "Append transactions: begin, stage, prepare, publish.",
    uses=(handles, batch),
    writes=(version, length, k_rows, v_rows, row_position),
)

state = append.variable(
    "state", Txn, to=TxnState, init=TxnState.IDLE, meaning="state of the append"
)
target = append.variable(
    "target", Txn, to=Option[Handle], init=none(Handle), meaning="handle that it extends"
)
base_generation = append.variable(
    "base_generation", Txn, to=Generation, init=0, meaning="generation of the handle at begin"
)
base_version = append.variable(
    "base_version", Txn, to=Version, init=0, meaning="snapshot of the handle at begin"
)
txn_abi = append.variable(
    "txn_abi",
    Txn,
    to=Option[Abi],
    init=none(Abi),
    meaning="cache ABI under which its rows are computed",
)
key = append.variable(
    "key", Txn, to=Option[Key], init=none(Key), meaning="idempotency key of the client's call"
)
start = append.variable("start", Txn, to=Length, init=0, meaning="first position of the interval")
count = append.variable("count", Txn, to=Length, init=0, meaning="rows in the interval")
k_end = append.variable(
    "k_end", Txn, Layer, to=Length, init=0, meaning="position after the last staged K row"
)
v_end = append.variable(
    "v_end", Txn, Layer, to=Length, init=0, meaning="position after the last staged V row"
)
receipt = append.variable(
    "receipt", Txn, to=Version, init=0, meaning="snapshot that its publication made"
)


def is_live(x: Expr) -> Expr:
    """The append has begun and not ended."""
    return one_of(state[x], TxnState.OPEN, TxnState.PREPARED)


def is_ended(x: Expr) -> Expr:
    """The append was published, aborted or rejected."""
    return one_of(state[x], TxnState.PUBLISHED, TxnState.ABORTED, TxnState.REJECTED)


CAPTURED = (
    (target, none(Handle)),
    (base_generation, 0),
    (base_version, 0),
    (txn_abi, none(Abi)),
    (key, none(Key)),
)
"""What an append captures at begin and claims until it ends, with the values where it claims nothing."""


def discard(step: Step, x: Expr, end: Expr, hit: Expr = TRUE) -> None:
    """Where `hit`, the append ends in `end`: claims and staged rows are gone, its interval stays."""

    def put(old: Expr, new: object) -> None:
        step.assign(old, new if hit is TRUE else where(hit, new, old))

    put(state[x], end)
    for variable, blank in CAPTURED:
        put(variable[x], blank)
    for layer in step.every(Layer):
        put(k_end[x, layer], start[x])
        put(v_end[x, layer], start[x])


@append.action
def begin(step: Step, x: Txn, h: Handle, k: Key, a: Abi, p: Length, n: Length) -> None:
    """Open an append of n rows at position p to a ready handle, computed under the ABI a."""
    step.require(state[x] == TxnState.IDLE, TXN_IN_USE)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(abi[h] == a, ABI_MISMATCH)
    step.require(p == length[h], POSITION_MISMATCH)
    step.require(n >= 1, EMPTY_APPEND)
    step.require(p + n <= context, CONTEXT_FULL)
    step.assign(state[x], TxnState.OPEN)
    step.assign(target[x], h)
    step.assign(base_generation[x], generation[h])
    step.assign(base_version[x], version[h])
    step.assign(txn_abi[x], a)
    step.assign(key[x], k)
    step.assign(start[x], p)
    step.assign(count[x], n)
    for layer in step.every(Layer):
        step.assign(k_end[x, layer], p)
        step.assign(v_end[x, layer], p)


@append.action
def stage_k(step: Step, x: Txn, l: Layer, p: Length) -> None:
    """Stage the K row of one layer at position p."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(p == k_end[x, l], POSITION_MISMATCH)
    step.require(k_end[x, l] < start[x] + count[x], INTERVAL_FULL)
    step.assign(k_end[x, l], p + 1)


@append.action
def stage_v(step: Step, x: Txn, l: Layer, p: Length) -> None:
    """Stage the V row of one layer at position p."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(p == v_end[x, l], POSITION_MISMATCH)
    step.require(v_end[x, l] < start[x] + count[x], INTERVAL_FULL)
    step.assign(v_end[x, l], p + 1)


@append.action
def prepare(step: Step, x: Txn) -> None:
    """Declare the append complete: K and V of every layer over exactly its interval."""
    step.require(state[x] == TxnState.OPEN, TXN_CLOSED)
    step.require(forall(Layer, lambda l: k_end[x, l] == start[x] + count[x]), K_INCOMPLETE)
    step.require(forall(Layer, lambda l: v_end[x, l] == start[x] + count[x]), V_INCOMPLETE)
    step.assign(state[x], TxnState.PREPARED)


@append.action
def publish(step: Step, x: Txn) -> None:
    """Make all layers visible at once, if the handle still has the captured snapshot."""
    h = the(target[x])

    def reject(effect: Step) -> None:
        discard(effect, x, TxnState.REJECTED)

    step.require(state[x] == TxnState.PREPARED, NOT_PREPARED)
    step.require(generation[h] == base_generation[x], STALE_GENERATION, refused=reject)
    step.require(version[h] == base_version[x], STALE_SNAPSHOT, refused=reject)
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL, refused=reject)
    step.assign(state[x], TxnState.PUBLISHED)
    step.assign(receipt[x], version[h] + 1)
    step.assign(version[h], version[h] + 1)
    step.assign(length[h], start[x] + count[x])
    for layer in step.every(Layer):
        step.assign(k_rows[h, layer], k_end[x, layer])
        step.assign(v_rows[h, layer], v_end[x, layer])
    move_rows_of(step, h, start[x] + count[x])
