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
    boot,
    clear_all,
    deliver,
    event_block,
    event_boot,
    event_hash,
    event_kind,
    event_sequence,
    expected,
    followed,
    gap,
    heartbeat,
    holds,
    known,
    lose,
    on_its_way,
    restart,
    restart_engine,
    resynchronize,
    sequence,
    system,
)

replica = Properties(system, given=core)

CONSUMER = (deliver, heartbeat, restart, resynchronize)
"""What the consumer does; an event that is lost is nothing that it does."""

in_step: Expr = ~gap[()] & (followed[()] == boot[()]) & (expected[()] == sequence[()])
"""The consumer knows of nothing that it misses, and has come to the end of the log of this start."""


def applied(b: Expr) -> Expr:
    """What the consumer takes a block to hold, once it has applied the event on its way."""
    told = where(event_block[()] == b, event_hash[()], known[b])
    gone = where(event_block[()] == b, None, known[b])
    without = where(event_kind[()] == Kind.REMOVED, gone, None)
    return where(event_kind[()] == Kind.STORED, told, without)


def of_this_start() -> Expr:
    """An event is delivered that is of the start which the consumer follows."""
    return fired(deliver) & (event_boot[()] == followed[()])


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
        & (event_boot[()] == followed[()])
        & (followed[()] == boot[()])
        & (event_sequence[()] == expected[()])
        & (sequence[()] == expected[()] + 1)
    )
    return implies(missing, forall(Block, lambda b: applied(b) == holds[b]))


@replica.invariant
def numbers_are_those_of_the_log() -> Expr:
    """Of this start no event has a number beyond the log, and none is expected without a gap."""
    return implies(
        on_its_way[()] & (event_boot[()] == boot[()]), event_sequence[()] < sequence[()]
    ) & implies(~gap[()] & (followed[()] == boot[()]), expected[()] <= sequence[()])


@replica.invariant
def no_start_is_told_before_it_was() -> Expr:
    """Events and the consumer are of this start of the engine or of an earlier one."""
    return (event_boot[()] <= boot[()]) & (followed[()] <= boot[()])


@replica.invariant
def an_empty_channel_is_blank() -> Expr:
    """Where no event is on its way, none is told."""
    return implies(
        ~on_its_way[()],
        (event_kind[()] == Kind.STORED)
        & ~is_some(event_block[()])
        & ~is_some(event_hash[()])
        & (event_sequence[()] == 0)
        & (event_boot[()] == 0),
    )


@replica.step
def every_change_has_a_number() -> Expr:
    """Until it begins anew, the log goes on by one number with every change of a block, and never else."""
    changed = exists(Block, lambda b: after(holds[b]) != holds[b])
    number = where(changed, sequence[()] + 1, sequence[()])
    return (after(sequence[()]) == number) | fired(restart_engine)


@replica.step
def an_engine_that_is_restarted_is_empty() -> Expr:
    """After a restart of the engine no block holds anything; nobody owned one, and the log is empty."""
    return implies(
        fired(restart_engine),
        (after(sequence[()]) == 0)
        & forall(Block, lambda b: ~after(filled[b]) & ~is_some(after(holds[b])))
        & forall(Block, Handle, lambda b, h: ~owner[b, h]),
    )


@replica.step
def every_start_has_a_number_of_its_own() -> Expr:
    """A restart of the engine has the next number of starts, and nothing else changes that."""
    return where(
        fired(restart_engine), after(boot[()]) == boot[()] + 1, after(boot[()]) == boot[()]
    )


@replica.step
def an_event_tells_what_has_changed() -> Expr:
    """An event that is sent has the start, the number, the block and the prefix of the change."""
    sent = ~on_its_way[()] & after(on_its_way[()])
    kind, block, told = after(event_kind[()]), after(event_block[()]), after(event_hash[()])

    def of_a_block(b: Expr) -> Expr:
        stored = (kind == Kind.STORED) & (after(holds[b]) == told)
        removed = (kind == Kind.REMOVED) & (holds[b] == told) & ~is_some(after(holds[b]))
        return (block == b) & is_some(told) & (stored | removed)

    cleared = (kind == Kind.CLEARED) & fired(clear_all) & ~is_some(block) & ~is_some(told)
    return implies(
        sent,
        (after(event_sequence[()]) == sequence[()])
        & (after(event_boot[()]) == boot[()])
        & (exists(Block, of_a_block) | cleared),
    )


@replica.step
def an_event_stays_as_it_was_sent() -> Expr:
    """A later event does not take the place of one that is on its way."""
    told = (event_kind, event_block, event_hash, event_sequence, event_boot)
    return implies(
        on_its_way[()] & after(on_its_way[()]),
        all_of(*(after(each[()]) == each[()] for each in told)),
    )


@replica.step
def a_change_finds_the_channel_or_is_lost() -> Expr:
    """After every change some event is on its way: its own, or one before it."""
    changed = (after(sequence[()]) != sequence[()]) & ~fired(restart_engine)
    return implies(changed, after(on_its_way[()]))


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
        & (after(followed[()]) == followed[()])
        & (after(gap[()]) == gap[()]),
    )


@replica.step
def another_start_shows_a_gap() -> Expr:
    """An event or a heartbeat of another start is noted as a gap, and teaches nothing else."""
    heard = where(fired(deliver), event_boot[()], boot[()])
    return implies(
        (fired(deliver) | fired(heartbeat)) & (heard != followed[()]),
        after(gap[()])
        & (after(expected[()]) == expected[()])
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def the_consumer_notes_the_start_that_it_hears_of() -> Expr:
    """After an event the consumer follows its start, and after a heartbeat that of the engine."""
    return implies(fired(deliver), after(followed[()]) == event_boot[()]) & implies(
        fired(heartbeat), after(followed[()]) == boot[()]
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
        of_this_start() & (event_sequence[()] < expected[()]),
        (after(gap[()]) == gap[()])
        & (after(expected[()]) == expected[()])
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def an_expected_event_is_applied() -> Expr:
    """After the event that it expects, the consumer expects the next one and knows what was told."""
    return implies(
        of_this_start() & (event_sequence[()] == expected[()]),
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
        & implies(
            (followed[()] == boot[()]) & (expected[()] == sequence[()]),
            after(gap[()]) == gap[()],
        )
        & forall(Block, lambda b: after(known[b]) == known[b]),
    )


@replica.step
def a_consumer_that_is_restarted_knows_nothing() -> Expr:
    """After a restart the consumer has no view and no number, and knows that."""
    return implies(
        fired(restart),
        after(gap[()])
        & (after(expected[()]) == 0)
        & (after(followed[()]) == 0)
        & forall(Block, lambda b: ~is_some(after(known[b]))),
    )


@replica.step
def only_a_snapshot_closes_a_gap() -> Expr:
    """A gap is closed by a snapshot of all blocks, with the start and the number that comes next."""
    closed = gap[()] & ~after(gap[()])
    return (closed == fired(resynchronize)) & implies(
        closed,
        (after(expected[()]) == sequence[()])
        & (after(followed[()]) == boot[()])
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


@replica.witness
def reaches_an_event_from_before_a_restart() -> Expr:
    """A consumer in step with a restarted engine has an event coming of the start before."""
    return in_step & on_its_way[()] & (event_boot[()] < boot[()])


@replica.leads_to(weak(resynchronize))
def every_gap_is_closed() -> tuple[Expr, Expr]:
    """A consumer that knows of a gap has a snapshot in the end."""
    return gap[()], ~gap[()]


@replica.leads_to(weak(deliver), weak(heartbeat))
def every_loss_is_found() -> tuple[Expr, Expr]:
    """A consumer that misses something comes to it, or to know that it is missing."""
    return (followed[()] != boot[()]) | (expected[()] < sequence[()]), gap[()] | in_step


@replica.leads_to(weak(deliver), weak(heartbeat), weak(resynchronize))
def every_replica_catches_up() -> tuple[Expr, Expr]:
    """A consumer that is behind, for whatever reason, is in step in the end."""
    return ~in_step, in_step
