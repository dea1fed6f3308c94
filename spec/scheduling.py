"""What a scheduler decides, beside the cache: it reads the service view and writes nothing of it.

Modelled: the decisions that the service view must not carry (admit, priority, batch, size of the next chunk
of a prompt, preemption, who runs next), each as a variable of this module that some policy may set to
anything, at any time that the view allows. A policy acts on the cache by asking for its actions; what it
decides is never part of what a request is.
Left out: policies. Any policy is a restriction of this system, so that what is claimed here is true of all.
"""

from __future__ import annotations

from kvspec.spec import core, serving
from kvspec.spec.append import append
from kvspec.spec.failures import FailureClass
from kvspec.spec.frontier import frontier
from kvspec.spec.handles import (
    Handle,
    Length,
    handles,
)
from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Module,
    Open,
    Option,
    Step,
    System,
    member,
    none,
)
from kvspec.spec.lifecycle import lifecycle
from kvspec.spec.serving import (
    ServicePhase,
    Work,
    eligible_work,
    prompt_rows_remaining,
    service_phase,
)


class Priority(Enum):
    """How urgent a policy takes a request to be."""

    LOW = member()
    HIGH = member()


class Batch(Open):
    """A batch that a policy forms."""


NOTHING_ELIGIBLE = ErrorCode(
    "NOTHING_ELIGIBLE", "the request has no work that can be selected", int(FailureClass.NONE)
)
NOT_WAITING = ErrorCode(
    "NOT_WAITING", "the request is not waiting for its prefill", int(FailureClass.NONE)
)
EMPTY_CHUNK = ErrorCode("EMPTY_CHUNK", "the chunk has no row", int(FailureClass.POSITION))
CHUNK_TOO_LONG = ErrorCode(
    "CHUNK_TOO_LONG", "the chunk is longer than the rest of the prompt", int(FailureClass.FRONTIER)
)

scheduling = Module(
    "scheduling",
    "Decisions of a scheduler.",
    uses=(handles, append, lifecycle, frontier),
)

admitted = scheduling.variable(
    "admitted", Handle, to=Bool, init=False, meaning="the policy lets the request run"
)
priority = scheduling.variable(
    "priority",
    Handle,
    to=Priority,
    init=Priority.LOW,
    meaning="how urgent the policy takes it to be",
)
batch_id = scheduling.variable(
    "batch_id",
    Handle,
    to=Option[Batch],
    init=none(Batch),
    meaning="batch that the policy put it in",
)
prefill_chunk_size = scheduling.variable(
    "prefill_chunk_size", Handle, to=Length, init=0, meaning="rows of the next chunk of its prompt"
)
preempted = scheduling.variable(
    "preempted", Handle, to=Bool, init=False, meaning="the policy chose it as a victim"
)
run_next = scheduling.variable(
    "run_next", to=Option[Handle], init=none(Handle), meaning="request that the policy runs next"
)


@scheduling.action
def admit(step: Step, h: Handle) -> None:
    """Let a waiting request run."""
    step.require(service_phase(h) == ServicePhase.WAITING_PREFILL, NOT_WAITING)
    step.assign(admitted[h], True)


@scheduling.action
def raise_priority(step: Step, h: Handle) -> None:
    """Take a request to be urgent."""
    step.assign(priority[h], Priority.HIGH)


@scheduling.action
def lower_priority(step: Step, h: Handle) -> None:
    """Take a request not to be urgent."""
    step.assign(priority[h], Priority.LOW)


@scheduling.action
def put_in_batch(step: Step, h: Handle, b: Batch) -> None:
    """Put a request that has work into a batch."""
    step.require(eligible_work(h) != Work.NOTHING, NOTHING_ELIGIBLE)
    step.assign(batch_id[h], b)


@scheduling.action
def choose_chunk(step: Step, h: Handle, n: Length) -> None:
    """Choose how many rows of a waiting prompt are computed next."""
    step.require(service_phase(h) == ServicePhase.WAITING_PREFILL, NOT_WAITING)
    step.require(n >= 1, EMPTY_CHUNK)
    step.require(n <= prompt_rows_remaining(h), CHUNK_TOO_LONG)
    step.assign(prefill_chunk_size[h], n)


@scheduling.action
def preempt(step: Step, h: Handle) -> None:
    """Choose a request as a victim; what the cache then does is another step."""
    step.assign(preempted[h], True)
    step.assign(admitted[h], False)


@scheduling.action
def choose_next(step: Step, h: Handle) -> None:
    """Choose a request that has work to run next."""
    step.require(eligible_work(h) != Work.NOTHING, NOTHING_ELIGIBLE)
    step.assign(run_next[()], h)


system = System.of(
    "scheduling",
    "The serving system beside any scheduler at all.",
    *serving.system.modules,
    scheduling,
)

DECISIONS = core.make_instance(
    "DECISIONS",
    "one request and every decision about it",
    of=system,
    handles=1,
    txns=1,
    layers=1,
    more={Batch: 1},
    expected=Counts(9_348, 67_540, 16, 0),
)
