"""What holds in every reachable state of the core system."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_generation,
    base_version,
    count,
    is_live,
    k_end,
    key,
    receipt,
    start,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.batch import (
    Row,
    row_ancestry,
    row_cache,
    row_position,
    row_sampler,
    row_tokens,
)
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    context,
    generation,
    is_free,
    is_held,
    k_rows,
    length,
    parent,
    phase,
    v_rows,
    version,
)
from kvspec.spec.language import (
    Expr,
    exists,
    forall,
    implies,
    is_some,
    none,
    one_of,
    the,
)
from kvspec.spec.lifecycle import is_append_to
from kvspec.spec.prefix import Block, filled, owner
from kvspec.spec.retry import (
    ack_base,
    ack_count,
    ack_handle,
    ack_key,
    ack_receipt,
    acked,
)


def has_claims(x: Expr) -> Expr:
    """The append is live, or published and remembered."""
    return one_of(state[x], TxnState.OPEN, TxnState.PREPARED, TxnState.PUBLISHED)


# What a reader sees.


@core.invariant
def every_layer_shows_the_committed_k_rows() -> Expr:
    """A held handle shows its committed length of K rows in every layer."""
    return forall(Handle, Layer, lambda h, l: implies(is_held(h), k_rows[h, l] == length[h]))


@core.invariant
def every_layer_shows_the_committed_v_rows() -> Expr:
    """A held handle shows its committed length of V rows in every layer."""
    return forall(Handle, Layer, lambda h, l: implies(is_held(h), v_rows[h, l] == length[h]))


@core.invariant
def a_free_handle_shows_no_rows() -> Expr:
    """A vacant or released handle shows no row in any layer."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(is_free(h), (k_rows[h, l] == 0) & (v_rows[h, l] == 0)),
    )


@core.invariant
def committed_rows_fit_the_context() -> Expr:
    """No request commits more rows than its context limit."""
    return forall(Handle, lambda h: length[h] <= context)


@core.invariant
def a_vacant_handle_was_never_used() -> Expr:
    """A vacant handle has no length, no snapshot, no generation, no ABI and no parent."""
    return forall(
        Handle,
        lambda h: implies(
            phase[h] == Phase.VACANT,
            (length[h] == 0)
            & (version[h] == 0)
            & (generation[h] == 0)
            & ~is_some(abi[h])
            & ~is_some(parent[h]),
        ),
    )


@core.invariant
def a_held_handle_has_an_abi() -> Expr:
    """A held handle knows the cache ABI of its rows."""
    return forall(Handle, lambda h: implies(is_held(h), is_some(abi[h])))


@core.invariant
def no_handle_is_its_own_parent() -> Expr:
    """A handle is forked from another one."""
    return forall(Handle, lambda h: parent[h] != h)


# What an append holds.


@core.invariant
def a_live_append_has_rows_to_stage() -> Expr:
    """An append with claims has an interval of at least one row."""
    return forall(Txn, lambda x: implies(has_claims(x), count[x] >= 1))


@core.invariant
def an_append_fits_the_context() -> Expr:
    """The interval of an append with claims ends within the context limit."""
    return forall(Txn, lambda x: implies(has_claims(x), start[x] + count[x] <= context))


@core.invariant
def an_append_knows_its_handle_key_and_abi() -> Expr:
    """An append with claims has a handle, an idempotency key and an ABI."""
    return forall(
        Txn,
        lambda x: implies(
            has_claims(x), is_some(target[x]) & is_some(key[x]) & is_some(txn_abi[x])
        ),
    )


@core.invariant
def an_append_without_claims_names_nothing() -> Expr:
    """An idle, aborted or rejected append names no handle, base, ABI or key."""
    return forall(
        Txn,
        lambda x: implies(
            ~has_claims(x),
            ~is_some(target[x])
            & (base_generation[x] == 0)
            & (base_version[x] == 0)
            & ~is_some(txn_abi[x])
            & ~is_some(key[x]),
        ),
    )


@core.invariant
def a_discarded_append_has_no_staged_rows() -> Expr:
    """What an aborted or rejected append staged is gone, and stays gone."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            one_of(state[x], TxnState.ABORTED, TxnState.REJECTED),
            (k_end[x, l] == start[x]) & (v_end[x, l] == start[x]),
        ),
    )


@core.invariant
def an_idle_append_is_blank() -> Expr:
    """An idle transaction has no interval and no staged rows."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            state[x] == TxnState.IDLE,
            (start[x] == 0) & (count[x] == 0) & (k_end[x, l] == 0) & (v_end[x, l] == 0),
        ),
    )


@core.invariant
def an_idle_append_has_no_interval() -> Expr:
    """An idle transaction has no interval, also where there is no layer."""
    return forall(
        Txn, lambda x: implies(state[x] == TxnState.IDLE, (start[x] == 0) & (count[x] == 0))
    )


@core.invariant
def staged_rows_stay_in_the_interval() -> Expr:
    """K and V rows of every layer are staged from the start of the interval and not past its end."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            has_claims(x),
            (start[x] <= k_end[x, l])
            & (k_end[x, l] <= start[x] + count[x])
            & (start[x] <= v_end[x, l])
            & (v_end[x, l] <= start[x] + count[x]),
        ),
    )


@core.invariant
def a_prepared_append_is_complete_in_k() -> Expr:
    """A prepared or published append has the K rows of its interval in every layer."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            one_of(state[x], TxnState.PREPARED, TxnState.PUBLISHED),
            k_end[x, l] == start[x] + count[x],
        ),
    )


@core.invariant
def a_prepared_append_is_complete_in_v() -> Expr:
    """A prepared or published append has the V rows of its interval in every layer."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            one_of(state[x], TxnState.PREPARED, TxnState.PUBLISHED),
            v_end[x, l] == start[x] + count[x],
        ),
    )


# How appends and handles agree.


@core.invariant
def an_append_is_not_ahead_of_its_handle() -> Expr:
    """An append captured a generation, and within it a snapshot, that its handle has had."""
    return forall(
        Txn,
        lambda x: implies(
            has_claims(x),
            (base_generation[x] <= generation[the(target[x])])
            & implies(
                base_generation[x] == generation[the(target[x])],
                base_version[x] <= version[the(target[x])],
            ),
        ),
    )


@core.invariant
def an_append_is_of_its_handles_abi() -> Expr:
    """An append to the request that a handle has now was computed under the request's ABI."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(has_claims(x) & is_append_to(x, h), txn_abi[x] == abi[h]),
    )


@core.invariant
def a_current_append_starts_at_the_committed_length() -> Expr:
    """An append whose captured snapshot is still the handle's begins where its rows end."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_live(x) & is_append_to(x, h) & (base_version[x] == version[h]),
            start[x] == length[h],
        ),
    )


@core.invariant
def no_append_is_current_on_a_free_handle() -> Expr:
    """A handle that was released has moved past the generation of every append to it."""
    return forall(
        Txn, Handle, lambda x, h: implies(has_claims(x) & is_append_to(x, h), is_held(h))
    )


@core.invariant
def a_cancelled_request_has_no_live_append() -> Expr:
    """A cancelled request has no open or prepared append."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            (phase[h] == Phase.CANCELLED) & is_append_to(x, h), ~is_live(x)
        ),
    )


@core.invariant
def a_receipt_names_the_snapshot_after_the_base() -> Expr:
    """The receipt of a published append is the snapshot after the captured one."""
    return forall(
        Txn,
        lambda x: implies(state[x] == TxnState.PUBLISHED, receipt[x] == base_version[x] + 1),
    )


@core.invariant
def a_receipt_is_of_a_snapshot_that_was() -> Expr:
    """A receipt for the request that a handle has now names a snapshot that it has had."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            (state[x] == TxnState.PUBLISHED) & is_append_to(x, h), receipt[x] <= version[h]
        ),
    )


@core.invariant
def no_snapshot_is_extended_twice() -> Expr:
    """Two published appends to one request captured different snapshots."""
    return forall(
        Txn,
        Txn,
        lambda x, y: implies(
            (state[x] == TxnState.PUBLISHED)
            & (state[y] == TxnState.PUBLISHED)
            & (target[x] == target[y])
            & (base_generation[x] == base_generation[y])
            & (base_version[x] == base_version[y]),
            x == y,
        ),
    )


# What a retry was told.


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


@core.invariant
def only_a_published_append_has_a_receipt() -> Expr:
    """An append that is not published has no receipt."""
    return forall(Txn, lambda x: implies(state[x] != TxnState.PUBLISHED, receipt[x] == 0))


# Who owns what.


@core.invariant
def owned_blocks_are_filled() -> Expr:
    """A block that a handle owns holds rows."""
    return forall(Block, Handle, lambda b, h: implies(owner[b, h], filled[b]))


@core.invariant
def a_held_handle_owns_a_block() -> Expr:
    """A handle that holds rows owns a block."""
    return forall(Handle, lambda h: implies(is_held(h), exists(Block, lambda b: owner[b, h])))


@core.invariant
def a_free_handle_owns_nothing() -> Expr:
    """A vacant or released handle has no claim on any block."""
    return forall(Block, Handle, lambda b, h: implies(is_free(h), ~owner[b, h]))


@core.invariant
def owners_of_a_block_share_an_abi() -> Expr:
    """All owners of a block read its rows under the same ABI."""
    return forall(
        Block,
        Handle,
        Handle,
        lambda b, h, g: implies(owner[b, h] & owner[b, g], abi[h] == abi[g]),
    )


# What a batch row carries.


@core.invariant
def a_row_carries_a_held_handle() -> Expr:
    """The cache handle of a batch row holds rows."""
    return forall(Row, Handle, lambda r, h: implies(row_cache[r] == h, is_held(h)))


@core.invariant
def no_handle_is_in_two_rows() -> Expr:
    """Two batch rows carry different handles."""
    return forall(
        Row,
        Row,
        lambda r, s: implies(is_some(row_cache[r]) & (row_cache[r] == row_cache[s]), r == s),
    )


@core.invariant
def tokens_move_with_the_cache() -> Expr:
    """The tokens of a batch row are those of its cache handle."""
    return forall(Row, lambda r: row_tokens[r] == row_cache[r])


@core.invariant
def the_sampler_moves_with_the_cache() -> Expr:
    """The sampler state of a batch row is that of its cache handle."""
    return forall(Row, lambda r: row_sampler[r] == row_cache[r])


@core.invariant
def ancestry_moves_with_the_cache() -> Expr:
    """The ancestry of a batch row is that of its cache handle."""
    return forall(
        Row,
        Handle,
        lambda r, h: implies(row_cache[r] == h, row_ancestry[r] == parent[h]),
    )


@core.invariant
def the_position_moves_with_the_cache() -> Expr:
    """The next position of a batch row is the committed length of its cache handle."""
    return forall(
        Row, Handle, lambda r, h: implies(row_cache[r] == h, row_position[r] == length[h])
    )


@core.invariant
def an_empty_row_is_blank() -> Expr:
    """A batch row without a request has no ancestry and position 0."""
    return forall(
        Row,
        lambda r: implies(
            ~is_some(row_cache[r]),
            (row_ancestry[r] == none(Handle)) & (row_position[r] == 0),
        ),
    )
