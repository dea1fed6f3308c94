"""The life of a request: allocate, fork, truncate, cancel, finish, release.

Modelled: allocate takes a free handle and an empty block. Fork gives all children the parent's prefix
in one step, or refuses for all. Truncate makes a shorter snapshot of all layers, or refuses. Finish,
cancel and release are three facts: the first two end generation, the third gives up the rows, and
freeing the block is yet another (`prefix.evict`). The first reason to end is kept.
Left out: admission, priorities, preemption.
"""

from __future__ import annotations

from kvspec.spec.append import (
    Txn,
    TxnState,
    append,
    base_generation,
    base_version,
    discard,
    is_live,
    k_end,
    key,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.batch import Row, batch, move_rows_of, row_cache, row_position
from kvspec.spec.failures import (
    BEYOND_COMMITTED,
    BLOCK_IN_USE,
    CANNOT_REWIND,
    CHILD_IN_USE,
    HANDLE_LIVE,
    HANDLE_TERMINAL,
    NO_CHILD,
    NOT_TERMINAL,
    ROW_HOLDS_HANDLE,
    TXN_CLOSED,
)
from kvspec.spec.handles import (
    Abi,
    Handle,
    Layer,
    Length,
    Phase,
    abi,
    generation,
    handles,
    is_free,
    is_terminal,
    k_rows,
    length,
    parent,
    phase,
    rewind,
    v_rows,
    version,
)
from kvspec.spec.language import (
    Bool,
    Expr,
    Map,
    Module,
    Step,
    exists,
    forall,
    implies,
    none,
    where,
)
from kvspec.spec.prefix import Block, filled, owner, prefix

lifecycle = Module(
    "lifecycle",
    "Allocate, fork, truncate, cancel, finish, release.",
    uses=(handles, prefix, batch, append),
    writes=(
        phase,
        generation,
        version,
        abi,
        parent,
        length,
        k_rows,
        v_rows,
        filled,
        owner,
        row_position,
        state,
        target,
        base_generation,
        base_version,
        txn_abi,
        key,
        k_end,
        v_end,
    ),
)


def is_append_to(x: Expr, h: Expr) -> Expr:
    """The append is to the request that the handle has now."""
    return (target[x] == h) & (base_generation[x] == generation[h])


@lifecycle.action
def allocate(step: Step, h: Handle, b: Block, a: Abi) -> None:
    """Give a free handle and an empty block to a new request of the ABI a."""
    step.require(is_free(h), HANDLE_LIVE)
    step.require(~filled[b], BLOCK_IN_USE)
    step.assign(phase[h], Phase.DECODE_READY)
    step.assign(version[h], 0)
    step.assign(abi[h], a)
    step.assign(parent[h], none(Handle))
    step.assign(length[h], 0)
    step.assign(filled[b], True)
    step.assign(owner[b, h], True)


@lifecycle.action
def fork(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Give the first n rows of a ready handle to all children at once; the parent stays as it is."""
    step.require(phase[p] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(exists(Handle, lambda c: children[c]), NO_CHILD)
    step.require(n <= length[p], BEYOND_COMMITTED)
    step.require(forall(Handle, lambda c: implies(children[c], is_free(c))), CHILD_IN_USE)
    for c in step.every(Handle):
        step.assign(phase[c], where(children[c], Phase.DECODE_READY, phase[c]))
        step.assign(version[c], where(children[c], 0, version[c]))
        step.assign(abi[c], where(children[c], abi[p], abi[c]))
        step.assign(parent[c], where(children[c], p, parent[c]))
        step.assign(length[c], where(children[c], n, length[c]))
        for layer in step.every(Layer):
            step.assign(k_rows[c, layer], where(children[c], n, k_rows[c, layer]))
            step.assign(v_rows[c, layer], where(children[c], n, v_rows[c, layer]))
        for b in step.every(Block):
            step.assign(owner[b, c], where(children[c], owner[b, p], owner[b, c]))


@lifecycle.action
def truncate(step: Step, h: Handle, n: Length) -> None:
    """Make a snapshot of the first n rows, in all layers at once; what cannot be cut is refused."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n <= length[h], BEYOND_COMMITTED)
    step.require(length[h] <= n + rewind, CANNOT_REWIND)
    step.assign(version[h], version[h] + 1)
    step.assign(length[h], n)
    for layer in step.every(Layer):
        step.assign(k_rows[h, layer], n)
        step.assign(v_rows[h, layer], n)
    move_rows_of(step, h, n)


@lifecycle.action
def cancel_txn(step: Step, x: Txn) -> None:
    """Abort one append and keep the request."""
    step.require(is_live(x), TXN_CLOSED)
    discard(step, x, TxnState.ABORTED)


@lifecycle.action
def cancel_request(step: Step, h: Handle) -> None:
    """End a request early and abort every append it has open."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.assign(phase[h], Phase.CANCELLED)
    for x in step.every(Txn):
        discard(step, x, TxnState.ABORTED, is_live(x) & is_append_to(x, h))


@lifecycle.action
def finish(step: Step, h: Handle) -> None:
    """End a request after its last row; no append to it can be published any more."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.assign(phase[h], Phase.FINISHED)


@lifecycle.action
def release(step: Step, h: Handle) -> None:
    """Give up the rows of an ended request; its length, snapshot and parent stay on record."""
    step.require(is_terminal(h), NOT_TERMINAL)
    step.require(forall(Row, lambda r: row_cache[r] != h), ROW_HOLDS_HANDLE)
    step.assign(phase[h], Phase.RELEASED)
    step.assign(generation[h], generation[h] + 1)
    for layer in step.every(Layer):
        step.assign(k_rows[h, layer], 0)
        step.assign(v_rows[h, layer], 0)
    for b in step.every(Block):
        step.assign(owner[b, h], False)
