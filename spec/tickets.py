"""Tickets: what a client holds of a request, and the fence on every call that it makes with it.

A handle is used again, so that it does not name a request; a handle together with its generation does, and
both are the client's ticket. The core compares generations where an append is published. Here every call
that names a handle (begin, fork, truncate, finish, cancel, release) comes with a ticket, and is refused if
another request has the handle now. `expired` is kept apart from generations, by who sees the release, so
that the comparison can be held against it; `last` is the ticket of the last call that was accepted.

Modelled: any number of tickets for one request, taken at any time of its life, given back or kept for too
long. Left out: what the engine does to a request on its own account, which needs no ticket.
Assumed: a ticket is not forged, and generations do not wrap (see `wrapping`).
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import append, begin
from kvspec.spec.failures import FailureClass
from kvspec.spec.handles import Generation, Handle, generation, handles, is_held
from kvspec.spec.language import (
    Bool,
    Counts,
    ErrorCode,
    Expr,
    Instance,
    Module,
    Open,
    Option,
    Step,
    System,
    is_some,
    none,
    where,
)
from kvspec.spec.lifecycle import cancel_request, finish, fork, lifecycle, release, truncate


class Ticket(Open):
    """What a client holds of a request: a handle and its generation."""


TICKET_IN_USE = ErrorCode(
    "TICKET_IN_USE", "the ticket names a request already", int(FailureClass.NONE)
)
NO_TICKET = ErrorCode("NO_TICKET", "the ticket names no request", int(FailureClass.NONE))
NO_REQUEST = ErrorCode("NO_REQUEST", "no request has the handle", int(FailureClass.NONE))
OTHER_HANDLE = ErrorCode("OTHER_HANDLE", "the ticket is for another handle", int(FailureClass.NONE))
STALE_TICKET = ErrorCode(
    "STALE_TICKET",
    "the handle was released since the ticket was taken",
    int(FailureClass.SNAPSHOT),
)

tickets = Module(
    "tickets", "Tickets of clients, and the calls with them.", uses=(handles, append, lifecycle)
)

ticket_handle = tickets.variable(
    "ticket_handle", Ticket, to=Option[Handle], init=none(Handle), meaning="handle that it names"
)
ticket_generation = tickets.variable(
    "ticket_generation", Ticket, to=Generation, init=0, meaning="generation that it names"
)
expired = tickets.variable(
    "expired", Ticket, to=Bool, init=False, meaning="its request was released"
)
last = tickets.variable(
    "last", to=Option[Ticket], init=none(Ticket), meaning="ticket of the last accepted call"
)


@tickets.action
def take_ticket(step: Step, t: Ticket, h: Handle) -> None:
    """A client gets a ticket for the request that has the handle."""
    step.require(~is_some(ticket_handle[t]), TICKET_IN_USE)
    step.require(is_held(h), NO_REQUEST)
    step.assign(ticket_handle[t], h)
    step.assign(ticket_generation[t], generation[h])


@tickets.action
def give_ticket_back(step: Step, t: Ticket) -> None:
    """A client makes no more calls with a ticket."""
    step.require(is_some(ticket_handle[t]), NO_TICKET)
    step.assign(ticket_handle[t], none(Handle))
    step.assign(ticket_generation[t], 0)
    step.assign(expired[t], False)


def call(step: Step, t: Expr, h: Expr) -> None:
    """A call is of the request that the ticket names: same handle, same generation."""
    step.require(ticket_handle[t] == h, OTHER_HANDLE)
    step.require(ticket_generation[t] == generation[h], STALE_TICKET)
    step.assign(last[()], t)


@tickets.extend(begin)
def begin_by_ticket(step: Step, h: Handle, t: Ticket) -> None:
    """The append is to the request of the ticket."""
    call(step, t, h)


@tickets.extend(fork)
def fork_by_ticket(step: Step, p: Handle, t: Ticket) -> None:
    """The rows that children get are of the ticket's request."""
    call(step, t, p)


@tickets.extend(truncate)
def truncate_by_ticket(step: Step, h: Handle, t: Ticket) -> None:
    """The rows that are cut are of the ticket's request."""
    call(step, t, h)


@tickets.extend(finish)
def finish_by_ticket(step: Step, h: Handle, t: Ticket) -> None:
    """The request that ends is that of the ticket."""
    call(step, t, h)


@tickets.extend(cancel_request)
def cancel_by_ticket(step: Step, h: Handle, t: Ticket) -> None:
    """The request that is cancelled is that of the ticket."""
    call(step, t, h)


@tickets.extend(release)
def release_by_ticket(step: Step, h: Handle, t: Ticket) -> None:
    """The rows that are given up are of the ticket's request, and all tickets for it expire."""
    call(step, t, h)
    for u in step.every(Ticket):
        step.assign(expired[u], where(ticket_handle[u] == h, True, expired[u]))


system = System.of(
    "tickets", "The core, with clients that call by tickets.", *core.system.modules, tickets
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 0,
    generations: int = 2,
    tickets: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer, one block and rows of length 1, without a batch."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        generations=generations,
        more={Ticket: tickets},
        expected=expected,
    )


STALE_CLIENT = make_instance(
    "STALE_CLIENT",
    "one handle given to two requests, one append, two tickets",
    txns=1,
    tickets=2,
    expected=Counts(2_589, 13_974, 20, 6),
)
FAMILY = make_instance(
    "FAMILY",
    "two requests and their forks, two tickets",
    handles=2,
    tickets=2,
    expected=Counts(21_341, 96_155, 25, 32),
)

INSTANCES = (STALE_CLIENT, FAMILY)
