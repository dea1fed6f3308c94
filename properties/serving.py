"""What is claimed of outputs, drafts and service phases.

The invariants of the core are given: they hold in the serving system too, as its steps are steps of the core
but for `verify`, of which they are proved. Step claims of the core are about its own steps: `verify` is none,
and changes the interval of an append.
"""

from __future__ import annotations

from itertools import combinations

from kvspec.properties.core import properties as core
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_version,
    count,
    is_live,
    publish,
    start,
    state,
    target,
)
from kvspec.spec.frontier import (
    accepted,
    base_tokens,
    drafts,
    emit,
    emitted,
    own,
    prompt,
    stop,
    stopped,
    tokens,
    verify,
)
from kvspec.spec.handles import (
    Handle,
    Phase,
    context,
    is_free,
    is_held,
    length,
    parent,
    phase,
    version,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    the,
    where,
)
from kvspec.spec.lifecycle import fork, is_append_to
from kvspec.spec.serving import (
    PHASES,
    is_decode_frontier_ready,
    is_finished_retained,
    is_output_ready,
    is_prefill_in_flight,
    is_released,
    is_waiting_prefill,
    processed,
    system,
)

serving = Properties(system, given=core)


def is_current(x: Expr, h: Expr) -> Expr:
    """The append is live and the handle still has the snapshot that it captured."""
    return is_live(x) & is_append_to(x, h) & (base_version[x] == version[h])


@serving.invariant
def the_output_is_at_most_one_token_ahead() -> Expr:
    """At most one emitted token has no row."""
    return forall(Handle, lambda h: emitted[h] <= processed(h) + 1)


@serving.invariant
def rows_are_never_ahead_of_tokens() -> Expr:
    """A request has no more rows than logical tokens."""
    return forall(Handle, lambda h: implies(is_held(h), length[h] <= tokens(h)))


@serving.invariant
def every_row_is_for_the_token_at_its_position() -> Expr:
    """No row of a rejected draft stands in for a correction, nor any row for another token."""
    return forall(Handle, lambda h: implies(is_held(h), own[h] == length[h]))


@serving.invariant
def nothing_is_emitted_before_the_prompt_has_its_rows() -> Expr:
    """A request whose prompt is not processed has no output."""
    return forall(Handle, lambda h: implies(length[h] < prompt[h], emitted[h] == 0))


@serving.invariant
def an_unprocessed_output_is_the_last_one() -> Expr:
    """A request at the decode frontier has exactly one token more than rows."""
    return forall(
        Handle, lambda h: implies(is_decode_frontier_ready(h), tokens(h) == length[h] + 1)
    )


@serving.invariant
def a_ready_output_follows_all_rows() -> Expr:
    """Where an output can be chosen, committed rows are the prompt and all processed outputs."""
    return forall(Handle, lambda h: implies(is_output_ready(h), length[h] == tokens(h)))


@serving.invariant
def no_handle_is_in_two_phases() -> Expr:
    """The service phases exclude each other."""
    return forall(
        Handle,
        lambda h: all_of(*(~(p(h) & q(h)) for p, q in combinations(PHASES.values(), 2))),
    )


@serving.invariant
def every_handle_is_in_a_phase() -> Expr:
    """Whatever the state, one of the service phases holds: the phase is a function of the state."""
    return forall(Handle, lambda h: any_of(*(holds(h) for holds in PHASES.values())))


@serving.invariant
def a_prompt_fits_the_context() -> Expr:
    """A held request has a prompt, of no more tokens than it may commit rows."""
    return forall(Handle, lambda h: implies(is_held(h), (prompt[h] >= 1) & (prompt[h] <= context)))


@serving.invariant
def a_free_handle_has_no_tokens() -> Expr:
    """Prompt and outputs are gone with the rows."""
    return forall(
        Handle,
        lambda h: implies(
            is_free(h), (prompt[h] == 0) & (emitted[h] == 0) & (own[h] == 0) & ~stopped[h]
        ),
    )


@serving.lemma
def drafts_are_rows_of_the_append() -> Expr:
    """An append has no more drafts than rows, and drafts are open or accepted, never both."""
    return forall(
        Txn,
        lambda x: implies(
            is_live(x), (drafts[x] <= count[x]) & ((drafts[x] == 0) | (accepted[x] == 0))
        ),
    )


@serving.invariant
def an_ended_append_has_no_drafts() -> Expr:
    """Only a live append has drafts or an accepted one."""
    return forall(
        Txn,
        lambda x: implies(
            ~is_live(x), (drafts[x] == 0) & (accepted[x] == 0) & (base_tokens[x] == 0)
        ),
    )


@serving.lemma
def a_current_append_knows_tokens_that_are_there() -> Expr:
    """The tokens that a current append knew at its begin, the prompt among them, are still there."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_current(x, h), (prompt[h] <= base_tokens[x]) & (base_tokens[x] <= tokens(h))
        ),
    )


@serving.lemma
def an_append_has_rows_for_known_tokens_and_drafts() -> Expr:
    """The interval of a live append ends with the known tokens, or with the drafts behind all of them."""
    return forall(
        Txn,
        lambda x: implies(
            is_live(x),
            (start[x] + count[x] <= base_tokens[x] + drafts[x] + accepted[x])
            & implies(
                drafts[x] + accepted[x] >= 1,
                start[x] + count[x] == base_tokens[x] + drafts[x] + accepted[x],
            ),
        ),
    )


@serving.invariant
def no_more_outputs_are_processed_than_emitted() -> Expr:
    """Whatever the phase, the frontier of a request has no negative count."""
    return forall(Handle, lambda h: processed(h) <= emitted[h])


@serving.step
def a_stopped_request_emits_nothing() -> Expr:
    """After the last output nothing is emitted: logits of a repair are thrown away."""
    return forall(
        Handle,
        lambda h: implies(stopped[h] & after(stopped[h]), after(emitted[h]) == emitted[h]),
    )


@serving.step
def an_emission_adds_one_output_and_no_row() -> Expr:
    """Emitting a token makes the output one longer and leaves the rows alone."""
    return implies(
        fired(emit),
        exists(Handle, lambda h: after(emitted[h]) == emitted[h] + 1)
        & forall(Handle, lambda h: after(length[h]) == length[h])
        & forall(
            Handle,
            lambda h: (after(emitted[h]) == emitted[h]) | (after(emitted[h]) == emitted[h] + 1),
        ),
    )


@serving.step
def a_publication_emits_accepted_drafts_alone() -> Expr:
    """A publication emits just the drafts that the target accepted, with their rows."""
    return forall(
        Txn,
        lambda x: implies(
            fired(publish)
            & (state[x] == TxnState.PREPARED)
            & (after(state[x]) == TxnState.PUBLISHED),
            (after(emitted[the(target[x])]) == emitted[the(target[x])] + accepted[x])
            & (drafts[x] == 0),
        ),
    )


@serving.step
def a_verdict_settles_every_draft() -> Expr:
    """After the target's verdict each draft is accepted or its row is gone."""
    return forall(
        Txn,
        lambda x: implies(
            fired(verify) & (drafts[x] >= 1) & (after(drafts[x]) == 0),
            (after(count[x]) + drafts[x] == count[x] + after(accepted[x]))
            & (after(accepted[x]) <= drafts[x]),
        ),
    )


@serving.step
def a_verdict_is_about_one_append() -> Expr:
    """The target's verdict settles the drafts of some append."""
    return implies(fired(verify), exists(Txn, lambda x: (drafts[x] >= 1) & (after(drafts[x]) == 0)))


@serving.step
def a_stop_is_for_good() -> Expr:
    """A stop ends the output of some request, and it stays ended unless outputs are taken back."""
    return implies(fired(stop), exists(Handle, lambda h: ~stopped[h] & after(stopped[h])))


@serving.step
def only_a_cut_output_goes_on() -> Expr:
    """Generation goes on after a stop only where outputs were cut off, or the request is over."""
    return forall(
        Handle,
        lambda h: implies(
            stopped[h] & ~after(stopped[h]),
            (after(emitted[h]) < emitted[h]) | (after(phase[h]) == Phase.RELEASED),
        ),
    )


@serving.step
def release_comes_after_the_last_output() -> Expr:
    """A request is released only from a phase in which no more output comes."""
    return forall(
        Handle,
        lambda h: implies(~is_released(h) & after(is_released(h)), is_finished_retained(h)),
    )


@serving.step
def a_request_brings_its_prompt() -> Expr:
    """A new request starts with a prompt, which a fork has of its parent, and has output to come."""
    return forall(
        Handle,
        lambda h: implies(
            is_free(h) & after(is_held(h)), (after(prompt[h]) >= 1) & ~after(stopped[h])
        ),
    )


@serving.step
def rows_that_stay_keep_their_outputs() -> Expr:
    """A cut leaves the outputs that have rows, and the one whose turn it is; none without the prompt."""
    return forall(
        Handle,
        lambda h: implies(
            is_held(h) & after(is_held(h)) & (after(length[h]) < length[h]),
            where(
                after(length[h]) < prompt[h],
                after(emitted[h]) == 0,
                after(tokens(h)) == after(length[h]) + 1,
            )
            & (after(prompt[h]) == prompt[h]),
        ),
    )


@serving.step
def a_child_has_the_outputs_of_its_rows() -> Expr:
    """A fork has the prompt of its parent, and outputs for its rows and at most one more."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(fork) & is_free(c) & after(is_held(c)) & (after(parent[c]) == p),
            (after(prompt[c]) == prompt[p])
            & (
                after(tokens(c))
                <= where(after(length[c]) < prompt[p], prompt[p], after(length[c]) + 1)
            )
            & (after(emitted[c]) <= emitted[p])
            & implies(after(length[c]) == length[p], after(emitted[c]) == emitted[p])
            & ~after(stopped[c]),
        ),
    )


@serving.witness
def reaches_a_partial_prefill() -> Expr:
    """A chunk of a prompt is published and the rest waits."""
    return exists(Handle, lambda h: is_waiting_prefill(h) & (length[h] >= 1))


@serving.witness
def reaches_a_prefill_in_flight() -> Expr:
    """Rows of a prompt are being computed."""
    return exists(Handle, is_prefill_in_flight)


@serving.witness
def reaches_an_output_to_choose() -> Expr:
    """An output can be chosen after one was emitted and processed."""
    return exists(Handle, lambda h: is_output_ready(h) & (emitted[h] >= 1))


@serving.witness
def reaches_the_ordinary_stop() -> Expr:
    """The last output is out and has no row: O = G_in + 1, K = S + G_in."""
    return exists(Handle, lambda h: stopped[h] & (tokens(h) == length[h] + 1) & (emitted[h] >= 2))


@serving.witness
def reaches_a_repaired_stop() -> Expr:
    """The last output is out and has its row: K = S + G_in + 1."""
    return exists(Handle, lambda h: stopped[h] & (tokens(h) == length[h]) & (emitted[h] >= 1))


@serving.witness
def reaches_a_correction_behind_accepted_drafts() -> Expr:
    """Two drafts were accepted in one append, and a correction is emitted behind them."""
    return exists(
        Handle,
        Txn,
        lambda h, x: (
            is_decode_frontier_ready(h)
            & (state[x] == TxnState.PUBLISHED)
            & is_append_to(x, h)
            & (count[x] == 2)
            & (start[x] == prompt[h])
            & (emitted[h] == 3)
        ),
    )


@serving.witness
def reaches_drafts_behind_an_output() -> Expr:
    """An append has drafts although a token was emitted since they were made."""
    return exists(
        Txn,
        lambda x: (drafts[x] >= 1) & (base_tokens[x] < tokens(the(target[x]))),
    )


@serving.witness
def reaches_a_finish_with_rows() -> Expr:
    """A request is finished and still has its rows: finish is not release."""
    return exists(Handle, lambda h: (phase[h] == Phase.FINISHED) & (length[h] >= 1))


@serving.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
