"""Hand-off: one worker computes the prompt, another goes on with the tokens, and the rows go over between.

Modelled: a request runs on a handle of the prefill worker and is finished there for a consumer: its rows are
retained. A ticket offers them, with the order of the layers and the format in which they are laid out; the
handle of the decode worker takes it only after both were compared. Bytes move from the handshake on. When
they are there, the decode handle takes over: the count of emitted tokens goes on where it was, the stop
predicate is asked of the token that came with the rows, and the prefill handle need retain nothing any more.
A client may hang up at any time. Before the hand-off that ends the retention, though the request is
finished; while bytes move it waits for their outcome. A reason to end is written once.
Environment: a client that hangs up, a sender that fails, a consumer that never comes (the lease ends).
Left out: attempts, pins and notices of what moves (`transfer`), the rows themselves, the choice of a worker.
Assumed: a decode worker takes over into a request that it has just allocated.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Key, Txn, append
from kvspec.spec.batch import Row
from kvspec.spec.failures import HANDLE_TERMINAL, FailureClass
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Phase,
    Version,
    context,
    generation,
    handles,
    is_held,
    parent,
    phase,
    rewind,
)
from kvspec.spec.language import (
    FALSE,
    TRUE,
    Action,
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Instance,
    Map,
    Module,
    Natural,
    Open,
    Option,
    Step,
    System,
    exists,
    forall,
    instance,
    is_some,
    limit,
    member,
    none,
    one_of,
    the,
    where,
)
from kvspec.spec.lifecycle import allocate, cancel_request, finish, fork, lifecycle, release
from kvspec.spec.prefix import Block


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


def _code(name: str, meaning: str, kind: FailureClass = FailureClass.NONE) -> ErrorCode:
    return ErrorCode(name, meaning, int(kind))


TICKET_IN_USE = _code("TICKET_IN_USE", "the ticket offers rows already")
NOT_OFFERED = _code("NOT_OFFERED", "the ticket is not on offer")
NOT_MOVING = _code("NOT_MOVING", "no bytes move for the ticket")
NOT_WRITTEN = _code("NOT_WRITTEN", "the rows have not all come")
NOT_RETAINED = _code("NOT_RETAINED", "the handle retains nothing for a consumer")
ALREADY_OFFERED = _code("ALREADY_OFFERED", "another ticket offers the rows")
NOT_FRESH = _code("NOT_FRESH", "the request has begun its output, or a ticket brings it rows")
CLIENT_PRESENT = _code("CLIENT_PRESENT", "the client waits for its tokens")
CLIENT_GONE = _code("CLIENT_GONE", "the client has hung up")
NOT_HELD = _code("NOT_HELD", "the handle has no request")
ROWS_MOVE = _code("ROWS_MOVE", "rows move from or to the handle: wait for their outcome")
LAYERS_MISMATCH = _code(
    "LAYERS_MISMATCH", "layer set or order of both ends differ", FailureClass.ABI
)
FORMAT_MISMATCH = _code(
    "FORMAT_MISMATCH", "element type or block size of both ends differ", FailureClass.ABI
)
CONSUMER_GONE = _code(
    "CONSUMER_GONE", "the request that should take over has ended", FailureClass.SNAPSHOT
)
OUTPUT_STOPPED = _code("OUTPUT_STOPPED", "no output may follow the last one", FailureClass.FRONTIER)
RETAINED = _code("RETAINED", "the rows are retained for a consumer", FailureClass.OWNERSHIP)

handoff = Module(
    "handoff",
    "Retained rows, the tickets that offer them, and the output that goes on elsewhere.",
    uses=(handles, append, lifecycle),
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
misread = handoff.variable(
    "misread",
    Handle,
    to=Bool,
    init=False,
    meaning="its rows are read in another format than theirs",
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
taker_generation = handoff.variable(
    "taker_generation", Ticket, to=Generation, init=0, meaning="incarnation that takes over"
)
placed = handoff.variable(
    "placed",
    Ticket,
    Layer,
    to=Option[Layer],
    init=none(Layer),
    meaning="layer that the giver has at the place",
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
    (misread, False),
)
"""What is known of the output of a request, with the values where there is none."""

OFFER = (
    (ticket, TicketState.IDLE),
    (giver, none(Handle)),
    (taker, none(Handle)),
    (taker_generation, 0),
    (written_as, none(Format)),
)
"""What a ticket says, with the values where nothing is on offer."""


def _forget_output(step: Step, h: Expr) -> None:
    for variable, blank in OUTPUT:
        step.assign(variable[h], blank)
    for layer in step.every(Layer):
        step.assign(reads[h, layer], none(Layer))


def _clear(step: Step, k: Expr, hit: Expr = TRUE) -> None:
    """Where `hit`, the ticket offers nothing any more."""
    for variable, blank in OFFER:
        step.assign(variable[k], blank if hit is TRUE else where(hit, blank, variable[k]))
    for place in step.every(Layer):
        old, new = placed[k, place], none(Layer)
        step.assign(old, new if hit is TRUE else where(hit, new, old))


@handoff.observe(allocate)
def begin_a_request(step: Step, h: Handle) -> None:
    """A new request has not ended; it may be one that asks for no output."""
    step.assign(reason[h], Reason.NONE)
    step.assign(stopped[h], is_at_an_end(Token.ORDINARY, 0))


@handoff.observe(fork)
def begin_children(step: Step, children: Map[Handle, Bool]) -> None:
    """Children are requests of their own, without output."""
    for c in step.every(Handle):
        step.assign(reason[c], where(children[c], Reason.NONE, reason[c]))
        step.assign(stopped[c], where(children[c], is_at_an_end(Token.ORDINARY, 0), stopped[c]))


@handoff.action
def emit(step: Step, h: Handle, s: Token) -> None:
    """Choose the next token, send it to the client, and ask whether it is the last."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.require(~waits_for_rows(h), ROWS_MOVE)
    step.assign(emitted[h], emitted[h] + 1)
    step.assign(told[h], told[h] + 1)
    step.assign(last[h], s)
    step.assign(stopped[h], is_at_an_end(s, emitted[h] + 1))


@handoff.extend(finish)
def retain_for_a_consumer(step: Step, h: Handle) -> None:
    """A prefill request that finishes keeps its rows for a consumer, unless its client has gone."""
    step.require(~waits_for_rows(h), ROWS_MOVE)
    step.assign(reason[h], Reason.FINISHED)
    step.assign(retained[h], ~imported[h] & ~gone[h])


@handoff.observe(cancel_request)
def note_a_cancel(step: Step, h: Handle) -> None:
    """A request that is cancelled keeps that reason, and nothing for a consumer."""
    step.assign(reason[h], Reason.CANCELLED)


@handoff.extend(release)
def keep_what_is_lent(step: Step, h: Handle) -> None:
    """Rows are kept as long as a consumer may come, or rows move to them; the reason stays on record."""
    step.require(~waits_for_rows(h), ROWS_MOVE)
    step.require(~retained[h], RETAINED)
    _forget_output(step, h)


@handoff.action
def hang_up(step: Step, h: Handle) -> None:
    """The client goes away."""
    step.require(is_held(h), NOT_HELD)
    step.require(~gone[h], CLIENT_GONE)
    step.assign(gone[h], True)


def _retain_no_more(step: Step, h: Expr) -> None:
    step.assign(retained[h], False)
    for k in step.every(Ticket):
        _clear(step, k, giver[k] == h)


@handoff.action
def withdraw(step: Step, h: Handle) -> None:
    """A client that has gone needs no consumer: its finished request retains nothing any more."""
    step.require(retained[h], NOT_RETAINED)
    step.require(gone[h], CLIENT_PRESENT)
    step.require(~lends_rows(h), ROWS_MOVE)
    _retain_no_more(step, h)


@handoff.action
def expire(step: Step, h: Handle) -> None:
    """The lease of retained rows ends, since no consumer has come."""
    step.require(retained[h], NOT_RETAINED)
    step.require(~lends_rows(h), ROWS_MOVE)
    _retain_no_more(step, h)


@handoff.action
def offer(step: Step, k: Ticket, h: Handle, o: Map[Layer, Layer], f: Format) -> None:
    """Offer retained rows, with the layer at each place and the format of the bytes."""
    step.require(ticket[k] == TicketState.IDLE, TICKET_IN_USE)
    step.require(retained[h], NOT_RETAINED)
    step.require(forall(Ticket, lambda j: giver[j] != h), ALREADY_OFFERED)
    step.assign(ticket[k], TicketState.OFFERED)
    step.assign(giver[k], h)
    step.assign(written_as[k], f)
    for place in step.every(Layer):
        step.assign(placed[k, place], o[place])


@handoff.action
def accept(step: Step, k: Ticket, g: Handle, m: Map[Layer, Layer], f: Format) -> None:
    """A fresh request takes a ticket if it has every layer in the same place and reads the same format."""
    step.require(ticket[k] == TicketState.OFFERED, NOT_OFFERED)
    step.require(phase[g] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(is_fresh(g), NOT_FRESH)
    step.require(forall(Layer, lambda l: placed[k, m[l]] == l), LAYERS_MISMATCH)
    step.require(written_as[k] == f, FORMAT_MISMATCH)
    step.assign(ticket[k], TicketState.MOVING)
    step.assign(taker[k], g)
    step.assign(taker_generation[k], generation[g])
    step.assign(misread[g], written_as[k] != f)
    for layer in step.every(Layer):
        step.assign(reads[g, layer], placed[k, m[layer]])


@handoff.action
def complete(step: Step, k: Ticket) -> None:
    """All rows have come."""
    step.require(ticket[k] == TicketState.MOVING, NOT_MOVING)
    step.assign(ticket[k], TicketState.WRITTEN)


@handoff.action
def fail(step: Step, k: Ticket) -> None:
    """The sender fails, or its time is up: no more bytes move, and the rows may be offered again."""
    step.require(ticket[k] == TicketState.MOVING, NOT_MOVING)
    _clear(step, k)


@handoff.action
def take_over(step: Step, k: Ticket) -> None:
    """The consumer goes on with the output where it is, asks whether it is at an end, and owes the rows."""
    h, g = the(giver[k]), the(taker[k])
    ready = (generation[g] == taker_generation[k]) & (phase[g] == Phase.DECODE_READY)
    step.require(ticket[k] == TicketState.WRITTEN, NOT_WRITTEN)
    step.require(ready, CONSUMER_GONE, refused=lambda effect: _clear(effect, k))
    _clear(step, k)
    step.assign(emitted[g], emitted[h])
    step.assign(told[g], told[h])
    step.assign(last[g], last[h])
    step.assign(stopped[g], is_at_an_end(last[h], emitted[h]))
    step.assign(imported[g], True)
    step.assign(gone[g], gone[g] | gone[h])
    step.assign(retained[h], False)


system = System.of(
    "handoff",
    "The core, and requests that begin on one handle and go on upon another.",
    *core.system.modules,
    handoff,
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 2,
    generations: int = 1,
    txns: int = 0,
    layers: int = 1,
    blocks: int = 2,
    tickets: int = 1,
    formats: int = 1,
    tokens: int = 1,
    longest: int = 0,
    without: tuple[Action, ...] = (fork,),
    expected: Counts | None = None,
) -> Instance:
    """An instance with at most `tokens` output tokens and `longest` rows a request, without a batch.

    without: actions that are not tried, which keeps a search small.
    """
    return instance(
        name,
        system,
        {
            Handle: handles,
            Txn: txns,
            Layer: layers,
            Abi: 1,
            Key: 1,
            Block: blocks,
            Row: 0,
            Length: longest + 1,
            Version: 1,
            Generation: generations,
            Ticket: tickets,
            Format: formats,
            Tokens: tokens + 1,
        },
        constants={context: longest, rewind: longest, most: tokens},
        limits=(*core.LIMITS, *(limit(action)(lambda: FALSE) for action in without)),
        expected=expected,
        doc=doc,
    )


PAIR = make_instance(
    "PAIR",
    "a request for the prefill and one for the decode, one ticket",
    expected=Counts(20_489, 104_797, 15, 16),
)
LAYOUTS = make_instance(
    "LAYOUTS",
    "two layers in any order, two formats, and clients that stay",
    layers=2,
    formats=2,
    without=(fork, hang_up),
    expected=Counts(18_953, 77_417, 14, 16),
)
OFFERS = make_instance(
    "OFFERS",
    "two tickets, two tokens, and clients that stay",
    tickets=2,
    tokens=2,
    without=(fork, hang_up),
    expected=Counts(20_457, 82_673, 15, 16),
)
FORKS = make_instance(
    "FORKS",
    "two requests with one block, and their forks",
    blocks=1,
    without=(),
    expected=Counts(13_865, 71_243, 15, 48),
)
APPENDS = make_instance(
    "APPENDS",
    "one handle for two requests, one append",
    handles=1,
    generations=2,
    txns=1,
    longest=1,
    expected=Counts(5_022, 27_231, 16, 6),
)

INSTANCES = (PAIR, LAYOUTS, OFFERS, FORKS, APPENDS)
