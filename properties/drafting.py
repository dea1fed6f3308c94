"""What is claimed of speculative rounds in a cache that is written in place."""

from __future__ import annotations

from kvspec.spec.drafting import (
    Outcome,
    Point,
    admit,
    cancel,
    close,
    cut,
    deliver,
    delivered,
    drafts,
    finish,
    kept,
    key,
    known,
    lose,
    oldest,
    outcome,
    point,
    position,
    state,
    stopped,
    system,
    truncate,
    verify,
    written,
)
from kvspec.spec.handles import Handle, context
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

drafting = Properties(system)


def is_in_round(h: Expr) -> Expr:
    """A round of the request is open."""
    return point[h] != Point.BETWEEN


def has_ended(h: Expr) -> Expr:
    """The request has finished or was cancelled."""
    return one_of(outcome[h], Outcome.FINISHED, Outcome.CANCELLED)


@drafting.invariant
def the_position_is_the_committed_length() -> Expr:
    """Between rounds the next row has the position behind the rows, whatever was accepted before."""
    return forall(Handle, lambda h: implies(~is_in_round(h), position[h] == written[h]))


@drafting.invariant
def a_round_begins_at_the_position() -> Expr:
    """In a round the rows in the cache are those before the position, and those of the round."""
    return forall(
        Handle, lambda h: implies(is_in_round(h), position[h] + 1 + drafts[h] == written[h])
    )


@drafting.invariant
def every_row_is_of_a_token_that_the_client_has() -> Expr:
    """Between rounds and at the end there is a row for each token of the client but the last."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_in_round(h) & (outcome[h] != Outcome.NEW), written[h] + 1 == known[h]
        ),
    )


@drafting.invariant
def the_client_has_what_was_delivered_in_the_round() -> Expr:
    """In a round the client has the tokens before it, and those that the round delivered."""
    return forall(
        Handle,
        lambda h: implies(is_in_round(h), known[h] == position[h] + 1 + delivered[h]),
    )


@drafting.invariant
def the_key_is_a_prefix_of_what_the_client_has() -> Expr:
    """The rows of an ended request are found under tokens that its client has."""
    return forall(Handle, lambda h: key[h] <= known[h])


@drafting.invariant
def an_ended_request_is_found_up_to_its_last_token() -> Expr:
    """The key of an ended request is its client's tokens without the last one."""
    return forall(Handle, lambda h: implies(has_ended(h), key[h] + 1 == known[h]))


@drafting.invariant
def a_cut_is_within_the_rows() -> Expr:
    """At every point of a round, a cut takes from none to all of the rows."""
    return forall(Handle, lambda h: (cut(h) >= 0) & (cut(h) <= written[h]))


@drafting.invariant
def no_round_delivers_what_was_not_accepted() -> Expr:
    """A round delivers the accepted drafts and one token more at most."""
    return forall(
        Handle,
        lambda h: implies(
            point[h] == Point.VERIFIED,
            delivered[h] <= drafts[h] + 1,
        ),
    )


@drafting.invariant
def nothing_is_delivered_before_the_verdict() -> Expr:
    """A round that waits for its verdict has delivered nothing: its counts are its own."""
    return forall(Handle, lambda h: implies(point[h] == Point.DRAFTED, delivered[h] == 0))


@drafting.invariant
def the_recurrent_state_has_taken_in_the_rows_that_stay() -> Expr:
    """The recurrent state stands behind the rows in the cache, at every point of a round."""
    return forall(Handle, lambda h: state[h] == written[h])


@drafting.invariant
def no_more_values_are_kept_than_there_is_room_for() -> Expr:
    """Of a recurrent state there is the value now, and at most `kept` earlier ones."""
    return forall(Handle, lambda h: state[h] <= oldest[h] + kept)


@drafting.invariant
def every_round_can_be_undone() -> Expr:
    """The recurrent state has a value for the position where the round began."""
    return forall(Handle, lambda h: oldest[h] <= position[h])


@drafting.step
def the_recurrent_state_goes_back_with_rejected_drafts() -> Expr:
    """When a verdict has cut the rows of rejected drafts, the recurrent state has not taken them in."""
    return forall(
        Handle,
        lambda h: implies(
            (point[h] == Point.DRAFTED) & (after(point[h]) == Point.VERIFIED),
            after(state[h]) == after(written[h]),
        ),
    )


@drafting.step
def a_value_is_given_up_for_a_later_one() -> Expr:
    """The oldest value of a recurrent state goes where there is no room for one more."""
    return forall(
        Handle,
        lambda h: implies(
            after(oldest[h]) != oldest[h],
            (after(oldest[h]) > oldest[h]) & (after(state[h]) == after(oldest[h]) + kept),
        ),
    )


@drafting.step
def a_value_that_was_gone_back_past_does_not_return() -> Expr:
    """A recurrent state that goes back takes the earlier values that it has, and gets no others."""
    return forall(
        Handle,
        lambda h: implies(after(state[h]) < state[h], after(oldest[h]) == oldest[h]),
    )


@drafting.invariant
def rows_keep_within_the_context() -> Expr:
    """No rows are written beyond the context, those of drafts included."""
    return forall(Handle, lambda h: written[h] <= context)


@drafting.invariant
def only_a_pending_request_is_in_a_round() -> Expr:
    """An ended request has no open round."""
    return forall(Handle, lambda h: implies(is_in_round(h), outcome[h] == Outcome.PENDING))


@drafting.invariant
def no_request_begins_without_a_row() -> Expr:
    """A request that was admitted has a row."""
    return forall(Handle, lambda h: implies(outcome[h] != Outcome.NEW, position[h] >= 1))


@drafting.lemma
def a_new_request_has_nothing() -> Expr:
    """A request that was not admitted has no rows, no tokens and no key."""
    return forall(
        Handle,
        lambda h: implies(
            outcome[h] == Outcome.NEW,
            (written[h] == 0) & (position[h] == 0) & (known[h] == 0) & ~stopped[h],
        ),
    )


@drafting.lemma
def a_request_that_goes_on_has_no_key() -> Expr:
    """Only an ended request is found under a key."""
    return forall(Handle, lambda h: implies(~has_ended(h), key[h] == 0))


@drafting.lemma
def no_round_is_opened_behind_the_stop() -> Expr:
    """A stopped request waits for no verdict."""
    return forall(Handle, lambda h: implies(stopped[h], point[h] != Point.DRAFTED))


@drafting.invariant
def a_finished_request_has_stopped() -> Expr:
    """No request finishes before its last output."""
    return forall(Handle, lambda h: implies(outcome[h] == Outcome.FINISHED, stopped[h]))


@drafting.invariant
def tokens_keep_within_the_context() -> Expr:
    """No request has more tokens than the context has room for."""
    return forall(Handle, lambda h: known[h] <= context)


@drafting.invariant
def a_request_stops_where_the_context_is_full() -> Expr:
    """A request that goes on has room for one more token."""
    return forall(
        Handle,
        lambda h: implies((outcome[h] != Outcome.NEW) & ~stopped[h], known[h] + 1 <= context),
    )


@drafting.step
def a_round_opens_without_a_verdict() -> Expr:
    """A round opens with rows for its drafts behind the position, none of them accepted yet."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_in_round(h) & after(is_in_round(h)),
            after(point[h] == Point.DRAFTED) & (after(position[h]) == position[h]) & ~stopped[h],
        ),
    )


@drafting.step
def the_end_of_a_round_adds_no_row() -> Expr:
    """However a round ends, the cache has no more rows after it than before."""
    return forall(
        Handle,
        lambda h: implies(is_in_round(h) & ~after(is_in_round(h)), after(written[h]) <= written[h]),
    )


@drafting.step
def a_cancel_keeps_what_the_client_has() -> Expr:
    """A cancel takes no token back, and cuts no row of one that the client has, but of the last."""
    return implies(
        fired(cancel),
        forall(
            Handle,
            lambda h: implies(
                after(outcome[h]) != outcome[h],
                (outcome[h] == Outcome.PENDING)
                & (after(outcome[h]) == Outcome.CANCELLED)
                & (after(known[h]) == known[h])
                & (after(written[h]) + 1 == known[h]),
            ),
        )
        & exists(Handle, lambda h: after(outcome[h]) != outcome[h]),
    )


@drafting.step
def a_lost_round_is_as_if_it_had_not_been() -> Expr:
    """Where the verdict never comes, rows, position and tokens are those from before the round."""
    return implies(
        fired(lose),
        exists(
            Handle,
            lambda h: (
                is_in_round(h)
                & ~after(is_in_round(h))
                & (after(written[h]) == position[h])
                & (after(position[h]) == position[h])
                & (after(known[h]) == known[h])
            ),
        ),
    )


@drafting.step
def nothing_is_delivered_behind_the_stop() -> Expr:
    """After the last output the client gets no token, accepted as it may be."""
    return forall(
        Handle,
        lambda h: implies(stopped[h], after(known[h]) <= known[h]),
    )


@drafting.step
def tokens_are_delivered_one_by_one() -> Expr:
    """A delivery gives the client one token of the round, and changes no row."""
    return implies(
        fired(deliver),
        exists(
            Handle,
            lambda h: (
                (after(known[h]) == known[h] + 1)
                & (after(delivered[h]) == delivered[h] + 1)
                & (delivered[h] <= drafts[h])
            ),
        )
        & forall(Handle, lambda h: after(written[h]) == written[h]),
    )


@drafting.step
def a_stop_comes_with_a_token() -> Expr:
    """The last output comes with a delivery, and only a truncation lets a request go on behind it."""
    return forall(
        Handle,
        lambda h: (
            implies(~stopped[h] & after(stopped[h]), fired(deliver))
            & implies(stopped[h] & ~after(stopped[h]), after(written[h]) < written[h])
        ),
    )


@drafting.step
def a_round_ends_when_it_is_delivered() -> Expr:
    """A closed round has delivered every accepted draft and one token more, or the last output."""
    return implies(
        fired(close),
        exists(
            Handle,
            lambda h: (
                (point[h] == Point.VERIFIED)
                & ~after(is_in_round(h))
                & (stopped[h] | (delivered[h] == drafts[h] + 1))
            ),
        ),
    )


@drafting.step
def a_verdict_is_about_an_open_round() -> Expr:
    """The target's verdict adds no row and no draft, and changes no position and no token."""
    return implies(
        fired(verify),
        exists(
            Handle,
            lambda h: (point[h] == Point.DRAFTED) & (after(point[h]) == Point.VERIFIED),
        )
        & forall(
            Handle,
            lambda h: (
                (after(position[h]) == position[h])
                & (after(known[h]) == known[h])
                & (after(written[h]) <= written[h])
            ),
        ),
    )


@drafting.step
def a_truncation_is_between_rounds() -> Expr:
    """A truncation leaves fewer rows, and neither a stop nor counts of a round."""
    return implies(
        fired(truncate),
        exists(
            Handle,
            lambda h: (
                (after(written[h]) < written[h])
                & ~is_in_round(h)
                & ~has_ended(h)
                & ~after(stopped[h])
                & (after(written[h]) >= 1)
                & (after(drafts[h]) == 0)
                & (after(delivered[h]) == 0)
            ),
        ),
    )


@drafting.step
def requests_take_their_course() -> Expr:
    """A request is admitted, pends, and finishes or is cancelled."""
    return forall(
        Handle,
        lambda h: (
            (after(outcome[h]) == outcome[h])
            | ((outcome[h] == Outcome.NEW) & after(outcome[h] == Outcome.PENDING))
            | ((outcome[h] == Outcome.PENDING) & after(has_ended(h)))
        ),
    )


@drafting.step
def an_end_is_the_end_of_some_request() -> Expr:
    """A finish ends a request between rounds, and an admission begins one."""
    return implies(
        fired(finish),
        exists(
            Handle,
            lambda h: ~is_in_round(h) & ~has_ended(h) & after(outcome[h] == Outcome.FINISHED),
        ),
    ) & implies(
        fired(admit),
        exists(Handle, lambda h: (outcome[h] == Outcome.NEW) & after(outcome[h] != Outcome.NEW)),
    )


@drafting.lemma
def a_round_that_is_stopped_has_delivered_the_stop() -> Expr:
    """No round begins after the stop, so that the client got a token of one that is open then."""
    return forall(Handle, lambda h: implies(is_in_round(h) & stopped[h], delivered[h] >= 1))


@drafting.witness
def reaches_a_stop_within_the_accepted_drafts() -> Expr:
    """The last output is out, and accepted drafts behind it have rows."""
    return exists(
        Handle,
        lambda h: stopped[h] & (point[h] == Point.VERIFIED) & (delivered[h] + 1 <= drafts[h]),
    )


@drafting.witness
def reaches_a_round_that_delivers_all_it_drafts() -> Expr:
    """Every draft of a round is delivered, and the token behind them."""
    return exists(
        Handle,
        lambda h: (point[h] == Point.VERIFIED) & (drafts[h] >= 2) & (delivered[h] == drafts[h] + 1),
    )


@drafting.witness
def reaches_a_round_after_one_that_delivered() -> Expr:
    """A request has the counts of a round behind it, and goes on."""
    return exists(Handle, lambda h: ~is_in_round(h) & ~stopped[h] & (delivered[h] >= 1))


@drafting.witness
def reaches_a_state_that_can_go_back_no_further() -> Expr:
    """A recurrent state has gone back to the oldest value that it had."""
    return exists(Handle, lambda h: ~is_in_round(h) & (oldest[h] == state[h]) & (known[h] >= 1))


@drafting.end
def every_request_has_ended() -> Expr:
    """The system may stop where every request has ended."""
    return forall(Handle, has_ended)


@drafting.leads_to(weak(verify, "h"), weak(deliver, "h"), weak(close, "h"))
def every_round_ends(h: Handle) -> tuple[Expr, Expr]:
    """A round is closed, lost or cut off in the end."""
    return is_in_round(h), ~is_in_round(h)
