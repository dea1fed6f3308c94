"""Frontiers: how far the output may run ahead of the rows, and which rows may stand for which tokens.

A request has a prompt and the tokens that it emitted; the logical tokens are both. A row of an append is
for a token of these, or for a draft behind them. The target's verdict on drafts (`verify`) keeps those that
it accepts and throws the rows of the others away; the accepted ones are emitted in the step that publishes
their rows. What the target chooses instead is emitted by `emit`, and gets its row by an append of its own,
like every output. After the last output an append may still close the gap (repair): its logits are not used.

Modelled: at most one emitted token has no row yet. Chunks of a prompt, decode, cached continuation, drafts
and repair are appends. Fork and truncate cut the output with the rows, all but the token whose turn it is.
Left out: which token is chosen, how drafts are made, when a request stops.
Assumed: the rows of an append are computed for the tokens it names, the last `drafts` of them for drafts;
`own` counts the leading rows of a request that were computed for the tokens which came to stand there, as far
as the last step could tell: that it is never less than the committed length is claimed of every state.
An append that was verified keeps, and a retry of it names, the interval of the rows that stay.
"""

from __future__ import annotations

from kvspec.spec.append import (
    CAPTURED,
    Txn,
    TxnState,
    append,
    begin,
    count,
    discard,
    is_live,
    k_end,
    publish,
    start,
    state,
    target,
    v_end,
)
from kvspec.spec.failures import (
    EMPTY_APPEND,
    EMPTY_PROMPT,
    HANDLE_TERMINAL,
    NO_DRAFT,
    NO_LOGITS,
    NOT_PREPARED,
    OUTPUT_STOPPED,
    PROMPT_TOO_LONG,
    STALE_FRONTIER,
    TOO_MANY_DRAFTS,
    UNKNOWN_TOKEN,
    UNVERIFIED_DRAFT,
)
from kvspec.spec.formulas import logical_tokens
from kvspec.spec.handles import Handle, Layer, Length, Phase, context, handles, length, phase
from kvspec.spec.language import (
    TRUE,
    Bool,
    Expr,
    ExtensionStep,
    Map,
    Module,
    Step,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    cancel_txn,
    fork,
    is_append_to,
    lifecycle,
    release,
    truncate,
)

frontier = Module(
    "frontier",
    "Outputs, drafts and the rows that stand for them.",
    uses=(handles, append, lifecycle),
    writes=(state, count, k_end, v_end, *(variable for variable, _ in CAPTURED)),
)

prompt = frontier.variable("prompt", Handle, to=Length, init=0, meaning="tokens of the prompt")
emitted = frontier.variable(
    "emitted", Handle, to=Length, init=0, meaning="output tokens that were emitted"
)
stopped = frontier.variable(
    "stopped", Handle, to=Bool, init=False, meaning="the last output was emitted"
)
own = frontier.variable(
    "own",
    Handle,
    to=Length,
    init=0,
    meaning="leading rows that were computed for the tokens at their positions",
)
drafts = frontier.variable(
    "drafts", Txn, to=Length, init=0, meaning="last rows of the append that are for drafts"
)
accepted = frontier.variable(
    "accepted", Txn, to=Length, init=0, meaning="drafts that the target accepted"
)
base_tokens = frontier.variable(
    "base_tokens", Txn, to=Length, init=0, meaning="logical tokens of the handle at begin"
)


def tokens(h: Expr) -> Expr:
    """Logical tokens of a request: its prompt and what it emitted."""
    return logical_tokens(prompt[h], emitted[h])


def outputs_within(h: Expr, n: Expr) -> Expr:
    """Outputs that stay with the first n rows: those that have a row, and the one whose turn it is."""
    kept = where(tokens(h) <= n + 1, emitted[h], n + 1 - prompt[h])
    return where(n < prompt[h], 0, kept)


def forget_drafts(step: Step, x: Expr, *, verified: bool = False, hit: Expr = TRUE) -> None:
    """Where `hit`, the append has no drafts any more; a verified one has none that are open."""
    for variable in (accepted, base_tokens) if verified else (drafts, accepted, base_tokens):
        step.assign(variable[x], 0 if hit is TRUE else where(hit, 0, variable[x]))


@frontier.extend(allocate)
def allocate_prompt(step: Step, h: Handle, p: Length) -> None:
    """The request comes with a prompt of p tokens."""
    step.require(p >= 1, EMPTY_PROMPT)
    step.require(p <= context, PROMPT_TOO_LONG)
    step.assign(prompt[h], p)


@frontier.extend(fork)
def fork_outputs(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Children have the parent's prompt, and the outputs that belong to their rows."""
    for c in step.every(Handle):
        step.assign(prompt[c], where(children[c], prompt[p], prompt[c]))
        step.assign(emitted[c], where(children[c], outputs_within(p, n), emitted[c]))
        step.assign(own[c], where(children[c], n, own[c]))


@frontier.extend(truncate)
def truncate_outputs(step: Step, h: Handle, n: Length) -> None:
    """The outputs are cut with the rows; generation goes on if an output was cut."""
    step.assign(emitted[h], outputs_within(h, n))
    step.assign(stopped[h], where(outputs_within(h, n) == emitted[h], stopped[h], False))
    step.assign(own[h], n)


@frontier.extend(release)
def release_outputs(step: Step, h: Handle) -> None:
    """Prompt and outputs go with the rows."""
    step.assign(prompt[h], 0)
    step.assign(emitted[h], 0)
    step.assign(stopped[h], False)
    step.assign(own[h], 0)


@frontier.extend(begin)
def begin_tokens(step: Step, x: Txn, h: Handle, p: Length, n: Length, d: Length) -> None:
    """The rows are for known tokens, but for the last d, which are for drafts behind all of these."""
    known = where(d == 0, p + n <= tokens(h), p + n == tokens(h) + d)
    step.require((d <= n) & known, UNKNOWN_TOKEN)
    step.assign(drafts[x], d)
    step.assign(base_tokens[x], tokens(h))


@frontier.action
def verify(step: Step, x: Txn, a: Length) -> None:
    """The target accepts the first a drafts; rows of the others are thrown away."""
    step.require(state[x] == TxnState.PREPARED, NOT_PREPARED)
    step.require(count[x] + a >= drafts[x] + 1, EMPTY_APPEND)
    step.require(drafts[x] >= 1, NO_DRAFT)
    step.require(a <= drafts[x], TOO_MANY_DRAFTS)
    step.assign(count[x], count[x] + a - drafts[x])
    step.assign(drafts[x], 0)
    step.assign(accepted[x], a)
    for layer in step.every(Layer):
        step.assign(k_end[x, layer], k_end[x, layer] + a - drafts[x])
        step.assign(v_end[x, layer], v_end[x, layer] + a - drafts[x])


@frontier.extend(publish)
def publish_outputs(step: ExtensionStep, x: Txn) -> None:
    """Accepted drafts are emitted with their rows; rows of other drafts are never published."""
    h = the(target[x])

    def reject(effect: Step) -> None:
        discard(effect, x, TxnState.REJECTED)
        forget_drafts(effect, x, verified=True)

    moved = base_tokens[x] != tokens(h)
    step.refused(lambda effect: forget_drafts(effect, x))
    step.require(drafts[x] == 0, UNVERIFIED_DRAFT)
    step.require((accepted[x] == 0) | ~moved, STALE_FRONTIER, refused=reject)
    step.require((accepted[x] == 0) | ~stopped[h], OUTPUT_STOPPED, refused=reject)
    sound = start[x] + count[x] - drafts[x] - where(moved, accepted[x], 0)
    step.assign(emitted[h], emitted[h] + accepted[x])
    step.assign(own[h], sound)
    forget_drafts(step, x, verified=True)


@frontier.extend(cancel_txn)
def cancel_drafts(step: Step, x: Txn) -> None:
    """Drafts go with the append."""
    forget_drafts(step, x)


@frontier.extend(cancel_request)
def cancel_all_drafts(step: Step, h: Handle) -> None:
    """Drafts go with the appends."""
    for x in step.every(Txn):
        forget_drafts(step, x, hit=is_live(x) & is_append_to(x, h))


@frontier.action
def emit(step: Step, h: Handle) -> None:
    """Emit the next output, once the prompt and every output before it have their rows."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(tokens(h) <= length[h], NO_LOGITS)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.assign(emitted[h], emitted[h] + 1)


@frontier.action
def stop(step: Step, h: Handle) -> None:
    """The last output was emitted; its row may still be appended, and nothing more is emitted."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.assign(stopped[h], True)
