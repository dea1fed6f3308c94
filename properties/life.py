"""What is claimed of the life of a request: all of it holds of every system that refines it."""

from __future__ import annotations

from kvspec.spec.handles import Handle, Phase, context
from kvspec.spec.language import Expr, Properties, after, fired, forall, implies, one_of
from kvspec.spec.life import (
    add_rows,
    rows,
    stage,
    system,
)

life = Properties(system)


def is_free(h: Expr) -> Expr:
    """No request has the handle."""
    return one_of(stage[h], Phase.VACANT, Phase.RELEASED)


def is_ready(h: Expr) -> Expr:
    """The request of the handle has not ended."""
    return stage[h] == Phase.DECODE_READY


def has_ended(h: Expr) -> Expr:
    """The request has ended, and its rows are held."""
    return one_of(stage[h], Phase.FINISHED, Phase.CANCELLED)


@life.invariant
def rows_fit_the_context() -> Expr:
    """No request has more rows than the context."""
    return forall(Handle, lambda h: rows[h] <= context)


@life.invariant
def a_free_handle_has_no_rows() -> Expr:
    """Nothing can be read of a handle that has no request."""
    return forall(Handle, lambda h: implies(is_free(h), rows[h] == 0))


@life.step
def an_ended_request_gets_no_row() -> Expr:
    """Of a request that has ended the rows stay as they are until they are released."""
    return forall(
        Handle,
        lambda h: implies(has_ended(h), after(rows[h] == 0) | (after(rows[h]) == rows[h])),
    )


@life.step
def rows_of_a_ready_request_grow_by_additions_alone() -> Expr:
    """While a request goes on, only an addition makes it longer."""
    return forall(
        Handle,
        lambda h: implies(
            is_ready(h) & after(is_ready(h)) & (rows[h] < after(rows[h])), fired(add_rows)
        ),
    )
