"""What a hand-off is about: the output of a request, retained rows, and the tickets that offer them.

`handoff` has the actions. `told` is what the client was sent, and `came_as` the format that rows really have:
no engine asks for them. `emitted`, `stopped`, `retained` and the ticket are what an engine goes by.
Left out: what tokens there are, beside one that ends an output and one that does not.
"""

from __future__ import annotations

from kvspec.spec.append import Txn, append, is_live
from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.handles import Handle, Layer, handles, length, parent
from kvspec.spec.language import (
    Bool,
    Enum,
    Expr,
    Module,
    Natural,
    Open,
    Option,
    exists,
    forall,
    implies,
    is_some,
    member,
    none,
    one_of,
)
from kvspec.spec.lifecycle import is_append_to, lifecycle
from kvspec.spec.prefix import Block, owner, prefix


class Ticket(Open):
    """An offer of rows to a consumer."""


class Format(Open):
    """Element type and rows a block: how the bytes of a layer are read."""


class Tokens(Natural):
    """Output tokens of a request."""


class TicketState(Enum):
    """Where a ticket is: it is called back at once while it is OFFERED."""

    IDLE = member()
    OFFERED = member()
    MOVING = member()
    WRITTEN = member()


class Token(Enum):
    """The last token emitted: one that ends the output, or another."""

    ORDINARY = member()
    END = member()


class Reason(Enum):
    """Why a request ended."""

    NONE = member()
    FINISHED = member()
    CANCELLED = member()


TICKET_OFFERED = error_code("TICKET_OFFERED", "the ticket offers rows already")
NOT_OFFERED = error_code("NOT_OFFERED", "the ticket is not on offer")
NOT_MOVING = error_code("NOT_MOVING", "no bytes move for the ticket")
ROWS_STILL_COMING = error_code("ROWS_STILL_COMING", "the rows have not all come")
NOT_RETAINED = error_code("NOT_RETAINED", "the handle retains nothing for a consumer")
ALREADY_OFFERED = error_code("ALREADY_OFFERED", "another ticket offers the rows")
NO_LAYER = error_code("NO_LAYER", "the offer names no layer")
OUTPUT_BEGUN = error_code(
    "OUTPUT_BEGUN", "the request has begun its output, or a ticket brings it rows"
)
CLIENT_PRESENT = error_code("CLIENT_PRESENT", "the client waits for its tokens")
CLIENT_HUNG_UP = error_code("CLIENT_HUNG_UP", "the client has hung up")
HANDLE_WITHOUT_REQUEST = error_code("HANDLE_WITHOUT_REQUEST", "the handle has no request")
ROWS_MOVE = error_code("ROWS_MOVE", "rows move from or to the handle: wait for their outcome")
LAYERS_MISMATCH = error_code(
    "LAYERS_MISMATCH", "layer set or order of both ends differ", FailureClass.ABI
)
FORMAT_MISMATCH = error_code(
    "FORMAT_MISMATCH", "element type or block size of both ends differ", FailureClass.ABI
)
CONSUMER_GONE = error_code(
    "CONSUMER_GONE", "the request that should take over has ended", FailureClass.SNAPSHOT
)
OUTPUT_STOPPED = error_code(
    "OUTPUT_STOPPED", "no output may follow the last one", FailureClass.FRONTIER
)
CONSUMER_HAS_ROWS = error_code(
    "CONSUMER_HAS_ROWS",
    "the request has rows of its own, or an append to it is open",
    FailureClass.FRONTIER,
)
CONSUMER_SHARES = error_code(
    "CONSUMER_SHARES",
    "another request has a claim on a block of the request",
    FailureClass.OWNERSHIP,
)
RETAINED = error_code("RETAINED", "the rows are retained for a consumer", FailureClass.OWNERSHIP)

handoff = Module(
    "handoff",
    "Retained rows, the tickets that offer them, and the output that goes on elsewhere.",
    uses=(handles, prefix, append, lifecycle),
)

most = handoff.constant("most", Tokens, meaning="most output tokens of a request")

emitted = handoff.variable(
    "emitted", Handle, to=Tokens, init=0, meaning="output tokens so far, as the engine counts"
)
told = handoff.variable(
    "told", Handle, to=Tokens, init=0, meaning="output tokens that the client was sent"
)
last = handoff.variable(
    "last", Handle, to=Token, init=Token.ORDINARY, meaning="the last token emitted"
)
stopped = handoff.variable(
    "stopped", Handle, to=Bool, init=False, meaning="the engine has seen that no token may follow"
)
reason = handoff.variable(
    "reason", Handle, to=Reason, init=Reason.NONE, meaning="why the request ended"
)
imported = handoff.variable(
    "imported", Handle, to=Bool, init=False, meaning="the request came from another worker"
)
retained = handoff.variable(
    "retained", Handle, to=Bool, init=False, meaning="its rows are kept for a consumer"
)
gone = handoff.variable("gone", Handle, to=Bool, init=False, meaning="its client has hung up")
reads = handoff.variable(
    "reads",
    Handle,
    Layer,
    to=Option[Layer],
    init=none(Layer),
    meaning="layer whose rows the layer reads, where they came from another worker",
)
came_as = handoff.variable(
    "came_as",
    Handle,
    to=Option[Format],
    init=none(Format),
    meaning="format of the rows that came from another worker",
)
reads_as = handoff.variable(
    "reads_as",
    Handle,
    to=Option[Format],
    init=none(Format),
    meaning="format in which it reads rows that came from another worker",
)
ticket = handoff.variable(
    "ticket", Ticket, to=TicketState, init=TicketState.IDLE, meaning="where the ticket is"
)
giver = handoff.variable(
    "giver", Ticket, to=Option[Handle], init=none(Handle), meaning="handle whose rows it offers"
)
taker = handoff.variable(
    "taker", Ticket, to=Option[Handle], init=none(Handle), meaning="handle that takes over"
)
placed = handoff.variable(
    "placed",
    Ticket,
    Layer,
    to=Option[Layer],
    init=none(Layer),
    meaning="layer that the giver has at the place, if any",
)
written_as = handoff.variable(
    "written_as",
    Ticket,
    to=Option[Format],
    init=none(Format),
    meaning="format in which the giver has its rows",
)


def moves(k: Expr) -> Expr:
    """Bytes move for the ticket, or have come and wait to be taken over."""
    return one_of(ticket[k], TicketState.MOVING, TicketState.WRITTEN)


def moves_from(k: Expr, h: Expr) -> Expr:
    """The ticket moves rows of that handle."""
    return moves(k) & (giver[k] == h)


def moves_to(k: Expr, h: Expr) -> Expr:
    """The ticket moves rows to that handle."""
    return moves(k) & (taker[k] == h)


def waits_for_rows(h: Expr) -> Expr:
    """Some ticket moves rows to the handle."""
    return exists(Ticket, lambda k: moves_to(k, h))


def lends_rows(h: Expr) -> Expr:
    """Some ticket moves rows of the handle."""
    return exists(Ticket, lambda k: moves_from(k, h))


def is_fresh(h: Expr) -> Expr:
    """The request was allocated here, has no output, and no rows come to it."""
    return (emitted[h] == 0) & ~imported[h] & ~is_some(parent[h]) & ~waits_for_rows(h)


def has_no_rows(h: Expr) -> Expr:
    """The request has committed nothing, and no append to it is open."""
    return (length[h] == 0) & ~exists(Txn, lambda x: is_live(x) & is_append_to(x, h))


def has_its_blocks_alone(h: Expr) -> Expr:
    """No other request has a claim on a block of the handle."""
    return forall(
        Block, Handle, lambda b, other: implies(owner[b, h] & owner[b, other], other == h)
    )


def is_at_an_end(token: Expr, count: Expr | int) -> Expr:
    """The stop predicate: no token may follow this one, or so many."""
    return (token == Token.END) | (most <= count)


OUTPUT = (
    (emitted, 0),
    (told, 0),
    (last, Token.ORDINARY),
    (stopped, False),
    (imported, False),
    (gone, False),
    (came_as, none(Format)),
    (reads_as, none(Format)),
)
"""What is known of the output of a request, with the values where there is none."""

OFFER = (
    (ticket, TicketState.IDLE),
    (giver, none(Handle)),
    (written_as, none(Format)),
)
"""What a ticket says, with the values where nothing is on offer."""
