"""What is claimed of images: a restore gives what was saved, or leaves nothing."""

from __future__ import annotations

from kvspec.properties.turns import goes, is_ready, sessions
from kvspec.spec.handles import Handle, Layer, context, k_rows, length, v_rows, version
from kvspec.spec.images import (
    Image,
    Restore,
    begin_restore,
    check_image,
    damage,
    damaged,
    image_rows,
    image_tokens,
    publish_restore,
    restore,
    save,
    saved,
    source,
    undo_restore,
    write_row,
    written,
)
from kvspec.spec.language import (
    Expr,
    after,
    all_of,
    any_of,
    exists,
    fired,
    forall,
    implies,
    is_some,
    the,
)
from kvspec.spec.turns import (
    Turn,
    busy,
    completed,
    tokens,
    turn,
)

RESTORING = (begin_restore, write_row, check_image, publish_restore, undo_restore)


def moves(h: Expr, before: Expr, later: Expr) -> Expr:
    """In this step the restore of a session goes from one state to the other."""
    return (restore[h] == before) & (after(restore[h]) == later)


@sessions.invariant
def a_saved_snapshot_is_one_token_ahead_of_its_rows() -> Expr:
    """What holds of tokens and rows of a session holds of its image."""
    return forall(Image, lambda i: implies(saved[i], image_tokens[i] == image_rows[i] + 1))


@sessions.invariant
def a_saved_snapshot_fits_the_context() -> Expr:
    """An image has no more rows than a session may have."""
    return forall(Image, lambda i: implies(saved[i], image_rows[i] <= context))


@sessions.invariant
def a_session_reads_no_row_of_a_failed_restore() -> Expr:
    """Where no image is being restored, no row of one is left in the place of a session."""
    return forall(Handle, lambda h: implies(restore[h] == Restore.NONE, written[h] == 0))


@sessions.step
def a_turn_reads_no_row_of_a_failed_restore() -> Expr:
    """A turn that begins to run finds the rows of completed turns in its place, and no others."""
    return forall(
        Handle,
        lambda h: implies(
            goes(h, Turn.QUEUED, Turn.RUNNING), length[h] + written[h] == completed[h]
        ),
    )


@sessions.invariant
def an_image_is_restored_into_an_idle_session() -> Expr:
    """A session into which an image is restored is ready, without rows and without a turn."""
    return forall(
        Handle,
        lambda h: implies(
            restore[h] != Restore.NONE, is_ready(h) & (length[h] == 0) & (turn[h] == Turn.NONE)
        ),
    )


@sessions.invariant
def a_restore_reads_a_saved_image() -> Expr:
    """An image that is being restored holds a snapshot; without restore there is none."""
    return forall(
        Handle,
        lambda h: (
            (is_some(source[h]) == (restore[h] != Restore.NONE))
            & implies(restore[h] != Restore.NONE, saved[the(source[h])])
        ),
    )


@sessions.invariant
def a_restore_writes_no_more_than_the_image_has() -> Expr:
    """No more rows are written than the image has, and all of them once they were checked."""
    return forall(
        Handle,
        lambda h: (
            implies(restore[h] != Restore.NONE, written[h] <= image_rows[the(source[h])])
            & implies(restore[h] == Restore.PREPARED, written[h] == image_rows[the(source[h])])
        ),
    )


@sessions.lemma
def an_image_without_snapshot_is_blank() -> Expr:
    """What holds no snapshot has lost nothing."""
    return forall(Image, lambda i: implies(~saved[i], ~damaged[i]))


def is_apart(h: Expr) -> Expr:
    """Some restore goes on in this step, and it is not one into this session."""
    restoring = any_of(*(fired(action) for action in RESTORING))
    return restoring & (restore[h] == Restore.NONE) & (after(restore[h]) == Restore.NONE)


@sessions.step
def a_restore_touches_no_other_session() -> Expr:
    """Whatever becomes of a restore, sessions into which nothing is restored stay as they are."""
    fields = (length, version, completed, tokens)
    return forall(
        Handle,
        lambda h: implies(is_apart(h), all_of(*(after(each[h]) == each[h] for each in fields))),
    )


@sessions.step
def a_restore_touches_no_rows_of_other_sessions() -> Expr:
    """Whatever becomes of a restore, readers of other sessions find what they found before."""
    return forall(
        Handle,
        Layer,
        lambda h, l: implies(
            is_apart(h), all_of(*(after(each[h, l]) == each[h, l] for each in (k_rows, v_rows)))
        ),
    )


@sessions.step
def a_restored_session_is_what_was_saved() -> Expr:
    """After a restore a session has rows, tokens and history of the image, as a snapshot of its own."""
    return forall(
        Handle,
        lambda h: implies(
            fired(publish_restore)
            & (restore[h] != Restore.NONE)
            & (after(restore[h]) == Restore.NONE),
            (after(length[h]) == image_rows[the(source[h])])
            & (after(completed[h]) == image_rows[the(source[h])])
            & (after(tokens[h]) == image_tokens[the(source[h])])
            & (after(version[h]) == version[h] + 1),
        ),
    )


@sessions.step
def a_restore_goes_its_way() -> Expr:
    """A restore of a session that goes on begins, is checked, and is published or undone."""
    return forall(
        Handle,
        lambda h: implies(
            after(is_ready(h)) & (after(restore[h]) != restore[h]),
            any_of(
                moves(h, Restore.NONE, Restore.OPEN) & fired(begin_restore),
                moves(h, Restore.OPEN, Restore.PREPARED) & ~damaged[the(source[h])],
                moves(h, Restore.OPEN, Restore.FAILED) & damaged[the(source[h])],
                moves(h, Restore.PREPARED, Restore.NONE) & fired(publish_restore),
                moves(h, Restore.FAILED, Restore.NONE) & fired(undo_restore),
            ),
        ),
    )


@sessions.step
def rows_are_read_one_by_one() -> Expr:
    """While an image is being read, each of its rows is written after the one before."""
    return implies(
        fired(write_row),
        exists(Handle, lambda h: after(written[h]) == written[h] + 1)
        & forall(
            Handle,
            lambda h: (after(written[h]) == written[h]) | (after(written[h]) == written[h] + 1),
        ),
    )


@sessions.step
def a_saved_snapshot_is_a_completed_one() -> Expr:
    """What is saved are rows and tokens of completed turns of a session that is there."""
    return implies(
        fired(save),
        exists(
            Image,
            Handle,
            lambda i, h: (
                is_ready(h)
                & ~busy[h]
                & after(saved[i])
                & ~after(damaged[i])
                & (after(image_rows[i]) == completed[h])
                & (after(image_tokens[i]) == tokens[h])
            ),
        ),
    )


@sessions.step
def an_image_does_not_change_under_its_reader() -> Expr:
    """No image is written while it is being restored."""
    return forall(
        Handle,
        Image,
        lambda h, i: implies(
            source[h] == i,
            (after(image_rows[i]) == image_rows[i]) & (after(image_tokens[i]) == image_tokens[i]),
        ),
    )


@sessions.step
def damage_is_of_a_snapshot() -> Expr:
    """What is damaged was saved, and stays in its place."""
    return implies(
        fired(damage), exists(Image, lambda i: saved[i] & after(saved[i]) & after(damaged[i]))
    )
