"""What is claimed of passes wherever a system has them: how they are numbered, and that they settle.

Each function is a claim's text; `properties.ownership` and `properties.tables` make it a claim of theirs.
"""

from __future__ import annotations

from kvspec.spec.language import Expr, after, exists, fired, forall, implies
from kvspec.spec.passes import Pass, dispatched, in_flight, pass_number, settle, settled


def no_more_settle_than_were_dispatched() -> Expr:
    """Passes settle after they were dispatched."""
    return settled[()] <= dispatched[()]


def a_pass_in_flight_is_behind_the_settled_ones() -> Expr:
    """A pass in flight was dispatched, and has not settled."""
    return forall(
        Pass,
        lambda p: implies(
            in_flight[p], (settled[()] < pass_number[p]) & (pass_number[p] <= dispatched[()])
        ),
    )


def a_pass_in_flight_has_a_number_of_its_own() -> Expr:
    """No two passes in flight have one number."""
    return forall(
        Pass,
        Pass,
        lambda p, q: implies(
            in_flight[p] & in_flight[q] & (pass_number[p] == pass_number[q]), p == q
        ),
    )


def a_settled_pass_has_no_number() -> Expr:
    """A record without a pass has no number."""
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
    """No step dispatches two passes, or settles two."""
    return (after(dispatched[()]) <= dispatched[()] + 1) & (after(settled[()]) <= settled[()] + 1)
