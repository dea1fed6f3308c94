"""What is claimed of locks: a component under a lock is there, and an unlock gives back what was taken."""

from __future__ import annotations

from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
    weak,
)
from kvspec.spec.locks import (
    Component,
    Lock,
    Node,
    counted,
    drop,
    load,
    lock,
    locked,
    present,
    short,
    system,
    took,
    unlock,
)

locks = Properties(system)


@locks.invariant
def no_count_is_too_low() -> Expr:
    """No component is given back that was not taken: its count goes never below what locks have."""
    return forall(Node, Component, lambda n, c: ~short[n, c])


@locks.invariant
def a_locked_component_is_present() -> Expr:
    """What a lock took is not dropped before its unlock."""
    return forall(
        Lock,
        Component,
        lambda k, c: implies(took[k, c], present[the(locked[k]), c]),
    )


@locks.invariant
def a_receipt_names_what_is_counted() -> Expr:
    """A lock is in the count of exactly what its receipt names, at the node that it is on."""
    return forall(
        Lock,
        Node,
        Component,
        lambda k, n, c: counted[k, n, c] == (took[k, c] & (locked[k] == n)),
    )


@locks.invariant
def a_lock_on_no_node_has_nothing() -> Expr:
    """After its unlock a lock is in no count: nothing is left over."""
    return forall(
        Lock, Node, Component, lambda k, n, c: implies(counted[k, n, c], is_some(locked[k]))
    )


@locks.lemma
def a_receipt_is_of_a_lock() -> Expr:
    """Only a lock that is on a node has a receipt."""
    return forall(Lock, Component, lambda k, c: implies(took[k, c], is_some(locked[k])))


@locks.step
def a_lock_takes_what_is_present() -> Expr:
    """A lock takes each component that its node has, and no other."""
    return forall(
        Lock,
        Node,
        Component,
        lambda k, n, c: implies(
            ~is_some(locked[k]) & after(locked[k] == n), after(took[k, c]) == present[n, c]
        ),
    )


@locks.step
def an_unlock_gives_back_what_was_taken() -> Expr:
    """With its unlock a lock leaves every count that it was in."""
    return forall(
        Lock,
        Node,
        Component,
        lambda k, n, c: implies(
            is_some(locked[k]) & ~after(is_some(locked[k])), ~after(counted[k, n, c])
        ),
    )


@locks.step
def a_lock_is_taken_on_a_node_and_left() -> Expr:
    """A lock goes onto a node with a lock, and off with an unlock."""
    return implies(
        fired(lock), exists(Lock, lambda k: ~is_some(locked[k]) & after(is_some(locked[k])))
    ) & implies(
        fired(unlock), exists(Lock, lambda k: is_some(locked[k]) & ~after(is_some(locked[k])))
    )


@locks.step
def a_component_comes_by_a_load() -> Expr:
    """A load brings one component, a drop takes one away, and nothing else does."""
    return implies(
        fired(load),
        exists(Node, Component, lambda n, c: ~present[n, c] & after(present[n, c])),
    ) & implies(
        fired(drop),
        exists(Node, Component, lambda n, c: present[n, c] & ~after(present[n, c])),
    )


@locks.witness
def reaches_a_lock_of_a_part() -> Expr:
    """A lock has one component, and lacks another that came back since."""
    return exists(
        Lock,
        Node,
        Component,
        Component,
        lambda k, n, c, d: (locked[k] == n) & took[k, c] & ~took[k, d] & present[n, d],
    )


@locks.witness
def reaches_two_locks_of_different_components() -> Expr:
    """Two locks of one node have taken different components."""
    return exists(
        Lock,
        Lock,
        Node,
        Component,
        lambda k, j, n, c: (locked[k] == n) & (locked[j] == n) & took[k, c] & ~took[j, c],
    )


@locks.leads_to(weak(unlock, "k"))
def every_count_is_given_back(k: Lock, n: Node, c: Component) -> tuple[Expr, Expr]:
    """A lock that is in a count leaves it in the end."""
    return counted[k, n, c], ~counted[k, n, c]
