"""The canonical lifecycle: the vector Sigma that every runtime is compared with, and its operations.

Sigma has eight coordinates for each handle: request identity, handle generation, snapshot version, emitted
outputs O, committed K/V rows K, phase, terminal output F and closed ownership R. `prompt` stands beside
them: it fixes how many rows belong to tokens that nobody emitted. An operation changes the coordinates
that its name says and no other; publication of rows and emission of an output are two operations, and so
are the end of the output and the release of the rows.

Left out: tokens and rows as such, layers and transactions (the core system has them), blocks, tiers and
everything else that is physical, chunked prefill, several receipts for one publication.
Assumed: a token that is emitted is not taken back but by truncate. A publication after a retraction
commits the rows of every token known by then.
"""

from __future__ import annotations

from kvspec.spec.handles import Generation, Handle, Length, Version
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Module,
    Open,
    Option,
    Step,
    System,
    instance,
    limit,
    member,
    none,
    one_of,
    where,
)


class Request(Open):
    """A request identity, as a client knows it."""


class Stage(Enum):
    """Where a handle is in the canonical lifecycle."""

    VACANT = member()
    NEW = member()
    DECODE_READY = member()
    FINISHED_RETAINED = member()
    RELEASED = member()


canonical = Module("canonical", "The canonical vector of each handle, and what changes it.")
longest = canonical.constant("longest", Length, meaning="most rows that a request may commit")

identity = canonical.variable(
    "identity",
    Handle,
    to=Option[Request],
    init=none(Request),
    meaning="request that holds the handle",
)
generation = canonical.variable(
    "generation", Handle, to=Generation, init=0, meaning="releases of the handle so far"
)
snapshot = canonical.variable(
    "snapshot", Handle, to=Version, init=0, meaning="publications and cuts of the request so far"
)
outputs = canonical.variable("outputs", Handle, to=Length, init=0, meaning="emitted outputs: O")
committed = canonical.variable(
    "committed", Handle, to=Length, init=0, meaning="rows committed in all layers: K"
)
stage = canonical.variable(
    "stage", Handle, to=Stage, init=Stage.VACANT, meaning="phase of the request"
)
terminal = canonical.variable(
    "terminal", Handle, to=Bool, init=False, meaning="the output has ended: F"
)
closed = canonical.variable(
    "closed", Handle, to=Bool, init=False, meaning="logical ownership is given up: R"
)
prompt = canonical.variable(
    "prompt", Handle, to=Length, init=0, meaning="tokens of the prompt; beside Sigma"
)

SIGMA = (identity, generation, snapshot, outputs, committed, stage, terminal, closed)
"""The coordinates, in the order of the vector."""

HANDLE_HELD = ErrorCode("HANDLE_HELD", "a request holds the handle")
EMPTY_PROMPT = ErrorCode("EMPTY_PROMPT", "the prompt has no token")
PROMPT_TOO_LONG = ErrorCode(
    "PROMPT_TOO_LONG", "the prompt has more tokens than a request may commit"
)
NOT_NEW = ErrorCode("NOT_NEW", "the request does not wait for its first rows")
NOT_READY = ErrorCode("NOT_READY", "the request is not ready to decode")
ROW_MISSING = ErrorCode("ROW_MISSING", "the last known token has no row yet, so nothing follows it")
NO_TOKEN = ErrorCode("NO_TOKEN", "no emitted token waits for its row")
NO_ROWS = ErrorCode("NO_ROWS", "the publication has no row")
NO_ROOM = ErrorCode("NO_ROOM", "the request would commit more rows than it may")
CUTS_PROMPT = ErrorCode("CUTS_PROMPT", "the cut goes into the prompt")
NOT_SHORTER = ErrorCode("NOT_SHORTER", "the cut keeps every row")
SAME_HANDLE = ErrorCode("SAME_HANDLE", "a request cannot take its own place")
OTHER_PROMPT = ErrorCode("OTHER_PROMPT", "the two requests have prompts of different lengths")
ENDED = ErrorCode("ENDED", "the output of the request has ended, or there is no request")
NOT_ENDED = ErrorCode("NOT_ENDED", "the output of the request has not ended, or it is released")


@canonical.action
def allocate(step: Step, h: Handle, r: Request, n: Length) -> None:
    """Give a handle that nobody holds to a request with a prompt of n tokens; no row exists yet."""
    step.require(one_of(stage[h], Stage.VACANT, Stage.RELEASED), HANDLE_HELD)
    step.require(n >= 1, EMPTY_PROMPT)
    step.require(n <= longest, PROMPT_TOO_LONG)
    step.assign(identity[h], r)
    step.assign(snapshot[h], 0)
    step.assign(stage[h], Stage.NEW)
    step.assign(terminal[h], False)
    step.assign(closed[h], False)
    step.assign(prompt[h], n)


@canonical.action
def prefill_publish(step: Step, h: Handle) -> None:
    """Commit the rows of every token known so far: the prompt, and after a retraction the outputs too."""
    step.require(stage[h] == Stage.NEW, NOT_NEW)
    step.require(prompt[h] + outputs[h] <= longest, NO_ROOM)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(committed[h], prompt[h] + outputs[h])
    step.assign(stage[h], Stage.DECODE_READY)


@canonical.action
def output_emit(step: Step, h: Handle) -> None:
    """Emit the token that the last row predicts; it has no row of its own yet."""
    step.require(stage[h] == Stage.DECODE_READY, NOT_READY)
    step.require(prompt[h] + outputs[h] <= committed[h], ROW_MISSING)
    step.assign(outputs[h], outputs[h] + 1)


@canonical.action
def decode_publish(step: Step, h: Handle, n: Length) -> None:
    """Commit n rows: that of the emitted token, and those of verified drafts after it."""
    step.require(stage[h] == Stage.DECODE_READY, NOT_READY)
    step.require(committed[h] < prompt[h] + outputs[h], NO_TOKEN)
    step.require(n >= 1, NO_ROWS)
    step.require(committed[h] + n <= longest, NO_ROOM)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(committed[h], committed[h] + n)


@canonical.action
def fork(step: Step, p: Handle, h: Handle, r: Request) -> None:
    """Give all that a ready request has to a second one, under another handle."""
    step.require(stage[p] == Stage.DECODE_READY, NOT_READY)
    step.require(one_of(stage[h], Stage.VACANT, Stage.RELEASED), HANDLE_HELD)
    step.assign(identity[h], r)
    step.assign(snapshot[h], 0)
    step.assign(outputs[h], outputs[p])
    step.assign(committed[h], committed[p])
    step.assign(stage[h], Stage.DECODE_READY)
    step.assign(terminal[h], False)
    step.assign(closed[h], False)
    step.assign(prompt[h], prompt[p])


@canonical.action
def reorder(step: Step, h: Handle, p: Handle) -> None:
    """Let a beam go on from where another one is: its rows and its outputs together."""
    step.require(h != p, SAME_HANDLE)
    step.require((stage[h] == Stage.DECODE_READY) & (stage[p] == Stage.DECODE_READY), NOT_READY)
    step.require(prompt[h] == prompt[p], OTHER_PROMPT)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(outputs[h], outputs[p])
    step.assign(committed[h], committed[p])


@canonical.action
def truncate(step: Step, h: Handle, n: Length) -> None:
    """Keep the first n rows, and of the outputs those whose rows are kept."""
    step.require(stage[h] == Stage.DECODE_READY, NOT_READY)
    step.require(prompt[h] <= n, CUTS_PROMPT)
    step.require(n < committed[h], NOT_SHORTER)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(committed[h], n)
    step.assign(outputs[h], where(prompt[h] + outputs[h] <= n, outputs[h], n - prompt[h]))


@canonical.action
def retract(step: Step, h: Handle) -> None:
    """Give up the rows of a ready request and keep its outputs, to compute the rows again later."""
    step.require(stage[h] == Stage.DECODE_READY, NOT_READY)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(committed[h], 0)
    step.assign(stage[h], Stage.NEW)


@canonical.action
def finish(step: Step, h: Handle) -> None:
    """End the output; the rows stay, and so does the owner."""
    step.require(one_of(stage[h], Stage.NEW, Stage.DECODE_READY), ENDED)
    step.assign(stage[h], Stage.FINISHED_RETAINED)
    step.assign(terminal[h], True)


@canonical.action
def release(step: Step, h: Handle) -> None:
    """Close logical ownership, and fence the generation; what is physical may live on elsewhere."""
    step.require(stage[h] == Stage.FINISHED_RETAINED, NOT_ENDED)
    step.assign(identity[h], none(Request))
    step.assign(generation[h], generation[h] + 1)
    step.assign(snapshot[h], snapshot[h] + 1)
    step.assign(outputs[h], 0)
    step.assign(committed[h], 0)
    step.assign(stage[h], Stage.RELEASED)
    step.assign(closed[h], True)
    step.assign(prompt[h], 0)


system = System.of("canonical", "The lifecycle that runtimes are projected to.", canonical)


@limit(allocate)
def allocates_below_the_last_generation(h: Handle) -> Expr:
    """Release will need one generation more."""
    return generation[h] < Generation.top


@limit(fork)
def forks_below_the_last_generation(h: Handle) -> Expr:
    """Release of the second request will need one generation more."""
    return generation[h] < Generation.top


@limit(output_emit)
def emits_within_bounds(h: Handle) -> Expr:
    """The outputs and their rows can be counted."""
    return prompt[h] + outputs[h] < Length.top


def _one_version_left(h: Expr) -> Expr:
    """One snapshot can still be made, and after it that of the release."""
    return snapshot[h] + 1 < Version.top


@limit(prefill_publish)
def prefills_below_the_last_version(h: Handle) -> Expr:
    """A publication makes one version more."""
    return _one_version_left(h)


@limit(decode_publish)
def decodes_below_the_last_version(h: Handle) -> Expr:
    """A publication makes one version more."""
    return _one_version_left(h)


@limit(reorder)
def reorders_below_the_last_version(h: Handle) -> Expr:
    """A reordering makes one version more."""
    return _one_version_left(h)


@limit(truncate)
def truncates_below_the_last_version(h: Handle) -> Expr:
    """A cut makes one version more."""
    return _one_version_left(h)


@limit(retract)
def retracts_below_the_last_version(h: Handle) -> Expr:
    """A retraction makes one version more."""
    return _one_version_left(h)


LIMITS = (
    allocates_below_the_last_generation,
    forks_below_the_last_generation,
    emits_within_bounds,
    prefills_below_the_last_version,
    decodes_below_the_last_version,
    reorders_below_the_last_version,
    truncates_below_the_last_version,
    retracts_below_the_last_version,
)

ONE = instance(
    "ONE",
    system,
    {Handle: 1, Request: 2, Length: 4, Version: 5, Generation: 2},
    constants={longest: 3},
    limits=LIMITS,
    expected=Counts(483, 832, 12, 5, 247),
    doc="one handle, used twice by either of two requests",
)

TWO = instance(
    "TWO",
    system,
    {Handle: 2, Request: 1, Length: 3, Version: 3, Generation: 1},
    constants={longest: 2},
    limits=LIMITS,
    expected=Counts(1_812, 5_006, 11, 9, 924),
    doc="two handles, so that requests fork and beams change places",
)
