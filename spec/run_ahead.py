"""Run-ahead: a scheduler that dispatches steps before it knows what came of the steps before them.

Of one request there are four counts of rows, none of which passes the one before it:

reserved    slots that the request holds
scheduled   rows that were dispatched: what the host knows
settled     rows whose step came back: what the device has done
indexed     rows that the prefix index has under the request's tokens

and `emitted`, the outputs that the client has. A step in flight has a frame, with the interval of rows that
it computes and the tag of the incarnation that dispatched it. Its row may be for a token that only the device
knows, the output of the step before. A preempted request gives back every slot; it starts again at row 0 as a
new incarnation, and keeps what it emitted. The output of an older step then frees its frame and does no more.
An incarnation is told from others by equality alone: its tag may be used again once no step bears it.

Modelled: chunks of a prompt, and of known outputs after a preemption; progress apart from publication into
the index; a stop, by token or by count, while further steps are in flight; preempt, cancel, a late output and
an output that never comes, at any moment. A request that was preempted is not preempted again before its next
output: without this rule it may be preempted for ever, whatever is fair otherwise.
Left out: drafts (`drafting`), which request runs, slots shared by requests, where the index keeps its rows:
those of a preempted request go with it.
Assumed: the device runs the steps of one incarnation in their order, and those of a new one after those of
the old, so that a late step writes no row of a newer one.

It is not composed with the core: there every change counts a version or a generation, so that within bounds
nothing goes on for ever, and a livelock is something that does. Both refine `life`: a settlement adds rows
behind those that are there, as a publication of the core does, and a preemption takes all of them.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    EMPTY_APPEND,
    EMPTY_PROMPT,
    HANDLE_LIVE,
    OUTPUT_STOPPED,
    PROMPT_TOO_LONG,
    FailureClass,
    error_code,
)
from kvspec.spec.formulas import logical_tokens
from kvspec.spec.handles import Handle, Length, context
from kvspec.spec.language import (
    TRUE,
    Bool,
    Counts,
    Enum,
    Expr,
    Instance,
    Module,
    Open,
    Option,
    Step,
    System,
    exists,
    forall,
    implies,
    instance,
    is_some,
    member,
    none,
    the,
    where,
)


class Frame(Open):
    """A place for one step in flight, taken until its output has come or is given up."""


class Incarnation(Open):
    """A run of a request on the device, from a start to a preemption or the end."""


class Outcome(Enum):
    """What became of the request of a handle."""

    NEW = member()
    PENDING = member()
    FINISHED = member()
    CANCELLED = member()
    RELEASED = member()


class Output(Enum):
    """What a step gives out: a token that goes on, or the last one."""

    ORDINARY = member()
    STOP = member()


NOT_PENDING = error_code("NOT_PENDING", "the request is not there, or has ended")
NOT_FINISHED = error_code("NOT_FINISHED", "the request is not finished")
NOT_STOPPED = error_code("NOT_STOPPED", "the last output is not out yet")
RUNNING = error_code("RUNNING", "the request runs already")
NO_INCARNATION = error_code("NO_INCARNATION", "the request has no incarnation now")
FRAME_IN_USE = error_code("FRAME_IN_USE", "a step is in flight in the frame")
FRAME_NOT_IN_FLIGHT = error_code("FRAME_NOT_IN_FLIGHT", "no step is in flight in the frame")
STILL_COUNTS = error_code("STILL_COUNTS", "the output is one that the request waits for")
NOTHING_NEW = error_code("NOTHING_NEW", "the index has every settled row")
PROTECTED = error_code("PROTECTED", "the request had no output since it was preempted")
OUT_OF_ORDER = error_code(
    "OUT_OF_ORDER", "an older step of the incarnation is in flight", FailureClass.POSITION
)
STALE_STEP = error_code(
    "STALE_STEP", "another incarnation of the request dispatched the step", FailureClass.SNAPSHOT
)
TAG_IN_USE = error_code("TAG_IN_USE", "a step in flight bears the tag", FailureClass.SNAPSHOT)
STEP_TOO_LONG = error_code(
    "STEP_TOO_LONG", "the step has more rows than a chunk", FailureClass.FRONTIER
)
NO_INPUT = error_code(
    "NO_INPUT",
    "a row is for a token that is neither known nor the output of the step before",
    FailureClass.FRONTIER,
)
NO_OUTPUT = error_code(
    "NO_OUTPUT", "the step ends before the last known token", FailureClass.FRONTIER
)
NO_SLOTS = error_code("NO_SLOTS", "the request may hold no more slots", FailureClass.OWNERSHIP)

run_ahead = Module("run_ahead", "Frontiers of a request, and its steps in flight.")
run_ahead.share(context)

chunk = run_ahead.constant("chunk", Length, meaning="most rows of one step")
more = run_ahead.constant("more", Length, meaning="most outputs of a request behind its first")

outcome = run_ahead.variable(
    "outcome", Handle, to=Outcome, init=Outcome.NEW, meaning="what became of the request"
)
incarnation = run_ahead.variable(
    "incarnation",
    Handle,
    to=Option[Incarnation],
    init=none(Incarnation),
    meaning="incarnation that runs now",
)
prompt = run_ahead.variable("prompt", Handle, to=Length, init=0, meaning="tokens of the prompt")
reserved = run_ahead.variable(
    "reserved", Handle, to=Length, init=0, meaning="slots that the request holds"
)
scheduled = run_ahead.variable(
    "scheduled", Handle, to=Length, init=0, meaning="rows that the incarnation dispatched"
)
settled = run_ahead.variable(
    "settled", Handle, to=Length, init=0, meaning="rows of the incarnation whose step came back"
)
indexed = run_ahead.variable(
    "indexed", Handle, to=Length, init=0, meaning="rows in the prefix index: length of the key"
)
emitted = run_ahead.variable(
    "emitted", Handle, to=Length, init=0, meaning="outputs that the client has"
)
stopped = run_ahead.variable(
    "stopped", Handle, to=Bool, init=False, meaning="the last output is out"
)
protected = run_ahead.variable(
    "protected", Handle, to=Bool, init=False, meaning="preempted, and no output since"
)
owner = run_ahead.variable(
    "owner", Frame, to=Option[Handle], init=none(Handle), meaning="request of the step in flight"
)
tag = run_ahead.variable(
    "tag",
    Frame,
    to=Option[Incarnation],
    init=none(Incarnation),
    meaning="incarnation that dispatched the step",
)
first = run_ahead.variable("first", Frame, to=Length, init=0, meaning="first row of the step")
rows = run_ahead.variable("rows", Frame, to=Length, init=0, meaning="rows of the step")


def tokens(h: Expr) -> Expr:
    """Tokens that the client knows: the prompt and what was emitted."""
    return logical_tokens(prompt[h], emitted[h])


def is_running(h: Expr) -> Expr:
    """The request has an incarnation on the device."""
    return is_some(incarnation[h])


def in_flight(f: Expr) -> Expr:
    """A step is in flight in the frame."""
    return is_some(owner[f])


def is_step_of(f: Expr, h: Expr) -> Expr:
    """The step is in flight, and the incarnation of the request that runs now dispatched it."""
    return (owner[f] == h) & is_running(h) & (tag[f] == incarnation[h])


def counts(f: Expr) -> Expr:
    """The request still waits for the output of the step."""
    return in_flight(f) & is_step_of(f, the(owner[f])) & ~stopped[the(owner[f])]


def comes_before(g: Expr, f: Expr) -> Expr:
    """Two steps of one incarnation, in the order of the device."""
    return (owner[g] == owner[f]) & (tag[g] == tag[f]) & (first[g] < first[f])


def end_of(f: Expr) -> Expr:
    """The row behind the last one of the step."""
    return first[f] + rows[f]


def _free(step: Step, f: Expr, hit: Expr = TRUE) -> None:
    """Where `hit`, no step is in flight in the frame."""
    for variable, blank in ((owner, none(Handle)), (tag, none(Incarnation)), (first, 0), (rows, 0)):
        step.assign(variable[f], blank if hit is TRUE else where(hit, blank, variable[f]))


def _leave_device(step: Step, h: Expr) -> None:
    """The incarnation is over and every slot given back; its steps in flight are not recalled."""
    step.assign(incarnation[h], none(Incarnation))
    for frontier in (reserved, scheduled, settled, indexed):
        step.assign(frontier[h], 0)


@run_ahead.action
def submit(step: Step, h: Handle, p: Length) -> None:
    """A request comes with a prompt of p tokens; its slots suffice for these and all but its last output."""
    step.require(outcome[h] == Outcome.NEW, HANDLE_LIVE)
    step.require(p >= 1, EMPTY_PROMPT)
    step.require(p + more <= context, PROMPT_TOO_LONG)
    step.assign(outcome[h], Outcome.PENDING)
    step.assign(prompt[h], p)


@run_ahead.action
def start(step: Step, h: Handle, i: Incarnation) -> None:
    """Begin, or begin again, at row 0, under a tag that no step in flight of the request bears."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.require(~is_running(h), RUNNING)
    step.require(forall(Frame, lambda f: implies(owner[f] == h, tag[f] != i)), TAG_IN_USE)
    step.assign(incarnation[h], i)


@run_ahead.action
def dispatch(step: Step, h: Handle, f: Frame, n: Length) -> None:
    """Send a step of n rows behind those dispatched: rows of known tokens, or one of the next output."""
    known = where(scheduled[h] < tokens(h), tokens(h), scheduled[h] + 1)
    step.require(is_running(h), NO_INCARNATION)
    step.require(~in_flight(f), FRAME_IN_USE)
    step.require(n >= 1, EMPTY_APPEND)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.require(n <= chunk, STEP_TOO_LONG)
    step.require(scheduled[h] + n <= known, NO_INPUT)
    step.require(reserved[h] + n <= context, NO_SLOTS)
    step.assign(reserved[h], reserved[h] + n)
    step.assign(scheduled[h], scheduled[h] + n)
    step.assign(owner[f], h)
    step.assign(tag[f], incarnation[h])
    step.assign(first[f], scheduled[h])
    step.assign(rows[f], n)


@run_ahead.action
def settle(step: Step, f: Frame, t: Output) -> None:
    """The output of a step comes: its rows count, and behind the last known token one more is emitted."""
    h = the(owner[f])
    gives = settled[h] + rows[f] == tokens(h)
    last = (t == Output.STOP) | (gives & (emitted[h] >= more))
    step.require(in_flight(f), FRAME_NOT_IN_FLIGHT)
    step.require(~exists(Frame, lambda g: comes_before(g, f)), OUT_OF_ORDER)
    step.require(tag[f] == incarnation[h], STALE_STEP)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.require(implies(t == Output.STOP, gives), NO_OUTPUT)
    step.assign(settled[h], settled[h] + rows[f])
    step.assign(emitted[h], where(gives, emitted[h] + 1, emitted[h]))
    step.assign(stopped[h], where(last, True, stopped[h]))
    step.assign(protected[h], where(gives, False, protected[h]))
    _free(step, f)


@run_ahead.action
def drain(step: Step, f: Frame) -> None:
    """A late output, or one behind the stop, comes: its frame is free, and nothing else changes."""
    step.require(in_flight(f), FRAME_NOT_IN_FLIGHT)
    step.require(~counts(f), STILL_COUNTS)
    _free(step, f)


@run_ahead.action
def lose(step: Step, f: Frame) -> None:
    """The output never comes, nor any behind it: their rows were not dispatched, and their slots go back."""
    step.require(in_flight(f), FRAME_NOT_IN_FLIGHT)
    h = the(owner[f])
    step.assign(scheduled[h], where(counts(f), first[f], scheduled[h]))
    step.assign(reserved[h], where(counts(f), first[f], reserved[h]))
    for g in step.every(Frame):
        _free(step, g, (g == f) | (counts(f) & comes_before(f, g)))


@run_ahead.action
def index(step: Step, h: Handle) -> None:
    """Publish the settled rows into the prefix index."""
    step.require(indexed[h] < settled[h], NOTHING_NEW)
    step.assign(indexed[h], settled[h])


@run_ahead.action
def preempt(step: Step, h: Handle) -> None:
    """Take a request off the device: it gives back its slots, and starts again later."""
    step.require(is_running(h), NO_INCARNATION)
    step.require(~protected[h], PROTECTED)
    step.require(~stopped[h], OUTPUT_STOPPED)
    step.assign(protected[h], True)
    _leave_device(step, h)


@run_ahead.action
def finish(step: Step, h: Handle) -> None:
    """End a request behind its last output: undo what ran ahead, and publish the settled rows."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.require(stopped[h], NOT_STOPPED)
    step.assign(outcome[h], Outcome.FINISHED)
    step.assign(incarnation[h], none(Incarnation))
    step.assign(scheduled[h], settled[h])
    step.assign(indexed[h], settled[h])


@run_ahead.action
def cancel(step: Step, h: Handle) -> None:
    """End a request early, whether it runs, waits, or has stopped."""
    step.require(outcome[h] == Outcome.PENDING, NOT_PENDING)
    step.assign(outcome[h], Outcome.CANCELLED)
    _leave_device(step, h)


@run_ahead.action
def release(step: Step, h: Handle) -> None:
    """Give up the rows of a finished request."""
    step.require(outcome[h] == Outcome.FINISHED, NOT_FINISHED)
    step.assign(outcome[h], Outcome.RELEASED)
    for frontier in (reserved, scheduled, settled, indexed):
        step.assign(frontier[h], 0)


system = System.of(
    "run_ahead",
    "Frontiers of requests under a scheduler that runs ahead of the device.",
    run_ahead,
)


def make_instance(
    name: str,
    doc: str = "",
    *,
    handles: int = 1,
    frames: int = 2,
    incarnations: int = 2,
    slots: int = 2,
    rows_a_step: int = 1,
    outputs: int = 2,
    expected: Counts | None = None,
) -> Instance:
    """An instance by its sizes; lengths go beyond the slots, so that a rule that passes them is seen to."""
    return instance(
        name,
        system,
        {Handle: handles, Frame: frames, Incarnation: incarnations, Length: slots + 2},
        constants={context: slots, chunk: rows_a_step, more: outputs - 1},
        expected=expected,
        doc=doc,
    )


AHEAD = make_instance(
    "AHEAD",
    "one request, one step ahead, preempted and started again",
    expected=Counts(373, 1_511, 13, 8),
)
CHUNKS = make_instance(
    "CHUNKS",
    "a prompt in chunks of up to two rows",
    slots=4,
    rows_a_step=2,
    expected=Counts(4_293, 20_473, 19, 24),
)
PAIR = make_instance(
    "PAIR",
    "two requests with two frames for their steps",
    handles=2,
    outputs=1,
    slots=1,
    expected=Counts(2_624, 14_592, 15, 16),
)

INSTANCES = (AHEAD, CHUNKS, PAIR)
