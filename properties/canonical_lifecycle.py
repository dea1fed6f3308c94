"""Claims about the canonical lifecycle: each operation moves its own coordinates and no other."""

from __future__ import annotations

from kvspec.spec.canonical_lifecycle import (
    Stage,
    closed,
    committed,
    decode_publish,
    finish,
    generation,
    identity,
    longest,
    output_emit,
    outputs,
    prompt,
    snapshot,
    stage,
    system,
    terminal,
)
from kvspec.spec.handles import Handle
from kvspec.spec.language import (
    Expr,
    Properties,
    after,
    exists,
    fired,
    forall,
    implies,
    is_some,
    one_of,
)

properties = Properties(system)


@properties.invariant
def an_output_ends_before_its_rows_are_released() -> Expr:
    """F says that the output has ended, R that the rows were given up too."""
    return forall(
        Handle,
        lambda h: (
            (terminal[h] == one_of(stage[h], Stage.FINISHED_RETAINED, Stage.RELEASED))
            & (closed[h] == (stage[h] == Stage.RELEASED))
        ),
    )


@properties.invariant
def a_released_handle_has_neither_rows_nor_request() -> Expr:
    """A handle that nobody holds has no identity, no outputs and no committed rows."""
    return forall(
        Handle,
        lambda h: implies(
            one_of(stage[h], Stage.VACANT, Stage.RELEASED),
            ~is_some(identity[h]) & (outputs[h] == 0) & (committed[h] == 0) & (prompt[h] == 0),
        ),
    )


@properties.invariant
def no_more_rows_than_allowed_are_committed() -> Expr:
    """No request commits more rows than it may."""
    return forall(Handle, lambda h: committed[h] <= longest)


@properties.invariant
def at_most_one_emitted_token_lacks_its_row() -> Expr:
    """A request that decodes has the rows of its prompt, and of every output but perhaps the last."""
    return forall(
        Handle,
        lambda h: implies(
            stage[h] == Stage.DECODE_READY, prompt[h] + outputs[h] <= committed[h] + 1
        ),
    )


@properties.step
def an_emission_commits_no_rows() -> Expr:
    """Emission of an output leaves the snapshot and the committed rows as they are."""
    return forall(
        Handle,
        lambda h: implies(
            fired(output_emit) & (after(outputs[h]) != outputs[h]),
            (after(outputs[h]) == outputs[h] + 1)
            & (after(committed[h]) == committed[h])
            & (after(snapshot[h]) == snapshot[h]),
        ),
    )


@properties.step
def a_publication_emits_nothing() -> Expr:
    """Publication of rows makes one snapshot and leaves the outputs as they are."""
    return forall(
        Handle,
        lambda h: implies(
            fired(decode_publish) & (after(committed[h]) != committed[h]),
            (after(committed[h]) > committed[h])
            & (after(snapshot[h]) == snapshot[h] + 1)
            & (after(outputs[h]) == outputs[h]),
        ),
    )


@properties.step
def a_finish_keeps_the_rows() -> Expr:
    """The end of the output keeps rows, snapshot and owner."""
    return forall(
        Handle,
        lambda h: implies(
            fired(finish) & (after(terminal[h]) != terminal[h]),
            (after(committed[h]) == committed[h])
            & (after(snapshot[h]) == snapshot[h])
            & (after(identity[h]) == identity[h])
            & ~after(closed[h]),
        ),
    )


@properties.step
def a_generation_moves_with_the_release_alone() -> Expr:
    """The generation of a handle is fenced when its rows are released, and at no other step."""
    return forall(
        Handle,
        lambda h: implies(
            after(generation[h]) != generation[h],
            (stage[h] == Stage.FINISHED_RETAINED)
            & (after(stage[h]) == Stage.RELEASED)
            & (after(generation[h]) == generation[h] + 1),
        ),
    )


@properties.step
def rows_move_with_the_snapshot() -> Expr:
    """A request that is held keeps its snapshot only while its committed rows stay."""
    return forall(
        Handle,
        lambda h: implies(
            is_some(identity[h]) & (after(committed[h]) != committed[h]),
            after(snapshot[h]) == snapshot[h] + 1,
        ),
    )


@properties.witness
def reaches_rows_retained_after_the_end() -> Expr:
    """A request has ended and its rows are still committed."""
    return exists(Handle, lambda h: (stage[h] == Stage.FINISHED_RETAINED) & (committed[h] >= 1))


@properties.witness
def reaches_outputs_without_rows() -> Expr:
    """A retracted request has outputs and no rows."""
    return exists(
        Handle, lambda h: (stage[h] == Stage.NEW) & (outputs[h] >= 1) & (committed[h] == 0)
    )


@properties.witness
def reaches_rows_of_drafts() -> Expr:
    """Rows of verified drafts are committed before their tokens are emitted."""
    return exists(Handle, lambda h: committed[h] > prompt[h] + outputs[h])
