"""What is claimed of two tiers: copies, receipts, what can be reached, and what happens in the end."""

from __future__ import annotations

from kvspec.properties import tiers_copies, tiers_receipts
from kvspec.properties.tiers_copies import reads
from kvspec.spec.batch import leave
from kvspec.spec.handles import Handle, Phase, is_free, is_terminal, parent, phase
from kvspec.spec.language import Expr, exists, forall, is_some, strong, the, weak
from kvspec.spec.lifecycle import release
from kvspec.spec.tiers import end_load, end_store, evict_from_device, evict_from_host
from kvspec.spec.tiers_receipts import end_read, give_notice, send, take_notice, time_out
from kvspec.spec.tiers_state import (
    HostSlot,
    Lookup,
    LookupState,
    Node,
    Read,
    Receiver,
    Send,
    SendState,
    copy_of,
    has_pin,
    host_rows,
    is_cached,
    is_empty,
    is_loading,
    is_pinned,
    is_queued,
    is_read_by_a_load,
    is_retracted,
    is_stored_from,
    is_storing,
    lookup_state,
    matched,
    on_device,
    path_on_device,
    pin,
    pins,
    pins_slot,
    read,
    receiver,
    send_state,
    sought,
)

tiers = tiers_copies.tiers

__all__ = ["is_used_on_device", "is_used_on_host", "tiers", "tiers_receipts"]


def is_used_on_device(n: Expr) -> Expr:
    """A request, a store or a queued send has still to read the node's device rows."""
    return exists(Handle, lambda h: reads(h, n)) | is_stored_from(n) | is_queued(n)


def is_used_on_host(s: Expr) -> Expr:
    """A lookup that has not ended or a load has still to read the host slot."""
    return is_pinned(s) | is_read_by_a_load(s)


@tiers.witness
def reaches_a_node_on_both_tiers() -> Expr:
    """A prefix has rows on the device and a whole copy on the host."""
    return exists(Node, HostSlot, lambda n, s: on_device(n) & (host_rows[s] == n))


@tiers.witness
def reaches_a_load_under_a_pin() -> Expr:
    """A load and a lookup hold the same host slot."""
    return exists(HostSlot, lambda s: is_read_by_a_load(s) & is_pinned(s))


@tiers.witness
def reaches_two_pins_of_one_slot() -> Expr:
    """Two lookups have the same host slot pinned."""
    return exists(
        Lookup, Lookup, HostSlot, lambda q, p, s: (q != p) & pins_slot(q, s) & pins_slot(p, s)
    )


@tiers.witness
def reaches_a_read_in_flight() -> Expr:
    """A client reads a copy whose prefix the device has no more."""
    return exists(
        Lookup,
        Node,
        lambda q, n: (read[q] == Read.IN_FLIGHT) & (sought[q] == n) & ~on_device(n),
    )


@tiers.witness
def reaches_a_lookup_that_ended_unread() -> Expr:
    """A lookup has ended whose client has read nothing, and its slot is another prefix's."""
    return exists(
        Lookup,
        HostSlot,
        lambda q, s: (
            (lookup_state[q] == LookupState.ENDED)
            & (read[q] == Read.NONE)
            & (pin[q] == s)
            & (copy_of[s] != sought[q])
        ),
    )


@tiers.witness
def reaches_a_prefix_without_its_beginning() -> Expr:
    """A node has rows on the device and a shorter prefix of it has none, so that it cannot be matched."""
    return exists(Node, lambda n: on_device(n) & ~path_on_device(n))


@tiers.witness
def reaches_a_reader_of_a_longer_path() -> Expr:
    """A request reads two nodes, one behind the other."""
    return exists(
        Handle, Node, lambda h, m: reads(h, m) & is_some(matched[h]) & (the(matched[h]) != m)
    )


@tiers.witness
def reaches_a_queued_send_of_a_released_request() -> Expr:
    """A send is queued when every request is released: only the queue holds its rows."""
    return exists(Send, lambda x: send_state[x] == SendState.QUEUED) & forall(Handle, is_free)


@tiers.witness
def reaches_a_receiver_with_a_failure() -> Expr:
    """A receiver has learnt that its send failed."""
    return exists(Send, lambda x: receiver[x] == Receiver.HAS_FAILURE)


@tiers.witness
def reaches_a_cancelled_request_on_the_host() -> Expr:
    """A request was cancelled while its rows were on the host."""
    return exists(Handle, lambda h: (phase[h] == Phase.CANCELLED) & is_retracted(h))


@tiers.witness
def reaches_a_parent_that_left_its_child_a_prefix() -> Expr:
    """A parent is released, and a child of it still reads the prefix that it had from it."""
    return exists(
        Handle,
        Handle,
        lambda c, p: (parent[c] == p) & (phase[p] == Phase.RELEASED) & is_some(matched[c]),
    )


@tiers.end
def nothing_is_held_on_any_tier() -> Expr:
    """The system may stop where all requests are released, nothing is cached, pinned or waited for."""
    return (
        forall(Handle, is_free)
        & forall(Node, lambda n: ~is_cached(n))
        & forall(HostSlot, lambda s: is_empty(s) & (pins[s] == 0))
        & forall(Send, lambda x: receiver[x] != Receiver.WAITING)
    )


@tiers.leads_to(weak(end_read, "q"), weak(time_out, "q"))
def every_pin_is_dropped(q: Lookup) -> tuple[Expr, Expr]:
    """A pin is dropped in the end, by its client or, once no read of it is in flight, by the timeout."""
    return has_pin(q), ~has_pin(q)


@tiers.leads_to(weak(send, "x"), weak(give_notice, "x"), strong(take_notice, "x"))
def every_receiver_gets_rows_or_a_failure(x: Send) -> tuple[Expr, Expr]:
    """A receiver that waits has rows or a failure in the end, or is gone itself."""
    return receiver[x] == Receiver.WAITING, receiver[x] != Receiver.WAITING


@tiers.leads_to(weak(send, "x"))
def every_send_leaves_the_queue(x: Send) -> tuple[Expr, Expr]:
    """A queued send is sent or has failed in the end, whatever became of its receiver."""
    return send_state[x] == SendState.QUEUED, send_state[x] != SendState.QUEUED


@tiers.leads_to(weak(end_load, "n"))
def every_load_ends(n: Node) -> tuple[Expr, Expr]:
    """A load from the host ends."""
    return is_loading(n), ~is_loading(n)


@tiers.leads_to(weak(end_store, "s"))
def every_store_ends(s: HostSlot) -> tuple[Expr, Expr]:
    """A store to the host ends."""
    return is_storing(s), ~is_storing(s)


@tiers.leads_to(weak(evict_from_device, "n"))
def what_nobody_reads_leaves_the_device(n: Node) -> tuple[Expr, Expr]:
    """Rows on the device that nobody has still to read are evicted in the end, or used again."""
    return on_device(n) & ~is_used_on_device(n), ~on_device(n) | is_used_on_device(n)


@tiers.leads_to(weak(evict_from_host, "s"))
def what_nobody_reads_leaves_the_host(s: HostSlot) -> tuple[Expr, Expr]:
    """A copy on the host that nobody has still to read is evicted in the end, or used again."""
    unused = is_some(host_rows[s]) & ~is_used_on_host(s)
    return unused, ~unused


@tiers.leads_to(weak(leave, "h"), weak(release, "h"))
def an_ended_request_leaves_the_host(h: Handle) -> tuple[Expr, Expr]:
    """The host rows of a request that was retracted and has ended are given up in the end."""
    return is_terminal(h) & is_retracted(h), ~is_retracted(h)
