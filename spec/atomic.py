"""The atomic system: what a reader may ever see, with appends that happen in one step.

It has no transactions, staging, retries or blocks: an append is one action that makes all layers
longer together. The core system is shown to refine it (`kvspec.properties.refinement`): each of its
steps is one of these or changes nothing that a reader sees. That is what linearized publication means.
"""

from __future__ import annotations

from kvspec.spec.failures import (
    BEYOND_COMMITTED,
    CANNOT_REWIND,
    CHILD_IN_USE,
    CONTEXT_FULL,
    EMPTY_APPEND,
    HANDLE_LIVE,
    HANDLE_TERMINAL,
    NO_CHILD,
    NOT_TERMINAL,
)
from kvspec.spec.handles import (
    Abi,
    Generation,
    Handle,
    Layer,
    Length,
    Phase,
    Version,
    context,
    rewind,
)
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Map,
    Module,
    Option,
    Step,
    System,
    exists,
    forall,
    implies,
    instance,
    limit,
    none,
    one_of,
    where,
)

atomic = Module("atomic", "What a reader sees, changed by atomic actions alone.")
atomic.share(context)
atomic.share(rewind)

seen_phase = atomic.variable(
    "seen_phase", Handle, to=Phase, init=Phase.VACANT, meaning="phase of the request"
)
seen_generation = atomic.variable(
    "seen_generation", Handle, to=Generation, init=0, meaning="releases of the handle so far"
)
seen_version = atomic.variable(
    "seen_version", Handle, to=Version, init=0, meaning="snapshot of the request"
)
seen_abi = atomic.variable(
    "seen_abi", Handle, to=Option[Abi], init=none(Abi), meaning="cache ABI of the rows"
)
seen_length = atomic.variable("seen_length", Handle, to=Length, init=0, meaning="committed length")
seen_k = atomic.variable(
    "seen_k", Handle, Layer, to=Length, init=0, meaning="K rows that a reader of the layer sees"
)
seen_v = atomic.variable(
    "seen_v", Handle, Layer, to=Length, init=0, meaning="V rows that a reader of the layer sees"
)


def _is_free(h: Expr) -> Expr:
    return one_of(seen_phase[h], Phase.VACANT, Phase.RELEASED)


@atomic.action
def atomic_allocate(step: Step, h: Handle, a: Abi) -> None:
    """Give a free handle to a new request."""
    step.require(_is_free(h), HANDLE_LIVE)
    step.assign(seen_phase[h], Phase.DECODE_READY)
    step.assign(seen_version[h], 0)
    step.assign(seen_abi[h], a)
    step.assign(seen_length[h], 0)


@atomic.action
def atomic_append(step: Step, h: Handle, n: Length) -> None:
    """Make a ready request n rows longer, in K and V of every layer at once."""
    step.require(seen_phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n >= 1, EMPTY_APPEND)
    step.require(seen_length[h] + n <= context, CONTEXT_FULL)
    step.assign(seen_version[h], seen_version[h] + 1)
    step.assign(seen_length[h], seen_length[h] + n)
    for layer in step.every(Layer):
        step.assign(seen_k[h, layer], seen_k[h, layer] + n)
        step.assign(seen_v[h, layer], seen_v[h, layer] + n)


@atomic.action
def atomic_fork(step: Step, p: Handle, children: Map[Handle, Bool], n: Length) -> None:
    """Give the first n rows of a ready request to all children at once."""
    step.require(seen_phase[p] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(exists(Handle, lambda c: children[c]), NO_CHILD)
    step.require(n <= seen_length[p], BEYOND_COMMITTED)
    step.require(forall(Handle, lambda c: implies(children[c], _is_free(c))), CHILD_IN_USE)
    for c in step.every(Handle):
        step.assign(seen_phase[c], where(children[c], Phase.DECODE_READY, seen_phase[c]))
        step.assign(seen_version[c], where(children[c], 0, seen_version[c]))
        step.assign(seen_abi[c], where(children[c], seen_abi[p], seen_abi[c]))
        step.assign(seen_length[c], where(children[c], n, seen_length[c]))
        for layer in step.every(Layer):
            step.assign(seen_k[c, layer], where(children[c], n, seen_k[c, layer]))
            step.assign(seen_v[c, layer], where(children[c], n, seen_v[c, layer]))


@atomic.action
def atomic_truncate(step: Step, h: Handle, n: Length) -> None:
    """Cut a ready request back to n rows, in every layer at once."""
    step.require(seen_phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(n <= seen_length[h], BEYOND_COMMITTED)
    step.require(seen_length[h] <= n + rewind, CANNOT_REWIND)
    step.assign(seen_version[h], seen_version[h] + 1)
    step.assign(seen_length[h], n)
    for layer in step.every(Layer):
        step.assign(seen_k[h, layer], n)
        step.assign(seen_v[h, layer], n)


@atomic.action
def atomic_finish(step: Step, h: Handle) -> None:
    """End a ready request after its last row."""
    step.require(seen_phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.assign(seen_phase[h], Phase.FINISHED)


@atomic.action
def atomic_cancel(step: Step, h: Handle) -> None:
    """End a ready request early."""
    step.require(seen_phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.assign(seen_phase[h], Phase.CANCELLED)


@atomic.action
def atomic_release(step: Step, h: Handle) -> None:
    """Take the rows of an ended request out of sight."""
    step.require(one_of(seen_phase[h], Phase.FINISHED, Phase.CANCELLED), NOT_TERMINAL)
    step.assign(seen_phase[h], Phase.RELEASED)
    step.assign(seen_generation[h], seen_generation[h] + 1)
    for layer in step.every(Layer):
        step.assign(seen_k[h, layer], 0)
        step.assign(seen_v[h, layer], 0)


system = System.of("atomic", "The KV cache as a reader sees it, without transactions.", atomic)


@limit(atomic_allocate)
def allocates_below_the_last_generation(h: Handle) -> Expr:
    """Release will need one generation more."""
    return seen_generation[h] < Generation.top


@limit(atomic_fork)
def forks_below_the_last_generation(children: Map[Handle, Bool]) -> Expr:
    """Release of a child will need one generation more."""
    return forall(Handle, lambda c: implies(children[c], seen_generation[c] < Generation.top))


@limit(atomic_append)
def appends_below_the_last_version(h: Handle) -> Expr:
    """An append makes one version more."""
    return seen_version[h] < Version.top


@limit(atomic_truncate)
def truncates_below_the_last_version(h: Handle) -> Expr:
    """A truncation makes one version more."""
    return seen_version[h] < Version.top


ATOMIC = instance(
    "ATOMIC",
    system,
    {Handle: 2, Layer: 2, Abi: 2, Length: 3, Version: 2, Generation: 1},
    constants={context: 2, rewind: 1},
    limits=(
        allocates_below_the_last_generation,
        forks_below_the_last_generation,
        appends_below_the_last_version,
        truncates_below_the_last_version,
    ),
    expected=Counts(3_761, 10_644, 10, 228, 969),
    doc="two requests of two layers, as a reader sees them",
)
