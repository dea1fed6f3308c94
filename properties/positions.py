"""What is claimed of positions: the list of tokens is the rows in their order, each rotated for its place."""

from __future__ import annotations

from kvspec.spec.language import Expr, Properties, after, exists, fired, forall, implies, weak
from kvspec.spec.positions import (
    Cell,
    Fate,
    add,
    close_edit,
    drop,
    editing,
    fate,
    flush,
    held,
    index,
    keep,
    kept,
    open_edit,
    pending,
    position,
    rotated,
    seen,
    size,
    system,
)

positions = Properties(system)


@positions.invariant
def every_token_of_the_sequence_has_its_row() -> Expr:
    """No row of a token that stays, or may stay yet, was removed."""
    return forall(Cell, lambda c: implies(fate[c] != Fate.ABSENT, held[c]))


@positions.invariant
def a_token_that_left_has_no_row() -> Expr:
    """Attention finds no row of a token that is not in the sequence."""
    return forall(Cell, lambda c: implies(fate[c] == Fate.ABSENT, ~held[c]))


@positions.invariant
def a_row_stands_at_the_place_of_its_token() -> Expr:
    """The list of tokens is the rows, sorted by position."""
    return forall(
        Cell, lambda c: implies(held[c] & (fate[c] == Fate.KEPT), position[c] == index[c])
    )


@positions.invariant
def no_two_rows_stand_at_one_position() -> Expr:
    """Two rows of a sequence have different positions."""
    return forall(
        Cell,
        Cell,
        lambda c, d: implies(held[c] & held[d] & (position[c] == position[d]), c == d),
    )


@positions.invariant
def a_row_with_nothing_pending_is_rotated_for_its_position() -> Expr:
    """Once every shift is applied, K is rotated for the position that the row has."""
    return forall(Cell, lambda c: implies(held[c] & (pending[c] == 0), rotated[c] == position[c]))


@positions.lemma
def the_rotation_lags_by_what_is_pending() -> Expr:
    """What is still to be turned back is all that lies between rotation and position."""
    return forall(Cell, lambda c: implies(held[c], rotated[c] == position[c] + pending[c]))


@positions.lemma
def an_undecided_row_is_shifted_by_what_left_before_it() -> Expr:
    """A token that the edit has not come to stands behind the cursors, in each list by its own count."""
    return forall(
        Cell,
        lambda c: implies(
            fate[c] == Fate.UNDECIDED,
            editing[()]
            & (seen[()] <= index[c])
            & (index[c] < size[()])
            & (position[c] + seen[()] == index[c] + kept[()]),
        ),
    )


@positions.lemma
def a_kept_token_stands_before_the_cursor() -> Expr:
    """A token of the sequence has its place before the next free one."""
    return forall(
        Cell,
        lambda c: implies(
            fate[c] == Fate.KEPT,
            (index[c] < size[()]) & implies(editing[()], index[c] < kept[()]),
        ),
    )


@positions.lemma
def the_new_list_is_no_longer_than_the_old_one() -> Expr:
    """An edit keeps at most the tokens that it has seen, and sees at most those that there are."""
    return (kept[()] <= seen[()]) & (seen[()] <= size[()]) & implies(~editing[()], seen[()] == 0)


@positions.invariant
def a_removed_row_leaves_nothing() -> Expr:
    """A cell without a row has no position and no rotation, which the next row would inherit."""
    return forall(
        Cell,
        lambda c: implies(~held[c], (position[c] == 0) & (rotated[c] == 0) & (pending[c] == 0)),
    )


@positions.invariant
def a_token_that_left_has_no_place() -> Expr:
    """A token outside the sequence is at no place of the list."""
    return forall(Cell, lambda c: implies(fate[c] == Fate.ABSENT, index[c] == 0))


@positions.step
def attention_reads_rows_rotated_for_their_positions() -> Expr:
    """When a decode step reads the rows, each K is rotated for the position that the row has."""
    return forall(Cell, lambda c: implies(fired(add) & held[c], rotated[c] == position[c]))


@positions.step
def attention_reads_no_sequence_halfway() -> Expr:
    """No decode step comes between the two ends of an edit."""
    return implies(fired(add), ~editing[()])


@positions.step
def a_row_keeps_its_memory_while_it_is_shifted() -> Expr:
    """What an edit keeps is neither moved nor computed anew: its cell has the row before and after."""
    return forall(
        Cell,
        lambda c: implies(after(fate[c]) == Fate.KEPT, fired(add) | (held[c] & after(held[c]))),
    )


@positions.step
def an_edit_keeps_what_it_has_decided_to_keep() -> Expr:
    """A token that an edit keeps stays, with its place, until the next edit."""
    return forall(
        Cell,
        lambda c: implies(
            (fate[c] == Fate.KEPT) & ~fired(open_edit),
            after(fate[c] == Fate.KEPT) & (after(index[c]) == index[c]),
        ),
    )


@positions.step
def the_list_grows_by_what_is_added() -> Expr:
    """The list is one token longer after a decode step, and as long as what was kept after an edit."""
    return implies(fired(add), after(size[()]) == size[()] + 1) & implies(
        fired(close_edit), after(size[()]) == kept[()]
    )


@positions.step
def an_edit_begins_at_the_front() -> Expr:
    """When an edit begins, nothing of the list is decided."""
    return implies(
        fired(open_edit) | ~after(editing[()]), (after(seen[()]) == 0) & (after(kept[()]) == 0)
    )


@positions.step
def an_edit_decides_on_tokens_in_their_order() -> Expr:
    """A token is kept when all before it were decided on, and no decision is taken back."""
    return forall(
        Cell,
        lambda c: implies(
            fired(keep) & (fate[c] == Fate.UNDECIDED) & (after(fate[c]) == Fate.KEPT),
            (index[c] == seen[()]) & (after(index[c]) == kept[()]),
        ),
    )


@positions.step
def every_decision_is_about_some_token() -> Expr:
    """Keeping and dropping bring an edit on in the old list."""
    return implies(fired(keep) | fired(drop), seen[()] < after(seen[()]))


@positions.step
def a_flush_turns_some_row() -> Expr:
    """Nothing is launched where no row has to be turned."""
    return implies(fired(flush), exists(Cell, lambda c: after(rotated[c]) < rotated[c]))


@positions.witness
def reaches_two_shifts_of_one_row() -> Expr:
    """Two runs left before a row while nothing was applied to it."""
    return exists(Cell, lambda c: editing[()] & (pending[c] >= 2) & (kept[()] >= 1))


@positions.witness
def reaches_a_row_applied_halfway() -> Expr:
    """Part of what a row was shifted by is applied, and the rest is pending."""
    return exists(Cell, lambda c: (pending[c] >= 1) & (rotated[c] < index[c]))


@positions.witness
def reaches_a_sequence_out_of_order_in_memory() -> Expr:
    """A cell that an edit emptied has the last row of the sequence, before rows that were kept."""
    return exists(
        Cell, Cell, lambda c, d: held[c] & held[d] & (fate[c] == Fate.KEPT) & (index[c] > index[d])
    )


@positions.leads_to(weak(flush))
def every_pending_shift_is_applied(c: Cell) -> tuple[Expr, Expr]:
    """A row that was shifted is turned in the end."""
    return pending[c] >= 1, pending[c] == 0


@positions.leads_to(weak(close_edit))
def every_edit_ends() -> tuple[Expr, Expr]:
    """An edit that was begun is closed in the end."""
    return editing[()], ~editing[()]
