"""The peer model: two handles, two append transactions, two layers.

Smaller than the core system on purpose: it is what this project's engines and outside checkers count
alike. Modelled: staging of K and V per layer, publication against a generation, truncate, cancel,
finish and release. Left out: forks, retries, shared prefixes and everything physical.
"""

from __future__ import annotations

from kvspec.spec.language import (
    Bool,
    Counts,
    Enum,
    ErrorCode,
    Expr,
    Instance,
    Module,
    Natural,
    Open,
    Option,
    Properties,
    Step,
    System,
    after,
    forall,
    implies,
    instance,
    is_some,
    member,
    none,
    one_of,
    the,
    weak,
)


class Handle(Open):
    """A cache handle."""


class Txn(Open):
    """An append transaction."""


class Layer(Open):
    """A cache-producing layer."""


class Length(Natural):
    """Committed rows."""


class Generation(Natural):
    """Snapshots that a handle has had."""


class Phase(Enum):
    """Where a handle is in its life."""

    READY = member()
    FINISHED = member()
    CANCELLED = member()
    RELEASED = member()


class Status(Enum):
    """Where an append transaction is in its life."""

    IDLE = member()
    OPEN = member()
    PREPARED = member()
    PUBLISHED = member()
    ABORTED = member()
    REJECTED = member()


peer = Module("peer", "Handles and append transactions of the peer model.")
max_length = peer.constant("max_length", Length, meaning="no append begins at this length")
max_generation = peer.constant("max_generation", Generation, meaning="no change begins here")

gen = peer.variable("gen", Handle, to=Generation, init=0, meaning="snapshots so far")
length = peer.variable("len", Handle, to=Length, init=0, meaning="committed rows")
phase = peer.variable("phase", Handle, to=Phase, init=Phase.READY, meaning="phase of the handle")
status = peer.variable("status", Txn, to=Status, init=Status.IDLE, meaning="state of the append")
base = peer.variable("base", Txn, to=Option[Handle], init=none(Handle), meaning="handle it extends")
base_gen = peer.variable("base_gen", Txn, to=Generation, init=0, meaning="generation it captured")
staged_k = peer.variable("staged_k", Txn, Layer, to=Bool, init=False, meaning="K rows are staged")
staged_v = peer.variable("staged_v", Txn, Layer, to=Bool, init=False, meaning="V rows are staged")

TXN_BUSY = ErrorCode("TXN_BUSY", "the transaction is in use")
HANDLE_TERMINAL = ErrorCode("HANDLE_TERMINAL", "the handle is finished, cancelled or released")
FULL = ErrorCode("FULL", "the handle has no room for another row")
NO_GENERATION = ErrorCode("NO_GENERATION", "the handle has no generation left")
TXN_CLOSED = ErrorCode("TXN_CLOSED", "the transaction is not open")
ALREADY_STAGED = ErrorCode("ALREADY_STAGED", "the rows are staged already")
LAYER_INCOMPLETE = ErrorCode("LAYER_INCOMPLETE", "some layer lacks K or V rows")
NOT_PREPARED = ErrorCode("NOT_PREPARED", "the transaction is not prepared")
STILL_CURRENT = ErrorCode("STILL_CURRENT", "the append can still be published")
STALE_GENERATION = ErrorCode("STALE_GENERATION", "the handle has moved on since begin")
NOT_SHORTER = ErrorCode("NOT_SHORTER", "truncate does not shorten the handle")
NOT_TERMINAL = ErrorCode("NOT_TERMINAL", "the handle is neither finished nor cancelled")
TXN_LIVE = ErrorCode("TXN_LIVE", "the transaction has not ended")


def _clear(step: Step, t: Txn) -> None:
    step.assign(base[t], none(Handle))
    step.assign(base_gen[t], 0)
    for layer in step.every(Layer):
        step.assign(staged_k[t, layer], False)
        step.assign(staged_v[t, layer], False)


@peer.action
def begin(step: Step, h: Handle, t: Txn) -> None:
    """Open an append of one row on a live handle and capture its generation."""
    step.require(status[t] == Status.IDLE, TXN_BUSY)
    step.require(phase[h] == Phase.READY, HANDLE_TERMINAL)
    step.require(length[h] < max_length, FULL)
    step.require(gen[h] < max_generation, NO_GENERATION)
    step.assign(status[t], Status.OPEN)
    step.assign(base[t], h)
    step.assign(base_gen[t], gen[h])
    for layer in step.every(Layer):
        step.assign(staged_k[t, layer], False)
        step.assign(staged_v[t, layer], False)


@peer.action
def stage_k(step: Step, t: Txn, l: Layer) -> None:
    """Stage the K row of one layer."""
    step.require(status[t] == Status.OPEN, TXN_CLOSED)
    step.require(~staged_k[t, l], ALREADY_STAGED)
    step.assign(staged_k[t, l], True)


@peer.action
def stage_v(step: Step, t: Txn, l: Layer) -> None:
    """Stage the V row of one layer."""
    step.require(status[t] == Status.OPEN, TXN_CLOSED)
    step.require(~staged_v[t, l], ALREADY_STAGED)
    step.assign(staged_v[t, l], True)


@peer.action
def prepare(step: Step, t: Txn) -> None:
    """Declare all layers staged."""
    step.require(status[t] == Status.OPEN, TXN_CLOSED)
    step.require(forall(Layer, lambda l: staged_k[t, l] & staged_v[t, l]), LAYER_INCOMPLETE)
    step.assign(status[t], Status.PREPARED)


@peer.action
def publish(step: Step, t: Txn) -> None:
    """Make the row visible if the handle is as it was at begin."""
    step.require(status[t] == Status.PREPARED, NOT_PREPARED)
    step.require(phase[the(base[t])] == Phase.READY, HANDLE_TERMINAL)
    step.require(gen[the(base[t])] == base_gen[t], STALE_GENERATION)
    step.assign(status[t], Status.PUBLISHED)
    step.assign(gen[the(base[t])], gen[the(base[t])] + 1)
    step.assign(length[the(base[t])], length[the(base[t])] + 1)


@peer.action
def reject(step: Step, t: Txn) -> None:
    """Give up a prepared append whose handle has moved on."""
    step.require(status[t] == Status.PREPARED, NOT_PREPARED)
    step.require(
        ~((phase[the(base[t])] == Phase.READY) & (gen[the(base[t])] == base_gen[t])),
        STILL_CURRENT,
    )
    step.assign(status[t], Status.REJECTED)
    _clear(step, t)


@peer.action
def cancel_txn(step: Step, t: Txn) -> None:
    """Abort one append and keep the request."""
    step.require(one_of(status[t], Status.OPEN, Status.PREPARED), TXN_CLOSED)
    step.assign(status[t], Status.ABORTED)
    _clear(step, t)


@peer.action
def recycle(step: Step, t: Txn) -> None:
    """Make an ended transaction usable again."""
    step.require(one_of(status[t], Status.PUBLISHED, Status.ABORTED, Status.REJECTED), TXN_LIVE)
    step.assign(status[t], Status.IDLE)
    _clear(step, t)


@peer.action
def truncate(step: Step, h: Handle, n: Length) -> None:
    """Cut a live handle back to n rows."""
    step.require(phase[h] == Phase.READY, HANDLE_TERMINAL)
    step.require(n < length[h], NOT_SHORTER)
    step.require(gen[h] < max_generation, NO_GENERATION)
    step.assign(length[h], n)
    step.assign(gen[h], gen[h] + 1)


@peer.action
def finish(step: Step, h: Handle) -> None:
    """End the request after its last row."""
    step.require(phase[h] == Phase.READY, HANDLE_TERMINAL)
    step.assign(phase[h], Phase.FINISHED)


@peer.action
def cancel_request(step: Step, h: Handle) -> None:
    """End the request early."""
    step.require(phase[h] == Phase.READY, HANDLE_TERMINAL)
    step.assign(phase[h], Phase.CANCELLED)


@peer.action
def release(step: Step, h: Handle) -> None:
    """Give up the rows of an ended request."""
    step.require(one_of(phase[h], Phase.FINISHED, Phase.CANCELLED), NOT_TERMINAL)
    step.assign(phase[h], Phase.RELEASED)
    step.assign(length[h], 0)


system = System.of("peer", "The small system on which engines are compared.", peer)
properties = Properties(system)


@properties.invariant
def a_published_append_staged_every_layer() -> Expr:
    """A published append has staged K and V of every layer."""
    return forall(
        Txn,
        Layer,
        lambda t, l: implies(status[t] == Status.PUBLISHED, staged_k[t, l] & staged_v[t, l]),
    )


@properties.invariant
def a_published_append_moved_its_handle_on() -> Expr:
    """A published append has a base whose generation has moved past the one it captured."""
    return forall(
        Txn,
        lambda t: implies(
            status[t] == Status.PUBLISHED, is_some(base[t]) & (gen[the(base[t])] > base_gen[t])
        ),
    )


@properties.lemma
def a_prepared_append_staged_every_layer() -> Expr:
    """A prepared append has staged K and V of every layer."""
    return forall(
        Txn,
        Layer,
        lambda t, l: implies(status[t] == Status.PREPARED, staged_k[t, l] & staged_v[t, l]),
    )


@properties.lemma
def a_live_append_has_a_base() -> Expr:
    """An open or prepared append has a base."""
    return forall(
        Txn,
        lambda t: implies(one_of(status[t], Status.OPEN, Status.PREPARED), is_some(base[t])),
    )


@properties.step
def length_changes_with_generation() -> Expr:
    """A handle that stays ready changes its length only together with its generation."""
    return forall(
        Handle,
        lambda h: implies(
            (phase[h] == Phase.READY)
            & (after(phase[h]) == Phase.READY)
            & (length[h] != after(length[h])),
            gen[h] != after(gen[h]),
        ),
    )


@properties.step
def publication_is_of_the_captured_generation() -> Expr:
    """What becomes published was staged in full, on the current generation of a ready handle."""
    return forall(
        Txn,
        lambda t: implies(
            (status[t] != Status.PUBLISHED) & (after(status[t]) == Status.PUBLISHED),
            forall(Layer, lambda l: staged_k[t, l] & staged_v[t, l])
            & (base_gen[t] == gen[the(base[t])])
            & (phase[the(base[t])] == Phase.READY),
        ),
    )


@properties.witness
def reaches_a_publication() -> Expr:
    """Some append is published."""
    return ~forall(Txn, lambda t: status[t] != Status.PUBLISHED)


@properties.end
def every_handle_is_released() -> Expr:
    """The model runs out where every handle is released."""
    return forall(Handle, lambda h: phase[h] == Phase.RELEASED)


@properties.leads_to(
    weak(stage_k, "t", "l"),
    weak(stage_v, "t", "l"),
    weak(prepare, "t"),
    weak(publish, "t"),
    weak(reject, "t"),
)
def every_begun_append_ends(t: Txn) -> tuple[Expr, Expr]:
    """An append that is open or prepared is in the end published, aborted or rejected."""
    live = one_of(status[t], Status.OPEN, Status.PREPARED)
    return live, ~live


SLOW_STATES = 1_000_000


def make_instance(
    handles: int,
    txns: int,
    layers: int,
    longest: int,
    generations: int,
    expected: Counts | None = None,
) -> Instance:
    """The instance R, M, L, T, G of the table of counts."""
    return instance(
        f"{handles},{txns},{layers},{longest},{generations}",
        system,
        {Handle: handles, Txn: txns, Layer: layers, Length: longest, Generation: generations},
        constants={max_length: longest, max_generation: generations},
        expected=expected,
        slow=expected is not None and expected.states > SLOW_STATES,
    )


# The outside checkers swap handles and transactions, and keep layers apart.
SWAPPED = ("Handle", "Txn")

ROWS: dict[str, Instance] = {
    row.name: row
    for row in (
        make_instance(1, 1, 1, 2, 2, Counts(109, 284, 14, 3)),
        make_instance(1, 1, 2, 3, 4, Counts(828, 3_188, 27, 5, 828, SWAPPED)),
        make_instance(2, 1, 2, 3, 4, Counts(55_530, 293_775, 53, 25, 27_807, SWAPPED)),
        make_instance(1, 2, 2, 3, 4, Counts(72_387, 485_921, 34, 5, 36_584, SWAPPED)),
        make_instance(2, 2, 1, 2, 2, Counts(86_725, 512_416, 32, 9)),
        make_instance(2, 2, 2, 3, 2, Counts(649_477, 5_066_416, 42, 9, 164_206, SWAPPED)),
        make_instance(2, 2, 2, 3, 4, Counts(9_872_416, 81_052_032, 60, 25, 2_481_625, SWAPPED)),
        make_instance(2, 2, 2, 3, 6, Counts(49_927_035, 419_018_702, 91, 49, 12_526_276, SWAPPED)),
        make_instance(2, 2, 2, 3, 8, Counts(140_913_183, 1_197_500_598, 109, 81)),
    )
}
