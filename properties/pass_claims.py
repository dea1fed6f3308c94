"""What is claimed of passes wherever a system has them: how they are numbered, and that they settle.

Each function is a claim's text; `properties.ownership` and `properties.tables` make it a claim of theirs.
"""

from __future__ import annotations

from kvspec.spec.language import Expr, after, exists, fired, forall, implies, where
from kvspec.spec.passes import Pass, dispatch, in_flight, pass_number, settle, unsettled


def a_pass_in_flight_has_a_place_among_them() -> Expr:
    """A pass in flight has one of as many places as there are passes in flight."""
    return forall(
        Pass,
        lambda p: implies(in_flight[p], (pass_number[p] > 0) & (pass_number[p] <= unsettled[()])),
    )


def a_pass_in_flight_has_a_place_of_its_own() -> Expr:
    """No two passes in flight have one place."""
    return forall(
        Pass,
        Pass,
        lambda p, q: implies(
            in_flight[p] & in_flight[q] & (pass_number[p] == pass_number[q]), p == q
        ),
    )


def a_settled_pass_has_no_place() -> Expr:
    """A record without a pass has no place."""
    return forall(Pass, lambda p: implies(~in_flight[p], pass_number[p] == 0))


def a_pass_settles_after_those_before_it() -> Expr:
    """The pass that settles is the oldest one in flight."""
    return implies(
        fired(settle),
        exists(
            Pass,
            lambda p: (
                in_flight[p]
                & ~after(in_flight[p])
                & forall(
                    Pass,
                    lambda q: implies(in_flight[q], pass_number[p] <= pass_number[q]),
                )
            ),
        ),
    )


def passes_are_counted_one_by_one() -> Expr:
    """A dispatch has one pass more in flight, a settling one less, and no other step changes that."""
    return after(unsettled[()]) == where(
        fired(dispatch),
        unsettled[()] + 1,
        where(fired(settle), unsettled[()] - 1, unsettled[()]),
    )


def passes_keep_their_order() -> Expr:
    """Of two passes in flight, the one that is ahead stays ahead."""
    return forall(
        Pass,
        Pass,
        lambda p, q: implies(
            in_flight[p]
            & in_flight[q]
            & after(in_flight[p])
            & after(in_flight[q])
            & (pass_number[p] < pass_number[q]),
            after(pass_number[p]) < after(pass_number[q]),
        ),
    )
