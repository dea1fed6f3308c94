"""What is claimed of companions: they stand where the rows stand, and nobody is left behind or doubled.

The invariants of the core and of the serving system are given.
"""

from __future__ import annotations

from kvspec.properties.serving import serving
from kvspec.spec.append import Txn, count, is_live, start
from kvspec.spec.batch import Row, leave, row_cache
from kvspec.spec.bundle import (
    asked,
    attach,
    carried,
    constrained,
    died,
    draft_rows,
    drafted,
    give_up,
    grammar,
    in_round,
    is_current,
    lost,
    recurrent,
    resume,
    row_mask,
    system,
)
from kvspec.spec.frontier import drafts, emitted, prompt, stopped
from kvspec.spec.handles import Handle, Phase, is_free, is_held, is_terminal, length, parent, phase
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    weak,
    where,
)
from kvspec.spec.lifecycle import fork, release

bundle = Properties(system, given=serving)


@bundle.invariant
def the_recurrent_state_stands_at_the_committed_length() -> Expr:
    """A request's recurrent state has taken in its committed rows, no fewer and no more."""
    return forall(Handle, lambda h: implies(is_held(h), recurrent[h] == length[h]))


@bundle.invariant
def the_draft_model_is_at_most_one_row_behind() -> Expr:
    """The draft model's cache lacks the last committed row of a request, or none."""
    return forall(Handle, lambda h: implies(is_held(h), length[h] <= draft_rows[h] + 1))


@bundle.invariant
def the_draft_model_is_ahead_only_in_a_round() -> Expr:
    """Without a round of drafts the draft model has no row beyond the committed ones."""
    return forall(Handle, lambda h: implies(is_held(h) & ~in_round(h), draft_rows[h] <= length[h]))


@bundle.invariant
def a_request_has_one_round_of_drafts_at_a_time() -> Expr:
    """Two appends that the draft model made rows for are not of one snapshot of one request."""
    return forall(
        Txn,
        Txn,
        Handle,
        lambda x, y, h: implies(
            drafted[x] & drafted[y] & is_current(x, h) & is_current(y, h), x == y
        ),
    )


@bundle.lemma
def a_round_is_a_live_append() -> Expr:
    """An append that has ended, or not begun, is no round."""
    return forall(Txn, lambda x: implies(drafted[x], is_live(x)))


@bundle.lemma
def drafts_make_a_round() -> Expr:
    """An append with drafts is a round."""
    return forall(Txn, lambda x: implies(is_live(x) & (drafts[x] >= 1), drafted[x]))


@bundle.lemma
def a_round_has_rows_for_all_tokens_but_the_last_draft() -> Expr:
    """Before the verdict the draft model has a row for every token of the append but the last one."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            drafted[x] & is_current(x, h) & (drafts[x] >= 1),
            draft_rows[h] + 1 == start[x] + count[x],
        ),
    )


@bundle.lemma
def a_verdict_leaves_the_rows_that_stay() -> Expr:
    """After the verdict the draft model is level with the append, or one row behind."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            drafted[x] & is_current(x, h),
            (draft_rows[h] <= start[x] + count[x]) & (start[x] + count[x] <= draft_rows[h] + 1),
        ),
    )


@bundle.invariant
def the_grammar_has_consumed_every_output_of_the_request() -> Expr:
    """The grammar stands behind all outputs, those before a move to another worker among them."""
    return forall(
        Handle,
        lambda h: implies(is_held(h) & constrained[h], grammar[h] == carried[h] + emitted[h]),
    )


@bundle.invariant
def a_request_without_a_grammar_consumes_nothing() -> Expr:
    """A request that came without a grammar has none that advances."""
    return forall(Handle, lambda h: implies(~constrained[h], grammar[h] == 0))


@bundle.invariant
def a_continuation_begins_at_the_last_output() -> Expr:
    """The prompt of a request that continues another is the client's, and every output since."""
    return forall(Handle, lambda h: implies(asked[h] >= 1, prompt[h] == asked[h] + carried[h]))


@bundle.lemma
def outputs_are_carried_by_continuations_alone() -> Expr:
    """A request that continues no other has no output in its prompt."""
    return forall(Handle, lambda h: implies(asked[h] == 0, carried[h] == 0))


@bundle.invariant
def a_free_handle_has_no_companions() -> Expr:
    """A handle without rows has nothing beside them either."""
    return forall(
        Handle,
        lambda h: implies(
            is_free(h),
            (recurrent[h] == 0)
            & (draft_rows[h] == 0)
            & (grammar[h] == 0)
            & (asked[h] == 0)
            & (carried[h] == 0)
            & ~constrained[h]
            & ~died[h],
        ),
    )


@bundle.invariant
def no_request_is_sampled_under_the_mask_of_another() -> Expr:
    """The mask in a request's batch row is its own."""
    return forall(
        Row,
        Handle,
        lambda r, h: implies((row_cache[r] == h) & is_some(row_mask[r]), row_mask[r] == h),
    )


@bundle.invariant
def a_grammar_masks_the_row_of_its_request() -> Expr:
    """A request with a grammar is sampled under its mask wherever it stands."""
    return forall(
        Row,
        Handle,
        lambda r, h: implies((row_cache[r] == h) & constrained[h], row_mask[r] == h),
    )


@bundle.invariant
def a_request_without_a_grammar_is_not_masked() -> Expr:
    """The batch row of a request that came without a grammar is neutral."""
    return forall(
        Row,
        Handle,
        lambda r, h: implies((row_cache[r] == h) & ~constrained[h], ~is_some(row_mask[r])),
    )


@bundle.invariant
def an_unused_row_is_neutral() -> Expr:
    """A batch row without a request has no mask that the next one would meet."""
    return forall(Row, lambda r: implies(~is_some(row_cache[r]), ~is_some(row_mask[r])))


@bundle.invariant
def a_lost_request_keeps_its_record() -> Expr:
    """What a lost request was is there until somebody continues it or gives it up."""
    return forall(Handle, lambda h: implies(lost[h], phase[h] == Phase.CANCELLED))


@bundle.invariant
def a_lost_request_has_more_to_say() -> Expr:
    """A request whose last output was emitted is not lost, and so never continued."""
    return forall(Handle, lambda h: implies(lost[h], ~stopped[h]))


@bundle.invariant
def a_lost_request_has_lost_its_worker() -> Expr:
    """A request that a client cancelled is not lost."""
    return forall(Handle, lambda h: implies(lost[h], died[h]))


@bundle.step
def a_request_that_has_more_to_say_is_lost_with_its_worker() -> Expr:
    """A worker's death does not end a request: somebody has to settle it."""
    return forall(
        Handle,
        lambda h: implies(~died[h] & after(died[h]) & ~stopped[h], after(lost[h])),
    )


@bundle.step
def a_grammar_comes_before_the_first_output() -> Expr:
    """Attaching gives a grammar to a request that had none and has said nothing."""
    return implies(
        fired(attach),
        exists(
            Handle,
            lambda h: ~constrained[h] & after(constrained[h]) & (carried[h] + emitted[h] == 0),
        ),
    )


@bundle.step
def the_draft_model_keeps_what_stays() -> Expr:
    """While a request holds rows, the draft model loses no row of a token that keeps its own."""
    return forall(
        Handle,
        lambda h: implies(
            is_held(h) & after(is_held(h)),
            (draft_rows[h] <= after(draft_rows[h])) | (after(length[h]) <= after(draft_rows[h])),
        ),
    )


@bundle.step
def a_child_has_the_companions_of_its_parent() -> Expr:
    """A fork has the draft rows, the grammar and the past of what it was forked from."""
    return forall(
        Handle,
        Handle,
        lambda p, c: implies(
            fired(fork) & is_held(p) & ~is_held(c) & after(is_held(c)) & after(parent[c] == p),
            (after(constrained[c]) == constrained[p])
            & (after(asked[c]) == asked[p])
            & (after(carried[c]) == carried[p])
            & (
                after(draft_rows[c])
                == where(after(length[c]) < draft_rows[p], after(length[c]), draft_rows[p])
            ),
        ),
    )


@bundle.step
def a_lost_request_is_continued_once() -> Expr:
    """Where a request takes up the outputs of another, that one was lost, and is settled by it."""
    return implies(
        fired(resume),
        exists(Handle, lambda s: lost[s] & ~after(lost[s])),
    )


@bundle.step
def giving_up_settles_a_lost_request() -> Expr:
    """Whoever gives up, gives up a request that was lost."""
    return implies(fired(give_up), exists(Handle, lambda h: lost[h] & ~after(lost[h])))


@bundle.step
def a_continuation_is_ready() -> Expr:
    """The request that takes up another can go on."""
    return forall(
        Handle,
        lambda h: implies(
            fired(resume) & (asked[h] == 0) & after(asked[h] >= 1),
            phase[h] == Phase.DECODE_READY,
        ),
    )


@bundle.step
def only_continuation_and_giving_up_settle_a_lost_request() -> Expr:
    """A lost request stays on record in every other step."""
    return forall(
        Handle,
        lambda h: implies(lost[h] & ~fired(resume) & ~fired(give_up), after(lost[h])),
    )


@bundle.step
def a_continuation_has_every_output() -> Expr:
    """What a request takes up is all that the lost request emitted and had taken up itself."""
    return forall(
        Handle,
        Handle,
        lambda h, s: implies(
            fired(resume) & lost[s] & ~after(lost[s]) & (asked[h] == 0) & after(asked[h] >= 1),
            after(carried[h]) == carried[s] + emitted[s],
        ),
    )


@bundle.step
def a_continuation_is_constrained_as_before() -> Expr:
    """The grammar of a lost request goes with it, and none comes to a request that had none."""
    return forall(
        Handle,
        Handle,
        lambda h, s: implies(
            fired(resume) & lost[s] & ~after(lost[s]) & (asked[h] == 0) & after(asked[h] >= 1),
            after(constrained[h]) == constrained[s],
        ),
    )


@bundle.witness
def reaches_a_draft_model_that_is_behind() -> Expr:
    """All drafts of a round were accepted, so that the draft model lacks the last row."""
    return exists(
        Handle,
        lambda h: is_held(h) & ~in_round(h) & (emitted[h] >= 1) & (draft_rows[h] < length[h]),
    )


@bundle.witness
def reaches_a_round_ahead_of_the_rows() -> Expr:
    """The draft model has rows of drafts that nobody judged yet."""
    return exists(Handle, lambda h: is_held(h) & (length[h] < draft_rows[h]))


@bundle.witness
def reaches_a_masked_and_an_unmasked_row() -> Expr:
    """Two requests are in the batch, one with a grammar and one without."""
    return exists(
        Row,
        Row,
        lambda r, s: (
            is_some(row_cache[r])
            & is_some(row_cache[s])
            & is_some(row_mask[r])
            & ~is_some(row_mask[s])
        ),
    )


@bundle.witness
def reaches_a_continuation_that_goes_on() -> Expr:
    """A request with a grammar has emitted an output on each of two workers."""
    return exists(Handle, lambda h: constrained[h] & (carried[h] >= 1) & (emitted[h] >= 1))


@bundle.witness
def reaches_an_output_from_accepted_drafts() -> Expr:
    """The grammar has consumed a token that a verdict accepted."""
    return exists(Handle, lambda h: (grammar[h] >= 1) & (draft_rows[h] < length[h]))


@bundle.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return serving["nothing_is_left_to_release"].body


@bundle.leads_to(weak(give_up, "h"))
def every_lost_request_is_settled(h: Handle) -> tuple[Expr, Expr]:
    """A lost request is continued or given up in the end: somebody's patience has an end."""
    return lost[h], ~lost[h]


@bundle.leads_to(weak(leave, "h"), weak(release, "h"), weak(give_up, "h"))
def every_ended_request_is_released(h: Handle) -> tuple[Expr, Expr]:
    """A request that finished, was cancelled or was lost gives up its rows in the end."""
    return is_terminal(h), phase[h] == Phase.RELEASED
