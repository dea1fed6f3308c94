"""What is claimed of a hand-off: one output, rows read as they were written, and none kept for ever."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.handles import Handle, Layer, Phase, is_free, is_held, phase
from kvspec.spec.handoff import (
    accept,
    complete,
    emit,
    expire,
    fail,
    hang_up,
    offer,
    system,
    take_over,
    withdraw,
)
from kvspec.spec.handoff_record import (
    Reason,
    Ticket,
    TicketState,
    Token,
    came_as,
    emitted,
    giver,
    gone,
    has_its_blocks_alone,
    has_no_rows,
    imported,
    is_at_an_end,
    last,
    lends_rows,
    most,
    moves,
    moves_from,
    moves_to,
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
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    strong,
    the,
    weak,
)
from kvspec.spec.lifecycle import cancel_request, release

handoff = Properties(system, given=core)


@handoff.invariant
def a_client_is_sent_no_more_than_it_asked_for() -> Expr:
    """No client is sent more output tokens than the request may have, over both workers."""
    return forall(Handle, lambda h: told[h] <= most)


@handoff.invariant
def every_token_is_told_once() -> Expr:
    """What a client was sent is what the engine counts: no token twice, and none left out."""
    return forall(Handle, lambda h: told[h] == emitted[h])


@handoff.invariant
def an_end_of_the_output_is_seen() -> Expr:
    """The engine that holds a request knows whether its last token is the last of all."""
    return forall(
        Handle,
        lambda h: implies(is_held(h), stopped[h] == is_at_an_end(last[h], emitted[h])),
    )


@handoff.invariant
def every_layer_reads_its_own_rows() -> Expr:
    """Where rows came from another worker, each layer reads those that this layer computed."""
    return forall(Handle, Layer, lambda h, l: implies(imported[h], reads[h, l] == l))


@handoff.invariant
def rows_are_read_in_the_format_they_were_written() -> Expr:
    """Rows that came from another worker are read in their own element type and block size."""
    return forall(
        Handle, lambda h: implies(imported[h], is_some(reads_as[h]) & (reads_as[h] == came_as[h]))
    )


@handoff.invariant
def rows_that_move_are_held_at_both_ends() -> Expr:
    """As long as rows move, the handle that they come from retains them, and the other has room for them."""
    return forall(
        Ticket,
        lambda k: implies(
            moves(k),
            is_some(giver[k])
            & retained[the(giver[k])]
            & is_some(taker[k])
            & is_held(the(taker[k])),
        ),
    )


@handoff.invariant
def what_is_offered_is_retained() -> Expr:
    """A ticket offers rows of some layer that are retained, and names their format."""
    return forall(
        Ticket,
        lambda k: implies(
            ticket[k] != TicketState.IDLE,
            is_some(giver[k])
            & retained[the(giver[k])]
            & is_some(written_as[k])
            & forall(Layer, lambda _: exists(Layer, lambda p: is_some(placed[k, p]))),
        ),
    )


@handoff.invariant
def rows_are_offered_once() -> Expr:
    """No two tickets offer the rows of one request, and no two bring rows to one."""
    return forall(
        Ticket,
        Ticket,
        Handle,
        lambda k, j, h: implies(
            ((giver[k] == h) & (giver[j] == h)) | (moves_to(k, h) & moves_to(j, h)), k == j
        ),
    )


@handoff.invariant
def only_a_finished_request_retains_rows() -> Expr:
    """Rows are retained of a request that finished here, and that came from nowhere else."""
    return forall(
        Handle,
        lambda h: implies(retained[h], (phase[h] == Phase.FINISHED) & ~imported[h]),
    )


@handoff.invariant
def the_reason_is_that_of_the_phase() -> Expr:
    """A ready request has no reason to end, an ended one its own, and a released one some reason."""
    return forall(
        Handle,
        lambda h: (
            implies(phase[h] == Phase.DECODE_READY, reason[h] == Reason.NONE)
            & implies(phase[h] == Phase.FINISHED, reason[h] == Reason.FINISHED)
            & implies(phase[h] == Phase.CANCELLED, reason[h] == Reason.CANCELLED)
            & implies(phase[h] == Phase.RELEASED, reason[h] != Reason.NONE)
        ),
    )


@handoff.invariant
def nothing_is_appended_where_rows_move() -> Expr:
    """A request that rows move to has none of its own, and no append to it is open."""
    return forall(Handle, lambda h: implies(waits_for_rows(h), has_no_rows(h)))


@handoff.invariant
def rows_move_into_blocks_of_one_request() -> Expr:
    """Nobody else reads a block that rows move into."""
    return forall(Handle, lambda h: implies(waits_for_rows(h), has_its_blocks_alone(h)))


@handoff.lemma
def a_request_that_waits_for_rows_has_no_output() -> Expr:
    """Rows move to a request that has emitted nothing, and that is ready or was cancelled."""
    return forall(
        Handle,
        lambda h: implies(
            waits_for_rows(h),
            (emitted[h] == 0)
            & (last[h] == Token.ORDINARY)
            & ~imported[h]
            & (phase[h] != Phase.FINISHED),
        ),
    )


@handoff.lemma
def without_a_token_there_is_no_last_one() -> Expr:
    """A request that has emitted nothing has not emitted a token that ends its output."""
    return forall(Handle, lambda h: implies(emitted[h] == 0, last[h] == Token.ORDINARY))


@handoff.lemma
def what_moves_is_read_as_it_was_written() -> Expr:
    """Rows move only where both ends agree on layers and format."""
    return forall(
        Ticket,
        lambda k: implies(
            moves(k),
            is_some(reads_as[the(taker[k])]) & (reads_as[the(taker[k])] == came_as[the(taker[k])]),
        ),
    ) & forall(
        Ticket,
        Layer,
        lambda k, l: implies(moves(k), reads[the(taker[k]), l] == l),
    )


@handoff.lemma
def an_idle_ticket_says_nothing() -> Expr:
    """A ticket that offers nothing names nobody, and one that nobody took names no taker."""
    return forall(
        Ticket,
        Layer,
        lambda k, p: implies(ticket[k] == TicketState.IDLE, ~is_some(placed[k, p])),
    ) & forall(
        Ticket,
        lambda k: (
            implies(
                ticket[k] == TicketState.IDLE,
                ~is_some(giver[k]) & ~is_some(written_as[k]),
            )
            & implies(~moves(k), ~is_some(taker[k]))
        ),
    )


@handoff.lemma
def a_free_handle_has_no_output() -> Expr:
    """Of a request that is not there no output is known, and nothing is retained."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(is_free(h), ~is_some(reads[h, l])),
    ) & forall(
        Handle,
        lambda h: implies(
            is_free(h),
            (emitted[h] == 0)
            & (last[h] == Token.ORDINARY)
            & ~stopped[h]
            & ~imported[h]
            & ~gone[h]
            & ~is_some(came_as[h])
            & ~is_some(reads_as[h]),
        ),
    )


@handoff.step
def no_token_follows_the_last_one() -> Expr:
    """A token is emitted by a ready request whose output is not at an end, and sent to the client."""
    return forall(
        Handle,
        lambda h: implies(
            fired(emit) & (after(told[h]) != told[h]),
            (phase[h] == Phase.DECODE_READY)
            & ~is_at_an_end(last[h], emitted[h])
            & (after(told[h]) == told[h] + 1),
        ),
    ) & implies(fired(emit), exists(Handle, lambda h: after(told[h]) == told[h] + 1))


@handoff.step
def no_token_is_emitted_before_the_rows_are_there() -> Expr:
    """A request whose rows are on their way emits nothing and does not finish."""
    return forall(
        Handle,
        lambda h: implies(
            waits_for_rows(h) & after(waits_for_rows(h)),
            (after(emitted[h]) == emitted[h]) & (after(phase[h]) != Phase.FINISHED),
        ),
    )


@handoff.step
def an_output_goes_on_where_it_was() -> Expr:
    """Who takes over has the count, the last token and the client of the request that it goes on with."""
    return forall(
        Handle,
        Handle,
        Ticket,
        lambda h, g, k: implies(
            moves_from(k, h) & moves_to(k, g) & ~imported[g] & after(imported[g]),
            (ticket[k] == TicketState.WRITTEN)
            & (phase[g] == Phase.DECODE_READY)
            & (after(emitted[g]) == emitted[h])
            & (after(last[g]) == last[h])
            & (after(gone[g]) == (gone[g] | gone[h]))
            & ~after(retained[h]),
        ),
    ) & implies(
        fired(take_over),
        exists(
            Ticket,
            Handle,
            lambda k, g: moves_to(k, g) & ~imported[g] & after(imported[g]),
        ),
    )


@handoff.step
def the_reason_to_end_is_written_once() -> Expr:
    """Why a request ended stays on record until the handle has another request."""
    return forall(
        Handle,
        lambda h: implies(
            (reason[h] != Reason.NONE) & (after(reason[h]) != reason[h]),
            is_free(h) & (after(phase[h]) == Phase.DECODE_READY),
        ),
    )


@handoff.step
def nothing_is_retained_for_a_client_that_has_gone() -> Expr:
    """A request that finishes retains its rows if it began here and its client is there, and not else."""
    return forall(
        Handle,
        lambda h: implies(
            (phase[h] == Phase.DECODE_READY) & (after(phase[h]) == Phase.FINISHED),
            after(retained[h]) == (~imported[h] & ~gone[h]),
        ),
    )


@handoff.step
def rows_are_given_up_before_the_lease_ends_for_a_reason() -> Expr:
    """Retained rows are given up when they were taken over, when the client has gone, or with the lease."""
    return forall(
        Handle,
        lambda h: implies(
            retained[h] & ~after(retained[h]),
            fired(expire)
            | (fired(withdraw) & gone[h])
            | (fired(take_over) & exists(Ticket, lambda k: moves_from(k, h))),
        ),
    ) & implies(
        fired(expire) | fired(withdraw),
        exists(Handle, lambda h: retained[h] & ~after(retained[h])),
    )


@handoff.step
def a_ticket_goes_on_in_order() -> Expr:
    """A ticket is offered, moves rows, has them all, and says nothing again; each action takes one on."""

    def one_goes(before: Expr, then: Expr) -> Expr:
        return exists(Ticket, lambda k: (ticket[k] == before) & (after(ticket[k]) == then))

    return (
        implies(fired(offer), one_goes(TicketState.IDLE, TicketState.OFFERED))
        & implies(fired(accept), one_goes(TicketState.OFFERED, TicketState.MOVING))
        & implies(fired(complete), one_goes(TicketState.MOVING, TicketState.WRITTEN))
        & implies(fired(fail), one_goes(TicketState.MOVING, TicketState.IDLE))
        & implies(fired(take_over), one_goes(TicketState.WRITTEN, TicketState.IDLE))
        & forall(
            Ticket,
            lambda k: implies(
                after(ticket[k]) == TicketState.WRITTEN,
                implies(ticket[k] != TicketState.WRITTEN, fired(complete)),
            ),
        )
    )


@handoff.step
def what_is_offered_stays_as_it_was_offered() -> Expr:
    """A ticket names the same rows, layers and format for as long as it is out."""
    return forall(
        Ticket,
        Layer,
        lambda k, p: implies(
            (ticket[k] != TicketState.IDLE) & (after(ticket[k]) != TicketState.IDLE),
            (after(placed[k, p]) == placed[k, p])
            & (after(written_as[k]) == written_as[k])
            & (after(giver[k]) == giver[k]),
        ),
    )


@handoff.step
def a_client_goes_away_once() -> Expr:
    """A client that has gone stays gone as long as the request is there."""
    return forall(
        Handle,
        lambda h: implies(gone[h] & after(is_held(h)), after(gone[h])),
    ) & implies(fired(hang_up), exists(Handle, lambda h: ~gone[h] & after(gone[h])))


@handoff.witness
def reaches_an_output_that_goes_on() -> Expr:
    """A request has taken over with one token, and emitted another."""
    return exists(Handle, lambda h: imported[h] & (emitted[h] >= 2))


@handoff.witness
def reaches_a_first_token_that_is_the_last() -> Expr:
    """A request has taken over whose output was at an end."""
    return exists(Handle, lambda h: imported[h] & stopped[h] & (phase[h] == Phase.DECODE_READY))


@handoff.witness
def reaches_a_client_that_leaves_while_rows_move() -> Expr:
    """A client has gone whose rows are on their way."""
    return exists(Handle, lambda h: gone[h] & lends_rows(h))


@handoff.witness
def reaches_a_client_that_leaves_a_finished_request() -> Expr:
    """A client has gone from a finished request whose rows wait for a consumer."""
    return exists(Handle, lambda h: gone[h] & retained[h])


@handoff.witness
def reaches_rows_for_a_request_that_has_ended() -> Expr:
    """The rows have come, and the request that should take over was cancelled."""
    return exists(
        Ticket,
        Handle,
        lambda k, h: (
            (ticket[k] == TicketState.WRITTEN) & (taker[k] == h) & (phase[h] == Phase.CANCELLED)
        ),
    )


@handoff.witness
def reaches_layers_in_another_order() -> Expr:
    """Rows move whose layers stand in another order than their names."""
    return exists(
        Ticket, Layer, lambda k, l: moves(k) & is_some(placed[k, l]) & (placed[k, l] != l)
    )


@handoff.witness
def reaches_an_offer_that_lacks_a_layer() -> Expr:
    """A ticket offers rows of some layers and not of all."""
    return exists(
        Ticket,
        Layer,
        Layer,
        lambda k, p, q: (
            (ticket[k] == TicketState.OFFERED) & is_some(placed[k, p]) & ~is_some(placed[k, q])
        ),
    )


@handoff.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


_OUTCOME = (weak(fail, "k"), weak(take_over, "k"))


@handoff.leads_to(*_OUTCOME)
def every_move_comes_to_an_end(k: Ticket) -> tuple[Expr, Expr]:
    """Rows that move are taken over, or the ticket is void, in the end."""
    return moves(k), ~moves(k)


@handoff.leads_to(*_OUTCOME, strong(expire, "h"))
def no_rows_are_retained_for_ever(h: Handle) -> tuple[Expr, Expr]:
    """A request that finished for a consumer that never comes gives up its rows in the end."""
    return retained[h], ~retained[h]


@handoff.leads_to(*_OUTCOME, strong(withdraw, "h"), weak(cancel_request, "h"), strong(release, "h"))
def a_client_that_has_gone_leaves_nothing_behind(h: Handle) -> tuple[Expr, Expr]:
    """The rows of a client that has gone are released, without waiting for the end of a lease."""
    return gone[h], is_free(h)
