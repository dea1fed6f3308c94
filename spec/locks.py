"""Locks and their receipts: an unlock gives back exactly what its lock took.

A node of a prefix tree has components: attention rows, a recurrent state, rows of a window. A component can
be absent: it was dropped, or never kept, and can be loaded again. A lock takes each component that is
present at the time, and its receipt says which. The unlock goes by the receipt, and not by what is present
by then. A component is dropped when its count of locks is 0.

Modelled: locks that overlap, components that are loaded or dropped in between. A count that was lowered for
nothing is one too low (`short`), so that the component can be dropped under one lock that is left.
Left out: trees (a lock of a path is a lock of each of its nodes), what is stored, the core: a node may
outlive every request.
"""

from __future__ import annotations

from kvspec.spec.failures import FailureClass, error_code
from kvspec.spec.language import (
    Bool,
    Counts,
    Expr,
    Instance,
    Map,
    Module,
    Open,
    Option,
    Step,
    System,
    forall,
    implies,
    instance,
    is_some,
    none,
    the,
    where,
)


class Node(Open):
    """A node of a prefix tree."""


class Component(Open):
    """What a node can have or lack: rows, a recurrent state, rows of a window."""


class Lock(Open):
    """Someone who locks nodes."""


LOCK_IN_USE = error_code("LOCK_IN_USE", "the lock is on a node already")
NOT_LOCKED = error_code("NOT_LOCKED", "the lock is on no node")
IS_PRESENT = error_code("IS_PRESENT", "the node has the component already")
IS_ABSENT = error_code("IS_ABSENT", "the node lacks the component")
NOT_THE_RECEIPT = error_code(
    "NOT_THE_RECEIPT", "what is given back is not what the lock took", FailureClass.OWNERSHIP
)
COMPONENT_LOCKED = error_code(
    "COMPONENT_LOCKED", "the count of the component is not 0", FailureClass.OWNERSHIP
)

locks = Module("locks", "Locks of what may be absent, and their receipts.")

present = locks.variable(
    "present", Node, Component, to=Bool, init=False, meaning="the node has the component"
)
locked = locks.variable(
    "locked", Lock, to=Option[Node], init=none(Node), meaning="node that the lock is on"
)
took = locks.variable(
    "took", Lock, Component, to=Bool, init=False, meaning="the receipt names the component"
)
counted = locks.variable(
    "counted",
    Lock,
    Node,
    Component,
    to=Bool,
    init=False,
    meaning="the lock is in the count of the component",
)
short = locks.variable(
    "short", Node, Component, to=Bool, init=False, meaning="the count is one too low"
)


def count_is_zero(n: Expr, c: Expr) -> Expr:
    """The count of a component says that no lock has it: it is short by one at the most."""
    return forall(Lock, lambda k: ~counted[k, n, c]) | (
        short[n, c]
        & forall(Lock, Lock, lambda k, j: implies(counted[k, n, c] & counted[j, n, c], k == j))
    )


@locks.action
def load(step: Step, n: Node, c: Component) -> None:
    """Bring a component back that the node lacks."""
    step.require(~present[n, c], IS_PRESENT)
    step.assign(present[n, c], True)


@locks.action
def drop(step: Step, n: Node, c: Component) -> None:
    """Drop a component that no lock has."""
    step.require(present[n, c], IS_ABSENT)
    step.require(count_is_zero(n, c), COMPONENT_LOCKED)
    step.assign(present[n, c], False)


@locks.action
def lock(step: Step, k: Lock, n: Node) -> None:
    """Lock the components that a node has, and write the receipt."""
    step.require(~is_some(locked[k]), LOCK_IN_USE)
    step.assign(locked[k], n)
    for c in step.every(Component):
        step.assign(took[k, c], present[n, c])
        step.assign(counted[k, n, c], present[n, c])


@locks.action
def unlock(step: Step, k: Lock, back: Map[Component, Bool]) -> None:
    """Give back what a lock took, as its receipt says."""
    n = the(locked[k])
    step.require(is_some(locked[k]), NOT_LOCKED)
    step.require(forall(Component, lambda c: back[c] == took[k, c]), NOT_THE_RECEIPT)
    step.assign(locked[k], none(Node))
    for c in step.every(Component):
        step.assign(took[k, c], False)
        step.assign(counted[k, n, c], where(back[c], False, counted[k, n, c]))
        step.assign(short[n, c], short[n, c] | (back[c] & ~counted[k, n, c]))


system = System.of("locks", "Locks of nodes whose components come and go.", locks)


def make_instance(
    name: str,
    doc: str,
    *,
    nodes: int = 1,
    components: int = 1,
    locks: int = 1,
    expected: Counts | None = None,
) -> Instance:
    """An instance by its sizes."""
    return instance(
        name,
        system,
        {Node: nodes, Component: components, Lock: locks},
        doc=doc,
        expected=expected,
    )


TWO_COMPONENTS = make_instance(
    "TWO_COMPONENTS",
    "rows and a recurrent state under two locks",
    components=2,
    locks=2,
    expected=Counts(45, 142, 4, 0),
)
TWO_NODES = make_instance(
    "TWO_NODES", "two nodes and two locks", nodes=2, locks=2, expected=Counts(66, 264, 4, 0)
)

INSTANCES = (TWO_COMPONENTS, TWO_NODES)
