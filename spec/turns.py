"""Turns: what a client asks of a session, and what an aborted turn leaves behind.

A request of the core is a session here, which keeps its handle from turn to turn. A client that is connected
submits a turn; the session is busy until the turn is completed, or dropped from the queue, or aborted and
rolled back to the last completed snapshot; so that it can be, no turn has more rows than the cache can go
back by. A client that is gone never comes back: its session is cancelled.

Modelled: abort and time limit in the queue and while rows are generated, disconnection at any time. The last
token of a session has no row yet; a session begins with one token. Left out: token values, several turns in
the queue of one session.
Assumed: a publication of n rows comes with n more tokens.
"""

from __future__ import annotations

from kvspec.spec.append import Txn, append, begin, count, is_live, publish, target
from kvspec.spec.failures import HANDLE_TERMINAL, FailureClass, error_code
from kvspec.spec.handles import Handle, Length, Phase, handles, length, phase, rewind
from kvspec.spec.language import (
    Bool,
    Enum,
    Expr,
    Map,
    Module,
    Natural,
    Step,
    forall,
    member,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    finish,
    fork,
    is_append_to,
    lifecycle,
    release,
    truncate,
)


class Token(Natural):
    """Tokens of a session."""


class Client(Enum):
    """Whether a session has a client."""

    NONE = member()
    CONNECTED = member()
    GONE = member()


class Turn(Enum):
    """Where the turn of a session is."""

    NONE = member()
    QUEUED = member()
    RUNNING = member()
    ABORTED = member()


CLIENT_GONE = error_code("CLIENT_GONE", "the session has no client any more")
CLIENT_CONNECTED = error_code("CLIENT_CONNECTED", "the client of the session is still there")
SESSION_BUSY = error_code("SESSION_BUSY", "the session has a turn")
TURN_NOT_QUEUED = error_code("TURN_NOT_QUEUED", "no turn of the session is queued")
TURN_NOT_RUNNING = error_code("TURN_NOT_RUNNING", "no turn of the session runs")
NOT_ABORTED = error_code("NOT_ABORTED", "no turn of the session was aborted")
APPEND_LIVE = error_code("APPEND_LIVE", "an append of the turn has not ended")
NOT_COMPLETED = error_code(
    "NOT_COMPLETED", "these are not the rows of the last completed turn", FailureClass.POSITION
)
BEYOND_COMPLETED = error_code(
    "BEYOND_COMPLETED", "some rows are of a turn that is not completed", FailureClass.POSITION
)
TURN_TOO_LONG = error_code(
    "TURN_TOO_LONG",
    "the turn would have more rows than the cache can go back by",
    FailureClass.FRONTIER,
)

turns = Module("turns", "Sessions and their turns.", uses=(handles, append, lifecycle))

client = turns.variable(
    "client", Handle, to=Client, init=Client.NONE, meaning="whether the session has a client"
)
turn = turns.variable(
    "turn", Handle, to=Turn, init=Turn.NONE, meaning="where the turn of the session is"
)
busy = turns.variable(
    "busy", Handle, to=Bool, init=False, meaning="the session takes no other turn"
)
completed = turns.variable(
    "completed", Handle, to=Length, init=0, meaning="rows at the end of the last completed turn"
)
tokens = turns.variable(
    "tokens", Handle, to=Token, init=0, meaning="tokens of the session, the last one without row"
)


def end_turn(step: Step, h: Expr) -> None:
    """The session has no turn and takes another one."""
    step.assign(turn[h], Turn.NONE)
    step.assign(busy[h], False)


@turns.extend(allocate)
def open_session(step: Step, h: Handle) -> None:
    """A client opens a session, which has one token and no row."""
    step.assign(client[h], Client.CONNECTED)
    step.assign(tokens[h], 1)


@turns.extend(fork)
def branch_session(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Children are sessions that begin with rows of completed turns of their parent."""
    step.require(n <= completed[p], BEYOND_COMPLETED)
    for c in step.every(Handle):
        step.assign(client[c], where(children[c], Client.CONNECTED, client[c]))
        step.assign(completed[c], where(children[c], n, completed[c]))
        step.assign(tokens[c], where(children[c], n + 1, tokens[c]))


@turns.action
def submit(step: Step, h: Handle) -> None:
    """The client submits a turn, and the session is busy from now on."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(client[h] == Client.CONNECTED, CLIENT_GONE)
    step.require(~busy[h], SESSION_BUSY)
    step.assign(turn[h], Turn.QUEUED)
    step.assign(busy[h], True)


@turns.action
def drop_queued(step: Step, h: Handle) -> None:
    """A turn that waits is aborted, or has waited too long: it never ran."""
    step.require(turn[h] == Turn.QUEUED, TURN_NOT_QUEUED)
    end_turn(step, h)


@turns.action
def start_turn(step: Step, h: Handle) -> None:
    """A turn that waits begins to run."""
    step.require(turn[h] == Turn.QUEUED, TURN_NOT_QUEUED)
    step.assign(turn[h], Turn.RUNNING)


@turns.extend(begin)
def begin_in_a_turn(step: Step, h: Handle, p: Length, n: Length) -> None:
    """Rows are appended by a turn that runs, and no more than can be taken back."""
    step.require(turn[h] == Turn.RUNNING, TURN_NOT_RUNNING)
    step.require(p + n <= completed[h] + rewind, TURN_TOO_LONG)


@turns.extend(publish)
def publish_tokens(step: Step, x: Txn) -> None:
    """As many tokens as rows are new."""
    step.assign(tokens[the(target[x])], tokens[the(target[x])] + count[x])


@turns.action
def complete(step: Step, h: Handle) -> None:
    """A turn is completed: its snapshot is what the next turn begins with."""
    step.require(turn[h] == Turn.RUNNING, TURN_NOT_RUNNING)
    step.require(
        forall(Txn, lambda x: ~(is_live(x) & is_append_to(x, h))),
        APPEND_LIVE,
    )
    end_turn(step, h)
    step.assign(completed[h], length[h])


@turns.action
def abort(step: Step, h: Handle) -> None:
    """A turn that runs is given up: the client asks for it, is gone, or has waited too long."""
    step.require(turn[h] == Turn.RUNNING, TURN_NOT_RUNNING)
    step.assign(turn[h], Turn.ABORTED)


@turns.extend(truncate)
def roll_back(step: Step, h: Handle, n: Length) -> None:
    """The rows and tokens of an aborted turn are cut, and the session takes the next turn."""
    step.require(turn[h] == Turn.ABORTED, NOT_ABORTED)
    step.require(n == completed[h], NOT_COMPLETED)
    end_turn(step, h)
    step.assign(tokens[h], n + 1)


@turns.action
def disconnect(step: Step, h: Handle) -> None:
    """The client of a session is gone, whatever the session does."""
    step.require(client[h] == Client.CONNECTED, CLIENT_GONE)
    step.assign(client[h], Client.GONE)


@turns.extend(finish)
def close_session(step: Step, h: Handle) -> None:
    """The client closes a session in which nothing is going on."""
    step.require(client[h] == Client.CONNECTED, CLIENT_GONE)
    step.require(~busy[h], SESSION_BUSY)


@turns.extend(cancel_request)
def cancel_session(step: Step, h: Handle) -> None:
    """The session of a client that is gone ends with its turn."""
    step.require(client[h] == Client.GONE, CLIENT_CONNECTED)
    end_turn(step, h)


@turns.extend(release)
def release_session(step: Step, h: Handle) -> None:
    """Client, turns and tokens of a session go with its rows."""
    step.assign(client[h], Client.NONE)
    step.assign(completed[h], 0)
    step.assign(tokens[h], 0)
