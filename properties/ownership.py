"""What is claimed of blocks: nobody finds rows of another request, and every released block is reclaimed."""

from __future__ import annotations

from kvspec.properties import pass_claims
from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, Phase, generation, is_held, phase
from kvspec.spec.language import (
    Expr,
    Properties,
    Variable,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
    weak,
)
from kvspec.spec.ownership import (
    CAPTURED_BY_LOAD,
    CAPTURED_BY_PASS,
    Load,
    LoadState,
    acknowledge,
    complete,
    expire,
    fence,
    foreign,
    hold,
    is_anothers,
    is_loaded,
    is_outstanding,
    is_owned_by,
    is_passed_over,
    land,
    load_block,
    load_generation,
    load_handle,
    load_state,
    pass_block,
    pass_generation,
    pass_handle,
    peer_gone,
    source,
    source_generation,
    system,
)
from kvspec.spec.passes import Pass, dispatched, has_passed, in_flight, pass_number, settle
from kvspec.spec.prefix import Block, evict, filled, owner

ownership = Properties(system, given=core)


def is_unowned(b: Expr) -> Expr:
    """No handle owns the block."""
    return forall(Handle, lambda h: ~owner[b, h])


def is_source(b: Expr) -> Expr:
    """Some request has still to copy rows of the block."""
    return exists(Handle, lambda h: source[h] == b)


def is_blank(record: Expr, captured: tuple[tuple[Variable, object], ...]) -> Expr:
    """The record has captured nothing."""
    return all_of(*(variable[record] == blank for variable, blank in captured))


@ownership.invariant
def no_request_finds_rows_of_another() -> Expr:
    """An owner of a block finds no rows in it that were written for another request."""
    return forall(Block, Handle, lambda b, h: implies(owner[b, h], ~foreign[b]))


@ownership.invariant
def a_pass_writes_a_block_of_its_own_request() -> Expr:
    """A block that a pass in flight writes is of the request that it runs for, or of nobody any more."""
    return forall(
        Block,
        Pass,
        lambda b, p: implies(
            in_flight[p] & (pass_block[p] == b),
            ~is_anothers(b, the(pass_handle[p]), pass_generation[p]),
        ),
    )


@ownership.invariant
def a_peer_writes_a_block_of_its_own_request() -> Expr:
    """A block that a peer may write is of the request that it loads for, or of nobody any more."""
    return forall(
        Block,
        Load,
        lambda b, x: implies(
            is_outstanding(x) & (load_block[x] == b),
            ~is_anothers(b, the(load_handle[x]), load_generation[x]),
        ),
    )


@ownership.invariant
def empty_blocks_have_no_writer() -> Expr:
    """A block that is ready for reuse is written by no pass in flight and by no peer."""
    return forall(Block, lambda b: implies(~filled[b], ~is_passed_over(b) & ~is_loaded(b)))


@ownership.invariant
def empty_blocks_have_no_reader() -> Expr:
    """A block that is ready for reuse has no rows that somebody has still to copy."""
    return forall(Block, lambda b: implies(~filled[b], ~is_source(b)))


@ownership.invariant
def a_pass_reads_no_rows_that_are_still_to_arrive() -> Expr:
    """No pass in flight uses a block into which a load is outstanding."""
    return forall(Block, lambda b: ~(is_passed_over(b) & is_loaded(b)))


@ownership.invariant
def a_hold_waits_for_a_load_that_has_not_ended() -> Expr:
    """A block is held for a writer only while its completion, acknowledgement or expiry is to come."""
    return forall(Load, lambda x: implies(hold[x], is_outstanding(x)))


@ownership.invariant
def only_a_running_request_has_a_copy_to_make() -> Expr:
    """A copy that is still to be made is one of the request that has the handle now."""
    return forall(
        Handle,
        lambda h: implies(is_some(source[h]), is_held(h) & (source_generation[h] == generation[h])),
    )


@ownership.invariant
def a_request_has_one_block() -> Expr:
    """No handle owns two blocks."""
    return forall(Block, Block, Handle, lambda b, c, h: implies(owner[b, h] & owner[c, h], b == c))


@ownership.lemma
def a_pass_has_its_block_or_a_fence() -> Expr:
    """The block of a pass in flight is still its request's, or nobody has it and a fence is before it."""
    return forall(
        Pass,
        Block,
        Handle,
        lambda p, b, h: implies(
            in_flight[p] & (pass_block[p] == b) & (pass_handle[p] == h),
            filled[b]
            & (
                is_owned_by(b, h, pass_generation[p])
                | (is_unowned(b) & (pass_number[p] <= fence[b]))
            ),
        ),
    )


@ownership.lemma
def a_load_has_its_block_or_a_hold() -> Expr:
    """The block of an outstanding load is still its request's, or nobody has it and it is held."""
    return forall(
        Load,
        Block,
        Handle,
        lambda x, b, h: implies(
            is_outstanding(x) & (load_block[x] == b) & (load_handle[x] == h),
            filled[b] & (is_owned_by(b, h, load_generation[x]) | (is_unowned(b) & hold[x])),
        ),
    )


@ownership.lemma
def a_fence_is_a_pass_that_was_dispatched() -> Expr:
    """No block waits for a pass that nobody dispatched."""
    return forall(Block, lambda b: fence[b] <= dispatched[()])


@ownership.lemma
def a_block_that_is_shared_or_copied_from_is_not_written() -> Expr:
    """No pass and no load is outstanding on a block that another request copies from."""
    return forall(
        Block, lambda b: implies(is_source(b), filled[b] & ~is_passed_over(b) & ~is_loaded(b))
    )


@ownership.lemma
def a_pass_in_flight_names_its_block() -> Expr:
    """A pass in flight has a request and a block, and one that has settled has neither."""
    return forall(
        Pass,
        lambda p: (
            (is_some(pass_block[p]) == in_flight[p]) & (is_some(pass_handle[p]) == in_flight[p])
        ),
    )


@ownership.lemma
def a_load_names_its_block() -> Expr:
    """A load has a request and a block until it has ended."""
    return forall(
        Load,
        lambda x: (
            (is_some(load_block[x]) == (load_state[x] != LoadState.IDLE))
            & (is_some(load_handle[x]) == (load_state[x] != LoadState.IDLE))
        ),
    )


@ownership.lemma
def a_settled_pass_has_captured_nothing() -> Expr:
    """A record of no pass is blank."""
    return forall(Pass, lambda p: implies(~in_flight[p], is_blank(p, CAPTURED_BY_PASS)))


@ownership.lemma
def a_load_that_ended_has_captured_nothing() -> Expr:
    """A record of no load is blank."""
    return forall(
        Load, lambda x: implies(load_state[x] == LoadState.IDLE, is_blank(x, CAPTURED_BY_LOAD))
    )


@ownership.lemma
def a_copy_that_was_made_has_captured_nothing() -> Expr:
    """A handle without a copy to make has captured no generation."""
    return forall(Handle, lambda h: implies(~is_some(source[h]), source_generation[h] == 0))


@ownership.lemma
def a_load_that_was_seen_is_of_a_live_request() -> Expr:
    """A request that knows of its rows owns the block into which they were loaded."""
    return forall(
        Load,
        Handle,
        lambda x, h: implies(
            (load_state[x] == LoadState.SEEN) & (load_handle[x] == h),
            is_held(h) & (load_generation[x] == generation[h]),
        ),
    )


numbered = [
    ownership.lemma(claim)
    for claim in (
        pass_claims.no_more_settle_than_were_dispatched,
        pass_claims.a_pass_in_flight_is_behind_the_settled_ones,
        pass_claims.a_pass_in_flight_has_a_number_of_its_own,
        pass_claims.a_settled_pass_has_no_number,
    )
]
ordered = ownership.step(pass_claims.a_pass_settles_after_those_before_it)


@ownership.step
def a_reclaimed_block_is_neither_read_nor_written() -> Expr:
    """A block becomes ready for reuse when no pass, no peer and no copy has still to do with it."""
    return forall(
        Block,
        lambda b: implies(
            filled[b] & ~after(filled[b]), ~is_passed_over(b) & ~is_loaded(b) & ~is_source(b)
        ),
    )


@ownership.step
def a_hold_has_one_lifter() -> Expr:
    """A hold is lifted by the completion, the acknowledgement of the abort, or the end of the lease."""
    return forall(
        Load,
        lambda x: implies(
            hold[x] & ~after(hold[x]),
            any_of(fired(complete), fired(acknowledge), fired(expire))
            & after(load_state[x] == LoadState.IDLE),
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
    return forall(
        Load,
        lambda x: implies(
            fired(complete) & (after(load_state[x]) != load_state[x]),
            load_state[x] == LoadState.LANDED,
        ),
    )


@ownership.step
def bytes_land_by_right() -> Expr:
    """Bytes of a peer land for a load that is under way: not twice, and not after its lease."""
    return forall(
        Load,
        lambda x: implies(
            (load_state[x] != LoadState.LANDED) & after(load_state[x] == LoadState.LANDED),
            fired(land) & (load_state[x] == LoadState.LOADING),
        ),
    )


@ownership.step
def a_lost_peer_stays_lost() -> Expr:
    """A peer that is gone does not come back."""
    return implies(peer_gone[()], after(peer_gone[()]))


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
    return exists(Load, lambda x: hold[x] & (load_state[x] == LoadState.LANDED))


@ownership.witness
def reaches_a_hold_for_a_lost_peer() -> Expr:
    """A block is held for a peer that is gone."""
    return exists(Load, lambda x: hold[x] & peer_gone[()])


@ownership.witness
def reaches_a_copy_from_a_block_without_owner() -> Expr:
    """A block that all owners have released is still to be copied from."""
    return exists(Block, lambda b: is_source(b) & is_unowned(b))


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
def every_hold_is_lifted(x: Load) -> tuple[Expr, Expr]:
    """What is held for a writer is let go in the end, also if the peer is gone."""
    return hold[x], ~hold[x]


@ownership.leads_to(weak(settle, "p"))
def every_pass_settles(p: Pass) -> tuple[Expr, Expr]:
    """A pass in flight settles in the end."""
    return in_flight[p], ~in_flight[p]
