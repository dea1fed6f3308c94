"""What is claimed of turns: one that ends early leaves nothing, and a client that is gone is noticed."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import Txn, base_version, count, is_live, start
from kvspec.spec.handles import (
    Handle,
    Phase,
    is_held,
    length,
    parent,
    phase,
    rewind,
    version,
)
from kvspec.spec.images import (
    Restore,
    restore,
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
    one_of,
)
from kvspec.spec.lifecycle import is_append_to, release, truncate
from kvspec.spec.sessions import system
from kvspec.spec.turns import (
    Client,
    Turn,
    abort,
    busy,
    client,
    complete,
    completed,
    disconnect,
    start_turn,
    tokens,
    turn,
)

sessions = Properties(system, given=core)


def is_ready(h: Expr) -> Expr:
    """The session has not ended."""
    return phase[h] == Phase.DECODE_READY


def is_current(x: Expr, h: Expr) -> Expr:
    """The append is live and the session still has the snapshot that it captured."""
    return is_live(x) & is_append_to(x, h) & (base_version[x] == version[h])


def goes(h: Expr, before: Expr, later: Expr) -> Expr:
    """In this step the turn of a session goes from one state to the other, and the session goes on."""
    return (turn[h] == before) & (after(turn[h]) == later) & after(is_ready(h))


@sessions.invariant
def a_session_is_busy_just_while_it_has_a_turn() -> Expr:
    """No session is busy without a turn, and none has a turn without being busy."""
    return forall(Handle, lambda h: busy[h] == (turn[h] != Turn.NONE))


@sessions.invariant
def a_turn_begins_with_the_last_completed_snapshot() -> Expr:
    """Where no turn has begun to run, the rows of a session are those of its last completed turn."""
    return forall(
        Handle,
        lambda h: implies(
            is_ready(h) & one_of(turn[h], Turn.NONE, Turn.QUEUED), length[h] == completed[h]
        ),
    )


@sessions.invariant
def a_turn_keeps_the_completed_rows() -> Expr:
    """The rows of completed turns are among those of the session, whatever its turn does."""
    return forall(Handle, lambda h: implies(is_held(h), completed[h] <= length[h]))


@sessions.invariant
def a_session_is_one_token_ahead_of_its_rows() -> Expr:
    """The last token of a session has no row yet, and every other token has one."""
    return forall(Handle, lambda h: implies(is_held(h), tokens[h] == length[h] + 1))


@sessions.invariant
def sessions_and_clients_are_as_many() -> Expr:
    """Whoever holds rows has a client, connected or gone and noticed; a handle that is free has none."""
    return forall(Handle, lambda h: is_held(h) == (client[h] != Client.NONE))


@sessions.invariant
def an_ended_session_has_no_turn() -> Expr:
    """Only a ready session has a turn."""
    return forall(Handle, lambda h: implies(turn[h] != Turn.NONE, is_ready(h)))


@sessions.invariant
def a_free_handle_has_no_history() -> Expr:
    """Tokens and completed turns of a session are gone with its rows."""
    return forall(Handle, lambda h: implies(~is_held(h), (completed[h] == 0) & (tokens[h] == 0)))


@sessions.invariant
def a_turn_can_be_taken_back() -> Expr:
    """A session has no more rows beyond its completed turns than the cache can go back by."""
    return forall(Handle, lambda h: implies(is_ready(h), length[h] <= completed[h] + rewind))


@sessions.lemma
def an_append_can_be_taken_back() -> Expr:
    """An append that can still be published ends within what the cache can go back by."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_current(x, h) & is_ready(h), start[x] + count[x] <= completed[h] + rewind
        ),
    )


@sessions.lemma
def only_a_running_turn_has_appends() -> Expr:
    """An append that can still be published is of a turn that runs or was just aborted."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_current(x, h) & is_ready(h),
            one_of(turn[h], Turn.RUNNING, Turn.ABORTED),
        ),
    )


@sessions.step
def a_rollback_leaves_the_last_completed_snapshot() -> Expr:
    """After an aborted turn a session has rows and tokens of its completed turns, and no others."""
    return forall(
        Handle,
        lambda h: implies(
            goes(h, Turn.ABORTED, Turn.NONE),
            (after(length[h]) == completed[h])
            & (after(completed[h]) == completed[h])
            & (after(tokens[h]) == completed[h] + 1),
        ),
    )


@sessions.step
def a_turn_that_never_ran_changes_nothing() -> Expr:
    """A turn that is dropped from the queue leaves rows, tokens and history as they were."""
    return forall(
        Handle,
        lambda h: implies(
            goes(h, Turn.QUEUED, Turn.NONE),
            all_of(*(after(each[h]) == each[h] for each in (length, completed, tokens))),
        ),
    )


@sessions.step
def a_turn_goes_its_way() -> Expr:
    """A turn of a session that goes on is submitted, runs, and is completed or rolled back."""
    return forall(
        Handle,
        lambda h: implies(
            after(is_ready(h)) & (after(turn[h]) != turn[h]),
            any_of(
                goes(h, Turn.NONE, Turn.QUEUED),
                goes(h, Turn.QUEUED, Turn.NONE),
                goes(h, Turn.QUEUED, Turn.RUNNING),
                goes(h, Turn.RUNNING, Turn.NONE) & fired(complete),
                goes(h, Turn.RUNNING, Turn.ABORTED) & fired(abort),
                goes(h, Turn.ABORTED, Turn.NONE) & fired(truncate),
            ),
        ),
    )


@sessions.step
def a_completed_turn_is_the_new_history() -> Expr:
    """A turn that is completed leaves all its rows as completed ones."""
    return forall(
        Handle,
        lambda h: implies(goes(h, Turn.RUNNING, Turn.NONE), after(completed[h]) == length[h]),
    )


@sessions.step
def only_a_client_begins_a_turn() -> Expr:
    """A turn that is submitted has a client to read it."""
    return forall(
        Handle,
        lambda h: implies(goes(h, Turn.NONE, Turn.QUEUED), client[h] == Client.CONNECTED),
    )


@sessions.step
def a_client_that_is_gone_does_not_come_back() -> Expr:
    """A client is gone until its session is released."""
    return forall(
        Handle,
        lambda h: implies(
            (client[h] == Client.GONE) & (after(client[h]) != Client.GONE), fired(release)
        ),
    )


@sessions.step
def only_a_client_that_is_gone_is_cancelled() -> Expr:
    """No session is cancelled under a client that is connected, and none closed for one that is gone."""
    return forall(
        Handle,
        lambda h: implies(
            is_ready(h) & ~after(is_ready(h)),
            after(phase[h] == Phase.CANCELLED) == (client[h] == Client.GONE),
        ),
    )


@sessions.step
def a_session_is_not_closed_in_a_turn() -> Expr:
    """A session that finishes has no turn, and no image is restored into it."""
    return forall(
        Handle,
        lambda h: implies(
            is_ready(h) & after(phase[h] == Phase.FINISHED),
            (turn[h] == Turn.NONE) & (restore[h] == Restore.NONE),
        ),
    )


@sessions.step
def a_disconnection_is_of_a_client() -> Expr:
    """Who disconnects was connected."""
    return implies(
        fired(disconnect),
        exists(
            Handle,
            lambda h: (client[h] == Client.CONNECTED) & (after(client[h]) == Client.GONE),
        ),
    )


@sessions.step
def a_session_begins_with_its_history() -> Expr:
    """A new session has a client, and no rows but those of its history."""
    return forall(
        Handle,
        lambda h: implies(
            ~is_held(h) & after(is_held(h)),
            (after(length[h]) == after(completed[h])) & (after(client[h]) == Client.CONNECTED),
        ),
    )


@sessions.step
def a_branch_has_completed_rows_alone() -> Expr:
    """A session that branches off has no rows of a turn that its parent has not completed."""
    return forall(
        Handle,
        Handle,
        lambda c, p: implies(
            ~is_held(c) & after(is_held(c)) & (after(parent[c]) == p),
            after(length[c]) <= completed[p],
        ),
    )


@sessions.step
def a_start_is_of_a_turn_that_waits() -> Expr:
    """Whatever begins to run was queued."""
    return implies(fired(start_turn), exists(Handle, lambda h: goes(h, Turn.QUEUED, Turn.RUNNING)))
