"""Two ways to number snapshots, kept beside the core as an observer keeps them.

The state of a handle is (generation, version, phase). Reports number its snapshots in one of two ways:

serial      one counter for a request: allocate and fork start it at 0, and append, truncate, finish, cancel
            and release each advance it. A handle that is allocated again is another handle: `incarnation`.
snapshot    a counter beside the handle's generation: append, truncate and release advance it, finish and
            cancel do not; release alone advances the generation.

Both are counted here step by step, as the one who reports would count. That they are projections of the
state, and that fences of both let through the same publications, is claimed and proved in `properties`.
Left out: counters that wrap (see `wrapping`).
"""

from __future__ import annotations

from kvspec.spec import core
from kvspec.spec.append import (
    Txn,
    append,
    base_generation,
    base_version,
    begin,
    is_live,
    publish,
    target,
)
from kvspec.spec.handles import (
    Handle,
    Phase,
    generation,
    handles,
    is_held,
    is_terminal,
    phase,
    version,
)
from kvspec.spec.language import (
    TRUE,
    Bool,
    Counts,
    Expr,
    ExtensionStep,
    Instance,
    Map,
    Module,
    Natural,
    Step,
    System,
    the,
    where,
)
from kvspec.spec.lifecycle import (
    allocate,
    cancel_request,
    cancel_txn,
    finish,
    fork,
    is_append_to,
    lifecycle,
    release,
    truncate,
)
from kvspec.spec.retry import retry_module


class Number(Natural):
    """A count of snapshots, or of requests of a handle, as a report has it."""


numbering = Module(
    "numbering",
    "Two numberings of snapshots.",
    uses=(handles, append, retry_module, lifecycle),
)

incarnation = numbering.variable(
    "incarnation", Handle, to=Number, init=0, meaning="requests that have had the handle"
)
serial = numbering.variable(
    "serial", Handle, to=Number, init=0, meaning="snapshot of the request, every change counted"
)
snapshot = numbering.variable(
    "snapshot", Handle, to=Number, init=0, meaning="snapshot of the request, its end not counted"
)
base_incarnation = numbering.variable(
    "base_incarnation", Txn, to=Number, init=0, meaning="incarnation of the handle at begin"
)
base_serial = numbering.variable(
    "base_serial", Txn, to=Number, init=0, meaning="serial of the handle at begin"
)
base_snapshot = numbering.variable(
    "base_snapshot", Txn, to=Number, init=0, meaning="snapshot number of the handle at begin"
)


def count_mutation(step: Step, h: Expr, *, ends: bool = False) -> None:
    """The request has another snapshot; its end counts in one numbering alone."""
    step.assign(serial[h], serial[h] + 1)
    if not ends:
        step.assign(snapshot[h], snapshot[h] + 1)


def clear(step: Step, x: Expr, hit: Expr = TRUE) -> None:
    """Where `hit`, the append has captured nothing."""
    for variable in (base_incarnation, base_serial, base_snapshot):
        step.assign(variable[x], 0 if hit is TRUE else where(hit, 0, variable[x]))


@numbering.observe(allocate)
def number_a_request(step: Step, h: Handle) -> None:
    """The handle is another one, and its snapshots are counted from 0."""
    step.assign(incarnation[h], incarnation[h] + 1)
    step.assign(serial[h], 0)
    step.assign(snapshot[h], 0)


@numbering.observe(fork)
def number_children(step: Step, children: Map[Handle, Bool]) -> None:
    """Every child is another handle, and its snapshots are counted from 0."""
    for c in step.every(Handle):
        step.assign(incarnation[c], where(children[c], incarnation[c] + 1, incarnation[c]))
        step.assign(serial[c], where(children[c], 0, serial[c]))
        step.assign(snapshot[c], where(children[c], 0, snapshot[c]))


@numbering.observe(truncate)
def number_a_truncation(step: Step, h: Handle) -> None:
    """A truncation counts in both numberings."""
    count_mutation(step, h)


@numbering.observe(finish)
def number_a_finish(step: Step, h: Handle) -> None:
    """A finish counts in the first numbering alone."""
    count_mutation(step, h, ends=True)


@numbering.observe(cancel_request)
def number_a_cancel(step: Step, h: Handle) -> None:
    """A cancel counts in the first numbering alone, and ends the request's appends."""
    count_mutation(step, h, ends=True)
    for x in step.every(Txn):
        clear(step, x, is_live(x) & is_append_to(x, h))


@numbering.observe(release)
def number_a_release(step: Step, h: Handle) -> None:
    """A release counts in both numberings."""
    count_mutation(step, h)


@numbering.observe(begin)
def capture_numbers(step: Step, x: Txn, h: Handle) -> None:
    """An append captures the numbers of its base."""
    step.assign(base_incarnation[x], incarnation[h])
    step.assign(base_serial[x], serial[h])
    step.assign(base_snapshot[x], snapshot[h])


@numbering.observe(publish)
def number_a_publication(step: ExtensionStep, x: Txn) -> None:
    """A publication counts in both numberings; whatever comes of it, the captured numbers are done with."""
    step.refused(lambda effect: clear(effect, x))
    count_mutation(step, the(target[x]))
    clear(step, x)


@numbering.observe(cancel_txn)
def clear_an_abort(step: Step, x: Txn) -> None:
    """An aborted append has captured nothing."""
    clear(step, x)


def serial_of(h: Expr) -> Expr:
    """The first numbering as a projection of the core's state: the version, and what ended since."""
    return version[h] + where(phase[h] == Phase.RELEASED, 2, where(is_terminal(h), 1, 0))


def snapshot_of(h: Expr) -> Expr:
    """The second numbering as a projection: the version, and one more once the request is released."""
    return version[h] + where(phase[h] == Phase.RELEASED, 1, 0)


def incarnation_of(h: Expr) -> Expr:
    """Requests that had the handle as a projection: its releases, and the request that holds it."""
    return generation[h] + where(is_held(h), 1, 0)


def fenced_by_serial(x: Expr) -> Expr:
    """The first numbering lets the append through: same handle, same serial; a phase need not be asked."""
    h = the(target[x])
    return (incarnation[h] == base_incarnation[x]) & (serial[h] == base_serial[x])


def fenced_by_snapshot(x: Expr) -> Expr:
    """The second numbering lets the append through: same generation and snapshot, and a ready handle."""
    h = the(target[x])
    return (
        (generation[h] == base_generation[x])
        & (snapshot[h] == base_snapshot[x])
        & (phase[h] == Phase.DECODE_READY)
    )


def fenced_by_state(x: Expr) -> Expr:
    """The guards of publication let the append through."""
    h = the(target[x])
    return (
        (generation[h] == base_generation[x])
        & (version[h] == base_version[x])
        & (phase[h] == Phase.DECODE_READY)
    )


system = System.of(
    "numbering", "The core with two numberings of its snapshots.", *core.system.modules, numbering
)


def make_instance(
    name: str,
    doc: str,
    *,
    handles: int = 1,
    txns: int = 1,
    versions: int = 1,
    generations: int = 2,
    expected: Counts | None = None,
) -> Instance:
    """An instance of one layer, one block and rows of length 1, without a batch."""
    return core.make_instance(
        name,
        doc,
        of=system,
        handles=handles,
        txns=txns,
        layers=1,
        versions=versions,
        generations=generations,
        more={Number: versions + generations + 3},
        expected=expected,
    )


REQUESTS = make_instance(
    "REQUESTS", "one handle given to two requests, one append", expected=Counts(239, 924, 15, 3)
)
RIVALS = make_instance(
    "RIVALS",
    "two appends to a handle of two requests",
    txns=2,
    versions=2,
    expected=Counts(12_731, 76_130, 22, 5),
)
FAMILY = make_instance(
    "FAMILY",
    "two requests and their forks, one append",
    handles=2,
    expected=Counts(34_345, 172_135, 28, 49),
)

INSTANCES = (REQUESTS, RIVALS, FAMILY)
