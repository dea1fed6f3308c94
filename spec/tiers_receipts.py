"""Receipts of `tiers`: lookups that pin a host slot, and sends that hold device rows until they are read.

A lookup ends once, and drops the one pin that its receipt is for: its client retrieves or declines, or does
neither for too long, and then the timeout ends it. Nobody can tell a client that is dead from one that is
slow, so the timeout asks for neither: it spares a read that is in flight, and a client that comes to read
later is refused by its receipt. A queued send ends once, sent or failed. Who waits for it gets rows or a
failure: a notice that was lost is given again. `got` and `received` say whose rows a reader got, so that a
read of rows that are gone is told from a right one.
Assumed: a read ends by itself, as a copy that the server makes; a client that reads by its own means needs a
lease, as the sender of `transfer` has one.
"""

from __future__ import annotations

from kvspec.spec.handles import Handle
from kvspec.spec.language import Expr, Module, Step, is_some, the, where
from kvspec.spec.tiers_state import (
    LOOKUP_IN_USE,
    LOOKUP_NOT_OPEN,
    NO_NOTICE,
    NO_READ,
    NO_RECEIVER_WAITS,
    NOT_ON_HOST,
    NOT_REFERENCED,
    NOTHING_READ,
    READ_BEGUN,
    READ_IN_FLIGHT,
    SEND_IN_USE,
    SEND_NOT_FAILED,
    SEND_NOT_QUEUED,
    HostSlot,
    Lookup,
    LookupState,
    Node,
    Read,
    Receiver,
    Send,
    SendState,
    copy_of,
    device_rows,
    got,
    host_rows,
    lookup_state,
    notice,
    pin,
    pins,
    pins_slot,
    read,
    received,
    receiver,
    reference,
    seat,
    send_of,
    send_state,
    sought,
    tiers,
)

receipts = Module(
    "receipts",
    "Lookups of the host tier, and sends from the device tier.",
    uses=(tiers,),
    writes=(
        lookup_state,
        pin,
        pins,
        seat,
        sought,
        read,
        got,
        send_state,
        send_of,
        receiver,
        received,
        notice,
    ),
)


@receipts.action
def look_up(step: Step, q: Lookup, s: HostSlot) -> None:
    """Find a copy on the host and pin it; the lookup's receipt is for that pin alone."""
    step.require(lookup_state[q] == LookupState.UNUSED, LOOKUP_IN_USE)
    step.require(is_some(host_rows[s]), NOT_ON_HOST)
    step.assign(lookup_state[q], LookupState.OPEN)
    step.assign(pin[q], s)
    step.assign(sought[q], copy_of[s])
    step.assign(pins[s], pins[s] + 1)
    step.assign(seat[q], pins[s] + 1)


def discharge(step: Step, q: Expr) -> None:
    """The lookup ends and drops its pin; whoever had the last seat takes the one that is left."""
    s = the(pin[q])
    step.assign(lookup_state[q], LookupState.ENDED)
    step.assign(pins[s], pins[s] - 1)
    for p in step.every(Lookup):
        last = pins_slot(p, s) & (seat[p] == pins[s])
        step.assign(seat[p], where(p == q, 0, where(last, seat[q], seat[p])))


@receipts.action
def begin_read(step: Step, q: Lookup) -> None:
    """The client reads the copy that it found; bytes move from now on."""
    step.require(lookup_state[q] == LookupState.OPEN, LOOKUP_NOT_OPEN)
    step.require(read[q] == Read.NONE, READ_BEGUN)
    step.assign(read[q], Read.IN_FLIGHT)


@receipts.action
def end_read(step: Step, q: Lookup) -> None:
    """The client has what lies in the host slot, whoever has that by now."""
    step.require(read[q] == Read.IN_FLIGHT, NO_READ)
    step.assign(read[q], Read.DONE)
    step.assign(got[q], host_rows[the(pin[q])])


@receipts.action
def time_out(step: Step, q: Lookup) -> None:
    """The host tier drops the pin of a client that it has not heard of for too long, dead or not."""
    step.require(lookup_state[q] == LookupState.OPEN, LOOKUP_NOT_OPEN)
    step.require(read[q] != Read.IN_FLIGHT, READ_IN_FLIGHT)
    discharge(step, q)


@receipts.action
def retrieve(step: Step, q: Lookup) -> None:
    """The client has read the copy, and drops the pin."""
    step.require(lookup_state[q] == LookupState.OPEN, LOOKUP_NOT_OPEN)
    step.require(read[q] == Read.DONE, NOTHING_READ)
    discharge(step, q)


@receipts.action
def decline(step: Step, q: Lookup) -> None:
    """The client has no use for the copy, and drops the pin."""
    step.require(lookup_state[q] == LookupState.OPEN, LOOKUP_NOT_OPEN)
    step.require(read[q] == Read.NONE, READ_BEGUN)
    discharge(step, q)


@receipts.action
def queue_send(step: Step, x: Send, h: Handle, n: Node) -> None:
    """Queue a node that a request holds for the sender; from now on a receiver waits."""
    step.require(send_state[x] == SendState.UNUSED, SEND_IN_USE)
    step.require(reference[n, h], NOT_REFERENCED)
    step.assign(send_state[x], SendState.QUEUED)
    step.assign(send_of[x], n)
    step.assign(receiver[x], Receiver.WAITING)


@receipts.action
def send(step: Step, x: Send) -> None:
    """The sender reads the rows that the device has, and a receiver that still waits gets those."""
    step.require(send_state[x] == SendState.QUEUED, SEND_NOT_QUEUED)
    step.assign(send_state[x], SendState.SENT)
    waits = receiver[x] == Receiver.WAITING
    step.assign(receiver[x], where(waits, Receiver.HAS_ROWS, receiver[x]))
    step.assign(received[x], where(waits, device_rows[the(send_of[x])], received[x]))


@receipts.action
def fail_send(step: Step, x: Send) -> None:
    """A send fails for good, and holds nothing any more."""
    step.require(send_state[x] == SendState.QUEUED, SEND_NOT_QUEUED)
    step.assign(send_state[x], SendState.FAILED)


@receipts.action
def give_notice(step: Step, x: Send) -> None:
    """Tell a receiver that waits of the failure, again if need be."""
    step.require(send_state[x] == SendState.FAILED, SEND_NOT_FAILED)
    step.require(receiver[x] == Receiver.WAITING, NO_RECEIVER_WAITS)
    step.assign(notice[x], True)


@receipts.action
def lose_notice(step: Step, x: Send) -> None:
    """A notice is lost on its way."""
    step.require(notice[x], NO_NOTICE)
    step.assign(notice[x], False)


@receipts.action
def take_notice(step: Step, x: Send) -> None:
    """The receiver learns of the failure and waits no more."""
    step.require(notice[x], NO_NOTICE)
    step.assign(receiver[x], Receiver.HAS_FAILURE)
    step.assign(notice[x], False)


@receipts.action
def receiver_crashes(step: Step, x: Send) -> None:
    """A receiver that waits is gone, and with it what was on its way to it."""
    step.require(receiver[x] == Receiver.WAITING, NO_RECEIVER_WAITS)
    step.assign(receiver[x], Receiver.CRASHED)
    step.assign(notice[x], False)
