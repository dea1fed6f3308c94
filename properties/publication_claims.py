"""What is claimed of publication: appends against handles, receipts, the linearization point."""

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
    is_live,
    prepare,
    publish,
    receipt,
    stage_k,
    stage_v,
    start,
    state,
    target,
    txn_abi,
)
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    generation,
    is_held,
    k_rows,
    length,
    phase,
    v_rows,
    version,
)
from kvspec.spec.language import Expr, after, exists, fired, forall, implies, the
from kvspec.spec.lifecycle import cancel_txn, is_append_to


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
    return forall(Txn, Handle, lambda x, h: implies(has_claims(x) & is_append_to(x, h), is_held(h)))


@core.invariant
def a_cancelled_request_has_no_live_append() -> Expr:
    """A cancelled request has no open or prepared append."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies((phase[h] == Phase.CANCELLED) & is_append_to(x, h), ~is_live(x)),
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


@core.invariant
def only_a_published_append_has_a_receipt() -> Expr:
    """An append that is not published has no receipt."""
    return forall(Txn, lambda x: implies(state[x] != TxnState.PUBLISHED, receipt[x] == 0))


@core.step
def nothing_staged_is_seen() -> Expr:
    """A step that stages, prepares or ends an append without publishing changes what no reader sees."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(
            fired(begin) | fired(stage_k) | fired(stage_v) | fired(prepare) | fired(cancel_txn),
            stays(k_rows[h, l]) & stays(v_rows[h, l]) & stays(length[h]) & stays(version[h]),
        ),
    )


@core.step
def a_publish_publishes_an_append() -> Expr:
    """An accepted publish takes an append to PUBLISHED, and no other step does."""
    return exists(Txn, lambda x: becomes(x, TxnState.PUBLISHED)) == fired(publish)


@core.step
def a_stale_publish_ends_the_append() -> Expr:
    """A publish that is refused for its base takes the append to REJECTED."""
    return implies(
        fired(publish, "STALE_GENERATION")
        | fired(publish, "STALE_SNAPSHOT")
        | fired(publish, "HANDLE_TERMINAL"),
        exists(Txn, lambda x: becomes(x, TxnState.REJECTED)),
    )


@core.step
def publication_is_of_the_captured_snapshot() -> Expr:
    """What is published was based on the generation and the snapshot that its ready handle had."""
    return forall(
        Txn,
        lambda x: implies(
            becomes(x, TxnState.PUBLISHED),
            (base_generation[x] == generation[the(target[x])])
            & (base_version[x] == version[the(target[x])])
            & (phase[the(target[x])] == Phase.DECODE_READY),
        ),
    )


@core.step
def publication_extends_every_layer_at_once() -> Expr:
    """In the step that publishes, each layer's K and V grow by the append's rows, all together."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            becomes(x, TxnState.PUBLISHED) & (target[x] == h),
            (after(length[h]) == length[h] + count[x])
            & (after(version[h]) == version[h] + 1)
            & (after(receipt[x]) == after(version[h]))
            & forall(
                Layer,
                lambda l: (
                    (after(k_rows[h, l]) == k_rows[h, l] + count[x])
                    & (after(v_rows[h, l]) == v_rows[h, l] + count[x])
                ),
            ),
        ),
    )


@core.step
def a_published_append_is_remembered_as_it_was() -> Expr:
    """The record of a published append does not change until it is forgotten."""
    return forall(
        Txn,
        lambda x: implies(
            (state[x] == TxnState.PUBLISHED) & after(state[x] == TxnState.PUBLISHED),
            stays(target[x])
            & stays(base_generation[x])
            & stays(base_version[x])
            & stays(start[x])
            & stays(count[x])
            & stays(receipt[x]),
        ),
    )
