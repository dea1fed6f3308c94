"""Completion: what is still owed to the rows of a request, and the one release that follows.

A request may owe its rows to several parts: to the one that receives into them, to the one that sends out
of them, to each rank, each stage. Every part is a pin until its peer has reported. The rows are given up
when the request has ended and nothing is owed any more. Whoever makes the second of the two true asks for
the release: the end itself, or whatever meets the last obligation. So it is asked for once, in any order.

Modelled: the engine holds the rows before its worker listens for the report, so that a report may come
first and must be remembered. Requests that share a block are siblings: a peer takes their rows once and
reports to each. A report may be lost, repeated, or come after the handle has its next request; a peer may
crash, or stall and go on at any time. The lease of a pin may run out at any time as well: the engine does
not know what the peer does. It fences the peer, so that a write which comes late is turned away. Several
reports may be taken in one step.
Left out: what is transferred, retries of a transfer, how long a lease lasts.
Assumed: one transfer for each part of a request. A report names handle and generation. A fence turns
writes away from the end of the lease on; the next request of the handle has a peer of its own.
"""

from __future__ import annotations

import attrs

from kvspec.spec import core
from kvspec.spec.append import append
from kvspec.spec.failures import HANDLE_TERMINAL, FailureClass, error_code
from kvspec.spec.handles import Generation, Handle, Phase, generation, handles, is_terminal, phase
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Step,
    System,
    exists,
    forall,
    implies,
    limit,
    member,
    one_of,
    where,
)
from kvspec.spec.lifecycle import cancel_request, finish, lifecycle, release
from kvspec.spec.prefix import Block, owner, prefix


class Part(Open):
    """What completes on its own: a direction, a rank, a stage."""


class Tally(Natural):
    """Releases that were asked for."""


class Pin(Enum):
    """Whether the rows are held for a part."""

    NONE = member()
    HELD = member()
    AWAITED = member()
    MET = member()


class Peer(Enum):
    """What the other side does with the rows."""

    IDLE = member()
    BUSY = member()
    STALLED = member()
    DONE = member()
    LOST = member()
    FENCED = member()


ALREADY_PINNED = error_code("ALREADY_PINNED", "the part has had its pin")
NOT_WAITING_FOR_REGISTRATION = error_code(
    "NOT_WAITING_FOR_REGISTRATION", "no pin of the part waits for its registration"
)
NOT_BUSY = error_code("NOT_BUSY", "the peer is not at work on the rows")
NOT_STALLED = error_code("NOT_STALLED", "the peer does not stand still")
NO_REPORT = error_code("NO_REPORT", "no report is on its way")
NOT_REPORTED = error_code("NOT_REPORTED", "no report has arrived that could be repeated")
STALE_REPORT = error_code(
    "STALE_REPORT", "the report is of an earlier request of the handle", FailureClass.SNAPSHOT
)
NOT_OWED = error_code(
    "NOT_OWED", "the part is owed nothing, or has reported", FailureClass.OWNERSHIP
)
LEASE_ENDED = error_code(
    "LEASE_ENDED", "the lease has run out: the peer may not touch the rows", FailureClass.OWNERSHIP
)
RELEASE_NOT_ASKED = error_code(
    "RELEASE_NOT_ASKED",
    "nobody has asked for the release: something is owed",
    FailureClass.OWNERSHIP,
)

obligations = Module(
    "obligations",
    "What is owed to the rows of a request.",
    uses=(handles, prefix, append, lifecycle),
)

pin = obligations.variable(
    "pin", Handle, Part, to=Pin, init=Pin.NONE, meaning="whether the rows are held for the part"
)
peer = obligations.variable(
    "peer", Handle, Part, to=Peer, init=Peer.IDLE, meaning="what the other side does with the rows"
)
mail = obligations.variable(
    "mail",
    Handle,
    Part,
    to=Generation,
    init=0,
    meaning="request that the report on its way is of, counted from 1",
)
early = obligations.variable(
    "early", Handle, Part, to=Bool, init=False, meaning="the report came before the registration"
)
asked = obligations.variable(
    "asked", Handle, to=Tally, init=0, meaning="releases asked for and not carried out"
)


def is_owed(h: Expr, p: Expr) -> Expr:
    """The rows are held for the part."""
    return one_of(pin[h, p], Pin.HELD, Pin.AWAITED)


def owes_nothing(h: Expr) -> Expr:
    """No part is owed the rows."""
    return forall(Part, lambda p: ~is_owed(h, p))


def is_last(h: Expr, p: Expr) -> Expr:
    """No other part is owed the rows."""
    return forall(Part, lambda q: implies(q != p, ~is_owed(h, q)))


def is_current(h: Expr, p: Expr) -> Expr:
    """The report on its way is of the request that has the handle now."""
    return mail[h, p] == generation[h] + 1


def awaits_report(h: Expr, p: Expr) -> Expr:
    """The rows are held for the part, and no report of it has arrived."""
    return is_owed(h, p) & ~early[h, p]


def uses_rows(h: Expr, p: Expr) -> Expr:
    """The peer reads or writes the rows, or will when it goes on."""
    return one_of(peer[h, p], Peer.BUSY, Peer.STALLED)


def is_idle_after(h: Expr, p: Expr) -> Expr:
    """A release forgets what the peer did, unless it may still come to the rows."""
    return one_of(peer[h, p], Peer.DONE, Peer.LOST)


def are_siblings(h: Expr, g: Expr) -> Expr:
    """The handles share a block."""
    return exists(Block, lambda b: owner[b, h] & owner[b, g])


def _ask(step: Step, h: Expr, now: Expr) -> None:
    step.assign(asked[h], where(now, asked[h] + 1, asked[h]))


@obligations.observe(finish)
def ask_at_a_finish(step: Step, h: Handle) -> None:
    """A finish asks for the release if nothing is owed."""
    _ask(step, h, owes_nothing(h))


@obligations.observe(cancel_request)
def ask_at_a_cancel(step: Step, h: Handle) -> None:
    """A cancel asks for the release if nothing is owed."""
    _ask(step, h, owes_nothing(h))


@obligations.extend(release)
def release_as_asked(step: Step, h: Handle) -> None:
    """A release is carried out once it was asked for, and leaves no obligation that was met."""
    step.require(asked[h] >= 1, RELEASE_NOT_ASKED)
    step.assign(asked[h], where(asked[h] >= 2, asked[h] - 1, 0))
    for p in step.every(Part):
        step.assign(pin[h, p], where(is_owed(h, p), pin[h, p], Pin.NONE))
        step.assign(peer[h, p], where(is_idle_after(h, p), Peer.IDLE, peer[h, p]))


@obligations.action
def hold(step: Step, h: Handle, p: Part) -> None:
    """Hold the rows of a ready request for a part, and let its peer begin."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(pin[h, p] == Pin.NONE, ALREADY_PINNED)
    step.assign(pin[h, p], Pin.HELD)
    step.assign(peer[h, p], Peer.BUSY)


@obligations.action
def register(step: Step, h: Handle, p: Part) -> None:
    """The worker listens for the report of a part; one that came before meets the obligation."""
    step.require(pin[h, p] == Pin.HELD, NOT_WAITING_FOR_REGISTRATION)
    step.assign(pin[h, p], where(early[h, p], Pin.MET, Pin.AWAITED))
    step.assign(early[h, p], False)
    _ask(step, h, early[h, p] & is_last(h, p) & is_terminal(h))


@obligations.action
def land(step: Step, h: Handle, p: Part) -> None:
    """A peer is done with the rows that siblings share, and reports it to each of them."""
    step.require(one_of(peer[h, p], Peer.BUSY, Peer.FENCED), NOT_BUSY)
    step.require(peer[h, p] != Peer.FENCED, LEASE_ENDED)
    for g in step.every(Handle):
        hit = (g == h) | (are_siblings(g, h) & uses_rows(g, p))
        step.assign(peer[g, p], where(hit, Peer.DONE, peer[g, p]))
        step.assign(mail[g, p], where(hit, generation[g] + 1, mail[g, p]))


@obligations.action
def arrive(step: Step, h: Handle, p: Part) -> None:
    """A report arrives: the first of the current request counts, and any other is thrown away."""
    gone = {mail[h, p]: 0}
    step.require(mail[h, p] >= 1, NO_REPORT)
    step.require(is_current(h, p), STALE_REPORT, refused=gone)
    step.require(awaits_report(h, p), NOT_OWED, refused=gone)
    heard = pin[h, p] != Pin.HELD
    step.assign(mail[h, p], 0)
    step.assign(early[h, p], pin[h, p] == Pin.HELD)
    step.assign(pin[h, p], where(heard, Pin.MET, pin[h, p]))
    _ask(step, h, heard & is_last(h, p) & is_terminal(h))


def counts(h: Expr, p: Expr) -> Expr:
    """The report on its way will meet the obligation."""
    return is_current(h, p) & (pin[h, p] == Pin.AWAITED)


@obligations.action
def arrive_together(step: Step, h: Handle) -> None:
    """All reports that a request awaits and that are on their way arrive in one step."""
    step.require(exists(Part, lambda p: counts(h, p)), NO_REPORT)
    for p in step.every(Part):
        step.assign(mail[h, p], where(counts(h, p), 0, mail[h, p]))
        step.assign(pin[h, p], where(counts(h, p), Pin.MET, pin[h, p]))
    _ask(
        step,
        h,
        is_terminal(h) & forall(Part, lambda p: implies(is_owed(h, p), counts(h, p))),
    )


@obligations.action
def repeat(step: Step, h: Handle, p: Part) -> None:
    """A report that has arrived is sent again."""
    step.require((peer[h, p] == Peer.DONE) & ~awaits_report(h, p), NOT_REPORTED)
    step.assign(mail[h, p], generation[h] + 1)


@obligations.action
def lose(step: Step, h: Handle, p: Part) -> None:
    """A report is lost on its way."""
    step.require(mail[h, p] >= 1, NO_REPORT)
    step.assign(peer[h, p], where(is_current(h, p) & awaits_report(h, p), Peer.LOST, peer[h, p]))
    step.assign(mail[h, p], 0)


@obligations.action
def crash(step: Step, h: Handle, p: Part) -> None:
    """A peer stops in the middle, and will not report."""
    step.require(uses_rows(h, p), NOT_BUSY)
    step.assign(peer[h, p], Peer.LOST)


@obligations.action
def stall(step: Step, h: Handle, p: Part) -> None:
    """A peer stands still in the middle, and nobody can say for how long."""
    step.require(peer[h, p] == Peer.BUSY, NOT_BUSY)
    step.assign(peer[h, p], Peer.STALLED)


@obligations.action
def resume(step: Step, h: Handle, p: Part) -> None:
    """A peer that stood still goes on."""
    step.require(peer[h, p] == Peer.STALLED, NOT_STALLED)
    step.assign(peer[h, p], Peer.BUSY)


@obligations.action
def expire(step: Step, h: Handle, p: Part) -> None:
    """The lease of a part runs out, whatever its peer does: from then on the peer is fenced off."""
    step.require(awaits_report(h, p), NOT_OWED)
    step.assign(pin[h, p], Pin.MET)
    step.assign(peer[h, p], where(uses_rows(h, p), Peer.FENCED, peer[h, p]))
    _ask(step, h, is_last(h, p) & is_terminal(h))


system = System.of(
    "completion",
    "The core, what is owed to the rows of its requests, and their one release.",
    *core.system.modules,
    obligations,
)


@limit(finish)
def finishes_below_the_last_tally(h: Handle) -> Expr:
    """The end of a request asks for a release."""
    return asked[h] < Tally.top


@limit(cancel_request)
def cancels_below_the_last_tally(h: Handle) -> Expr:
    """The end of a request asks for a release."""
    return asked[h] < Tally.top


LIMITS = (finishes_below_the_last_tally, cancels_below_the_last_tally)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    parts: int = 1,
    txns: int = 0,
    generations: int = 1,
    longest: int = 1,
    rows: int = 0,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer and one block; a second release of one request is in its bounds."""
    made = core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        generations=generations,
        longest=longest,
        rows=rows,
        more={Part: parts, Tally: 2},
        expected=expected,
    )
    return attrs.evolve(made, limits=(*made.limits, *LIMITS))


BOTH_WAYS = make_instance(
    "BOTH_WAYS",
    "one request that receives and sends",
    parts=2,
    expected=Counts(1_387, 9_393, 11, 8),
)
NEXT_REQUEST = make_instance(
    "NEXT_REQUEST",
    "one part, and two requests of one handle",
    generations=2,
    expected=Counts(273, 1_258, 14, 4),
)
SIBLINGS = make_instance(
    "SIBLINGS",
    "a request and its fork, each with one part",
    handles=2,
    expected=Counts(19_861, 149_481, 16, 48),
)
WITH_APPEND = make_instance(
    "WITH_APPEND", "one part beside one append", txns=1, expected=Counts(790, 4_572, 13, 6)
)
IN_A_BATCH = make_instance(
    "IN_A_BATCH",
    "one part of a request that runs in a batch",
    rows=1,
    expected=Counts(193, 946, 8, 4),
)

INSTANCES = (BOTH_WAYS, NEXT_REQUEST, SIBLINGS, WITH_APPEND, IN_A_BATCH)
