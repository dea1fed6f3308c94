"""What is claimed of resident rows: every window is whole, memory is bounded, and masks cover what is shown.

The invariants of the core are given. What speaks of a window supposes that it is at least one row long: a
query sees its own row.
"""

from __future__ import annotations

from kvspec.properties.core import properties as core
from kvspec.properties.serving import is_current
from kvspec.spec.append import Txn, k_end, publish, start
from kvspec.spec.handles import (
    Handle,
    Layer,
    Phase,
    is_free,
    is_held,
    length,
    parent,
    phase,
    rewind,
)
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
)
from kvspec.spec.lifecycle import fork, truncate
from kvspec.spec.residency import columns, cut, first, needed_from, system, window, windowed

residency = Properties(system, given=core)


def is_resident(h: Expr, l: Expr, n: Expr) -> Expr:
    """The layer has every row of the window of a query at n."""
    return first[h, l] <= needed_from(n)


@residency.invariant
def a_query_finds_every_row_of_its_window() -> Expr:
    """The next query of a request finds all rows that it sees, in every layer."""
    return implies(
        window >= 1,
        forall(
            Handle,
            Layer,
            lambda h, l: implies(is_held(h) & (length[h] >= 1), is_resident(h, l, length[h])),
        ),
    )


@residency.invariant
def resident_rows_are_committed_rows() -> Expr:
    """The first resident row of a request is no further than its rows go."""
    return implies(
        window >= 1,
        forall(Handle, Layer, lambda h, l: implies(is_held(h), first[h, l] <= length[h])),
    )


@residency.invariant
def a_full_layer_keeps_every_row() -> Expr:
    """A layer whose queries see all rows lets go of none."""
    return forall(Handle, Layer, lambda h, l: implies(~windowed[l], first[h, l] == 0))


@residency.invariant
def a_windowed_layer_keeps_a_bounded_number_of_rows() -> Expr:
    """A windowed layer has no more rows than its window and the rows to go back by take."""
    return implies(
        window >= 1,
        forall(
            Handle,
            Layer,
            lambda h, l: implies(
                is_held(h) & windowed[l], length[h] + 1 <= first[h, l] + window + rewind
            ),
        ),
    )


@residency.invariant
def a_free_handle_has_no_resident_row() -> Expr:
    """The next request of a handle begins with its first row."""
    return forall(Handle, Layer, lambda h, l: implies(is_free(h), first[h, l] == 0))


@residency.invariant
def the_mask_covers_every_row_that_is_shown() -> Expr:
    """The mask of a query has as many columns as the query is given rows, in an open burst as well."""
    return implies(
        window >= 1,
        forall(
            Txn,
            Handle,
            Layer,
            lambda x, h, l: implies(
                is_current(x, h) & (start[x] < k_end[x, l]),
                columns[x, l] + first[h, l] == k_end[x, l],
            ),
        ),
    )


@residency.invariant
def a_query_to_come_has_no_mask() -> Expr:
    """An append without rows in a layer has no mask there: none is left from the one before."""
    return forall(
        Txn,
        Handle,
        Layer,
        lambda x, h, l: implies(is_current(x, h) & (k_end[x, l] == start[x]), columns[x, l] == 0),
    )


@residency.step
def rows_are_let_go_at_publication_alone() -> Expr:
    """While an append is open, and when it ends without rows, a request loses no resident row."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(is_held(h) & (first[h, l] < after(first[h, l])), fired(publish)),
    )


@residency.step
def a_truncate_keeps_the_resident_rows_before_its_cut() -> Expr:
    """A truncate lets go of no row that stays committed."""
    return implies(
        (window >= 1) & fired(truncate),
        forall(
            Handle,
            Layer,
            lambda h, l: implies(is_held(h), after(first[h, l]) == cut(h, l, after(length[h]))),
        ),
    )


@residency.step
def a_child_has_the_resident_rows_of_its_parent() -> Expr:
    """A fork has those of its rows resident that its parent has."""
    return forall(
        Handle,
        Handle,
        Layer,
        lambda p, c, l: implies(
            fired(fork) & is_held(p) & ~is_held(c) & after(is_held(c)) & after(parent[c] == p),
            after(first[c, l]) == cut(p, l, after(length[c])),
        ),
    )


@residency.witness
def reaches_rows_that_were_let_go() -> Expr:
    """A request has rows in one layer that another layer has let go of."""
    return exists(Handle, Layer, lambda h, l: (length[h] >= 2) & (first[h, l] >= 1))


@residency.witness
def reaches_a_burst_wider_than_the_window() -> Expr:
    """A query of an open append is given more rows than it sees."""
    return exists(Txn, Layer, lambda x, l: windowed[l] & (window < columns[x, l]))


@residency.witness
def reaches_a_request_taken_back_beside_let_go_rows() -> Expr:
    """A request whose layer has let go of rows stands before where it stood."""
    return exists(
        Handle,
        Layer,
        lambda h, l: (
            (phase[h] == Phase.DECODE_READY)
            & (first[h, l] >= 1)
            & (length[h] + 1 < first[h, l] + window + rewind)
        ),
    )


@residency.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body
