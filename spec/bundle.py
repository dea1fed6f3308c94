"""The bundle: a request's cache with its companions, which move together or refuse.

The serving system keeps rows. Beside them a request has state that stands at a position of its own: a
recurrent state, the rows of a draft model, the state of a grammar, and the mask that this grammar lays over
the sampler's row of the batch. What the cache does to rows is done to all of them in the same step, and
refused where one cannot follow:

recurrent state   goes forward with every row, and back by at most `rollback` positions. A truncate or a fork
                  beyond that is refused, though the rows could be cut
draft rows        the draft model's own cache, written in place. A round of d drafts gives it a row for every
                  token but the last draft; a verdict trims it to the rows that stay. So it is one row behind
                  where all drafts were accepted, and level otherwise
grammar           consumes every output once, also those that a verdict accepts
mask              whose grammar the sampler's row obeys. A request without a grammar writes none, so a row
                  without a request must have none

A worker may die under a request (`cancel_request` with `dead`). The request is lost then: a fresh one on
another handle continues it, whose prompt is the old one with every output and whose grammar has consumed
these, or it is given up. Its handle is kept until one of the two has happened.

Left out: values of states, checkpoints of a recurrent state, a draft model on another worker, delivery of
outputs to the client: an output is the client's once it is emitted.
Assumed: the recurrent state of an append is staged with its rows, and thrown away with them; a state that
went back has as many earlier ones to go back to as before.
"""

from __future__ import annotations

from kvspec.spec import serving
from kvspec.spec.append import (
    Txn,
    append,
    base_version,
    begin,
    count,
    is_live,
    publish,
    start,
    target,
)
from kvspec.spec.batch import Row, batch, enter, leave, reorder, row_cache
from kvspec.spec.failures import HANDLE_TERMINAL, IN_BATCH, FailureClass
from kvspec.spec.frontier import (
    accepted,
    drafts,
    emit,
    emitted,
    frontier,
    outputs_within,
    prompt,
    stopped,
    tokens,
    verify,
)
from kvspec.spec.handles import Handle, Length, Phase, handles, length, phase, version
from kvspec.spec.language import (
    Bool,
    ErrorCode,
    Expr,
    ExtensionStep,
    Map,
    Module,
    Option,
    Step,
    System,
    exists,
    forall,
    none,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    cancel_request,
    cancel_txn,
    fork,
    is_append_to,
    lifecycle,
    release,
    truncate,
)

DRAFT_BUSY = ErrorCode(
    "DRAFT_BUSY", "the draft model is in a round of the request", int(FailureClass.NONE)
)
HAS_GRAMMAR = ErrorCode("HAS_GRAMMAR", "the request has its grammar", int(FailureClass.NONE))
NOT_LOST = ErrorCode("NOT_LOST", "the request was not lost with a worker", int(FailureClass.NONE))
STILL_LOST = ErrorCode(
    "STILL_LOST",
    "the lost request was neither continued nor given up",
    int(FailureClass.OWNERSHIP),
)
NO_ROLLBACK = ErrorCode(
    "NO_ROLLBACK",
    "the recurrent state cannot go back by so many positions",
    int(FailureClass.POSITION),
)
HAS_A_PAST = ErrorCode(
    "HAS_A_PAST", "the request has outputs or a past already", int(FailureClass.NONE)
)
NOT_A_REPLAY = ErrorCode(
    "NOT_A_REPLAY",
    "the prompt is not the lost request's with all that it emitted",
    int(FailureClass.FRONTIER),
)
NO_REPLAY = ErrorCode(
    "NO_REPLAY",
    "the grammar cannot be advanced over so many outputs elsewhere",
    int(FailureClass.FRONTIER),
)

bundle = Module(
    "bundle",
    "The companions of a request's rows.",
    uses=(handles, batch, append, lifecycle, frontier),
)

rollback = bundle.constant(
    "rollback", Length, meaning="most positions that a recurrent state can go back by"
)
replay = bundle.constant(
    "replay", Length, meaning="most outputs that a grammar can be advanced over elsewhere"
)

recurrent = bundle.variable(
    "recurrent", Handle, to=Length, init=0, meaning="position of the request's recurrent state"
)
draft_rows = bundle.variable(
    "draft_rows",
    Handle,
    to=Length,
    init=0,
    meaning="rows of the request in the draft model's cache",
)
constrained = bundle.variable(
    "constrained", Handle, to=Bool, init=False, meaning="the request came with a grammar"
)
grammar = bundle.variable(
    "grammar", Handle, to=Length, init=0, meaning="outputs that the grammar's state has consumed"
)
asked = bundle.variable(
    "asked",
    Handle,
    to=Length,
    init=0,
    meaning="tokens of the client's own prompt, where the request continues a lost one",
)
carried = bundle.variable(
    "carried",
    Handle,
    to=Length,
    init=0,
    meaning="outputs that are part of its prompt, as it continues a lost one",
)
died = bundle.variable("died", Handle, to=Bool, init=False, meaning="its worker died under it")
lost = bundle.variable(
    "lost",
    Handle,
    to=Bool,
    init=False,
    meaning="it had more to say when its worker died, and nobody settled it",
)
row_mask = bundle.variable(
    "row_mask",
    Row,
    to=Option[Handle],
    init=none(Handle),
    meaning="whose grammar masks the row's sampler",
)
drafted = bundle.variable(
    "drafted", Txn, to=Bool, init=False, meaning="the append is a round of the draft model"
)


def is_current(x: Expr, h: Expr) -> Expr:
    """The append can still be published to the handle: it is of the snapshot that the handle has."""
    return is_append_to(x, h) & (base_version[x] == version[h])


def in_round(h: Expr) -> Expr:
    """The draft model has rows of an append to the request that can still be published."""
    return exists(Txn, lambda x: is_live(x) & drafted[x] & is_current(x, h))


def at_most(value: Expr, most: Expr) -> Expr:
    """The smaller of the two."""
    return where(most < value, most, value)


def rewound(h: Expr, n: Expr) -> Expr:
    """The recurrent state brought back to n, if it can go back so far; else it stays where it is."""
    return where(recurrent[h] <= n + rollback, n, recurrent[h])


def consumed_within(h: Expr, n: Expr) -> Expr:
    """Outputs that the grammar has consumed where the first n rows stay."""
    return where(constrained[h], carried[h] + outputs_within(h, n), 0)


def kept_by_verdict(x: Expr, a: Expr) -> Expr:
    """The position behind the rows that stay when a drafts are accepted."""
    return start[x] + count[x] + a - drafts[x]


@bundle.action
def attach(step: Step, h: Handle) -> None:
    """The request's grammar is ready: it begins before the first output, and outside the batch."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require((emitted[h] == 0) & (asked[h] == 0), HAS_A_PAST)
    step.require(~constrained[h], HAS_GRAMMAR)
    step.require(forall(Row, lambda r: row_cache[r] != h), IN_BATCH)
    step.assign(constrained[h], True)


@bundle.extend(fork)
def fork_companions(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Children have every companion at their length, or none of them is made."""
    step.require(recurrent[p] <= n + rollback, NO_ROLLBACK)
    for c in step.every(Handle):
        step.assign(recurrent[c], where(children[c], rewound(p, n), recurrent[c]))
        step.assign(draft_rows[c], where(children[c], at_most(draft_rows[p], n), draft_rows[c]))
        step.assign(constrained[c], where(children[c], constrained[p], constrained[c]))
        step.assign(grammar[c], where(children[c], consumed_within(p, n), grammar[c]))
        step.assign(asked[c], where(children[c], asked[p], asked[c]))
        step.assign(carried[c], where(children[c], carried[p], carried[c]))


@bundle.extend(truncate)
def truncate_companions(step: Step, h: Handle, n: Length) -> None:
    """Every companion goes back with the rows, or the rows stay."""
    step.require(recurrent[h] <= n + rollback, NO_ROLLBACK)
    step.assign(recurrent[h], rewound(h, n))
    step.assign(draft_rows[h], at_most(draft_rows[h], n))
    step.assign(grammar[h], consumed_within(h, n))


@bundle.extend(begin)
def begin_round(step: Step, x: Txn, h: Handle, p: Length, n: Length) -> None:
    """Rows beyond the known tokens are drafts: the draft model has rows for all tokens but the last.

    It has them in place, so that a request has one round at a time.
    """
    drafts_some = tokens(h) < p + n
    step.require(~(drafts_some & in_round(h)), DRAFT_BUSY)
    step.assign(drafted[x], drafts_some)
    step.assign(draft_rows[h], where(drafts_some, p + n - 1, draft_rows[h]))


@bundle.extend(verify)
def trim_drafts(step: Step, x: Txn, a: Length) -> None:
    """The draft model keeps the rows of accepted drafts, but for the last draft, which has none."""
    h = the(target[x])
    step.assign(
        draft_rows[h],
        where(is_current(x, h), at_most(draft_rows[h], kept_by_verdict(x, a)), draft_rows[h]),
    )


def end_round(step: Step, x: Expr) -> None:
    """The append is no round any more, and what the draft model had beyond the rows is gone."""
    h = the(target[x])
    ends = drafted[x] & is_current(x, h)
    step.assign(draft_rows[h], where(ends, at_most(draft_rows[h], length[h]), draft_rows[h]))
    step.assign(drafted[x], False)


@bundle.extend(publish)
def publish_companions(step: ExtensionStep, x: Txn) -> None:
    """Companions go forward with the rows; the draft model has processed those of an ordinary append too."""
    h = the(target[x])
    step.refused(lambda effect: end_round(effect, x))
    step.assign(recurrent[h], start[x] + count[x])
    step.assign(draft_rows[h], where(drafted[x], draft_rows[h], start[x] + count[x]))
    step.assign(grammar[h], where(constrained[h], grammar[h] + accepted[x], grammar[h]))
    step.assign(drafted[x], False)


@bundle.extend(cancel_txn)
def cancel_round(step: Step, x: Txn) -> None:
    """The draft model's rows for the append go with it."""
    end_round(step, x)


@bundle.extend(cancel_request)
def end_early(step: Step, h: Handle, dead: Bool) -> None:
    """A request that has more to say is lost if its worker died, and just over if its client cancels."""
    step.assign(died[h], dead)
    step.assign(lost[h], dead & ~stopped[h])
    step.assign(draft_rows[h], at_most(draft_rows[h], length[h]))
    for x in step.every(Txn):
        ends = is_live(x) & is_append_to(x, h)
        step.assign(drafted[x], where(ends, False, drafted[x]))


@bundle.extend(release)
def release_companions(step: Step, h: Handle) -> None:
    """Companions go with the rows; a lost request keeps its handle until it is settled."""
    step.require(~lost[h], STILL_LOST)
    for variable in (recurrent, draft_rows, grammar, asked, carried):
        step.assign(variable[h], 0)
    step.assign(constrained[h], False)
    step.assign(died[h], False)


@bundle.extend(emit)
def consume(step: Step, h: Handle) -> None:
    """The grammar consumes the output."""
    step.assign(grammar[h], where(constrained[h], grammar[h] + 1, grammar[h]))


@bundle.extend(enter)
def lay_mask(step: Step, r: Row, h: Handle) -> None:
    """A request with a grammar masks its row; one without relies on the row's being neutral."""
    step.assign(row_mask[r], where(constrained[h], h, row_mask[r]))


@bundle.extend(leave)
def lift_mask(step: Step, h: Handle) -> None:
    """The row is neutral again."""
    for r in step.every(Row):
        step.assign(row_mask[r], where(row_cache[r] == h, None, row_mask[r]))


@bundle.extend(reorder)
def move_masks(step: Step, source: Map[Row, Row]) -> None:
    """The mask moves with the request: a row that gets nobody gets no mask."""
    for r in step.every(Row):
        step.assign(row_mask[r], row_mask[source[r]])


@bundle.action
def resume(step: Step, h: Handle, s: Handle) -> None:
    """A fresh request goes on where a lost one ended: its prompt is all tokens, its grammar has seen them."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(lost[s], NOT_LOST)
    step.require((emitted[h] == 0) & (asked[h] == 0), HAS_A_PAST)
    step.require(forall(Row, lambda r: row_cache[r] != h), IN_BATCH)
    step.require(prompt[h] == tokens(s), NOT_A_REPLAY)
    step.require(grammar[s] <= replay, NO_REPLAY)
    step.assign(asked[h], where(asked[s] == 0, prompt[s], asked[s]))
    step.assign(carried[h], carried[s] + emitted[s])
    step.assign(constrained[h], constrained[s])
    step.assign(grammar[h], where(grammar[s] <= replay, grammar[s], 0))
    step.assign(lost[s], False)


@bundle.action
def give_up(step: Step, h: Handle) -> None:
    """Nobody waits for the lost request any more: its client cancelled, or waited long enough."""
    step.require(lost[h], NOT_LOST)
    step.assign(lost[h], False)


system = System.of(
    "bundle",
    "The serving system with the companions of its rows.",
    *serving.system.modules,
    bundle,
)
