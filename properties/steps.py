"""What holds of every step of the core system."""

from __future__ import annotations

from kvspec.properties.claims import core
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
    prepare,
    publish,
    receipt,
    stage_k,
    stage_v,
    start,
    state,
    target,
    txn_abi,
    v_end,
)
from kvspec.spec.batch import Row, leave, reorder, row_cache, row_position
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    abi,
    generation,
    is_free,
    is_held,
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
    Expr,
    after,
    exists,
    fired,
    forall,
    implies,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    cancel_txn,
    finish,
    fork,
    release,
    truncate,
)
from kvspec.spec.prefix import Block, evict, filled, owner
from kvspec.spec.retry import forget


def stays(expr: Expr) -> Expr:
    """The expression has the same value after the step."""
    return after(expr) == expr


def becomes(x: Expr, end: Expr) -> Expr:
    """The append is in that state after the step and was not before."""
    return (state[x] != end) & (after(state[x]) == end)


# The life of a handle.


@core.step
def phases_follow_the_life_of_a_request() -> Expr:
    """A phase changes from free to ready, from ready to ended, and from ended to released."""
    return forall(
        Handle,
        lambda h: stays(phase[h])
        | (is_free(h) & (after(phase[h]) == Phase.DECODE_READY))
        | ((phase[h] == Phase.DECODE_READY) & after(is_terminal(h)))
        | (is_terminal(h) & (after(phase[h]) == Phase.RELEASED)),
    )


@core.step
def an_ended_request_is_frozen() -> Expr:
    """From its end to its release a request keeps its length, snapshot and rows of every layer."""
    return forall(
        Handle,
        lambda h: implies(
            is_terminal(h) & after(is_terminal(h)),
            stays(length[h])
            & stays(version[h])
            & forall(Layer, lambda l: stays(k_rows[h, l]) & stays(v_rows[h, l])),
        ),
    )


@core.step
def a_tombstone_keeps_its_record() -> Expr:
    """A released handle keeps length, snapshot, generation, ABI and parent until it is given away."""
    return forall(
        Handle,
        lambda h: implies(
            after(phase[h] == Phase.RELEASED),
            stays(length[h]) & stays(version[h]) & stays(abi[h]) & stays(parent[h]),
        ),
    )


@core.step
def release_moves_the_generation_on() -> Expr:
    """A generation ends with the release of its request, and never otherwise."""
    return forall(
        Handle,
        lambda h: after(generation[h])
        == where(
            is_held(h) & after(phase[h] == Phase.RELEASED), generation[h] + 1, generation[h]
        ),
    )


@core.step
def a_snapshot_never_comes_back() -> Expr:
    """While a request lives, its snapshot number does not go back."""
    return forall(
        Handle,
        lambda h: implies(is_held(h) & after(is_held(h)), version[h] <= after(version[h])),
    )


@core.step
def other_rows_are_another_snapshot() -> Expr:
    """A request whose length or visible rows change has a new snapshot."""
    return forall(
        Handle,
        lambda h: implies(
            (phase[h] == Phase.DECODE_READY)
            & after(phase[h] == Phase.DECODE_READY)
            & stays(version[h]),
            stays(length[h])
            & forall(Layer, lambda l: stays(k_rows[h, l]) & stays(v_rows[h, l])),
        ),
    )


@core.step
def a_request_begins_without_rows() -> Expr:
    """A new request has no rows, snapshot number 0 and no parent."""
    return implies(
        fired(allocate),
        exists(
            Handle,
            lambda h: is_free(h)
            & after(phase[h] == Phase.DECODE_READY)
            & after((length[h] == 0) & (version[h] == 0))
            & ~after(exists(Handle, lambda p: parent[h] == p)),
        ),
    )


@core.step
def a_finish_ends_a_request() -> Expr:
    """Finish takes a ready request to FINISHED."""
    return implies(
        fired(finish),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & after(phase[h] == Phase.FINISHED),
        ),
    )


@core.step
def a_cancel_ends_a_request() -> Expr:
    """Cancel takes a ready request to CANCELLED."""
    return implies(
        fired(cancel_request),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & after(phase[h] == Phase.CANCELLED),
        ),
    )


@core.step
def a_release_frees_a_handle() -> Expr:
    """Release takes an ended request to RELEASED."""
    return implies(
        fired(release),
        exists(Handle, lambda h: is_terminal(h) & after(phase[h] == Phase.RELEASED)),
    )


# Fork and truncate.


@core.step
def a_fork_makes_a_child() -> Expr:
    """A fork gives a free handle to a child of a ready parent."""
    return implies(
        fired(fork),
        exists(
            Handle,
            Handle,
            lambda c, p: is_free(c)
            & after(phase[c] == Phase.DECODE_READY)
            & after(parent[c] == p)
            & (phase[p] == Phase.DECODE_READY),
        ),
    )


@core.step
def a_child_is_a_prefix_of_its_parent() -> Expr:
    """A child begins at snapshot 0 with at most its parent's rows, under its parent's ABI."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & after(parent[c] == p),
            after(version[c] == 0) & (after(length[c]) <= length[p]) & (after(abi[c]) == abi[p]),
        ),
    )


@core.step
def every_child_has_a_parent() -> Expr:
    """What becomes ready by a fork has a parent on record."""
    return forall(
        Handle,
        lambda c: implies(
            fired(fork) & is_free(c) & after(is_held(c)),
            exists(Handle, lambda p: after(parent[c] == p) & (phase[p] == Phase.DECODE_READY)),
        ),
    )


@core.step
def a_fork_leaves_others_alone() -> Expr:
    """A fork changes no handle that holds rows already."""
    return forall(
        Handle,
        lambda h: implies(
            fired(fork) & is_held(h),
            stays(phase[h])
            & stays(version[h])
            & stays(length[h])
            & stays(parent[h])
            & stays(abi[h]),
        ),
    )


@core.step
def truncate_makes_a_snapshot() -> Expr:
    """A truncate gives a ready request a new snapshot."""
    return implies(
        fired(truncate),
        exists(
            Handle,
            lambda h: (phase[h] == Phase.DECODE_READY) & (after(version[h]) == version[h] + 1),
        ),
    )


@core.step
def truncate_never_adds_rows() -> Expr:
    """A truncate makes no request longer."""
    return forall(Handle, lambda h: implies(fired(truncate), after(length[h]) <= length[h]))


@core.step
def truncate_stays_within_what_can_be_taken_back() -> Expr:
    """A truncate takes back no more rows than the cache can."""
    return forall(
        Handle, lambda h: implies(fired(truncate), length[h] <= after(length[h]) + rewind)
    )


# The life of an append.


@core.step
def states_follow_the_life_of_an_append() -> Expr:
    """An append opens, is prepared, is published or ends without, and is forgotten."""
    return forall(
        Txn,
        lambda x: stays(state[x])
        | ((state[x] == TxnState.IDLE) & after(state[x] == TxnState.OPEN))
        | ((state[x] == TxnState.OPEN) & after(state[x] == TxnState.PREPARED))
        | (is_live(x) & after(state[x] == TxnState.ABORTED))
        | (
            (state[x] == TxnState.PREPARED)
            & after(one_of(state[x], TxnState.PUBLISHED, TxnState.REJECTED))
        )
        | (is_ended(x) & after(state[x] == TxnState.IDLE)),
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
            & after(
                forall(Layer, lambda l: (k_end[x, l] == start[x]) & (v_end[x, l] == start[x]))
            ),
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
            lambda x, l: (state[x] == TxnState.OPEN)
            & (after(k_end[x, l]) == k_end[x, l] + 1),
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
            lambda x, l: (state[x] == TxnState.OPEN)
            & (after(v_end[x, l]) == v_end[x, l] + 1),
        ),
    )


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
def a_prepare_prepares_an_append() -> Expr:
    """Prepare takes an open append to PREPARED."""
    return implies(fired(prepare), exists(Txn, lambda x: becomes(x, TxnState.PREPARED)))


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
                lambda l: (after(k_rows[h, l]) == k_rows[h, l] + count[x])
                & (after(v_rows[h, l]) == v_rows[h, l] + count[x]),
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


@core.step
def a_cancel_aborts_an_append() -> Expr:
    """Cancelling an append takes a live one to ABORTED."""
    return implies(fired(cancel_txn), exists(Txn, lambda x: becomes(x, TxnState.ABORTED)))


@core.step
def forgetting_frees_an_id() -> Expr:
    """Forget takes an ended append to IDLE."""
    return implies(
        fired(forget), exists(Txn, lambda x: is_ended(x) & after(state[x] == TxnState.IDLE))
    )


# Blocks and the batch.


@core.step
def a_block_is_taken_empty_or_inherited() -> Expr:
    """A handle becomes owner of a block that was empty, or that its parent owns."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            ~owner[b, h] & after(owner[b, h]),
            ~filled[b] | exists(Handle, lambda p: after(parent[h] == p) & owner[b, p]),
        ),
    )


@core.step
def a_child_inherits_every_block() -> Expr:
    """A forked child owns exactly the blocks that its parent owns."""
    return forall(
        Block,
        Handle,
        Handle,
        lambda b, c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & after(parent[c] == p),
            after(owner[b, c]) == owner[b, p],
        ),
    )


@core.step
def an_owner_keeps_its_block() -> Expr:
    """A handle that holds rows before and after a step keeps its blocks, and they stay filled."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            owner[b, h] & is_held(h) & after(is_held(h)), after(owner[b, h] & filled[b])
        ),
    )


@core.step
def an_eviction_frees_a_block() -> Expr:
    """Evict empties a block that held rows."""
    return implies(fired(evict), exists(Block, lambda b: filled[b] & ~after(filled[b])))


@core.step
def release_evicts_nothing() -> Expr:
    """A release gives up claims; the blocks stay filled until they are evicted."""
    return forall(Block, lambda b: implies(fired(release), stays(filled[b])))


@core.step
def a_request_leaves_the_batch_only_by_leave() -> Expr:
    """A handle in some batch row is in some row after any step but leave."""
    return forall(
        Handle,
        lambda h: implies(
            exists(Row, lambda r: row_cache[r] == h) & ~fired(leave),
            after(exists(Row, lambda r: row_cache[r] == h)),
        ),
    )


@core.step
def only_ready_requests_enter_the_batch() -> Expr:
    """A handle that comes into the batch is ready."""
    return forall(
        Handle,
        lambda h: implies(
            ~exists(Row, lambda r: row_cache[r] == h)
            & after(exists(Row, lambda r: row_cache[r] == h)),
            phase[h] == Phase.DECODE_READY,
        ),
    )


@core.step
def a_leave_clears_a_row() -> Expr:
    """Leave takes one request out of the batch."""
    return implies(
        fired(leave),
        exists(
            Handle,
            lambda h: exists(Row, lambda r: row_cache[r] == h)
            & ~after(exists(Row, lambda r: row_cache[r] == h)),
        ),
    )


@core.step
def reorder_moves_positions_with_requests() -> Expr:
    """Reorder gives a request the same position in its new row."""
    return forall(
        Row,
        Row,
        Handle,
        lambda r, s, h: implies(
            fired(reorder) & (row_cache[r] == h) & after(row_cache[s] == h),
            after(row_position[s]) == row_position[r],
        ),
    )
