"""What is claimed of lookups and sends: a pin is dropped once, and who waits is told."""

from __future__ import annotations

from kvspec.properties.tiers_copies import tiers
from kvspec.spec.language import (
    Expr,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
    the,
)
from kvspec.spec.tiers_receipts import (
    begin_read,
    decline,
    end_read,
    fail_send,
    lose_notice,
    receiver_crashes,
    retrieve,
    take_notice,
)
from kvspec.spec.tiers_state import (
    HostSlot,
    Lookup,
    LookupState,
    Node,
    Read,
    Receiver,
    Send,
    SendState,
    got,
    has_pin,
    host_rows,
    lookup_state,
    notice,
    on_device,
    pin,
    pins,
    pins_slot,
    read,
    received,
    receiver,
    seat,
    send_of,
    send_state,
    sought,
)


@tiers.invariant
def what_a_queued_send_reads_is_on_the_device() -> Expr:
    """The rows of a queued send are on the device until the sender has read them."""
    return forall(
        Send,
        lambda x: implies(send_state[x] == SendState.QUEUED, on_device(the(send_of[x]))),
    )


@tiers.invariant
def a_receiver_has_the_rows_of_its_node() -> Expr:
    """A receiver that has rows got those of the node that was to be sent."""
    return forall(
        Send,
        lambda x: implies(receiver[x] == Receiver.HAS_ROWS, received[x] == send_of[x]),
    )


@tiers.invariant
def a_pinned_copy_is_there() -> Expr:
    """The copy that a lookup has found is whole, and the one that it found, until the lookup ends."""
    return forall(
        Lookup,
        lambda q: implies(has_pin(q), is_some(sought[q]) & (host_rows[the(pin[q])] == sought[q])),
    )


@tiers.invariant
def a_client_gets_the_rows_that_it_found() -> Expr:
    """What the client of a lookup has read are the rows of the prefix that the lookup found."""
    return forall(Lookup, lambda q: implies(read[q] == Read.DONE, got[q] == sought[q]))


@tiers.invariant
def no_client_gets_the_rows_of_another_prefix() -> Expr:
    """A client that has read rows did not get those of a prefix which its lookup did not find."""
    return forall(
        Lookup,
        Node,
        lambda q, n: implies((read[q] == Read.DONE) & (got[q] == n), sought[q] == n),
    )


@tiers.invariant
def a_read_in_flight_has_its_pin() -> Expr:
    """As long as bytes move to the client of a lookup, the lookup has not ended."""
    return forall(Lookup, lambda q: implies(read[q] == Read.IN_FLIGHT, has_pin(q)))


@tiers.invariant
def every_receipt_has_a_pin_of_its_own() -> Expr:
    """Lookups that have not ended have different pins of a slot, none beyond its number of pins."""
    return forall(
        Lookup,
        Lookup,
        HostSlot,
        lambda q, p, s: implies(
            pins_slot(q, s),
            (seat[q] >= 1)
            & (seat[q] <= pins[s])
            & implies(pins_slot(p, s) & (seat[p] == seat[q]), p == q),
        ),
    )


@tiers.lemma
def who_has_no_pin_has_no_seat() -> Expr:
    """A lookup that has not begun or has ended counts for no pin; one that has begun has a slot."""
    return forall(
        Lookup,
        lambda q: (
            implies(~has_pin(q), seat[q] == 0)
            & ((lookup_state[q] == LookupState.UNUSED) == ~is_some(pin[q]))
        ),
    )


@tiers.lemma
def nothing_is_read_before_it_was_found() -> Expr:
    """A lookup that has not begun has found nothing, and its client has read nothing."""
    return forall(
        Lookup,
        lambda q: implies(
            lookup_state[q] == LookupState.UNUSED, ~is_some(sought[q]) & (read[q] == Read.NONE)
        ),
    )


@tiers.invariant
def a_receiver_has_what_the_sender_did() -> Expr:
    """A receiver has rows only if they were sent, and a failure only if the send failed."""
    return forall(
        Send,
        lambda x: (
            implies(receiver[x] == Receiver.HAS_ROWS, send_state[x] == SendState.SENT)
            & implies(receiver[x] == Receiver.HAS_FAILURE, send_state[x] == SendState.FAILED)
        ),
    )


@tiers.invariant
def nobody_waits_for_what_was_sent() -> Expr:
    """A receiver waits only for a send that is queued, or whose failure it has not heard of."""
    return forall(
        Send,
        lambda x: implies(
            receiver[x] == Receiver.WAITING,
            one_of(send_state[x], SendState.QUEUED, SendState.FAILED),
        ),
    )


@tiers.lemma
def a_send_has_begun() -> Expr:
    """A send that was queued is of some node and has a receiver; one that was not has none."""
    return forall(
        Send,
        lambda x: (
            ((send_state[x] == SendState.UNUSED) == ~is_some(send_of[x]))
            & ((send_state[x] == SendState.UNUSED) == (receiver[x] == Receiver.NONE))
        ),
    )


@tiers.lemma
def a_notice_is_for_who_waits() -> Expr:
    """A notice is on its way only of a failed send, to a receiver that waits."""
    return forall(
        Send,
        lambda x: implies(
            notice[x], (send_state[x] == SendState.FAILED) & (receiver[x] == Receiver.WAITING)
        ),
    )


@tiers.step
def a_pinned_copy_does_not_change() -> Expr:
    """As long as a lookup has its pin, the rows that it has found stay."""
    return forall(
        Lookup,
        HostSlot,
        lambda q, s: implies(
            pins_slot(q, s) & after(has_pin(q)), after(host_rows[s]) == host_rows[s]
        ),
    )


@tiers.step
def a_lookup_that_ends_drops_one_pin() -> Expr:
    """A lookup that ends drops one pin of its slot."""
    return forall(
        Lookup,
        HostSlot,
        lambda q, s: implies(pins_slot(q, s) & ~after(has_pin(q)), after(pins[s]) + 1 == pins[s]),
    )


@tiers.step
def no_pin_is_dropped_without_its_receipt() -> Expr:
    """A slot has fewer pins than before only if a lookup of it ends."""
    return forall(
        HostSlot,
        lambda s: implies(
            after(pins[s]) < pins[s],
            exists(Lookup, lambda q: pins_slot(q, s) & ~after(has_pin(q))),
        ),
    )


@tiers.step
def no_pin_is_given_without_a_receipt() -> Expr:
    """A slot has more pins than before only by one, and a lookup of it begins."""
    return forall(
        HostSlot,
        lambda s: implies(
            pins[s] < after(pins[s]),
            (after(pins[s]) == pins[s] + 1)
            & exists(Lookup, lambda q: ~has_pin(q) & after(pins_slot(q, s))),
        ),
    )


@tiers.step
def an_ended_lookup_stays_ended() -> Expr:
    """A receipt that was discharged is never used again."""
    return forall(
        Lookup,
        lambda q: implies(
            lookup_state[q] == LookupState.ENDED, after(lookup_state[q]) == LookupState.ENDED
        ),
    )


@tiers.step
def a_read_goes_on_to_its_end() -> Expr:
    """A read begins once, for a lookup that has its pin, and brings rows when it ends."""

    def goes(of: Expr, to: Expr) -> Expr:
        return exists(Lookup, lambda q: (read[q] == of) & (after(read[q]) == to) & has_pin(q))

    return (
        implies(fired(begin_read), goes(Read.NONE, Read.IN_FLIGHT))
        & implies(fired(end_read), goes(Read.IN_FLIGHT, Read.DONE))
        & forall(
            Lookup,
            lambda q: implies(after(read[q]) != read[q], fired(begin_read) | fired(end_read)),
        )
    )


@tiers.step
def who_drops_its_pin_has_read_or_will_not() -> Expr:
    """A client that retrieves has read the copy, and one that declines has not begun to."""

    def ends(found: Expr) -> Expr:
        return exists(Lookup, lambda q: has_pin(q) & ~after(has_pin(q)) & (read[q] == found))

    return implies(fired(retrieve), ends(Read.DONE)) & implies(fired(decline), ends(Read.NONE))


@tiers.step
def a_send_ends_once() -> Expr:
    """A send that was sent or has failed stays so."""
    return forall(
        Send,
        lambda x: implies(
            one_of(send_state[x], SendState.SENT, SendState.FAILED),
            after(send_state[x]) == send_state[x],
        ),
    )


@tiers.step
def a_receiver_is_told_once() -> Expr:
    """What a receiver has, or that it has crashed, stays so."""
    return forall(
        Send,
        lambda x: implies(
            ~one_of(receiver[x], Receiver.NONE, Receiver.WAITING),
            after(receiver[x]) == receiver[x],
        ),
    )


@tiers.step
def a_lookup_begins_for_a_client_that_lives() -> Expr:
    """A lookup that begins is open."""
    return forall(
        Lookup,
        lambda q: implies(
            lookup_state[q] == LookupState.UNUSED,
            one_of(after(lookup_state[q]), LookupState.UNUSED, LookupState.OPEN),
        ),
    )


@tiers.step
def a_send_that_fails_leaves_the_queue() -> Expr:
    """A send that fails was queued and is so no more."""
    return implies(
        fired(fail_send),
        exists(
            Send,
            lambda x: (
                (send_state[x] == SendState.QUEUED) & (after(send_state[x]) == SendState.FAILED)
            ),
        ),
    )


@tiers.step
def a_notice_that_is_lost_was_in_flight() -> Expr:
    """A notice that is lost was on its way, and the receiver waits as before."""
    return implies(fired(lose_notice), exists(Send, lambda x: notice[x] & after(~notice[x])))


@tiers.step
def a_notice_that_arrives_tells_of_a_failure() -> Expr:
    """A receiver that takes a notice has a failure."""
    return forall(
        Send,
        lambda x: implies(
            fired(take_notice) & (after(receiver[x]) != receiver[x]),
            after(receiver[x]) == Receiver.HAS_FAILURE,
        ),
    )


@tiers.step
def a_receiver_that_crashes_waits_no_more() -> Expr:
    """A receiver that crashes was waiting and is gone."""
    return implies(
        fired(receiver_crashes),
        exists(
            Send,
            lambda x: (receiver[x] == Receiver.WAITING) & (after(receiver[x]) == Receiver.CRASHED),
        ),
    )
