"""The group of the atlas about locks of components that come and go."""

from __future__ import annotations

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import loosen
from kvspec.properties.locks import locks
from kvspec.spec.language import Counts, forall, implies, the
from kvspec.spec.locks import (
    NOT_THE_RECEIPT,
    Component,
    locked,
    make_instance,
    present,
    system,
    took,
    unlock,
)

ONE_LOCK = make_instance("ONE_LOCK", "one lock of one component", expected=Counts(5, 9, 2, 0))


BY_WHAT_IS_PRESENT = loosen(
    system,
    unlock,
    NOT_THE_RECEIPT,
    lambda k, back: forall(Component, lambda c: back[c] == present[the(locked[k]), c]),
    name="by-what-is-present",
    says="gives back what is present at the unlock, and not what the lock took",
)
AT_MOST_THE_RECEIPT = loosen(
    system,
    unlock,
    NOT_THE_RECEIPT,
    lambda k, back: forall(Component, lambda c: implies(back[c], took[k, c])),
    name="at-most-the-receipt",
    says="gives back some of what the lock took",
)

A_B58 = Group(
    name="A-B58",
    title="An unlock lowers the count of a component that its lock never raised",
    kind="shared-prefix ownership",
    evidence=Evidence.REPRODUCED,
    sources=(
        "sgl-project/sglang PR #27147 (closed)",
        "sgl-project/sglang issue #21379",
        "sgl-project/sglang issue #24153",
    ),
    happened=(
        "a node of the tree keeps attention rows, and its recurrent state was dropped",
        "a lock counts the rows",
        "the state is loaded back",
        "the unlock lowers both counts, and that of the state falls below zero",
    ),
    cases=(
        Case(
            "The count of a component that was absent at the lock falls below zero.",
            BY_WHAT_IS_PRESENT,
            locks,
            "no_count_is_too_low",
            ONE_LOCK,
        ),
        Case(
            "The count is too low under the next lock, and what that one has is dropped.",
            BY_WHAT_IS_PRESENT,
            locks,
            "a_locked_component_is_present",
            ONE_LOCK,
        ),
        Case(
            "A repair that only keeps the count from falling below zero leaves a lock in it for ever.",
            AT_MOST_THE_RECEIPT,
            locks,
            "every_count_is_given_back",
            ONE_LOCK,
        ),
    ),
)

GROUPS = (A_B58,)
