"""What is claimed of one append: its interval, what is staged, the order of its states."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.properties.vocabulary import becomes, has_claims, stays
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_generation,
    base_version,
    begin,
    count,
    is_ended,
    is_live,
    k_end,
    key,
    prepare,
    stage_k,
    stage_v,
    start,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    context,
    generation,
    length,
    phase,
    version,
)
from kvspec.spec.language import Expr, after, exists, fired, forall, implies, is_some, one_of
from kvspec.spec.lifecycle import cancel_txn


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


@core.step
def states_follow_the_life_of_an_append() -> Expr:
    """An append opens, is prepared, is published or ends without, and is forgotten."""
    return forall(
        Txn,
        lambda x: (
            stays(state[x])
            | ((state[x] == TxnState.IDLE) & after(state[x] == TxnState.OPEN))
            | ((state[x] == TxnState.OPEN) & after(state[x] == TxnState.PREPARED))
            | (is_live(x) & after(state[x] == TxnState.ABORTED))
            | (
                (state[x] == TxnState.PREPARED)
                & after(one_of(state[x], TxnState.PUBLISHED, TxnState.REJECTED))
            )
            | (is_ended(x) & after(state[x] == TxnState.IDLE))
        ),
    )


@core.step
def a_begin_opens_an_append() -> Expr:
    """Begin takes an idle append to OPEN."""
    return implies(fired(begin), exists(Txn, lambda x: becomes(x, TxnState.OPEN)))


@core.step
def an_append_captures_the_snapshot_of_the_moment() -> Expr:
    """An append that opens captures its handle's generation, snapshot, ABI and length, in no layer ahead."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            becomes(x, TxnState.OPEN) & after(target[x] == h),
            (phase[h] == Phase.DECODE_READY)
            & (after(base_generation[x]) == generation[h])
            & (after(base_version[x]) == version[h])
            & (after(txn_abi[x]) == abi[h])
            & (after(start[x]) == length[h])
            & after(forall(Layer, lambda l: (k_end[x, l] == start[x]) & (v_end[x, l] == start[x]))),
        ),
    )


@core.step
def the_interval_of_an_append_is_fixed() -> Expr:
    """A live append keeps its interval."""
    return forall(
        Txn,
        lambda x: implies(
            is_live(x) & after(is_live(x)), stays(start[x]) & stays(count[x]) & stays(target[x])
        ),
    )


@core.step
def k_rows_are_staged_one_by_one() -> Expr:
    """While an append is open, K rows of a layer grow by one position at a time."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            (state[x] == TxnState.OPEN) & after(state[x] == TxnState.OPEN),
            stays(k_end[x, l]) | (after(k_end[x, l]) == k_end[x, l] + 1),
        ),
    )


@core.step
def v_rows_are_staged_one_by_one() -> Expr:
    """While an append is open, V rows of a layer grow by one position at a time."""
    return forall(
        Txn,
        Layer,
        lambda x, l: implies(
            (state[x] == TxnState.OPEN) & after(state[x] == TxnState.OPEN),
            stays(v_end[x, l]) | (after(v_end[x, l]) == v_end[x, l] + 1),
        ),
    )


@core.step
def staging_a_k_row_adds_it() -> Expr:
    """Staging a K row makes one layer of one open append longer by it."""
    return implies(
        fired(stage_k),
        exists(
            Txn,
            Layer,
            lambda x, l: (state[x] == TxnState.OPEN) & (after(k_end[x, l]) == k_end[x, l] + 1),
        ),
    )


@core.step
def staging_a_v_row_adds_it() -> Expr:
    """Staging a V row makes one layer of one open append longer by it."""
    return implies(
        fired(stage_v),
        exists(
            Txn,
            Layer,
            lambda x, l: (state[x] == TxnState.OPEN) & (after(v_end[x, l]) == v_end[x, l] + 1),
        ),
    )


@core.step
def a_prepare_prepares_an_append() -> Expr:
    """Prepare takes an open append to PREPARED."""
    return implies(fired(prepare), exists(Txn, lambda x: becomes(x, TxnState.PREPARED)))


@core.step
def a_cancel_aborts_an_append() -> Expr:
    """Cancelling an append takes a live one to ABORTED."""
    return implies(fired(cancel_txn), exists(Txn, lambda x: becomes(x, TxnState.ABORTED)))
