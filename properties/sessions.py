"""What is claimed of sessions: of their turns and images, what is reached, what happens in the end."""

from __future__ import annotations

from kvspec.properties import images, turns
from kvspec.properties.core import properties as core
from kvspec.properties.turns import is_ready, sessions
from kvspec.spec.append import Txn, is_live
from kvspec.spec.batch import leave
from kvspec.spec.handles import (
    Handle,
    generation,
    length,
)
from kvspec.spec.images import (
    Image,
    Restore,
    check_image,
    image_rows,
    publish_restore,
    restore,
    saved,
    undo_restore,
    write_row,
    written,
)
from kvspec.spec.language import (
    Expr,
    exists,
    weak,
)
from kvspec.spec.lifecycle import cancel_request, is_append_to, release, truncate
from kvspec.spec.turns import (
    Client,
    Turn,
    abort,
    busy,
    client,
    completed,
    drop_queued,
    turn,
)

__all__ = ["images", "sessions", "turns"]


@sessions.witness
def reaches_a_half_generated_turn() -> Expr:
    """A turn was aborted after some of its rows were published."""
    return exists(Handle, lambda h: (turn[h] == Turn.ABORTED) & (completed[h] < length[h]))


@sessions.witness
def reaches_a_late_append_of_an_aborted_turn() -> Expr:
    """A session is idle again, and an append of the turn that was aborted is still live."""
    return exists(
        Txn,
        Handle,
        lambda x, h: is_live(x) & is_append_to(x, h) & is_ready(h) & (turn[h] == Turn.NONE),
    )


@sessions.witness
def reaches_a_client_that_is_gone_in_a_turn() -> Expr:
    """The client of a session is gone while its turn runs."""
    return exists(Handle, lambda h: (client[h] == Client.GONE) & (turn[h] == Turn.RUNNING))


@sessions.witness
def reaches_a_failed_restore_with_rows() -> Expr:
    """A restore has failed after it wrote rows."""
    return exists(Handle, lambda h: (restore[h] == Restore.FAILED) & (written[h] >= 1))


@sessions.witness
def reaches_a_restored_session() -> Expr:
    """A session has rows without ever having had a turn that ran to its end: they were restored."""
    return exists(
        Handle,
        Image,
        lambda h, i: (
            is_ready(h)
            & saved[i]
            & (completed[h] >= 1)
            & (length[h] == image_rows[i])
            & (generation[h] >= 1)
        ),
    )


@sessions.end
def nothing_is_left_to_release() -> Expr:
    """The system may stop where no handle holds rows."""
    return core["nothing_is_left_to_release"].body


@sessions.leads_to(weak(drop_queued, "h"), weak(abort, "h"), weak(truncate, "h"))
def every_busy_session_becomes_free(h: Handle) -> tuple[Expr, Expr]:
    """A session is free for another turn in the end, where waiting and running have time limits."""
    return busy[h], ~busy[h]


@sessions.leads_to(weak(cancel_request, "h"))
def every_session_without_client_is_cancelled(h: Handle) -> tuple[Expr, Expr]:
    """A session whose client is gone ends, whatever its turn does."""
    return is_ready(h) & (client[h] == Client.GONE), ~is_ready(h)


@sessions.leads_to(weak(cancel_request, "h"), weak(leave, "h"), weak(release, "h"))
def every_session_without_client_gives_its_rows_back(h: Handle) -> tuple[Expr, Expr]:
    """The rows of a session whose client is gone are released in the end: nothing leaks."""
    return client[h] == Client.GONE, client[h] == Client.NONE


@sessions.leads_to(
    weak(write_row, "h"),
    weak(check_image, "h"),
    weak(publish_restore, "h"),
    weak(undo_restore, "h"),
)
def every_restore_ends(h: Handle) -> tuple[Expr, Expr]:
    """An image that is being restored is published or undone in the end."""
    return restore[h] != Restore.NONE, restore[h] == Restore.NONE
