"""SHARED: a request and its fork, whose rows a paged cache keeps in the same blocks until one of them writes.

Modelled: all orders in which parent and child append after a fork, of all rows or of the first alone; a
truncation before an append; the release of either before the other goes on; and a new request in the
handle of a parent that was released, which is given what the parent had freed. Left out: everything that
leads to none of these, by limits, so that each order can be tried: appends come one after the other, and
no call is wrong. The limits name members of open sorts, as the first handle and the next append: swapping
them gives the same cases again. So the instance is for driving a cache alone, and no search by symmetry.
"""

from __future__ import annotations

from typing import Any

from kvspec.spec.append import (
    Key,
    Txn,
    TxnState,
    begin,
    count,
    is_live,
    k_end,
    prepare,
    publish,
    stage_k,
    stage_v,
    start,
    state,
    v_end,
)
from kvspec.spec.batch import Row, enter, leave, reorder
from kvspec.spec.core import LIMITS, system
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Phase,
    Version,
    context,
    generation,
    is_free,
    length,
    parent,
    phase,
    rewind,
)
from kvspec.spec.language import (
    FALSE,
    TRUE,
    Expr,
    Limit,
    exists,
    forall,
    implies,
    instance,
    limit,
    none,
)
from kvspec.spec.language.expr import Const
from kvspec.spec.language.sorts import type_of
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    cancel_txn,
    finish,
    fork,
    release,
    truncate,
)
from kvspec.spec.prefix import Block, evict
from kvspec.spec.retry import forget, retry

APPENDS = 3
FIRST, SECOND = 0, 1
LEFT_OUT = (enter, leave, reorder, cancel_txn, cancel_request, retry, forget, evict)


def _member(sort: type, number: int) -> Const:
    return Const(type_of(sort), number)


PARENT = _member(Handle, FIRST)


def _is_quiet() -> Expr:
    """No append is under way."""
    return forall(Txn, lambda y: ~is_live(y))


def _is_ready(h: Expr) -> Expr:
    return phase[h] == Phase.DECODE_READY


@limit(allocate)
def allocates_the_parent_and_its_successor(h: Handle, b: Block) -> Expr:
    """The first handle, in the first block, and again in the second while its fork goes on."""
    is_first = (generation[h] == 0) & (b == _member(Block, FIRST))
    has_fork = exists(Handle, lambda c: _is_ready(c) & (parent[c] != none(Handle)))
    is_next = (generation[h] == 1) & (b == _member(Block, SECOND)) & has_fork
    return (h == PARENT) & is_free(h) & _is_quiet() & (is_first | is_next)


@limit(fork)
def forks_the_parent_once(p: Handle, children: Any, n: Length) -> Expr:
    """A first request's rows, or some of them, go to a handle that was not used."""
    is_unused = forall(Handle, lambda c: implies(children[c], phase[c] == Phase.VACANT))
    is_parent = (p == PARENT) & _is_ready(p) & (generation[p] == 0)
    is_some = exists(Handle, lambda c: children[c]) & (n >= 1) & (n <= length[p])
    return is_parent & is_unused & is_some & _is_quiet()


def _begins_in_order(x: Txn, h: Handle, p: Length, n: Length) -> Expr:
    """The next append at the end of a request, while no other is under way."""
    is_next: Expr = TRUE
    for number in range(1, APPENDS):
        was_used = state[_member(Txn, number - 1)] != TxnState.IDLE
        is_next &= implies(x == _member(Txn, number), was_used)
    is_right = (p == length[h]) & (n >= 1) & (p + n <= context)
    return is_next & (state[x] == TxnState.IDLE) & _is_ready(h) & is_right & _is_quiet()


@limit(stage_k)
def stages_k_first(x: Txn, l: Layer, p: Length) -> Expr:
    """Each K row comes before the V row of its position."""
    is_next = (p == k_end[x, l]) & (p < start[x] + count[x])
    return (state[x] == TxnState.OPEN) & (k_end[x, l] == v_end[x, l]) & is_next


@limit(stage_v)
def stages_v_then(x: Txn, l: Layer, p: Length) -> Expr:
    """Each V row follows the K row of its position."""
    return (state[x] == TxnState.OPEN) & (k_end[x, l] > v_end[x, l]) & (p == v_end[x, l])


@limit(prepare)
def prepares_what_is_whole(x: Txn) -> Expr:
    """All rows are staged."""
    is_whole = forall(Layer, lambda l: v_end[x, l] == start[x] + count[x])
    return (state[x] == TxnState.OPEN) & is_whole


@limit(publish)
def publishes_what_is_prepared(x: Txn) -> Expr:
    """Nothing stale arises, since appends come one after the other."""
    return state[x] == TxnState.PREPARED


@limit(truncate)
def truncates_to_a_row(h: Handle, n: Length) -> Expr:
    """Rows are taken back, and some stay."""
    return _is_ready(h) & (n >= 1) & (n < length[h]) & (length[h] <= n + rewind) & _is_quiet()


@limit(finish)
def finishes_one_of_two(h: Handle) -> Expr:
    """A request that had a fork, or is one, ends while the other goes on."""
    is_other_ready = exists(Handle, lambda o: (o != h) & _is_ready(o))
    return _is_ready(h) & is_other_ready & (generation[h] == 0) & _is_quiet()


@limit(release)
def releases_what_is_finished(h: Handle) -> Expr:
    """No request is released while it runs."""
    return (phase[h] == Phase.FINISHED) & _is_quiet()


SHARED = instance(
    "SHARED",
    system,
    {
        Handle: 2,
        Txn: APPENDS,
        Layer: 1,
        Abi: 1,
        Key: 1,
        Block: 2,
        Row: 0,
        Length: 3,
        Version: 3,
        Generation: 2,
    },
    constants={context: 2, rewind: 1},
    limits=(
        *LIMITS,
        allocates_the_parent_and_its_successor,
        forks_the_parent_once,
        limit(begin)(_begins_in_order),
        stages_k_first,
        stages_v_then,
        prepares_what_is_whole,
        publishes_what_is_prepared,
        truncates_to_a_row,
        finishes_one_of_two,
        releases_what_is_finished,
        *(Limit(action, FALSE) for action in LEFT_OUT),
    ),
    doc="a request and its fork, which append, truncate and are released in every order",
)
