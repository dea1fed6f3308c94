"""What is claimed of completion: no pin is dropped too soon, none stays, and rows are released once."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.batch import leave
from kvspec.spec.completion import (
    Part,
    Peer,
    Pin,
    are_siblings,
    arrive,
    asked,
    awaits_report,
    crash,
    early,
    expire,
    is_current,
    is_owed,
    land,
    lose,
    mail,
    owes_nothing,
    peer,
    pin,
    register,
    repeat,
    resume,
    stall,
    system,
    uses_rows,
)
from kvspec.spec.handles import Handle, Phase, generation, is_free, is_held, is_terminal, phase
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    one_of,
    weak,
)
from kvspec.spec.lifecycle import release

completion = Properties(system, given=core)


@completion.invariant
def rows_in_use_by_a_peer_are_held() -> Expr:
    """Rows that a peer reads or writes belong to a request that is not released."""
    return forall(Handle, Part, lambda h, p: implies(uses_rows(h, p), is_held(h)))


@completion.invariant
def rows_in_use_by_a_peer_are_pinned() -> Expr:
    """As long as a peer uses rows, the engine holds them for it."""
    return forall(Handle, Part, lambda h, p: implies(uses_rows(h, p), is_owed(h, p)))


@completion.invariant
def a_request_with_an_obligation_is_held() -> Expr:
    """A request that owes its rows to some part is not released: a report finds the request that it names."""
    return forall(Handle, Part, lambda h, p: implies(is_owed(h, p), is_held(h)))


@completion.invariant
def a_release_is_asked_for_once() -> Expr:
    """No request is to be released twice."""
    return forall(Handle, lambda h: asked[h] <= 1)


@completion.invariant
def a_release_is_asked_for_after_the_end() -> Expr:
    """A release is asked for only if the request has ended and owes nothing."""
    return forall(Handle, lambda h: implies(asked[h] >= 1, is_terminal(h) & owes_nothing(h)))


@completion.invariant
def no_release_is_forgotten() -> Expr:
    """Where a request has ended and owes nothing, its release was asked for."""
    return forall(Handle, lambda h: implies(is_terminal(h) & owes_nothing(h), asked[h] >= 1))


@completion.invariant
def an_early_report_is_remembered_until_the_registration() -> Expr:
    """A report that came first is kept for a pin that is held and not yet awaited."""
    return forall(Handle, Part, lambda h, p: implies(early[h, p], pin[h, p] == Pin.HELD))


@completion.invariant
def a_report_of_the_request_comes_from_a_peer_that_is_done() -> Expr:
    """While a report of the current request is on its way, the peer uses nothing."""
    return forall(Handle, Part, lambda h, p: implies(is_current(h, p), peer[h, p] == Peer.DONE))


@completion.invariant
def a_part_that_is_done_has_had_its_report() -> Expr:
    """Where a peer is done, its report is on its way or has arrived."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            is_held(h) & (peer[h, p] == Peer.DONE) & awaits_report(h, p), is_current(h, p)
        ),
    )


@completion.lemma
def no_report_is_of_a_request_to_come() -> Expr:
    """A report names a request that has had the handle."""
    return forall(Handle, Part, lambda h, p: mail[h, p] <= generation[h] + 1)


@completion.lemma
def a_free_handle_has_no_report_of_its_next_request() -> Expr:
    """What is still on its way to a free handle is of an earlier request."""
    return forall(Handle, Part, lambda h, p: implies(is_free(h), mail[h, p] <= generation[h]))


@completion.lemma
def a_part_without_pin_has_an_idle_peer() -> Expr:
    """A peer begins with the pin of its part, and not before: one that is left from earlier is fenced off."""
    return forall(
        Handle,
        Part,
        lambda h, p: (
            implies(peer[h, p] == Peer.IDLE, pin[h, p] == Pin.NONE)
            & implies(pin[h, p] == Pin.NONE, one_of(peer[h, p], Peer.IDLE, Peer.FENCED))
        ),
    )


@completion.invariant
def a_free_handle_owes_nothing() -> Expr:
    """Nobody holds rows of a handle that no request has."""
    return forall(Handle, Part, lambda h, p: implies(is_free(h), pin[h, p] == Pin.NONE))


@completion.lemma
def an_early_report_was_of_the_current_request() -> Expr:
    """What is remembered came from a peer that is done."""
    return forall(Handle, Part, lambda h, p: implies(early[h, p], peer[h, p] == Peer.DONE))


@completion.step
def the_reason_of_an_end_is_written_once() -> Expr:
    """A request that has ended keeps its reason until it is released."""
    return forall(
        Handle,
        lambda h: implies(
            is_terminal(h), after(phase[h] == Phase.RELEASED) | (after(phase[h]) == phase[h])
        ),
    )


@completion.step
def an_obligation_is_met_once() -> Expr:
    """An obligation that was met is not taken up again by the same request."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            (pin[h, p] == Pin.MET) & after(is_held(h)), after(pin[h, p] == Pin.MET)
        ),
    )


@completion.step
def a_peer_begins_at_work() -> Expr:
    """With the pin of a part its peer is at work, whatever an earlier one did."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            (pin[h, p] == Pin.NONE) & after(pin[h, p] == Pin.HELD), after(peer[h, p] == Peer.BUSY)
        ),
    )


@completion.step
def a_pin_is_dropped_by_a_report_or_a_lease() -> Expr:
    """A pin ends when its own report has arrived, or when its lease runs out."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            is_owed(h, p) & ~after(is_owed(h, p)),
            is_current(h, p) | early[h, p] | fired(expire),
        ),
    )


@completion.step
def a_report_that_counts_for_nothing_changes_nothing() -> Expr:
    """A late or repeated report leaves every pin and every release as it was."""
    ignored = fired(arrive, "STALE_REPORT") | fired(arrive, "NOT_OWED")
    return implies(
        ignored,
        forall(
            Handle,
            Part,
            lambda h, p: (
                (after(pin[h, p]) == pin[h, p])
                & (after(early[h, p]) == early[h, p])
                & (after(asked[h]) == asked[h])
            ),
        ),
    )


@completion.step
def a_report_that_arrives_is_gone() -> Expr:
    """An arrival takes one report out of those on their way, whether it counts or not."""
    arrival = fired(arrive) | fired(arrive, "STALE_REPORT") | fired(arrive, "NOT_OWED")
    return implies(
        arrival,
        exists(Handle, Part, lambda h, p: (mail[h, p] >= 1) & (after(mail[h, p]) == 0)),
    )


@completion.step
def a_report_that_meets_an_obligation_is_gone() -> Expr:
    """No report stays on its way that has met its obligation."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            (pin[h, p] == Pin.AWAITED)
            & is_current(h, p)
            & after(pin[h, p] == Pin.MET)
            & ~fired(expire),
            after(mail[h, p] == 0),
        ),
    )


@completion.step
def a_pin_is_awaited_from_its_registration() -> Expr:
    """A worker listens for a report only after the registration of its part."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            (pin[h, p] != Pin.AWAITED) & after(pin[h, p] == Pin.AWAITED), fired(register)
        ),
    )


@completion.step
def a_repeat_is_of_a_report_that_arrived() -> Expr:
    """A report is sent again by a peer that is done, once the first one has arrived."""
    return implies(
        fired(repeat),
        exists(
            Handle,
            Part,
            lambda h, p: (peer[h, p] == Peer.DONE) & ~awaits_report(h, p) & after(is_current(h, p)),
        ),
    )


@completion.step
def a_loss_takes_a_report() -> Expr:
    """What is lost was on its way."""
    return implies(
        fired(lose),
        exists(Handle, Part, lambda h, p: (mail[h, p] >= 1) & after(mail[h, p] == 0)),
    )


@completion.step
def a_crash_cuts_a_peer_off() -> Expr:
    """After a crash a peer that used rows is lost."""
    return implies(
        fired(crash),
        exists(
            Handle,
            Part,
            lambda h, p: uses_rows(h, p) & after(peer[h, p] == Peer.LOST),
        ),
    )


@completion.step
def a_stall_leaves_the_rows_in_use() -> Expr:
    """A peer that stands still is at work before and after, and its pin stays as it is."""
    return implies(
        fired(stall),
        exists(
            Handle,
            Part,
            lambda h, p: (peer[h, p] == Peer.BUSY) & after(peer[h, p] == Peer.STALLED),
        ),
    ) & implies(
        fired(resume),
        exists(
            Handle,
            Part,
            lambda h, p: (peer[h, p] == Peer.STALLED) & after(peer[h, p] == Peer.BUSY),
        ),
    )


@completion.step
def a_lease_fences_its_peer() -> Expr:
    """When a lease runs out, a peer that used the rows is kept from them."""
    return implies(
        fired(expire),
        exists(
            Handle,
            Part,
            lambda h, p: awaits_report(h, p) & ~after(is_owed(h, p)) & ~after(uses_rows(h, p)),
        ),
    )


@completion.step
def a_fenced_peer_stays_fenced() -> Expr:
    """What a fenced peer does late changes nothing, until the next request has a peer of its own."""
    return forall(
        Handle,
        Part,
        lambda h, p: implies(
            peer[h, p] == Peer.FENCED,
            after(peer[h, p] == Peer.FENCED)
            | ((pin[h, p] == Pin.NONE) & after(pin[h, p] == Pin.HELD)),
        ),
    )


@completion.step
def siblings_are_told_together() -> Expr:
    """When a peer is done with rows, it is done with them for every sibling that it served."""
    return implies(
        fired(land),
        exists(
            Handle,
            Part,
            lambda h, p: (
                (peer[h, p] == Peer.BUSY)
                & forall(
                    Handle,
                    lambda g: implies(
                        (g == h) | (are_siblings(g, h) & uses_rows(g, p)),
                        after(peer[g, p] == Peer.DONE),
                    ),
                )
            ),
        ),
    )


@completion.step
def a_release_is_carried_out_as_asked() -> Expr:
    """A request is released only after its release was asked for."""
    return forall(
        Handle,
        lambda h: implies(is_held(h) & after(phase[h] == Phase.RELEASED), asked[h] >= 1),
    )


@completion.witness
def reaches_an_ended_request_with_an_obligation() -> Expr:
    """A request has ended, and a peer still uses its rows."""
    return exists(Handle, Part, lambda h, p: is_terminal(h) & (peer[h, p] == Peer.BUSY))


@completion.witness
def reaches_one_obligation_of_two() -> Expr:
    """An ended request has met one obligation and has another left."""
    return exists(
        Handle,
        Part,
        Part,
        lambda h, p, q: is_terminal(h) & (pin[h, p] == Pin.MET) & (pin[h, q] == Pin.AWAITED),
    )


@completion.witness
def reaches_a_report_before_its_registration() -> Expr:
    """A report is remembered."""
    return exists(Handle, Part, lambda h, p: early[h, p])


@completion.witness
def reaches_a_report_of_an_earlier_request() -> Expr:
    """A report is on its way while the next request of its handle awaits one."""
    return exists(
        Handle,
        Part,
        lambda h, p: (mail[h, p] >= 1) & ~is_current(h, p) & (pin[h, p] == Pin.AWAITED),
    )


@completion.witness
def reaches_a_repeated_report() -> Expr:
    """A report is on its way to an obligation that was met."""
    return exists(Handle, Part, lambda h, p: is_current(h, p) & (pin[h, p] == Pin.MET))


@completion.witness
def reaches_two_reports_at_once() -> Expr:
    """Two reports that a request awaits are on their way."""
    return exists(
        Handle,
        Part,
        Part,
        lambda h, p, q: (
            (p != q)
            & is_current(h, p)
            & is_current(h, q)
            & (pin[h, p] == Pin.AWAITED)
            & (pin[h, q] == Pin.AWAITED)
        ),
    )


@completion.witness
def reaches_a_lost_report() -> Expr:
    """An obligation is left to its lease."""
    return exists(Handle, Part, lambda h, p: is_owed(h, p) & (peer[h, p] == Peer.LOST))


@completion.witness
def reaches_a_fenced_peer_of_a_released_request() -> Expr:
    """A lease ran out under a peer, which may come late to rows that were released."""
    return exists(Handle, Part, lambda h, p: is_free(h) & (peer[h, p] == Peer.FENCED))


@completion.witness
def reaches_two_siblings_with_pins() -> Expr:
    """Two siblings have pins for one part of the rows that they share."""
    return exists(
        Handle,
        Handle,
        Part,
        lambda h, g, p: (h != g) & are_siblings(h, g) & is_owed(h, p) & is_owed(g, p),
    )


@completion.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


REPORTS = (weak(register, "h", "p"), weak(land, "h", "p"), weak(arrive, "h", "p"))


@completion.leads_to(*REPORTS)
def every_pin_is_dropped_without_a_lease(h: Handle, p: Part) -> tuple[Expr, Expr]:
    """A report drops the pin in the end, unless the peer crashed or stalled or the report was lost."""
    gone = one_of(peer[h, p], Peer.LOST, Peer.STALLED)
    return is_owed(h, p) & ~gone, ~is_owed(h, p) | gone


LEASES = (*REPORTS, weak(expire, "h", "p"))
"""A peer that stalls need not go on: what it owes is left to its lease."""


@completion.leads_to(*LEASES)
def every_pin_is_dropped(h: Handle, p: Part) -> tuple[Expr, Expr]:
    """A pin is dropped in the end, by its lease if no report comes, even where its peer stalls for ever."""
    return is_owed(h, p), ~is_owed(h, p)


@completion.leads_to(*LEASES, weak(leave, "h"), weak(release, "h"))
def every_ended_request_is_released(h: Handle) -> tuple[Expr, Expr]:
    """A request that has ended leaves the batch and is released in the end, whatever it owes."""
    return is_terminal(h), phase[h] == Phase.RELEASED
