"""What is claimed of the batch: the companions of a row belong together."""

from __future__ import annotations

from kvspec.properties.claims import core
from kvspec.spec.batch import (
    Row,
    leave,
    reorder,
    row_ancestry,
    row_cache,
    row_position,
    row_sampler,
    row_tokens,
)
from kvspec.spec.handles import Handle, Phase, is_held, length, parent, phase
from kvspec.spec.language import Expr, after, exists, fired, forall, implies, is_some, none


@core.invariant
def a_row_carries_a_held_handle() -> Expr:
    """The cache handle of a batch row holds rows."""
    return forall(Row, Handle, lambda r, h: implies(row_cache[r] == h, is_held(h)))


@core.invariant
def no_handle_is_in_two_rows() -> Expr:
    """Two batch rows carry different handles."""
    return forall(
        Row,
        Row,
        lambda r, s: implies(is_some(row_cache[r]) & (row_cache[r] == row_cache[s]), r == s),
    )


@core.invariant
def tokens_move_with_the_cache() -> Expr:
    """The tokens of a batch row are those of its cache handle."""
    return forall(Row, lambda r: row_tokens[r] == row_cache[r])


@core.invariant
def the_sampler_moves_with_the_cache() -> Expr:
    """The sampler state of a batch row is that of its cache handle."""
    return forall(Row, lambda r: row_sampler[r] == row_cache[r])


@core.invariant
def ancestry_moves_with_the_cache() -> Expr:
    """The ancestry of a batch row is that of its cache handle."""
    return forall(
        Row,
        Handle,
        lambda r, h: implies(row_cache[r] == h, row_ancestry[r] == parent[h]),
    )


@core.invariant
def the_position_moves_with_the_cache() -> Expr:
    """The next position of a batch row is the committed length of its cache handle."""
    return forall(
        Row, Handle, lambda r, h: implies(row_cache[r] == h, row_position[r] == length[h])
    )


@core.invariant
def an_empty_row_is_blank() -> Expr:
    """A batch row without a request has no ancestry and position 0."""
    return forall(
        Row,
        lambda r: implies(
            ~is_some(row_cache[r]),
            (row_ancestry[r] == none(Handle)) & (row_position[r] == 0),
        ),
    )


@core.step
def a_request_leaves_the_batch_only_by_leave() -> Expr:
    """A handle in some batch row is in some row after any step but leave."""
    return forall(
        Handle,
        lambda h: implies(
            exists(Row, lambda r: row_cache[r] == h) & ~fired(leave),
            after(exists(Row, lambda r: row_cache[r] == h)),
        ),
    )


@core.step
def only_ready_requests_enter_the_batch() -> Expr:
    """A handle that comes into the batch is ready."""
    return forall(
        Handle,
        lambda h: implies(
            ~exists(Row, lambda r: row_cache[r] == h)
            & after(exists(Row, lambda r: row_cache[r] == h)),
            phase[h] == Phase.DECODE_READY,
        ),
    )


@core.step
def a_leave_clears_a_row() -> Expr:
    """Leave takes one request out of the batch."""
    return implies(
        fired(leave),
        exists(
            Handle,
            lambda h: (
                exists(Row, lambda r: row_cache[r] == h)
                & ~after(exists(Row, lambda r: row_cache[r] == h))
            ),
        ),
    )


@core.step
def reorder_moves_positions_with_requests() -> Expr:
    """Reorder gives a request the same position in its new row."""
    return forall(
        Row,
        Row,
        Handle,
        lambda r, s, h: implies(
            fired(reorder) & (row_cache[r] == h) & after(row_cache[s] == h),
            after(row_position[s]) == row_position[r],
        ),
    )
