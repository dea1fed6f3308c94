"""What is claimed of blocks: no write goes astray, and every released block is reclaimed."""

from __future__ import annotations

from kvspec.properties import pass_claims
from kvspec.properties.block_claims import is_source, is_unowned, ownership
from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, Phase, is_held, phase
from kvspec.spec.language import (
    Expr,
    after,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
    weak,
    where,
)
from kvspec.spec.ownership import (
    Load,
    LoadState,
    acknowledge,
    complete,
    expire,
    fence,
    hold,
    is_anothers,
    is_being_copied,
    is_exclusive,
    is_loaded,
    is_outstanding,
    is_passed_over,
    land,
    load_block,
    load_generation,
    load_handle,
    load_state,
    lose_peer,
    pass_block,
    pass_generation,
    pass_handle,
    pass_source,
    pass_source_generation,
    peer_gone,
    source,
)
from kvspec.spec.passes import Pass, has_passed, in_flight, settle
from kvspec.spec.prefix import Block, evict, filled, owner

__all__ = ["ownership"]


@ownership.step
def no_pass_writes_into_a_block_of_another_request() -> Expr:
    """When a pass settles, nobody owns the block that it wrote but the request that it ran for."""
    return forall(
        Pass,
        lambda p: implies(
            in_flight[p] & ~after(in_flight[p]),
            ~is_anothers(the(pass_block[p]), the(pass_handle[p]), pass_generation[p]),
        ),
    )


@ownership.step
def no_peer_writes_into_a_block_of_another_request() -> Expr:
    """When a peer's bytes land, nobody owns the block but the request that they were loaded for."""
    return forall(
        Load,
        lambda x: implies(
            (load_state[x] == LoadState.LOADING) & after(load_state[x] == LoadState.LANDED),
            ~is_anothers(the(load_block[x]), the(load_handle[x]), load_generation[x]),
        ),
    )


@ownership.step
def no_copy_is_made_for_an_earlier_request() -> Expr:
    """Rows are copied into the block of the request that wanted the copy, and of no later one."""
    return forall(
        Pass,
        lambda p: implies(
            in_flight[p] & ~after(in_flight[p]) & is_some(pass_source[p]),
            pass_source_generation[p] == pass_generation[p],
        ),
    )


@ownership.step
def no_pass_writes_over_rows_that_are_still_to_be_copied() -> Expr:
    """When a pass settles, no other one in flight has still to copy rows of the block that it wrote."""
    return forall(
        Pass,
        Pass,
        lambda p, q: implies(
            in_flight[p] & ~after(in_flight[p]) & after(in_flight[q]),
            ~is_some(pass_source[q]) | (pass_source[q] != pass_block[p]),
        ),
    )


@ownership.step
def no_peer_writes_over_rows_that_are_still_to_be_copied() -> Expr:
    """When a peer's bytes land, no pass in flight has still to copy rows of the block."""
    return forall(
        Load,
        lambda x: implies(
            (load_state[x] == LoadState.LOADING) & after(load_state[x] == LoadState.LANDED),
            ~is_being_copied(the(load_block[x])),
        ),
    )


ordered = [
    ownership.step(claim)
    for claim in (
        pass_claims.a_pass_settles_after_those_before_it,
        pass_claims.passes_are_counted_one_by_one,
        pass_claims.passes_keep_their_order,
    )
]


@ownership.step
def a_reclaimed_block_is_neither_read_nor_written() -> Expr:
    """A block becomes ready for reuse when no pass, no peer and no copy has still to do with it."""
    return forall(
        Block,
        lambda b: implies(
            filled[b] & ~after(filled[b]),
            ~is_passed_over(b) & ~is_being_copied(b) & ~is_loaded(b) & ~is_source(b),
        ),
    )


@ownership.step
def a_hold_has_one_lifter() -> Expr:
    """A hold is lifted by the completion, the acknowledgement of the abort, or the end of the lease."""
    return forall(
        Block,
        lambda b: implies(
            hold[b] & ~after(hold[b]), any_of(fired(complete), fired(acknowledge), fired(expire))
        ),
    )


@ownership.step
def what_a_lost_peer_left_is_lifted_by_the_lease_alone() -> Expr:
    """Once the peer is gone, no byte lands, and a load ends with its lease."""
    return forall(
        Load,
        lambda x: implies(
            peer_gone[()] & is_outstanding(x) & (after(load_state[x]) != load_state[x]),
            fired(expire),
        ),
    )


@ownership.step
def a_completion_follows_the_bytes() -> Expr:
    """A request learns of rows that have landed."""
    return implies(
        fired(complete),
        exists(
            Load,
            lambda x: (
                (load_state[x] == LoadState.LANDED)
                & (
                    after(load_state[x])
                    == where(hold[the(load_block[x])], LoadState.IDLE, LoadState.SEEN)
                )
            ),
        ),
    )


@ownership.step
def bytes_land_once_and_by_right() -> Expr:
    """Bytes land for a load that is under way: not twice, and not after its lease."""

    def lands(x: Expr) -> Expr:
        return (load_state[x] != LoadState.LANDED) & after(load_state[x] == LoadState.LANDED)

    return where(
        fired(land),
        exists(Load, lambda x: (load_state[x] == LoadState.LOADING) & lands(x)),
        forall(Load, lambda x: ~lands(x)),
    )


@ownership.step
def an_abort_is_acknowledged_for_a_held_block() -> Expr:
    """The peer acknowledges an abort where a released block is held for it."""
    return implies(
        fired(acknowledge),
        exists(
            Load, lambda x: hold[the(load_block[x])] & is_outstanding(x) & ~after(is_outstanding(x))
        ),
    )


@ownership.step
def a_lease_expires_while_the_load_is_outstanding() -> Expr:
    """The end of a lease ends a load whose completion is still to come."""
    return implies(
        fired(expire),
        exists(Load, lambda x: is_outstanding(x) & after(load_state[x] == LoadState.IDLE)),
    )


@ownership.step
def a_peer_is_lost_once() -> Expr:
    """A peer that is lost was there before, and does not come back."""
    return where(fired(lose_peer), ~peer_gone[()], peer_gone[()] == after(peer_gone[()])) & implies(
        fired(lose_peer), after(peer_gone[()])
    )


@ownership.step
def a_pass_starts_for_a_ready_request() -> Expr:
    """A pass is dispatched for a request that is neither vacant nor ended."""
    return forall(
        Pass,
        lambda p: implies(
            ~in_flight[p] & after(in_flight[p]),
            phase[after(the(pass_handle[p]))] == Phase.DECODE_READY,
        ),
    )


@ownership.step
def a_load_starts_for_a_ready_request() -> Expr:
    """A load starts, in a record of its own, for a request that is neither vacant nor ended."""
    return forall(
        Load,
        lambda x: implies(
            (load_state[x] != LoadState.LOADING) & after(load_state[x] == LoadState.LOADING),
            (load_state[x] == LoadState.IDLE)
            & (phase[after(the(load_handle[x]))] == Phase.DECODE_READY),
        ),
    )


@ownership.step
def a_load_keeps_its_block() -> Expr:
    """The block of a load stays the same until the load has ended."""
    return forall(
        Load,
        lambda x: implies(
            (load_state[x] != LoadState.IDLE) & after(load_state[x] != LoadState.IDLE),
            after(load_block[x]) == load_block[x],
        ),
    )


@ownership.step
def a_copy_is_of_a_block_that_the_request_shared() -> Expr:
    """A ready request takes a copy of the block that it had, together with others."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_some(source[h]) & is_some(after(source[h])),
            (phase[h] == Phase.DECODE_READY)
            & owner[after(the(source[h])), h]
            & ~is_exclusive(after(the(source[h])), h),
        ),
    )


@ownership.step
def who_leaves_a_shared_block_copies_it() -> Expr:
    """A request that goes on without a block has it to copy from."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            owner[b, h] & ~after(owner[b, h]) & after(is_held(h)), after(source[h] == b)
        ),
    )


@ownership.step
def a_pass_makes_the_copy_of_its_request() -> Expr:
    """A pass takes over the copy that its request has to make, and the request has none any more."""
    return forall(
        Pass,
        Handle,
        lambda p, h: implies(
            ~in_flight[p] & after(in_flight[p]) & after(pass_handle[p] == h),
            (after(pass_source[p]) == source[h]) & ~is_some(after(source[h])),
        ),
    )


@ownership.step
def a_copy_is_left_to_a_pass_or_to_nobody() -> Expr:
    """A request that goes on has its copy to make until a pass takes it over."""
    return forall(
        Handle,
        lambda h: implies(
            is_some(source[h]) & after(is_held(h)) & ~is_some(after(source[h])),
            exists(
                Pass,
                lambda p: (
                    ~in_flight[p]
                    & after(in_flight[p])
                    & after(pass_handle[p] == h)
                    & (after(pass_source[p]) == source[h])
                ),
            ),
        ),
    )


@ownership.witness
def reaches_a_block_behind_its_fence() -> Expr:
    """A block that nobody owns waits for a pass, and an earlier one has settled since its release."""
    return exists(
        Block, lambda b: filled[b] & is_unowned(b) & ~has_passed(fence[b]) & is_passed_over(b)
    )


@ownership.witness
def reaches_a_completion_before_the_cancel() -> Expr:
    """A request is cancelled whose rows have arrived, as it knows."""
    return exists(
        Load,
        Handle,
        lambda x, h: (
            (load_state[x] == LoadState.SEEN)
            & (load_handle[x] == h)
            & (phase[h] == Phase.CANCELLED)
        ),
    )


@ownership.witness
def reaches_a_late_write_into_a_held_block() -> Expr:
    """Bytes have landed in a block whose request is gone."""
    return exists(Load, lambda x: hold[the(load_block[x])] & (load_state[x] == LoadState.LANDED))


@ownership.witness
def reaches_a_hold_for_a_lost_peer() -> Expr:
    """A block is held for a peer that is gone."""
    return exists(Block, lambda b: hold[b] & peer_gone[()])


@ownership.witness
def reaches_a_copy_from_a_block_without_owner() -> Expr:
    """A block that all owners have released is still to be copied from."""
    return exists(Block, lambda b: is_source(b) & is_unowned(b))


@ownership.witness
def reaches_a_pass_that_copies_from_a_block_without_owner() -> Expr:
    """A block that all owners have released is copied by a pass whose own request is gone as well."""
    return exists(
        Block,
        Pass,
        lambda b, p: (pass_source[p] == b) & is_unowned(b) & is_unowned(the(pass_block[p])),
    )


@ownership.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@ownership.leads_to(
    weak(settle, "p"),
    weak(land, "x"),
    weak(complete, "x"),
    weak(expire, "x"),
    weak(evict, "b"),
)
def every_released_block_is_reclaimed(b: Block) -> tuple[Expr, Expr]:
    """A block that nobody owns or copies from is reusable in the end, whatever became of its writers."""
    return filled[b] & is_unowned(b) & ~is_source(b), ~filled[b]


@ownership.leads_to(weak(land, "x"), weak(complete, "x"), weak(expire, "x"))
def every_hold_is_lifted(b: Block) -> tuple[Expr, Expr]:
    """What is held for a writer is let go in the end, also if the peer is gone."""
    return hold[b], ~hold[b]


@ownership.leads_to(weak(settle, "p"))
def every_pass_settles(p: Pass) -> tuple[Expr, Expr]:
    """A pass in flight settles in the end."""
    return in_flight[p], ~in_flight[p]
