"""What is claimed of events: none tells what did not happen, and a loss shows."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, generation, length, phase, version
from kvspec.spec.journal import (
    Note,
    NoteState,
    all_told,
    changes,
    crash,
    crashed,
    deliver,
    deliver_again,
    drop,
    expected,
    gap,
    is_settled,
    is_used,
    known,
    late,
    lose,
    note_change,
    note_handle,
    note_sequence,
    note_state,
    repeated,
    sequence,
    system,
    tell,
    told,
)
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
    the,
)

journal = Properties(system, given=core)

SEEN = (phase, generation, version, length)
"""What a reader sees of a handle."""

TELEMETRY = (tell, drop, crash, lose, deliver, deliver_again)


@journal.invariant
def nothing_is_told_before_it_happened() -> Expr:
    """No event tells of a change that its handle has not had."""
    return forall(
        Note, lambda e: implies(is_used(e), note_change[e] <= changes[the(note_handle[e])])
    )


@journal.invariant
def the_source_tells_no_more_than_happened() -> Expr:
    """The source is never ahead of the cache."""
    return forall(Handle, lambda h: told[h] <= changes[h])


@journal.invariant
def the_consumer_is_not_ahead() -> Expr:
    """A consumer knows no change that has not happened."""
    return forall(Handle, lambda h: known[h] <= changes[h])


@journal.invariant
def a_log_without_gap_knows_every_change() -> Expr:
    """Where all is told and has arrived without a gap, the consumer knows the last change of every handle."""
    complete = ~gap[()] & ~crashed[()] & (expected[()] == sequence[()]) & forall(Handle, all_told)
    return implies(complete, forall(Handle, lambda h: known[h] == changes[h]))


@journal.invariant
def a_loss_shows_as_a_gap() -> Expr:
    """An event that was lost leaves a gap as soon as a later one arrives."""
    return forall(
        Note,
        lambda e: implies(
            (note_state[e] == NoteState.LOST) & (note_sequence[e] < expected[()]), gap[()]
        ),
    )


@journal.invariant
def only_a_gap_makes_an_event_late() -> Expr:
    """A late event fills a gap that the consumer has seen."""
    return implies(late[()], gap[()])


@journal.lemma
def numbers_are_given_once() -> Expr:
    """No two events have the same number, and the next number is beyond all of them."""
    return forall(
        Note,
        Note,
        lambda e, f: implies(
            is_used(e),
            (note_sequence[e] < sequence[()])
            & implies(is_used(f) & (note_sequence[e] == note_sequence[f]), e == f),
        ),
    )


@journal.lemma
def an_event_tells_a_numbered_change() -> Expr:
    """An event tells of some handle, and of a change that the source has come to."""
    return forall(
        Note,
        lambda e: implies(
            is_used(e),
            is_some(note_handle[e])
            & (note_change[e] >= 1)
            & (note_change[e] <= told[the(note_handle[e])]),
        ),
    )


@journal.lemma
def an_unused_event_is_blank() -> Expr:
    """An event that was not told says nothing."""
    return forall(
        Note,
        lambda e: implies(
            ~is_used(e),
            ~is_some(note_handle[e]) & (note_sequence[e] == 0) & (note_change[e] == 0),
        ),
    )


@journal.lemma
def what_was_told_has_an_event() -> Expr:
    """Unless the source crashed, there is an event for the last change that it told of a handle."""
    return forall(
        Handle,
        lambda h: implies(
            (told[h] >= 1) & ~crashed[()],
            exists(
                Note, lambda e: is_used(e) & (note_handle[e] == h) & (note_change[e] == told[h])
            ),
        ),
    )


@journal.lemma
def without_a_gap_all_before_has_arrived() -> Expr:
    """A consumer that saw no gap has every event before the next one, and knows what they tell."""
    return forall(
        Note,
        lambda e: implies(
            ~gap[()] & is_used(e) & (note_sequence[e] < expected[()]),
            (note_state[e] == NoteState.DELIVERED) & (note_change[e] <= known[the(note_handle[e])]),
        ),
    )


@journal.lemma
def the_consumer_follows_the_source() -> Expr:
    """The consumer expects no number beyond the next of the source, and knows no more than was told."""
    return (expected[()] <= sequence[()]) & forall(Handle, lambda h: known[h] <= told[h])


@journal.lemma
def events_of_a_handle_are_in_its_order() -> Expr:
    """Of two events about one handle the one with the later number tells the later change."""
    return forall(
        Note,
        Note,
        lambda e, f: implies(
            is_used(e)
            & is_used(f)
            & (note_handle[e] == note_handle[f])
            & (note_sequence[e] < note_sequence[f]),
            note_change[e] < note_change[f],
        ),
    )


@journal.lemma
def what_has_arrived_is_before_the_next() -> Expr:
    """A delivered event has a number before the one that is expected."""
    return forall(
        Note,
        lambda e: implies(note_state[e] == NoteState.DELIVERED, note_sequence[e] < expected[()]),
    )


@journal.step
def telling_changes_nothing_of_the_cache() -> Expr:
    """No event, its loss or its delivery changes the state of the cache."""
    happened = any_of(*(fired(action) for action in TELEMETRY))
    return implies(happened, forall(Handle, lambda h: after(changes[h]) == changes[h]))


@journal.step
def a_change_is_counted() -> Expr:
    """Whatever a reader sees to change of a handle is counted as its change."""
    return forall(
        Handle,
        lambda h: implies(
            after(changes[h]) == changes[h],
            all_of(*(after(variable[h]) == variable[h] for variable in SEEN)),
        ),
    )


@journal.step
def a_change_counts_once() -> Expr:
    """No step counts as two changes of a handle."""
    return forall(Handle, lambda h: after(changes[h]) <= changes[h] + 1)


@journal.step
def every_event_uses_one_number() -> Expr:
    """The source goes on to the next number with each event, sent or dropped, and never else."""
    numbers = fired(tell) | fired(drop)
    return implies(numbers, after(sequence[()]) == sequence[()] + 1) & implies(
        ~numbers, after(sequence[()]) == sequence[()]
    )


@journal.step
def a_crash_gives_up_what_was_not_told() -> Expr:
    """After a crash the source goes on behind a change that it never told."""
    return implies(
        fired(crash),
        exists(Handle, lambda h: (told[h] < changes[h]) & (after(told[h]) == changes[h]))
        & after(crashed[()]),
    )


@journal.step
def a_loss_is_of_an_event_on_its_way() -> Expr:
    """What is lost on its way was on its way."""
    return implies(
        fired(lose),
        exists(
            Note,
            lambda e: (
                (note_state[e] == NoteState.IN_FLIGHT) & (after(note_state[e]) == NoteState.LOST)
            ),
        ),
    )


@journal.step
def an_event_behind_a_later_one_is_noted() -> Expr:
    """A consumer notes an event whose number it has passed."""
    return forall(
        Note,
        lambda e: implies(
            (note_state[e] == NoteState.IN_FLIGHT)
            & (after(note_state[e]) == NoteState.DELIVERED)
            & (note_sequence[e] < expected[()]),
            after(late[()]),
        ),
    )


@journal.step
def a_repeat_teaches_nothing() -> Expr:
    """A second arrival of an event changes nothing but that it was noted."""
    return implies(
        fired(deliver_again),
        forall(Handle, lambda h: after(known[h]) == known[h])
        & exists(Note, lambda e: note_state[e] == NoteState.DELIVERED)
        & (after(expected[()]) == expected[()])
        & after(repeated[()]),
    )


@journal.witness
def reaches_a_complete_log() -> Expr:
    """All changes of a request to its release are told and known."""
    return exists(
        Handle, lambda h: (changes[h] >= 3) & (known[h] == changes[h]) & ~gap[()] & ~crashed[()]
    )


@journal.witness
def reaches_a_gap() -> Expr:
    """A consumer sees a gap."""
    return gap[()] & forall(Note, is_settled)


@journal.witness
def reaches_a_late_event() -> Expr:
    """A consumer sees an event behind a later one."""
    return late[()]


@journal.witness
def reaches_a_loss_that_no_number_shows() -> Expr:
    """After a crash a consumer has every event and does not know the last change."""
    return (
        crashed[()]
        & ~gap[()]
        & (expected[()] == sequence[()])
        & exists(Handle, lambda h: known[h] < changes[h])
    )


@journal.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
