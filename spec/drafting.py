"""Drafting: speculative rounds in a cache whose rows are written in place, and cut back by counts.

A round writes one row for the last known token and d for drafts behind it. The target accepts the first a
of the drafts, and the rows of the others are cut. The accepted ones, and one token more that the target chose
itself, are given to the client one by one. When the round is closed, rows of what the client did not get are
cut by the counts of the round: how many drafts it has, and how many tokens it delivered. The position counter
goes on by what was delivered. The last output is one that says so, or the one that fills the context.

Beside the rows stands a recurrent state, which goes forward with every one of them and cannot be cut: it goes
back to an earlier value. The last `kept` of these are kept, and one that was gone back past is not there any
more, so that a state that went back can go back less far. A round is as long as it can be undone.

Modelled: any number of drafts, none included, and any accepted count; a stop before the round is delivered
to its end; cancel at every point of a round; a verdict that never comes; truncation between rounds; the key
under which the rows of an ended request are found.
Left out: which tokens are drafted and chosen, trees of drafts, steps in flight behind a round (`run_ahead`).
Assumed: the prompt has its rows, and its first output is out, when a request is opened.

In the core the rows of an append lie apart until they are published, and `frontier` has drafts there: nothing
needs to be cut. Here they lie in the request's own rows, so that the counts decide what it has.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    BEYOND_COMMITTED,
    CONTEXT_FULL,
    EMPTY_PROMPT,
    HANDLE_LIVE,
    OUTPUT_STOPPED,
    PROMPT_TOO_LONG,
    TOO_MANY_DRAFTS,
    FailureClass,
    error_code,
)
from kvspec.spec.handles import Handle, Length, context
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Step,
    System,
    instance,
    member,
    where,
)
from kvspec.spec.run_ahead import NOT_PENDING, NOT_STOPPED, Output


class Outcome(Enum):
    """What became of the request of a handle."""

    NEW = member()
    PENDING = member()
    FINISHED = member()
    CANCELLED = member()


class Point(Enum):
    """Where a request is in a round."""

    BETWEEN = member()
    DRAFTED = member()
    VERIFIED = member()


ROUND_OPEN = error_code("ROUND_OPEN", "a round of the request is open")
NO_VERDICT_DUE = error_code("NO_VERDICT_DUE", "no drafts of the request wait for a verdict")
NOT_VERIFIED = error_code("NOT_VERIFIED", "no verdict of an open round is there")
ALL_DELIVERED = error_code("ALL_DELIVERED", "every token of the round was delivered")
UNDELIVERED = error_code("UNDELIVERED", "tokens of the round are to be delivered")
NO_ROLLBACK = error_code(
    "NO_ROLLBACK",
    "the recurrent state cannot go back by so many positions",
    FailureClass.POSITION,
)

drafting = Module("drafting", "Speculative rounds in a cache that is written in place.")
drafting.share(context)

kept = drafting.constant(
    "kept", Length, meaning="earlier values of a recurrent state that are kept"
)

outcome = drafting.variable(
    "outcome", Handle, to=Outcome, init=Outcome.NEW, meaning="what became of the request"
)
point = drafting.variable(
    "point", Handle, to=Point, init=Point.BETWEEN, meaning="where it is in a round"
)
written = drafting.variable(
    "written", Handle, to=Length, init=0, meaning="rows in the cache, those of open drafts too"
)
position = drafting.variable(
    "position", Handle, to=Length, init=0, meaning="position of the next row, as the host counts"
)
known = drafting.variable(
    "known", Handle, to=Length, init=0, meaning="tokens that the client has, the prompt included"
)
drafts = drafting.variable(
    "drafts", Handle, to=Length, init=0, meaning="drafts of the last round that were not rejected"
)
delivered = drafting.variable(
    "delivered", Handle, to=Length, init=0, meaning="tokens of the last round that the client has"
)
stopped = drafting.variable(
    "stopped", Handle, to=Bool, init=False, meaning="the last output is out"
)
key = drafting.variable(
    "key", Handle, to=Length, init=0, meaning="tokens under which its rows are found"
)

state = drafting.variable(
    "state", Handle, to=Length, init=0, meaning="rows that the recurrent state has taken in"
)
oldest = drafting.variable(
    "oldest", Handle, to=Length, init=0, meaning="rows of the oldest value of it that is kept"
)


def brought_back(h: Expr, n: Expr) -> Expr:
    """The recurrent state behind n rows, if that value is kept; else it stays where it is."""
    return where(oldest[h] <= n, n, state[h])


def oldest_behind(h: Expr, n: Expr) -> Expr:
    """The oldest value that is kept when the state has gone forward to n rows."""
    return where(oldest[h] + kept < n, n - kept, oldest[h])


def cut(h: Expr) -> Expr:
    """Rows of the open round that are not for a token before the last one that the client has."""
    return where(point[h] == Point.BETWEEN, 0, 1 + drafts[h] - delivered[h])


def gained(h: Expr) -> Expr:
    """Rows of the open round that stay."""
    return where(point[h] == Point.BETWEEN, 0, delivered[h])


@drafting.action
def admit(step: Step, h: Handle, p: Length) -> None:
    """A request comes with the rows of its prompt of p tokens, and one output that is not its last."""
    step.require(outcome[h] == Outcome.NEW, HANDLE_LIVE)
    step.require(p >= 1, EMPTY_PROMPT)
    step.require(p + 2 <= context, PROMPT_TOO_LONG)
    step.assign(outcome[h], Outcome.PENDING)
    step.assign(written[h], p)
    step.assign(position[h], p)
    step.assign(known[h], p + 1)
    step.assign(state[h], p)
    step.assign(oldest[h], oldest_behind(h, p))


@drafting.action
def draft(step: Step, h: Handle, d: Length) -> None:
    """Open a round: write a row for the last known token, and one for each of d drafts."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.require(point[h] == Point.BETWEEN, ROUND_OPEN)
    step.require(1 + d <= kept, NO_ROLLBACK)
    step.require(written[h] + 1 + d <= context, CONTEXT_FULL)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.assign(point[h], Point.DRAFTED)
    step.assign(written[h], written[h] + 1 + d)
    step.assign(drafts[h], d)
    step.assign(delivered[h], 0)
    step.assign(state[h], written[h] + 1 + d)
    step.assign(oldest[h], oldest_behind(h, written[h] + 1 + d))


@drafting.action
def verify(step: Step, h: Handle, a: Length) -> None:
    """The target accepts the first a drafts, and the rows of the others are cut."""
    step.require(point[h] == Point.DRAFTED, NO_VERDICT_DUE)
    step.require(a <= drafts[h], TOO_MANY_DRAFTS)
    step.assign(point[h], Point.VERIFIED)
    step.assign(written[h], written[h] - drafts[h] + a)
    step.assign(drafts[h], a)
    step.assign(state[h], brought_back(h, written[h] - drafts[h] + a))


@drafting.action
def deliver(step: Step, h: Handle, t: Output) -> None:
    """Give the client the next token of the round: an accepted draft, or the target's own behind them."""
    step.require(point[h] == Point.VERIFIED, NOT_VERIFIED)
    step.require(delivered[h] <= drafts[h], ALL_DELIVERED)
    step.require(~stopped[h], OUTPUT_STOPPED)
    last = (t == Output.STOP) | (known[h] + 1 >= context)
    step.assign(known[h], known[h] + 1)
    step.assign(delivered[h], delivered[h] + 1)
    step.assign(stopped[h], where(last, True, stopped[h]))


@drafting.action
def close(step: Step, h: Handle) -> None:
    """End a round: cut the rows of drafts that the client did not get, and go on by those that it did."""
    step.require(point[h] == Point.VERIFIED, NOT_VERIFIED)
    step.require(stopped[h] | (delivered[h] == drafts[h] + 1), UNDELIVERED)
    step.assign(point[h], Point.BETWEEN)
    step.assign(written[h], written[h] - cut(h))
    step.assign(state[h], brought_back(h, written[h] - cut(h)))
    step.assign(position[h], position[h] + gained(h))


@drafting.action
def lose(step: Step, h: Handle) -> None:
    """The verdict never comes: the round is as if it had not been."""
    step.require(point[h] == Point.DRAFTED, NO_VERDICT_DUE)
    step.assign(point[h], Point.BETWEEN)
    step.assign(written[h], written[h] - cut(h))
    step.assign(state[h], brought_back(h, written[h] - cut(h)))


@drafting.action
def truncate(step: Step, h: Handle, n: Length) -> None:
    """Go back to the first n rows between rounds; the client keeps their tokens and the next one."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.require(point[h] == Point.BETWEEN, ROUND_OPEN)
    step.require((n >= 1) & (n < written[h]), BEYOND_COMMITTED)
    step.require(oldest[h] <= n, NO_ROLLBACK)
    step.assign(written[h], n)
    step.assign(position[h], n)
    step.assign(known[h], n + 1)
    step.assign(drafts[h], 0)
    step.assign(delivered[h], 0)
    step.assign(stopped[h], False)
    step.assign(state[h], brought_back(h, n))


@drafting.action
def finish(step: Step, h: Handle) -> None:
    """End a request behind its last output; its rows are found under as many tokens."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.require(point[h] == Point.BETWEEN, ROUND_OPEN)
    step.require(stopped[h], NOT_STOPPED)
    step.assign(outcome[h], Outcome.FINISHED)
    step.assign(key[h], written[h])


@drafting.action
def cancel(step: Step, h: Handle) -> None:
    """End a request at any point of a round: what the client did not get is cut, the rest is found again."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.assign(outcome[h], Outcome.CANCELLED)
    step.assign(point[h], Point.BETWEEN)
    step.assign(written[h], written[h] - cut(h))
    step.assign(state[h], brought_back(h, written[h] - cut(h)))
    step.assign(position[h], position[h] + gained(h))
    step.assign(key[h], written[h] - cut(h))


system = System.of("drafting", "Speculative rounds in a cache written in place.", drafting)


def make_instance(
    name: str,
    doc: str = "",
    *,
    handles: int = 1,
    longest: int = 4,
    values: int | None = None,
    expected: Counts | None = None,
) -> Instance:
    """An instance by its sizes; lengths go beyond the context, so that a rule that passes it is seen to."""
    return instance(
        name,
        system,
        {Handle: handles, Length: longest + 2},
        constants={context: longest, kept: longest if values is None else values},
        expected=expected,
        doc=doc,
    )


ROUNDS = make_instance(
    "ROUNDS",
    "one request and rounds of up to four drafts",
    longest=6,
    expected=Counts(227, 488, 9, 96),
)
COUPLE = make_instance(
    "COUPLE",
    "two requests, rounds of up to one draft",
    handles=2,
    longest=3,
    expected=Counts(289, 1_020, 12, 36),
)
SHORT = make_instance(
    "SHORT",
    "one request whose recurrent state keeps two earlier values",
    longest=6,
    values=2,
    expected=Counts(145, 275, 7, 56),
)

INSTANCES = (ROUNDS, COUPLE, SHORT)
