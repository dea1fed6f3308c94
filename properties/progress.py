"""What can be reached in the core system, where it may stop, and what must happen in the end."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_generation,
    is_live,
    k_end,
    prepare,
    publish,
    stage_k,
    stage_v,
    state,
    target,
    v_end,
)
from kvspec.spec.batch import Row, leave, row_cache
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    generation,
    is_free,
    is_terminal,
    length,
    parent,
    phase,
    version,
)
from kvspec.spec.language import Expr, exists, forall, is_some, weak
from kvspec.spec.lifecycle import release
from kvspec.spec.prefix import Block, evict, filled, owner
from kvspec.spec.retry import acked


@core.witness
def reaches_a_publication() -> Expr:
    """Some append is published."""
    return exists(Txn, lambda x: state[x] == TxnState.PUBLISHED)


@core.witness
def reaches_a_rejection() -> Expr:
    """Some append is rejected."""
    return exists(Txn, lambda x: state[x] == TxnState.REJECTED)


@core.witness
def reaches_two_prepared_appends_of_one_snapshot() -> Expr:
    """Two appends are prepared on the same handle."""
    return exists(
        Txn,
        Txn,
        lambda x, y: (
            (x != y)
            & (state[x] == TxnState.PREPARED)
            & (state[y] == TxnState.PREPARED)
            & (target[x] == target[y])
        ),
    )


@core.witness
def reaches_layers_staged_unevenly() -> Expr:
    """An open append has different numbers of K and V rows in two layers."""
    return exists(
        Txn,
        Layer,
        Layer,
        lambda x, l, m: (k_end[x, l] != k_end[x, m]) & (v_end[x, l] != v_end[x, m]),
    )


@core.witness
def reaches_an_append_to_a_reused_handle() -> Expr:
    """An append is prepared whose handle was released and given to another request."""
    return exists(
        Txn,
        Handle,
        lambda x, h: (
            (state[x] == TxnState.PREPARED)
            & (target[x] == h)
            & (base_generation[x] < generation[h])
            & (phase[h] == Phase.DECODE_READY)
        ),
    )


@core.witness
def reaches_a_retry_after_release() -> Expr:
    """A receipt was returned for an append whose handle is released."""
    return exists(
        Txn,
        Handle,
        lambda x, h: acked[x] & (target[x] == h) & (phase[h] == Phase.RELEASED),
    )


@core.witness
def reaches_a_shared_prefix() -> Expr:
    """Two handles own one block."""
    return exists(Block, Handle, Handle, lambda b, h, g: (h != g) & owner[b, h] & owner[b, g])


@core.witness
def reaches_a_block_without_owner() -> Expr:
    """A block holds rows that nobody owns any more: it can be evicted."""
    return exists(Block, lambda b: filled[b] & forall(Handle, lambda h: ~owner[b, h]))


@core.witness
def reaches_a_finish_that_releases_nothing() -> Expr:
    """A finished request still has rows: finish is not release."""
    return exists(Handle, lambda h: (phase[h] == Phase.FINISHED) & (length[h] >= 1))


@core.witness
def reaches_a_release_that_frees_nothing() -> Expr:
    """A request is released, and a block that nobody owns is still filled: release is not free."""
    return exists(
        Handle,
        Block,
        lambda h, b: (
            (phase[h] == Phase.RELEASED)
            & (length[h] >= 1)
            & filled[b]
            & forall(Handle, lambda g: ~owner[b, g])
        ),
    )


@core.witness
def reaches_a_release_after_which_all_is_free() -> Expr:
    """A request is released and no block holds rows: only eviction frees."""
    return exists(Handle, lambda h: (phase[h] == Phase.RELEASED) & (length[h] >= 1)) & forall(
        Block, lambda b: ~filled[b]
    )


@core.witness
def reaches_two_children_of_one_fork() -> Expr:
    """Two handles have the same parent."""
    return exists(
        Handle,
        Handle,
        lambda c, d: (c != d) & is_some(parent[c]) & (parent[c] == parent[d]),
    )


@core.witness
def reaches_a_full_batch() -> Expr:
    """Two batch rows carry requests of different length."""
    return exists(
        Row,
        Row,
        Handle,
        Handle,
        lambda r, s, h, g: (row_cache[r] == h) & (row_cache[s] == g) & (length[h] != length[g]),
    )


@core.witness
def reaches_two_abis() -> Expr:
    """Two requests have rows of different ABIs."""
    return exists(
        Handle,
        Handle,
        lambda h, g: is_some(abi[h]) & is_some(abi[g]) & (abi[h] != abi[g]),
    )


@core.witness
def reaches_a_truncated_request() -> Expr:
    """A ready request has had a snapshot and has no rows."""
    return exists(
        Handle,
        lambda h: (phase[h] == Phase.DECODE_READY) & (version[h] > 0) & (length[h] == 0),
    )


@core.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return forall(Handle, is_free)


@core.leads_to(
    weak(stage_k, "x", "l"), weak(stage_v, "x", "l"), weak(prepare, "x"), weak(publish, "x")
)
def every_open_append_ends(x: Txn) -> tuple[Expr, Expr]:
    """An append that has begun is published, aborted or rejected in the end."""
    return is_live(x), ~is_live(x)


@core.leads_to(weak(leave, "h"), weak(release, "h"))
def every_ended_request_is_released(h: Handle) -> tuple[Expr, Expr]:
    """A finished or cancelled request is released in the end."""
    return is_terminal(h), phase[h] == Phase.RELEASED


@core.leads_to(weak(evict, "b"))
def every_block_without_owner_is_evicted(b: Block) -> tuple[Expr, Expr]:
    """A block that nobody owns is evicted in the end: nothing leaks."""
    return filled[b] & forall(Handle, lambda h: ~owner[b, h]), ~filled[b]
