"""The journal: events that tell of changes after they happened, and a consumer that reads them.

An observer of the core counts the changes of every handle (`changes`). A source tells them one by one, each
event with the source's next sequence number and with the number of the change among those of its handle. The
channel never blocks: an event that does not fit is lost, and its number is used up. Delivery may lose, delay,
reorder and repeat. A consumer takes events as they come, and notes a gap, a late event and a repeat.

Modelled: a crash of the source between a change and its event. The cache is never touched: events follow the
state and do not make it. Left out: what an event carries beside the change, clocks, several sources.
Assumed: the source tells the changes of one handle in their order. An event keeps its number for ever.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Txn, append, publish, target
from kvspec.spec.failures import error_code
from kvspec.spec.handles import (
    Handle,
    handles,
)
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    member,
    none,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    finish,
    fork,
    lifecycle,
    release,
    truncate,
)


class Note(Open):
    """An event, told apart from others by itself alone."""


class Tally(Natural):
    """Changes of a handle, or events of the source."""


class NoteState(Enum):
    """Where an event is."""

    UNUSED = member()
    IN_FLIGHT = member()
    DELIVERED = member()
    LOST = member()


NOTHING_TO_TELL = error_code("NOTHING_TO_TELL", "every change of the handle was told")
NOTE_IN_USE = error_code("NOTE_IN_USE", "the event was told already")
NOT_IN_FLIGHT = error_code("NOT_IN_FLIGHT", "the event is not on its way")
NOT_DELIVERED = error_code("NOT_DELIVERED", "the event has not arrived before")

journal = Module(
    "journal", "Events, their channel and a consumer.", uses=(handles, append, lifecycle)
)

changes = journal.variable(
    "changes", Handle, to=Tally, init=0, meaning="changes of the handle so far"
)
told = journal.variable(
    "told",
    Handle,
    to=Tally,
    init=0,
    meaning="changes of the handle that the source told or gave up",
)
sequence = journal.variable("sequence", to=Tally, init=0, meaning="next number of the source")
crashed = journal.variable(
    "crashed", to=Bool, init=False, meaning="the source crashed with changes that it had not told"
)
note_state = journal.variable(
    "note_state", Note, to=NoteState, init=NoteState.UNUSED, meaning="where the event is"
)
note_handle = journal.variable(
    "note_handle", Note, to=Option[Handle], init=none(Handle), meaning="handle it tells of"
)
note_sequence = journal.variable(
    "note_sequence", Note, to=Tally, init=0, meaning="its number at the source"
)
note_change = journal.variable(
    "note_change", Note, to=Tally, init=0, meaning="which change of the handle it tells"
)
expected = journal.variable(
    "expected", to=Tally, init=0, meaning="number that the consumer takes to be next"
)
known = journal.variable(
    "known", Handle, to=Tally, init=0, meaning="last change of the handle that the consumer knows"
)
gap = journal.variable(
    "gap", to=Bool, init=False, meaning="the consumer saw that a number is missing"
)
late = journal.variable(
    "late", to=Bool, init=False, meaning="the consumer saw an event behind a later one"
)
repeated = journal.variable(
    "repeated", to=Bool, init=False, meaning="the consumer saw an event again"
)


def is_used(e: Expr) -> Expr:
    """The event was told."""
    return note_state[e] != NoteState.UNUSED


@journal.observe(allocate)
def note_a_request(step: Step, h: Handle) -> None:
    """A new request is a change of its handle."""
    step.assign(changes[h], changes[h] + 1)


@journal.observe(fork)
def note_children(step: Step, children: Map[Handle, Bool]) -> None:
    """A fork is a change of every child, and none of the parent."""
    for c in step.every(Handle):
        step.assign(changes[c], where(children[c], changes[c] + 1, changes[c]))


@journal.observe(publish)
def note_a_publication(step: Step, x: Txn) -> None:
    """A publication is a change, and a rejected one is none."""
    step.assign(changes[the(target[x])], changes[the(target[x])] + 1)


@journal.observe(truncate)
def note_a_truncation(step: Step, h: Handle) -> None:
    """A truncation is a change."""
    step.assign(changes[h], changes[h] + 1)


@journal.observe(finish)
def note_a_finish(step: Step, h: Handle) -> None:
    """A finish is a change."""
    step.assign(changes[h], changes[h] + 1)


@journal.observe(cancel_request)
def note_a_cancel(step: Step, h: Handle) -> None:
    """A cancel is a change."""
    step.assign(changes[h], changes[h] + 1)


@journal.observe(release)
def note_a_release(step: Step, h: Handle) -> None:
    """A release is a change."""
    step.assign(changes[h], changes[h] + 1)


def _number(step: Step, h: Expr, e: Expr, state: Expr) -> None:
    step.assign(note_state[e], state)
    step.assign(note_handle[e], h)
    step.assign(note_sequence[e], sequence[()])
    step.assign(note_change[e], told[h] + 1)
    step.assign(sequence[()], sequence[()] + 1)
    step.assign(told[h], told[h] + 1)


@journal.action
def tell(step: Step, h: Handle, e: Note) -> None:
    """Send the next change of a handle on its way; a change is told after it has happened."""
    step.require(told[h] + 1 <= changes[h], NOTHING_TO_TELL)
    step.require(~is_used(e), NOTE_IN_USE)
    _number(step, h, e, NoteState.IN_FLIGHT)


@journal.action
def drop(step: Step, h: Handle, e: Note) -> None:
    """Give the next change its number and drop it, since the channel is full and never blocks."""
    step.require(told[h] + 1 <= changes[h], NOTHING_TO_TELL)
    step.require(~is_used(e), NOTE_IN_USE)
    _number(step, h, e, NoteState.LOST)


@journal.action
def crash(step: Step, h: Handle) -> None:
    """The source stops before it has told what it changed of a handle: nothing was numbered for that."""
    step.require(told[h] + 1 <= changes[h], NOTHING_TO_TELL)
    step.assign(told[h], changes[h])
    step.assign(crashed[()], True)


@journal.action
def lose(step: Step, e: Note) -> None:
    """An event is lost on its way."""
    step.require(note_state[e] == NoteState.IN_FLIGHT, NOT_IN_FLIGHT)
    step.assign(note_state[e], NoteState.LOST)


@journal.action
def deliver(step: Step, e: Note) -> None:
    """The consumer takes an event: one behind a later one is late, and one beyond the next shows a gap."""
    step.require(note_state[e] == NoteState.IN_FLIGHT, NOT_IN_FLIGHT)
    h = the(note_handle[e])
    in_time = expected[()] <= note_sequence[e]
    step.assign(note_state[e], NoteState.DELIVERED)
    step.assign(expected[()], where(in_time, note_sequence[e] + 1, expected[()]))
    step.assign(known[h], where(in_time, note_change[e], known[h]))
    step.assign(gap[()], where(expected[()] < note_sequence[e], True, gap[()]))
    step.assign(late[()], where(in_time, late[()], True))


@journal.action
def deliver_again(step: Step, e: Note) -> None:
    """An event arrives a second time: the consumer notes it and learns nothing."""
    step.require(note_state[e] == NoteState.DELIVERED, NOT_DELIVERED)
    step.assign(repeated[()], True)


system = System.of(
    "journal",
    "The core, the events that tell of it, and who reads them.",
    *core.system.modules,
    journal,
)


def all_told(h: Expr) -> Expr:
    """Every change of the handle was told."""
    return told[h] == changes[h]


def is_settled(e: Expr) -> Expr:
    """The event is not on its way any more."""
    return one_of(note_state[e], NoteState.UNUSED, NoteState.DELIVERED, NoteState.LOST)


def make_instance(
    name: str, doc: str, *, handles: int, notes: int, txns: int = 1, expected: Counts | None = None
) -> Instance:
    """An instance of one layer, rows of length 1, and one request a handle."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        more={Note: notes, Tally: 6},
        expected=expected,
    )


ONE_SOURCE = make_instance(
    "ONE_SOURCE",
    "one request and three events",
    handles=1,
    notes=3,
    expected=Counts(93_464, 584_403, 18, 1_167),
)
TWO_HANDLES = make_instance(
    "TWO_HANDLES",
    "two requests, without appends, and two events",
    handles=2,
    notes=2,
    txns=0,
    expected=Counts(491_973, 2_681_162, 19, 4_368),
)

INSTANCES = (ONE_SOURCE, TWO_HANDLES)
