"""What is claimed of tickets: a call reaches the request that its ticket names, and no later one."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, TxnState, begin, state, target
from kvspec.spec.handles import Handle, Phase, generation, is_free, is_held, parent, phase, version
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
)
from kvspec.spec.lifecycle import cancel_request, finish, fork, release, truncate
from kvspec.spec.tickets import (
    Ticket,
    expired,
    give_ticket_back,
    last,
    system,
    take_ticket,
    ticket_generation,
    ticket_handle,
)

tickets = Properties(system, given=core)

CALLS = (begin, fork, truncate, finish, cancel_request, release)
"""The calls of a client that name a handle."""


def called_for(h: Expr) -> Expr:
    """The call was made with a ticket whose request has the handle."""
    return exists(Ticket, lambda t: (after(last[()]) == t) & (ticket_handle[t] == h) & ~expired[t])


@tickets.invariant
def the_generation_tells_an_expired_ticket() -> Expr:
    """A ticket names a generation other than the handle's exactly if its request was released."""
    return forall(
        Ticket,
        Handle,
        lambda t, h: implies(
            ticket_handle[t] == h, expired[t] == (ticket_generation[t] != generation[h])
        ),
    )


@tickets.lemma
def a_ticket_names_no_later_generation() -> Expr:
    """No ticket is for a request that its handle has not had yet."""
    return forall(
        Ticket,
        Handle,
        lambda t, h: implies(ticket_handle[t] == h, ticket_generation[t] <= generation[h]),
    )


@tickets.invariant
def a_live_ticket_is_of_a_held_request() -> Expr:
    """Where a ticket has not expired, its request has the handle."""
    return forall(
        Ticket, Handle, lambda t, h: implies((ticket_handle[t] == h) & ~expired[t], is_held(h))
    )


@tickets.invariant
def a_blank_ticket_says_nothing() -> Expr:
    """A ticket without a handle has no generation and has not expired."""
    return forall(
        Ticket,
        lambda t: implies(~is_some(ticket_handle[t]), (ticket_generation[t] == 0) & ~expired[t]),
    )


@tickets.step
def a_request_is_ended_by_its_own_client() -> Expr:
    """Whoever finishes or cancels a request has a ticket for it."""
    return forall(
        Handle,
        lambda h: implies(
            (fired(finish) | fired(cancel_request)) & (after(phase[h]) != phase[h]), called_for(h)
        ),
    )


@tickets.step
def rows_are_cut_by_their_own_client() -> Expr:
    """Whoever truncates a request has a ticket for it."""
    return forall(
        Handle,
        lambda h: implies(fired(truncate) & (after(version[h]) != version[h]), called_for(h)),
    )


@tickets.step
def rows_are_given_up_by_their_own_client() -> Expr:
    """Whoever releases a request has a ticket for it."""
    return forall(
        Handle,
        lambda h: implies(
            fired(release) & (after(phase[h]) == Phase.RELEASED) & is_held(h), called_for(h)
        ),
    )


@tickets.step
def rows_are_forked_by_their_own_client() -> Expr:
    """Whoever gives a request's rows to a child has a ticket for the request."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & (after(parent[c]) == p), called_for(p)
        ),
    )


@tickets.step
def an_append_is_begun_by_its_own_client() -> Expr:
    """Whoever begins an append has a ticket for the request that it extends."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            fired(begin)
            & (state[x] == TxnState.IDLE)
            & (after(state[x]) == TxnState.OPEN)
            & (after(target[x]) == h),
            called_for(h),
        ),
    )


@tickets.step
def only_a_call_is_noted() -> Expr:
    """The last call stays the last one until there is another."""
    return implies(~any_of(*(fired(call) for call in CALLS)), after(last[()]) == last[()])


@tickets.step
def a_ticket_names_one_request_until_it_is_given_back() -> Expr:
    """What a ticket names does not change while a client holds it."""
    return forall(
        Ticket,
        lambda t: implies(
            is_some(ticket_handle[t]) & ~fired(give_ticket_back),
            (after(ticket_handle[t]) == ticket_handle[t])
            & (after(ticket_generation[t]) == ticket_generation[t]),
        ),
    )


@tickets.step
def a_ticket_is_taken_of_a_request() -> Expr:
    """Whoever takes a ticket gets one for a request that is there."""
    return implies(
        fired(take_ticket),
        exists(
            Ticket,
            Handle,
            lambda t, h: ~is_some(ticket_handle[t]) & (after(ticket_handle[t]) == h) & is_held(h),
        ),
    )


@tickets.step
def a_ticket_that_is_given_back_is_blank() -> Expr:
    """Whoever gives a ticket back had one, and has it no more."""
    return implies(
        fired(give_ticket_back),
        exists(
            Ticket,
            lambda t: is_some(ticket_handle[t]) & ~after(is_some(ticket_handle[t])),
        ),
    )


@tickets.witness
def reaches_a_stale_ticket_of_a_handle_in_use() -> Expr:
    """A client holds a ticket of a request that is gone, and another request has its handle."""
    return exists(
        Ticket,
        Handle,
        lambda t, h: (ticket_handle[t] == h) & expired[t] & (phase[h] == Phase.DECODE_READY),
    )


@tickets.witness
def reaches_two_tickets_of_two_requests_of_one_handle() -> Expr:
    """Of two tickets for one handle one has expired and one has not."""
    return exists(
        Ticket,
        Ticket,
        lambda t, u: (
            is_some(ticket_handle[t])
            & (ticket_handle[t] == ticket_handle[u])
            & expired[t]
            & ~expired[u]
        ),
    )


@tickets.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
