"""What is claimed of the two numberings: each is a projection of the state, and both fence the same."""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.spec.append import (
    Txn,
    TxnState,
    base_generation,
    base_version,
    is_live,
    state,
    target,
)
from kvspec.spec.handles import (
    Handle,
    Phase,
    generation,
    is_held,
    phase,
    version,
)
from kvspec.spec.language import Expr, Properties, after, forall, implies, where
from kvspec.spec.numbering import (
    base_incarnation,
    base_serial,
    base_snapshot,
    fenced_by_serial,
    fenced_by_snapshot,
    fenced_by_state,
    incarnation,
    incarnation_of,
    serial,
    serial_of,
    snapshot,
    snapshot_of,
    system,
)

numbering = Properties(system, given=core)


@numbering.invariant
def the_serial_is_a_projection() -> Expr:
    """The first numbering is the version and the changes of phase that came after it."""
    return forall(Handle, lambda h: serial[h] == serial_of(h))


@numbering.invariant
def the_snapshot_number_is_a_projection() -> Expr:
    """The second numbering is the version, and one more once the request is released."""
    return forall(Handle, lambda h: snapshot[h] == snapshot_of(h))


@numbering.invariant
def the_incarnation_is_a_projection() -> Expr:
    """Requests that had a handle are its releases, and the one that holds it."""
    return forall(Handle, lambda h: incarnation[h] == incarnation_of(h))


@numbering.invariant
def captured_numbers_are_those_of_the_captured_state() -> Expr:
    """What an append captured in both numberings is what it captured of the state."""
    return forall(
        Txn,
        lambda x: implies(
            is_live(x),
            (base_incarnation[x] == base_generation[x] + 1)
            & (base_serial[x] == base_version[x])
            & (base_snapshot[x] == base_version[x]),
        ),
    )


@numbering.invariant
def an_ended_append_has_captured_nothing() -> Expr:
    """The numbers that an append captured are gone when it has ended."""
    return forall(
        Txn,
        lambda x: implies(
            ~is_live(x),
            (base_incarnation[x] == 0) & (base_serial[x] == 0) & (base_snapshot[x] == 0),
        ),
    )


@numbering.lemma
def a_serial_counts_on() -> Expr:
    """Within one incarnation the serial is past what an append captured, by each change of phase."""
    return forall(
        Txn,
        Handle,
        lambda x, h: implies(
            is_live(x) & (target[x] == h) & (incarnation[h] == base_incarnation[x]),
            base_serial[x] + serial_of(h) <= serial[h] + version[h],
        ),
    )


@numbering.invariant
def both_numberings_fence_the_same_appends() -> Expr:
    """An append gets past the fence of one numbering exactly if it gets past that of the other."""
    return forall(Txn, lambda x: implies(is_live(x), fenced_by_serial(x) == fenced_by_snapshot(x)))


@numbering.invariant
def the_fences_are_the_guards_of_publication() -> Expr:
    """An append gets past the fence of a numbering exactly if publication would take its base."""
    return forall(Txn, lambda x: implies(is_live(x), fenced_by_serial(x) == fenced_by_state(x)))


@numbering.step
def what_is_published_was_let_through_by_both() -> Expr:
    """An append that becomes published was let through by both fences."""
    return forall(
        Txn,
        lambda x: implies(
            (state[x] == TxnState.PREPARED) & (after(state[x]) == TxnState.PUBLISHED),
            fenced_by_serial(x) & fenced_by_snapshot(x),
        ),
    )


@numbering.step
def what_is_rejected_was_held_back_by_both() -> Expr:
    """An append that a publication rejects was held back by both fences."""
    return forall(
        Txn,
        lambda x: implies(
            (state[x] == TxnState.PREPARED) & (after(state[x]) == TxnState.REJECTED),
            ~fenced_by_serial(x) & ~fenced_by_snapshot(x),
        ),
    )


@numbering.step
def every_change_of_a_request_has_its_own_number() -> Expr:
    """While a request holds a handle, its serial goes on with every new snapshot and every new phase."""
    return forall(
        Handle,
        lambda h: implies(
            is_held(h),
            where(
                (after(version[h]) == version[h]) & (after(phase[h]) == phase[h]),
                after(serial[h]) == serial[h],
                after(serial[h]) == serial[h] + 1,
            ),
        ),
    )


@numbering.witness
def reaches_numbers_that_differ() -> Expr:
    """A finished request has different numbers in the two numberings."""
    return ~forall(Handle, lambda h: serial[h] == snapshot[h])


@numbering.witness
def reaches_equal_serials_of_two_requests() -> Expr:
    """An append has the serial of another request of its handle: the serial alone fences nothing."""
    return ~forall(
        Txn,
        Handle,
        lambda x, h: (
            ~(
                is_live(x)
                & (target[x] == h)
                & (incarnation[h] != base_incarnation[x])
                & (serial[h] == base_serial[x])
            )
        ),
    )


@numbering.witness
def reaches_an_end_that_the_snapshot_number_does_not_show() -> Expr:
    """A live append has generation and snapshot of a request that has finished: the phase must be asked."""
    return ~forall(
        Txn,
        Handle,
        lambda x, h: (
            ~(
                is_live(x)
                & (target[x] == h)
                & (generation[h] == base_generation[x])
                & (snapshot[h] == base_snapshot[x])
                & (phase[h] == Phase.FINISHED)
            )
        ),
    )


@numbering.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
