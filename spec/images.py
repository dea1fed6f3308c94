"""Images: snapshots that are saved, outlive their session, and are restored into another one.

A restore is a transaction: rows are read one by one into the place of a session without rows, where nobody
reads them; the image is checked; and rows and tokens become visible at once, or every row is taken out again.

Modelled: an image that is damaged at rest, found out after some of its rows were written. A saved snapshot
has one token more than rows, as a session has. Left out: where images are kept, identity of the artifact.
"""

from __future__ import annotations

from kvspec.spec.append import append
from kvspec.spec.batch import batch, move_rows_of, row_position
from kvspec.spec.failures import HANDLE_TERMINAL, FailureClass, error_code
from kvspec.spec.handles import (
    Handle,
    Layer,
    Length,
    Phase,
    handles,
    k_rows,
    length,
    phase,
    v_rows,
    version,
)
from kvspec.spec.language import (
    Bool,
    Enum,
    Expr,
    Module,
    Open,
    Option,
    Step,
    forall,
    member,
    none,
    the,
)
from kvspec.spec.lifecycle import cancel_request, finish, lifecycle
from kvspec.spec.turns import SESSION_BUSY, Token, busy, completed, submit, tokens, turns


class Image(Open):
    """A place for a saved snapshot."""


class Restore(Enum):
    """Where the restore of an image into a session is."""

    NONE = member()
    OPEN = member()
    PREPARED = member()
    FAILED = member()


RESTORE_LIVE = error_code("RESTORE_LIVE", "an image is being restored")
NOT_RESTORING = error_code("NOT_RESTORING", "no image is being restored")
NOT_CHECKED = error_code("NOT_CHECKED", "no restored rows were checked")
RESTORE_NOT_FAILED = error_code("RESTORE_NOT_FAILED", "no restore of the session has failed")
NOT_SAVED = error_code("NOT_SAVED", "the image holds no snapshot")
IMAGE_DAMAGED = error_code("IMAGE_DAMAGED", "what was read is no whole image", FailureClass.ABI)
HAS_ROWS = error_code("HAS_ROWS", "the session has rows of its own", FailureClass.POSITION)
IMAGE_READ = error_code("IMAGE_READ", "all rows of the image were read", FailureClass.POSITION)
ROWS_MISSING = error_code(
    "ROWS_MISSING", "some rows of the image were not read", FailureClass.LAYERS
)
IMAGE_IN_USE = error_code("IMAGE_IN_USE", "a restore reads the image", FailureClass.OWNERSHIP)

images = Module(
    "images",
    "Saved snapshots and their restore.",
    uses=(handles, batch, append, lifecycle, turns),
    writes=(version, length, k_rows, v_rows, row_position, completed, tokens),
)

restore = images.variable(
    "restore", Handle, to=Restore, init=Restore.NONE, meaning="where a restore is"
)
source = images.variable(
    "source", Handle, to=Option[Image], init=none(Image), meaning="image that is restored"
)
written = images.variable(
    "written", Handle, to=Length, init=0, meaning="rows of an image in the place of the session"
)
saved = images.variable("saved", Image, to=Bool, init=False, meaning="the image holds a snapshot")
image_rows = images.variable("image_rows", Image, to=Length, init=0, meaning="its rows")
image_tokens = images.variable("image_tokens", Image, to=Token, init=0, meaning="its tokens")
damaged = images.variable(
    "damaged", Image, to=Bool, init=False, meaning="some of its bytes were lost"
)


def end_restore(step: Step, h: Expr) -> None:
    """No image is being restored, and no row of one is left in the place of the session."""
    step.assign(restore[h], Restore.NONE)
    step.assign(source[h], none(Image))
    step.assign(written[h], 0)


@images.extend(submit)
def submit_after_a_restore(step: Step, h: Handle) -> None:
    """No turn begins while an image is being restored."""
    step.require(restore[h] == Restore.NONE, RESTORE_LIVE)


@images.extend(finish)
def close_after_a_restore(step: Step, h: Handle) -> None:
    """No session is closed while an image is being restored."""
    step.require(restore[h] == Restore.NONE, RESTORE_LIVE)


@images.extend(cancel_request)
def cancel_restore(step: Step, h: Handle) -> None:
    """A session that is cancelled takes its restore along."""
    end_restore(step, h)


@images.action
def save(step: Step, h: Handle, i: Image) -> None:
    """Save the last completed snapshot: its rows, and its tokens, which are one more."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~busy[h], SESSION_BUSY)
    step.require(forall(Handle, lambda g: source[g] != i), IMAGE_IN_USE)
    step.assign(saved[i], True)
    step.assign(image_rows[i], length[h])
    step.assign(image_tokens[i], tokens[h])
    step.assign(damaged[i], False)


@images.action
def damage(step: Step, i: Image) -> None:
    """Some bytes of an image are lost."""
    step.require(saved[i], NOT_SAVED)
    step.assign(damaged[i], True)


@images.action
def begin_restore(step: Step, h: Handle, i: Image) -> None:
    """Begin to read an image into a session without rows."""
    step.require(phase[h] == Phase.DECODE_READY, HANDLE_TERMINAL)
    step.require(~busy[h], SESSION_BUSY)
    step.require(restore[h] == Restore.NONE, RESTORE_LIVE)
    step.require(saved[i], NOT_SAVED)
    step.require(length[h] == 0, HAS_ROWS)
    step.assign(restore[h], Restore.OPEN)
    step.assign(source[h], i)


@images.action
def write_row(step: Step, h: Handle) -> None:
    """Write one more row of the image in the place of the session, where nobody reads it."""
    step.require(restore[h] == Restore.OPEN, NOT_RESTORING)
    step.require(written[h] < image_rows[the(source[h])], IMAGE_READ)
    step.assign(written[h], written[h] + 1)


@images.action
def check_image(step: Step, h: Handle) -> None:
    """Check what was read; an image that is not whole makes the restore fail, whatever was written."""
    i = the(source[h])
    step.require(restore[h] == Restore.OPEN, NOT_RESTORING)
    step.require(~damaged[i], IMAGE_DAMAGED, refused={restore[h]: Restore.FAILED})
    step.require(written[h] == image_rows[i], ROWS_MISSING)
    step.assign(restore[h], Restore.PREPARED)


@images.action
def publish_restore(step: Step, h: Handle) -> None:
    """Make the rows and tokens of the image visible at once, as a completed snapshot."""
    step.require(restore[h] == Restore.PREPARED, NOT_CHECKED)
    step.assign(version[h], version[h] + 1)
    step.assign(length[h], written[h])
    step.assign(completed[h], written[h])
    step.assign(tokens[h], image_tokens[the(source[h])])
    for layer in step.every(Layer):
        step.assign(k_rows[h, layer], written[h])
        step.assign(v_rows[h, layer], written[h])
    move_rows_of(step, h, written[h])
    end_restore(step, h)


@images.action
def undo_restore(step: Step, h: Handle) -> None:
    """Take the rows of a failed restore out of the place of the session, and of no other."""
    step.require(restore[h] == Restore.FAILED, RESTORE_NOT_FAILED)
    end_restore(step, h)
