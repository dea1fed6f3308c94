"""What is claimed of a replica: it is the engine's view whenever nothing is known to be missing."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    weak,
    where,
)
from kvspec.spec.prefix import Block, filled, owner
from kvspec.spec.replica import (
    Hash,
    Kind,
    clear_all,
    deliver,
    event_block,
    event_hash,
    event_kind,
    event_sequence,
    expected,
    gap,
    heartbeat,
    holds,
    known,
    lose,
    on_its_way,
    restart,
    resynchronize,
    sequence,
    system,
)

replica = Properties(system, given=core)

CONSUMER = (deliver, heartbeat, restart, resynchronize)
"""What the consumer does; an event that is lost is nothing that it does."""

in_step: Expr = ~gap[()] & (expected[()] == sequence[()])
"""The consumer knows of nothing that it misses, and has come to the end of the log."""


def applied(b: Expr) -> Expr:
    """What the consumer takes a block to hold, once it has applied the event on its way."""
    told = where(event_block[()] == b, event_hash[()], known[b])
    gone = where(event_block[()] == b, None, known[b])
    without = where(event_kind[()] == Kind.REMOVED, gone, None)
    return where(event_kind[()] == Kind.STORED, told, without)


@replica.invariant
def the_log_replayed_is_the_view_of_the_engine() -> Expr:
    """A consumer that is in step knows what every block holds."""
    return implies(in_step, forall(Block, lambda b: known[b] == holds[b]))


@replica.invariant
def a_prefix_that_is_still_stored_is_known() -> Expr:
    """A consumer in step knows every prefix that some block holds, however often it was removed."""
    return forall(
        Block,
        Hash,
        lambda b, k: implies(
            in_step & filled[b] & (holds[b] == k), exists(Block, lambda c: known[c] == k)
        ),
    )


@replica.invariant
def a_prefix_that_is_known_is_still_stored() -> Expr:
    """A consumer in step knows no prefix that no block holds any more."""
    return forall(
        Block,
        Hash,
        lambda b, k: implies(
            in_step & (known[b] == k), exists(Block, lambda c: filled[c] & (holds[c] == k))
        ),
    )


@replica.invariant
def a_block_holds_a_prefix_just_while_it_is_filled() -> Expr:
    """What is emptied holds nothing, and what is filled holds a prefix."""
    return forall(Block, lambda b: filled[b] == is_some(holds[b]))


@replica.lemma
def the_event_on_its_way_is_what_is_missing() -> Expr:
    """A consumer that lacks one event, which is on its way, is in step once it has applied it."""
    missing = (
        ~gap[()]
        & on_its_way[()]
        & (event_sequence[()] == expected[()])
        & (sequence[()] == expected[()] + 1)
    )
    return implies(missing, forall(Block, lambda b: applied(b) == holds[b]))


@replica.invariant
def numbers_are_those_of_the_log() -> Expr:
    """No event has, and no consumer expects, a number beyond the next one of the log."""
    return implies(on_its_way[()], event_sequence[()] < sequence[()]) & (
        expected[()] <= sequence[()]
    )


@replica.invariant
def an_empty_channel_is_blank() -> Expr:
    """Where no event is on its way, none is told."""
    return implies(
        ~on_its_way[()],
        (event_kind[()] == Kind.STORED)
        & ~is_some(event_block[()])
        & ~is_some(event_hash[()])
        & (event_sequence[()] == 0),
    )


@replica.step
def every_change_has_a_number() -> Expr:
    """The log goes on by one number with every step that changes what blocks hold, and never else."""
    changed = exists(Block, lambda b: after(holds[b]) != holds[b])
    return where(
        changed, after(sequence[()]) == sequence[()] + 1, after(sequence[()]) == sequence[()]
    )


@replica.step
def an_event_tells_what_has_changed() -> Expr:
    """An event that is sent has the number, the block and the prefix of the change."""
    sent = ~on_its_way[()] & after(on_its_way[()])
    kind, block, told = after(event_kind[()]), after(event_block[()]), after(event_hash[()])

    def of_a_block(b: Expr) -> Expr:
        stored = (kind == Kind.STORED) & (after(holds[b]) == told)
        removed = (kind == Kind.REMOVED) & (holds[b] == told) & ~is_some(after(holds[b]))
        return (block == b) & is_some(told) & (stored | removed)

    cleared = (kind == Kind.CLEARED) & fired(clear_all) & ~is_some(block) & ~is_some(told)
    return implies(
        sent, (after(event_sequence[()]) == sequence[()]) & (exists(Block, of_a_block) | cleared)
    )


@replica.step
def an_event_stays_as_it_was_sent() -> Expr:
    """A later event does not take the place of one that is on its way."""
    told = (event_kind, event_block, event_hash, event_sequence)
    return implies(
        on_its_way[()] & after(on_its_way[()]),
        all_of(*(after(each[()]) == each[()] for each in told)),
    )


@replica.step
def a_change_finds_the_channel_or_is_lost() -> Expr:
    """After every change some event is on its way: its own, or one before it."""
    return implies(after(sequence[()]) != sequence[()], after(on_its_way[()]))


@replica.step
def an_event_leaves_the_channel_once() -> Expr:
    """What is delivered or lost was on its way, and is no more."""
    taken = fired(deliver) | fired(lose)
    return implies(taken, on_its_way[()] & ~after(on_its_way[()])) & implies(
        on_its_way[()] & ~after(on_its_way[()]), taken
    )


@replica.step
def only_the_consumer_changes_its_view() -> Expr:
    """Neither the engine nor the channel reaches what the consumer knows."""
    return implies(
        ~any_of(*(fired(action) for action in CONSUMER)),
        forall(Block, lambda b: after(known[b]) == known[b])
        & (after(expected[()]) == expected[()])
        & (after(gap[()]) == gap[()]),
    )


@replica.step
def a_number_beyond_the_next_shows_a_gap() -> Expr:
    """An event whose number is beyond the expected one is not applied, and the gap is noted."""
    return implies(
        fired(deliver) & (expected[()] < event_sequence[()]),
        after(gap[()])
        & (after(expected[()]) == expected[()])
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def an_event_from_before_a_snapshot_is_passed_over() -> Expr:
    """An event whose number the consumer has passed teaches it nothing."""
    return implies(
        fired(deliver) & (event_sequence[()] < expected[()]),
        (after(gap[()]) == gap[()])
        & (after(expected[()]) == expected[()])
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def an_expected_event_is_applied() -> Expr:
    """After the event that it expects, the consumer expects the next one and knows what was told."""
    return implies(
        fired(deliver) & (event_sequence[()] == expected[()]),
        (after(expected[()]) == expected[()] + 1)
        & (after(gap[()]) == gap[()])
        & forall(Block, lambda b: after(known[b]) == applied(b)),
    )


@replica.step
def a_heartbeat_shows_a_lost_end() -> Expr:
    """After a heartbeat a consumer has come to the end of the log, or knows of a gap."""
    return implies(
        fired(heartbeat),
        ~on_its_way[()]
        & (after(gap[()]) | in_step)
        & (after(expected[()]) == expected[()])
        & implies(expected[()] == sequence[()], after(gap[()]) == gap[()])
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def a_consumer_that_is_restarted_knows_nothing() -> Expr:
    """After a restart the consumer has no view and no number, and knows that."""
    return implies(
        fired(restart),
        after(gap[()])
        & (after(expected[()]) == 0)
        & forall(Block, lambda b: ~is_some(after(known[b]))),
    )


@replica.step
def only_a_snapshot_closes_a_gap() -> Expr:
    """A gap is closed by a snapshot of all blocks, with the number that comes next."""
    closed = gap[()] & ~after(gap[()])
    return (closed == fired(resynchronize)) & implies(
        closed,
        (after(expected[()]) == sequence[()])
        & forall(Block, lambda b: after(known[b]) == holds[b]),
    )


@replica.step
def clearing_empties_every_block() -> Expr:
    """After the cache is cleared no block holds anything; something was there, and nobody owned it."""
    return implies(
        fired(clear_all),
        exists(Block, lambda b: filled[b])
        & forall(Block, lambda b: ~after(filled[b]) & ~is_some(after(holds[b])))
        & forall(Block, Handle, lambda b, h: ~owner[b, h]),
    )


@replica.step
def watching_changes_nothing_of_the_cache() -> Expr:
    """Neither the consumer nor its channel changes what the engine holds."""
    return implies(
        any_of(*(fired(action) for action in (*CONSUMER, lose))),
        forall(
            Block,
            lambda b: (after(filled[b]) == filled[b]) & (after(holds[b]) == holds[b]),
        ),
    )


@replica.witness
def reaches_two_copies_of_a_prefix() -> Expr:
    """A consumer in step knows one prefix in two blocks."""
    return in_step & exists(
        Block,
        Block,
        lambda b, c: (b != c) & is_some(known[b]) & (known[b] == known[c]),
    )


@replica.witness
def reaches_a_loss_that_no_event_shows() -> Expr:
    """The end of the log is lost, and nothing is on its way that would show it."""
    return ~gap[()] & ~on_its_way[()] & (expected[()] < sequence[()])


@replica.witness
def reaches_an_old_event_after_a_snapshot() -> Expr:
    """A consumer in step has an event coming that is in its snapshot already."""
    return in_step & on_its_way[()] & one_of(event_kind[()], Kind.STORED, Kind.REMOVED)


@replica.leads_to(weak(resynchronize))
def every_gap_is_closed() -> tuple[Expr, Expr]:
    """A consumer that knows of a gap has a snapshot in the end."""
    return gap[()], ~gap[()]


@replica.leads_to(weak(deliver), weak(heartbeat))
def every_loss_is_found() -> tuple[Expr, Expr]:
    """A consumer that misses something comes to it, or to know that it is missing."""
    return expected[()] < sequence[()], gap[()] | (expected[()] == sequence[()])


@replica.leads_to(weak(deliver), weak(heartbeat), weak(resynchronize))
def every_replica_catches_up() -> tuple[Expr, Expr]:
    """A consumer that is behind, for whatever reason, is in step in the end."""
    return ~in_step, in_step
