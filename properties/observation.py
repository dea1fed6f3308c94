"""What is claimed of observation: only what is settled is counted, and it is counted once."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, TxnState, base_version, count, is_live, start, state, target
from kvspec.spec.handles import (
    Handle,
    Phase,
    context,
    generation,
    is_free,
    is_held,
    is_terminal,
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
    exists,
    fired,
    forall,
    implies,
    where,
)
from kvspec.spec.lifecycle import cancel_txn, fork, is_append_to, truncate
from kvspec.spec.observation import (
    Name,
    Origin,
    arrived,
    cached,
    external,
    fetch,
    find,
    held_rows,
    known,
    origin,
    other,
    prompt,
    recorded,
    records,
    refusals,
    running,
    series,
    system,
    total,
    turn_away,
    turned_away,
    work,
)
from kvspec.spec.prefix import Block, filled

observation = Properties(system, given=core)


def is_current(x: Expr, h: Expr) -> Expr:
    """The append is live and the handle still has the snapshot that it captured."""
    return is_live(x) & is_append_to(x, h) & (base_version[x] == version[h])


def is_published(x: Expr) -> Expr:
    """In this step the append is published."""
    return (state[x] == TxnState.PREPARED) & (after(state[x]) == TxnState.PUBLISHED)


def begins(h: Expr) -> Expr:
    """In this step a request gets the handle."""
    return is_free(h) & after(is_held(h))


@observation.invariant
def no_more_was_found_than_there_is() -> Expr:
    """A request has at least as many rows as were found: what was computed is never negative."""
    return forall(Handle, lambda h: implies(is_held(h), cached[h] <= length[h]))


@observation.invariant
def no_more_was_found_than_was_asked_for() -> Expr:
    """Of the prompt of a request no more is found than it has tokens."""
    return forall(Handle, lambda h: cached[h] <= prompt[h])


@observation.invariant
def no_more_was_fetched_than_found() -> Expr:
    """What was found locally is never negative."""
    return forall(Handle, lambda h: external[h] <= cached[h])


@observation.invariant
def every_request_has_one_terminal_record() -> Expr:
    """A handle has as many terminal records as requests that ended on it."""
    return forall(Handle, lambda h: records[h] == generation[h] + where(is_terminal(h), 1, 0))


@observation.invariant
def every_request_turned_away_has_one_terminal_record() -> Expr:
    """There are as many records of requests without a handle as requests that were turned away."""
    return refusals[()] == turned_away[()]


@observation.invariant
def records_and_counters_agree() -> Expr:
    """What is counted is in terminal records, or belongs to a request that has not ended."""
    return forall(Handle, lambda h: total[h] == recorded[h] + work[h])


@observation.invariant
def an_ended_request_has_all_its_rows_in_its_record() -> Expr:
    """Where no request runs, terminal records add up to the counter."""
    return forall(
        Handle, lambda h: implies(phase[h] != Phase.DECODE_READY, total[h] == recorded[h])
    )


@observation.invariant
def the_gauge_of_running_requests_counts_those_that_run() -> Expr:
    """A request counts as running from its begin to its end."""
    return forall(Handle, lambda h: running[h] == (phase[h] == Phase.DECODE_READY))


@observation.invariant
def the_gauge_of_rows_counts_those_that_are_held() -> Expr:
    """Rows count as in use from their publication until they are cut or given up."""
    return forall(Handle, lambda h: held_rows[h] == where(is_held(h), length[h], 0))


@observation.invariant
def every_series_is_of_a_name_known_at_the_start() -> Expr:
    """No string that a client chose becomes a label."""
    return forall(Name, lambda m: implies(series[m], known[m]))


@observation.invariant
def requests_of_a_known_name_are_counted_under_it() -> Expr:
    """A request that has come is counted under its name if that is known, even if it was turned away."""
    return forall(Name, lambda m: implies(known[m], series[m] == arrived[m]))


@observation.invariant
def requests_of_an_unknown_name_are_counted_as_other() -> Expr:
    """Requests are counted as other just if one has come with a name that is not known."""
    return other[()] == exists(Name, lambda m: arrived[m] & ~known[m])


@observation.invariant
def a_prompt_fits_the_context() -> Expr:
    """A held request has a prompt, of no more tokens than it may have rows."""
    return forall(Handle, lambda h: implies(is_held(h), (prompt[h] >= 1) & (prompt[h] <= context)))


@observation.invariant
def a_free_handle_has_found_nothing() -> Expr:
    """Prompt and hits of a request go with its rows."""
    return forall(
        Handle,
        lambda h: implies(is_free(h), (prompt[h] == 0) & (cached[h] == 0) & (external[h] == 0)),
    )


@observation.lemma
def rows_are_found_before_any_is_computed() -> Expr:
    """Rows that a current append has found come after rows that were found, within the prompt."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_current(x, h) & (origin[x] != Origin.COMPUTED),
            (start[x] == cached[h])
            & (start[x] + count[x] <= prompt[h])
            & implies(origin[x] == Origin.LOCAL, external[h] == 0),
        ),
    )


@observation.step
def only_a_publication_is_counted() -> Expr:
    """A counter goes up by the rows of an append in the step that publishes it, and never else."""
    return forall(
        Handle,
        lambda h: implies(
            after(total[h]) != total[h],
            exists(
                Txn,
                lambda x: (
                    is_published(x) & (target[x] == h) & (after(total[h]) == total[h] + count[x])
                ),
            ),
        ),
    )


@observation.step
def every_publication_is_counted() -> Expr:
    """No rows become visible uncounted, and those that were found are counted as found."""

    def found(x: Expr, h: Expr) -> Expr:
        hit, fetched = origin[x] != Origin.COMPUTED, origin[x] == Origin.EXTERNAL
        return all_of(
            after(total[h]) == total[h] + count[x],
            after(cached[h]) == where(hit, length[h] + count[x], cached[h]),
            after(external[h]) == where(fetched, external[h] + count[x], external[h]),
        )

    return forall(
        Txn, Handle, lambda x, h: implies(is_published(x) & (target[x] == h), found(x, h))
    )


@observation.step
def what_comes_to_nothing_is_not_counted() -> Expr:
    """An append that is aborted, such as a load that failed, leaves every number as it was."""
    return implies(
        fired(cancel_txn),
        forall(
            Handle,
            lambda h: all_of(
                *(after(each[h]) == each[h] for each in (total, work, cached, external))
            ),
        ),
    )


@observation.step
def no_counter_goes_back() -> Expr:
    """Counters and records never get less, whatever is cut, aborted or preempted."""
    return forall(
        Handle,
        lambda h: all_of(*(each[h] <= after(each[h]) for each in (total, recorded, records))),
    )


@observation.step
def a_cut_takes_the_last_rows() -> Expr:
    """After a truncation a request has found what is left of it: local rows, then fetched ones."""

    def left(h: Expr) -> Expr:
        local = cached[h] - external[h]
        rows = after(length[h])
        return all_of(
            after(cached[h]) == where(cached[h] <= rows, cached[h], rows),
            implies(rows <= local, after(external[h]) == 0),
            implies(local <= rows, after(cached[h]) == local + after(external[h])),
        )

    return forall(
        Handle,
        lambda h: implies(fired(truncate) & (after(version[h]) != version[h]), left(h)),
    )


@observation.step
def a_request_begins_with_what_it_was_given() -> Expr:
    """What a child has of its parent was found; any other request begins with nothing."""
    return forall(
        Handle,
        lambda h: implies(
            begins(h),
            (after(cached[h]) == after(length[h]))
            & (after(external[h]) == 0)
            & (after(work[h]) == 0),
        ),
    )


@observation.step
def a_child_is_asked_what_its_parent_was() -> Expr:
    """The prompt of a child is that of its parent, or all that it was given if that is more."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            fired(fork) & begins(c) & after(phase[p] == Phase.DECODE_READY) & after(parent[c] == p),
            after(prompt[c]) == where(after(length[c]) <= prompt[p], prompt[p], after(length[c])),
        ),
    )


@observation.step
def a_request_is_turned_away_for_want_of_room() -> Expr:
    """Where a block is empty, no request is turned away."""
    return implies(fired(turn_away), forall(Block, lambda b: filled[b]))


@observation.step
def a_request_turned_away_is_counted_once() -> Expr:
    """The counter of requests turned away goes up by one with each of them, and never else."""
    return after(turned_away[()]) == turned_away[()] + where(fired(turn_away), 1, 0)


@observation.step
def rows_are_found_by_an_open_append() -> Expr:
    """A hit and a fetch are of an append whose rows were taken to be computed."""
    return forall(
        Txn,
        lambda x: implies(
            after(origin[x]) != origin[x],
            (
                (fired(find) & (after(origin[x]) == Origin.LOCAL))
                | (fired(fetch) & (after(origin[x]) == Origin.EXTERNAL))
            )
            & (state[x] == TxnState.OPEN)
            & (origin[x] == Origin.COMPUTED)
            | (state[x] == TxnState.IDLE) & (after(origin[x]) == Origin.COMPUTED),
        ),
    ) & implies(fired(find) | fired(fetch), exists(Txn, lambda x: after(origin[x]) != origin[x]))


@observation.step
def an_append_begins_as_computed() -> Expr:
    """No append begins with the source of another one."""
    return forall(
        Txn,
        lambda x: implies(
            (state[x] == TxnState.IDLE) & (after(state[x]) == TxnState.OPEN),
            after(origin[x]) == Origin.COMPUTED,
        ),
    )


@observation.witness
def reaches_a_hit_and_a_fetch() -> Expr:
    """A request has found one row locally and fetched another."""
    return exists(Handle, lambda h: (external[h] >= 1) & (external[h] < cached[h]))


@observation.witness
def reaches_a_fetch_that_failed() -> Expr:
    """A load was aborted, and nothing was counted for it."""
    return exists(
        Txn,
        lambda x: (state[x] == TxnState.ABORTED) & (origin[x] == Origin.EXTERNAL),
    ) & forall(Handle, lambda h: total[h] == 0)


@observation.witness
def reaches_a_preempted_request() -> Expr:
    """A request has lost rows that it had found, and the counter has not."""
    return exists(
        Handle,
        lambda h: (phase[h] == Phase.DECODE_READY) & (length[h] == 0) & (work[h] >= 1),
    )


@observation.witness
def reaches_a_request_of_an_unknown_name() -> Expr:
    """A request is counted as other."""
    return other[()] & exists(Name, lambda m: ~known[m])


@observation.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
