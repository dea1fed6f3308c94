"""What is claimed of steps of the prefix index, what it can reach, and what must happen in the end."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.properties.index_claims import index, is_indexed
from kvspec.properties.vocabulary import stays
from kvspec.spec.append import Txn, TxnState, is_live, state, target
from kvspec.spec.handles import Handle, Phase, is_held, phase
from kvspec.spec.index import (
    complete,
    fail,
    give_up,
    index_rows,
    match,
    refill,
    reload,
    sleep,
    update_weights,
    wake,
    withdraw,
)
from kvspec.spec.index_entries import (
    EntryState,
    asleep,
    content,
    corrupt,
    entry,
    entry_key,
    entry_memory,
    entry_weights,
    has_reader,
    is_stale,
    kept,
    memory,
    prompt,
    reader,
    reads_corrupt,
    tier_weights,
    weights,
)
from kvspec.spec.language import (
    Expr,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    weak,
)
from kvspec.spec.prefix import Block, evict, filled, owner

__all__ = ["index"]


def comes_to(b: Expr, end: Expr) -> Expr:
    """The entry is in that state after the step and was not before."""
    return (entry[b] != end) & after(entry[b] == end)


def ends_a_load_as(end: Expr) -> Expr:
    """Some load is under way before the step, and its entry is in that state after it."""
    return exists(Block, lambda b: (entry[b] == EntryState.RESERVED) & after(entry[b] == end))


@index.step
def rows_do_not_change_under_a_reader() -> Expr:
    """While a request reads a block its rows stay what they are, unless they are found corrupt."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            reader[b, h] & after(reader[b, h]) & ~after(corrupt[b]), stays(content[b])
        ),
    )


@index.step
def a_match_is_of_a_complete_entry() -> Expr:
    """A request comes to read a block by a match only while its entry is complete."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            fired(match) & ~reader[b, h] & after(reader[b, h]), entry[b] == EntryState.COMPLETE
        ),
    )


@index.step
def nobody_matches_rows_of_another_content() -> Expr:
    """What a request matches are no rows of another content, whoever wrote the block since."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            fired(match) & ~reader[b, h] & after(reader[b, h]) & is_some(content[b]),
            content[b] == prompt[h],
        ),
    )


@index.step
def the_end_of_a_request_frees_nothing_indexed() -> Expr:
    """Whatever becomes of a request, a block that the index has a claim on holds rows after the step."""
    return forall(Block, lambda b: implies(kept[b], after(filled[b])))


@index.step
def an_entry_is_complete_when_its_rows_are_there() -> Expr:
    """An entry becomes complete by a publication of rows that are there, or at the end of its load."""
    return forall(
        Block,
        lambda b: implies(
            comes_to(b, EntryState.COMPLETE),
            after(content[b] == entry_key[b]),
        ),
    )


@index.step
def who_comes_to_read_is_ready_or_owns_the_block() -> Expr:
    """A request comes to read a block while it is ready, unless it filled the block itself."""
    return forall(
        Block,
        Handle,
        lambda b, h: implies(
            ~reader[b, h] & after(reader[b, h]) & ~owner[b, h],
            after(phase[h] == Phase.DECODE_READY),
        ),
    )


@index.step
def a_ready_request_publishes_to_the_index() -> Expr:
    """What is published to the index is a block of a request that is ready, and reads it afterwards."""
    return implies(
        fired(index_rows),
        exists(
            Block,
            Handle,
            lambda b, h: (
                owner[b, h] & (phase[h] == Phase.DECODE_READY) & ~reader[b, h] & after(reader[b, h])
            ),
        ),
    )


@index.step
def nobody_comes_to_read_what_was_found_corrupt() -> Expr:
    """Whoever reads a block that was found corrupt read it before it was."""
    return forall(
        Block, Handle, lambda b, h: implies(~reader[b, h] & after(reader[b, h]), ~corrupt[b])
    )


@index.step
def nothing_is_published_over_corrupt_rows() -> Expr:
    """A request that publishes rows of an append reads no block that was found corrupt."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            (state[x] == TxnState.PREPARED)
            & after(state[x] == TxnState.PUBLISHED)
            & (target[x] == h),
            ~reads_corrupt(h),
        ),
    )


@index.step
def a_match_leaves_a_reader() -> Expr:
    """After a match some request reads a complete entry of its prompt."""
    return implies(
        fired(match),
        exists(
            Block,
            Handle,
            lambda b, h: (
                after(reader[b, h])
                & (entry[b] == EntryState.COMPLETE)
                & (entry_key[b] == prompt[h])
            ),
        ),
    )


@index.step
def an_entry_begins_reserved_or_complete() -> Expr:
    """A new entry is one that is loaded, or one that can be matched."""
    return forall(
        Block,
        lambda b: implies(
            ~is_indexed(b) & after(is_indexed(b)),
            after(one_of(entry[b], EntryState.RESERVED, EntryState.COMPLETE)),
        ),
    )


@index.step
def only_a_withdrawn_entry_is_given_up() -> Expr:
    """No entry vanishes that can be matched, or whose rows are being loaded."""
    return forall(
        Block,
        lambda b: implies(is_indexed(b) & ~after(is_indexed(b)), entry[b] == EntryState.WITHDRAWN),
    )


@index.step
def a_load_begins_in_the_epochs_in_use() -> Expr:
    """A load that begins is for the memory and the weights in use."""
    return forall(
        Block,
        lambda b: implies(
            comes_to(b, EntryState.RESERVED),
            after((entry_memory[b] == memory[()]) & (entry_weights[b] == weights[()])),
        ),
    )


@index.step
def a_load_ends_complete_or_withdrawn() -> Expr:
    """The end of a load makes a reserved entry complete, and its failure withdraws it."""
    return implies(fired(complete), ends_a_load_as(EntryState.COMPLETE)) & implies(
        fired(fail), ends_a_load_as(EntryState.WITHDRAWN)
    )


@index.step
def a_repair_is_a_load() -> Expr:
    """A withdrawn entry that is loaded anew is a reserved one: it is complete once its rows are there."""
    return implies(
        fired(reload),
        exists(
            Block,
            lambda b: (entry[b] == EntryState.WITHDRAWN) & after(entry[b] == EntryState.RESERVED),
        ),
    )


@index.step
def sleep_and_wake_alternate() -> Expr:
    """The server sleeps when it was awake, and wakes when it slept."""
    return implies(fired(sleep), ~asleep[()] & after(asleep[()])) & implies(
        fired(wake), asleep[()] & ~after(asleep[()])
    )


@index.step
def every_sleep_ends_an_epoch_of_memory() -> Expr:
    """The epoch of memory goes on by one with each sleep, and never else."""
    return implies(fired(sleep), after(memory[()]) == memory[()] + 1) & implies(
        ~fired(sleep), stays(memory[()])
    )


@index.step
def every_update_ends_an_epoch_of_weights() -> Expr:
    """The epoch of weights goes on by one with each update, and never else."""
    return implies(fired(update_weights), after(weights[()]) == weights[()] + 1) & implies(
        ~fired(update_weights), stays(weights[()])
    )


@index.step
def every_refill_ends_an_old_tier() -> Expr:
    """The tier has rows of the weights in use after a refill and had others before; nothing else fills it."""
    return implies(
        fired(refill),
        (tier_weights[()] != weights[()]) & after(tier_weights[()] == weights[()]),
    ) & implies(~fired(refill), stays(tier_weights[()]))


@index.witness
def reaches_a_chunk_in_the_index_of_a_request_in_prefill() -> Expr:
    """A ready request has published its first chunk, and the next one is being appended."""
    return exists(
        Block,
        Handle,
        Txn,
        lambda b, h, x: (
            owner[b, h]
            & (entry[b] == EntryState.COMPLETE)
            & (phase[h] == Phase.DECODE_READY)
            & is_live(x)
            & (target[x] == h)
        ),
    )


@index.witness
def reaches_an_append_over_corrupt_rows() -> Expr:
    """A request reads a block that was found corrupt, and its next rows are ready for publication."""
    return exists(
        Handle,
        Txn,
        lambda h, x: reads_corrupt(h) & (state[x] == TxnState.PREPARED) & (target[x] == h),
    )


@index.witness
def reaches_a_withdrawn_entry_of_a_stale_tier() -> Expr:
    """An entry waits for its rows, and the tier has only those of replaced weights."""
    return (tier_weights[()] < weights[()]) & exists(
        Block, lambda b: entry[b] == EntryState.WITHDRAWN
    )


@index.witness
def reaches_a_prefix_that_outlives_its_request() -> Expr:
    """A block is indexed, and no request has a claim on it any more."""
    return exists(
        Block, lambda b: (entry[b] == EntryState.COMPLETE) & forall(Handle, lambda h: ~owner[b, h])
    )


@index.witness
def reaches_two_readers_of_one_block() -> Expr:
    """Two requests read one block, and one of them did not fill it."""
    return exists(
        Block,
        Handle,
        Handle,
        lambda b, h, g: reader[b, h] & reader[b, g] & owner[b, h] & ~owner[b, g],
    )


@index.witness
def reaches_a_withdrawn_entry_that_is_read() -> Expr:
    """An entry is withdrawn, not corrupt, and still read by a request that did not fill it."""
    return exists(
        Block,
        Handle,
        lambda b, h: (entry[b] == EntryState.WITHDRAWN) & ~corrupt[b] & reader[b, h] & ~owner[b, h],
    )


@index.witness
def reaches_a_repair_beside_a_reader() -> Expr:
    """A corrupt block is still read while its content is complete again in another block."""
    return exists(
        Block,
        Block,
        lambda b, d: (
            corrupt[b]
            & has_reader(b)
            & (entry[d] == EntryState.COMPLETE)
            & (entry_key[d] == entry_key[b])
        ),
    )


@index.witness
def reaches_an_entry_of_dropped_memory() -> Expr:
    """The server is awake, and a complete entry is of memory that was dropped."""
    return ~asleep[()] & exists(
        Block,
        lambda b: (entry[b] == EntryState.COMPLETE) & (entry_memory[b] < memory[()]),
    )


@index.witness
def reaches_a_load_begun_with_old_weights() -> Expr:
    """Rows are being loaded that the weights in use did not compute."""
    return exists(
        Block,
        lambda b: (entry[b] == EntryState.RESERVED) & (entry_weights[b] < weights[()]),
    )


@index.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@index.leads_to(weak(complete, "b"), weak(fail, "b"))
def every_load_ends(b: Block) -> tuple[Expr, Expr]:
    """A reserved entry is completed or withdrawn in the end."""
    return entry[b] == EntryState.RESERVED, entry[b] != EntryState.RESERVED


@index.leads_to(weak(give_up, "b"))
def every_withdrawn_entry_without_reader_is_given_up(b: Block) -> tuple[Expr, Expr]:
    """A withdrawn entry that no request in life reads is given up in the end, or loaded anew."""
    return (
        (entry[b] == EntryState.WITHDRAWN)
        & forall(Handle, lambda h: implies(reader[b, h], ~is_held(h))),
        entry[b] != EntryState.WITHDRAWN,
    )


@index.leads_to(weak(complete, "b"), weak(fail, "b"), weak(withdraw, "b"), weak(give_up, "b"))
def every_stale_entry_is_given_up(b: Block) -> tuple[Expr, Expr]:
    """An entry of an epoch that is over does not stay."""
    return is_stale(b), ~is_stale(b)


@index.leads_to(weak(evict, "b"))
def every_block_without_a_claim_is_evicted(b: Block) -> tuple[Expr, Expr]:
    """A block that neither a request nor the index has a claim on is evicted in the end."""
    free = filled[b] & ~kept[b] & forall(Handle, lambda h: ~owner[b, h])
    return free, ~filled[b]
