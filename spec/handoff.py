"""Hand-off: one worker computes the prompt, another goes on with the tokens, and the rows go over between.

Modelled: a request runs on a handle of the prefill worker and is finished there for a consumer: its rows are
retained. A ticket offers them, with the order of the layers and the format in which they are laid out; the
handle of the decode worker takes it only after both were compared. Bytes move from the handshake on. Until
its end the decode handle has no rows of its own and its block to itself: no append and no fork begins
there. When the bytes are there, it takes over: the count of emitted tokens goes on where it was, the stop
predicate is asked of the token that came with the rows, and the prefill handle need retain nothing any more.
A client may hang up at any time. Before the hand-off that ends the retention, though the request is
finished; while bytes move it waits for their outcome. A reason to end is written once.
Environment: a client that hangs up, a sender that fails, a consumer that never comes (the lease ends).
Left out: attempts, pins and notices of what moves (`transfer`), the rows themselves, the choice of a worker,
one client behind both handles once a hand-off has failed: the decode handle is a request of its own then.
Assumed in every instance: an end names no layer twice. The giver may lack layers, not all, as a stage does.
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import Key, Txn, begin
from kvspec.spec.batch import Row
from kvspec.spec.failures import HANDLE_TERMINAL
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Phase,
    Version,
    context,
    is_held,
    phase,
    rewind,
)
from kvspec.spec.handoff_record import (
    ALREADY_OFFERED,
    CLIENT_HUNG_UP,
    CLIENT_PRESENT,
    CONSUMER_GONE,
    CONSUMER_HAS_ROWS,
    CONSUMER_SHARES,
    FORMAT_MISMATCH,
    HANDLE_WITHOUT_REQUEST,
    LAYERS_MISMATCH,
    NO_LAYER,
    NOT_MOVING,
    NOT_OFFERED,
    NOT_RETAINED,
    OFFER,
    OUTPUT,
    OUTPUT_BEGUN,
    OUTPUT_STOPPED,
    RETAINED,
    ROWS_MOVE,
    ROWS_STILL_COMING,
    TICKET_OFFERED,
    Format,
    Reason,
    Ticket,
    TicketState,
    Token,
    Tokens,
    came_as,
    emitted,
    giver,
    gone,
    handoff,
    has_its_blocks_alone,
    has_no_rows,
    imported,
    is_at_an_end,
    is_fresh,
    last,
    lends_rows,
    most,
    placed,
    reads,
    reads_as,
    reason,
    retained,
    stopped,
    taker,
    ticket,
    told,
    waits_for_rows,
    written_as,
)
from kvspec.spec.language import (
    FALSE,
    TRUE,
    Action,
    Bool,
    Counts,
    Expr,
    Instance,
    Map,
    Step,
    System,
    exists,
    forall,
    implies,
    instance,
    limit,
    none,
    the,
    where,
)
from kvspec.spec.lifecycle import allocate, cancel_request, finish, fork, release
from kvspec.spec.prefix import Block


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


def _stop_moving(step: Step, k: Expr) -> None:
    """No rows move for the ticket any more, and it offers nothing."""
    _clear(step, k)
    step.assign(taker[k], none(Handle))


@handoff.observe(allocate)
def begin_a_request(step: Step, h: Handle) -> None:
    """A new request has not ended; it may be one that asks for no output."""
    step.assign(reason[h], Reason.NONE)
    step.assign(stopped[h], is_at_an_end(Token.ORDINARY, 0))


@handoff.extend(begin)
def append_behind_rows_that_are_there(step: Step, h: Handle) -> None:
    """Nothing is appended where rows are on their way."""
    step.require(~waits_for_rows(h), ROWS_MOVE)


@handoff.extend(fork)
def begin_children(step: Step, p: Handle, children: Map[Handle, Bool]) -> None:
    """Children are requests of their own, without output; none is forked where rows are on their way."""
    step.require(~waits_for_rows(p), ROWS_MOVE)
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
    step.require(is_held(h), HANDLE_WITHOUT_REQUEST)
    step.require(~gone[h], CLIENT_HUNG_UP)
    step.assign(gone[h], True)


def _retain_no_more(step: Step, h: Expr) -> None:
    step.assign(retained[h], False)
    for k in step.every(Ticket):
        _clear(step, k, (ticket[k] == TicketState.OFFERED) & (giver[k] == h))


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


def _has_some_layer(filled: Map[Layer, Bool]) -> Expr:
    return forall(Layer, lambda _: exists(Layer, lambda place: filled[place]))


@handoff.action
def offer(
    step: Step,
    k: Ticket,
    h: Handle,
    o: Map[Layer, Layer],
    filled: Map[Layer, Bool],
    f: Format,
) -> None:
    """Offer retained rows, with the layer at each place that is filled and the format of the bytes."""
    step.require(ticket[k] == TicketState.IDLE, TICKET_OFFERED)
    step.require(retained[h], NOT_RETAINED)
    step.require(forall(Ticket, lambda j: giver[j] != h), ALREADY_OFFERED)
    step.require(_has_some_layer(filled), NO_LAYER)
    step.assign(ticket[k], TicketState.OFFERED)
    step.assign(giver[k], h)
    step.assign(written_as[k], f)
    for place in step.every(Layer):
        step.assign(placed[k, place], where(filled[place], o[place], none(Layer)))


@handoff.action
def accept(step: Step, k: Ticket, g: Handle, m: Map[Layer, Layer], f: Format) -> None:
    """A fresh request takes a ticket if it has every layer in the same place and reads the same format."""
    step.require(ticket[k] == TicketState.OFFERED, NOT_OFFERED)
    step.require(phase[g] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(is_fresh(g), OUTPUT_BEGUN)
    step.require(forall(Layer, lambda l: placed[k, m[l]] == l), LAYERS_MISMATCH)
    step.require(written_as[k] == f, FORMAT_MISMATCH)
    step.require(has_no_rows(g), CONSUMER_HAS_ROWS)
    step.require(has_its_blocks_alone(g), CONSUMER_SHARES)
    step.assign(ticket[k], TicketState.MOVING)
    step.assign(taker[k], g)
    step.assign(came_as[g], written_as[k])
    step.assign(reads_as[g], f)
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
    _stop_moving(step, k)


@handoff.action
def take_over(step: Step, k: Ticket) -> None:
    """The consumer goes on with the output where it is, asks whether it is at an end, and owes the rows."""
    h, g = the(giver[k]), the(taker[k])

    def void(effect: Step) -> None:
        _stop_moving(effect, k)

    step.require(ticket[k] == TicketState.WRITTEN, ROWS_STILL_COMING)
    step.require(phase[g] == Phase.DECODE_READY, CONSUMER_GONE, refused=void)
    _stop_moving(step, k)
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


def _names_no_layer_twice(order: Map[Layer, Layer]) -> Expr:
    return forall(Layer, Layer, lambda p, q: implies(order[p] == order[q], p == q))


@limit(offer)
def offers_an_order(o: Map[Layer, Layer]) -> Expr:
    """A giver has a layer at one place."""
    return _names_no_layer_twice(o)


@limit(offer)
def offers_every_layer(filled: Map[Layer, Bool]) -> Expr:
    """The giver has every layer."""
    return forall(Layer, lambda place: filled[place])


@limit(accept)
def reads_an_order(m: Map[Layer, Layer]) -> Expr:
    """A consumer reads one layer from a place."""
    return _names_no_layer_twice(m)


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
    lacking: bool = False,
    without: tuple[Action, ...] = (fork,),
    expected: Counts | None = None,
) -> Instance:
    """An instance with at most `tokens` output tokens and `longest` rows a request, without a batch.

    lacking: the giver may lack layers. without: actions that are not tried, which keeps a search small.
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
        limits=(
            *core.LIMITS,
            offers_an_order,
            reads_an_order,
            *(() if lacking else (offers_every_layer,)),
            *(limit(action)(lambda: FALSE) for action in without),
        ),
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
    "two layers in any order, or one or none of them, and clients that stay",
    layers=2,
    lacking=True,
    without=(fork, hang_up),
    expected=Counts(15_065, 61_001, 14, 16),
)
FORMATS = make_instance(
    "FORMATS",
    "two formats, and clients that stay",
    formats=2,
    without=(fork, hang_up),
    expected=Counts(12_041, 46_401, 14, 16),
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
    "one block for two requests on each handle, and their forks, no output",
    generations=2,
    blocks=1,
    tokens=0,
    without=(hang_up,),
    expected=Counts(2_809, 8_419, 19, 64),
)
CONSUMERS = make_instance(
    "CONSUMERS",
    "three requests without output, of which none is cancelled or released",
    handles=3,
    blocks=3,
    tokens=0,
    without=(fork, hang_up, cancel_request, release),
    expected=Counts(28_801, 112_915, 18, 768),
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

FAMILIES = make_instance(
    "FAMILIES",
    "three requests with two blocks, and their forks, without output, cancels and releases",
    handles=3,
    tokens=0,
    without=(hang_up, cancel_request, release, withdraw),
    expected=Counts(26_617, 105_697, 15, 744),
)
ROWS = make_instance(
    "ROWS",
    "two requests without output, one append, and clients that stay",
    txns=1,
    longest=1,
    tokens=0,
    without=(fork, hang_up, cancel_request, release, withdraw),
    expected=Counts(7_717, 36_207, 21, 90),
)

INSTANCES = (PAIR, LAYOUTS, FORMATS, OFFERS, FORKS, CONSUMERS, FAMILIES, APPENDS, ROWS)
