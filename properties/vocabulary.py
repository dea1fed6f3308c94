"""Words that several claims share."""

from __future__ import annotations

from kvspec.spec.append import TxnState, state
from kvspec.spec.language import Expr, after, one_of


def has_claims(x: Expr) -> Expr:
    """The append is live, or published and remembered."""
    return one_of(state[x], TxnState.OPEN, TxnState.PREPARED, TxnState.PUBLISHED)


def stays(expr: Expr) -> Expr:
    """The expression has the same value after the step."""
    return after(expr) == expr


def becomes(x: Expr, end: Expr) -> Expr:
    """The append is in that state after the step and was not before."""
    return (state[x] != end) & (after(state[x]) == end)
