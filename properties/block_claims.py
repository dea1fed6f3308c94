"""What holds of blocks in every state: who may have to do with one, and what it waits for."""

from __future__ import annotations

from kvspec.properties import pass_claims
from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, generation, is_held
from kvspec.spec.language import (
    Expr,
    Properties,
    Variable,
    all_of,
    exists,
    forall,
    implies,
    is_some,
    the,
)
from kvspec.spec.ownership import (
    CAPTURED_BY_LOAD,
    CAPTURED_BY_PASS,
    Load,
    LoadState,
    fence,
    hold,
    is_anothers,
    is_exclusive,
    is_loaded,
    is_outstanding,
    is_owned_by,
    is_passed_over,
    load_block,
    load_generation,
    load_handle,
    load_state,
    pass_block,
    pass_generation,
    pass_handle,
    pass_source,
    pass_source_generation,
    source,
    source_generation,
    system,
)
from kvspec.spec.passes import Pass, in_flight, pass_number, unsettled
from kvspec.spec.prefix import Block, filled, owner

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
def empty_blocks_have_no_pass() -> Expr:
    """A block that is ready for reuse is read and written by no pass in flight."""
    return forall(Pass, lambda p: implies(in_flight[p], filled[the(pass_block[p])]))


@ownership.invariant
def empty_blocks_have_no_writing_peer() -> Expr:
    """No peer has the right to write into a block that is ready for reuse."""
    return forall(Load, lambda x: implies(is_outstanding(x), filled[the(load_block[x])]))


@ownership.invariant
def empty_blocks_have_no_reader() -> Expr:
    """A block that is ready for reuse has no rows that somebody has still to copy."""
    return forall(Handle, lambda h: implies(is_some(source[h]), filled[the(source[h])]))


@ownership.invariant
def empty_blocks_have_no_copying_pass() -> Expr:
    """No pass in flight has rows to copy from a block that is ready for reuse."""
    return forall(Pass, lambda p: implies(is_some(pass_source[p]), filled[the(pass_source[p])]))


@ownership.invariant
def a_pass_copies_for_the_request_that_it_runs_for() -> Expr:
    """The copy that a pass makes is one that its own request wanted."""
    return forall(
        Pass,
        lambda p: implies(is_some(pass_source[p]), pass_source_generation[p] == pass_generation[p]),
    )


@ownership.invariant
def a_block_that_a_pass_copies_is_not_loaded() -> Expr:
    """No peer writes a block whose rows a pass in flight is to copy."""
    return forall(
        Load,
        Pass,
        lambda x, p: implies(is_outstanding(x), pass_source[p] != the(load_block[x])),
    )


@ownership.invariant
def a_block_that_a_pass_copies_is_written_by_later_ones() -> Expr:
    """A pass that writes a block is behind every pass that is to copy its rows."""
    return forall(
        Block,
        Pass,
        Pass,
        lambda b, p, q: implies(
            (pass_source[p] == b) & (pass_block[q] == b), pass_number[p] < pass_number[q]
        ),
    )


@ownership.lemma
def a_block_that_a_pass_copies_waits_for_it() -> Expr:
    """The fence of a block is not before a pass that is to copy its rows."""
    return forall(
        Pass,
        lambda p: implies(is_some(pass_source[p]), pass_number[p] <= fence[the(pass_source[p])]),
    )


@ownership.invariant
def a_block_that_waits_for_a_copy_is_not_shared() -> Expr:
    """While a request has still to copy rows into its block, nobody else has that block."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(is_some(source[h]) & owner[b, h], is_exclusive(b, h)),
    )


@ownership.invariant
def a_pass_reads_no_rows_that_are_still_to_arrive() -> Expr:
    """No pass in flight uses a block into which a load is outstanding."""
    return forall(Block, lambda b: ~(is_passed_over(b) & is_loaded(b)))


@ownership.invariant
def a_hold_waits_for_a_load_that_has_not_ended() -> Expr:
    """A block is held for a writer only while its completion, acknowledgement or expiry is to come."""
    return forall(Block, lambda b: implies(hold[b], is_loaded(b)))


@ownership.invariant
def a_held_block_has_no_owner() -> Expr:
    """A block is held for a writer after its request has released it."""
    return forall(Block, Handle, lambda b, h: implies(hold[b], ~owner[b, h]))


@ownership.lemma
def a_block_has_one_load() -> Expr:
    """No two loads into one block are outstanding."""
    return forall(
        Load,
        Load,
        lambda x, y: implies(
            is_outstanding(x) & is_outstanding(y) & (load_block[x] == load_block[y]), x == y
        ),
    )


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

    def has(p: Expr) -> Expr:
        b, h = the(pass_block[p]), the(pass_handle[p])
        fenced = is_unowned(b) & (pass_number[p] <= fence[b])
        return is_owned_by(b, h, pass_generation[p]) | fenced

    return forall(Pass, lambda p: implies(in_flight[p], has(p)))


@ownership.lemma
def a_load_has_its_block_or_a_hold() -> Expr:
    """The block of an outstanding load is still its request's, or nobody has it and it is held."""

    def has(x: Expr) -> Expr:
        b, h = the(load_block[x]), the(load_handle[x])
        return is_owned_by(b, h, load_generation[x]) | (is_unowned(b) & hold[b])

    return forall(Load, lambda x: implies(is_outstanding(x), has(x)))


@ownership.lemma
def a_copy_is_from_another_block() -> Expr:
    """No request has still to copy from a block of its own."""
    return forall(Block, Handle, lambda b, h: implies(owner[b, h], source[h] != b))


@ownership.lemma
def a_fence_is_a_pass_that_was_dispatched() -> Expr:
    """No block waits for a pass that nobody dispatched."""
    return forall(Block, lambda b: fence[b] <= unsettled[()])


@ownership.lemma
def a_block_that_is_copied_from_is_not_passed_over() -> Expr:
    """No pass in flight writes a block that somebody has still to copy from."""
    return forall(Pass, Handle, lambda p, h: implies(in_flight[p], source[h] != the(pass_block[p])))


@ownership.lemma
def a_block_that_is_copied_from_is_not_loaded() -> Expr:
    """No peer writes a block that somebody has still to copy from."""
    return forall(
        Load, Handle, lambda x, h: implies(is_outstanding(x), source[h] != the(load_block[x]))
    )


@ownership.lemma
def a_pass_in_flight_names_its_request_and_block() -> Expr:
    """A pass in flight has captured a request and a block."""
    return forall(
        Pass, lambda p: implies(in_flight[p], is_some(pass_block[p]) & is_some(pass_handle[p]))
    )


@ownership.lemma
def a_load_names_its_request_and_block() -> Expr:
    """A load has captured a request and a block until it has ended."""
    return forall(
        Load,
        lambda x: implies(
            load_state[x] != LoadState.IDLE, is_some(load_block[x]) & is_some(load_handle[x])
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
        pass_claims.a_pass_in_flight_has_a_place_among_them,
        pass_claims.a_pass_in_flight_has_a_place_of_its_own,
        pass_claims.a_settled_pass_has_no_place,
    )
]
