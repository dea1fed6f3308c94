"""The faults of a backend that only other threads can bring to light: one switch for each.

Modelled: places where caches have them. A client alone, which waits for each answer, sees a sound cache
under most of them; `publish.torn` is also in `backend_faults`, for a reader within the publication.
Left out: faults of a device's memory order; those of streams are `streams`' own.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Final

from kvspec.models.decode.backend_faults import FAULTS, known_faults

TORN: Final = "publish.torn"
CHECK_THEN_ACT: Final = "publish.check-then-act"
BLOCK_TWICE: Final = "allocate.unlocked"
PREPARE_ALONE: Final = "prepare.unlocked"
LOST_UPDATE: Final = "finish.lost-update"
ABORT_LATE: Final = "cancel_request.abort-late"
OVER_SHOWN: Final = "publish.over-shown-rows"
EARLY_REUSE: Final = "release.early-reuse"
CHILD_BY_CHILD: Final = "fork.child-by-child"
LAYERS_APART: Final = "read.layers-apart"
SAME_LENGTH: Final = "read.checks-length"
AFTER_FREE: Final = "read.rows-after-free"
STALE_READ: Final = "read.stale-after-release"

CONCURRENCY_FAULTS: Final[dict[str, str]] = {
    TORN: FAULTS[TORN],
    CHECK_THEN_ACT: "publish compares its base before it takes the lock, and not again under it",
    OVER_SHOWN: "a static layout writes an append over rows that a snapshot still shows",
    EARLY_REUSE: "a paged layout gives blocks back that a snapshot still shows",
    BLOCK_TWICE: "allocate takes a handle and a block without the lock",
    PREPARE_ALONE: "prepare reads and changes the record of an append without the lock",
    LOST_UPDATE: "finish reads, changes and swaps the handle's entry without the lock",
    ABORT_LATE: "cancel_request gives the lock up before it aborts the request's appends",
    CHILD_BY_CHILD: "fork enters one child after the other, in sight of readers without the lock",
    LAYERS_APART: "a reader takes each layer from the snapshot that the handle has then",
    SAME_LENGTH: "a reader does so too, and begins again only if the length is another one at its end",
    AFTER_FREE: "a reader takes the rows from the memory that the handle has then, not from its entry",
    STALE_READ: "a reader answers from what it saw before, as long as the version is the same",
}
"""Every fault of this kind, by name, with what it does."""

UNLOCKED: Final[dict[str, str]] = {
    CHECK_THEN_ACT: "publish",
    BLOCK_TWICE: "allocate",
    PREPARE_ALONE: "prepare",
    LOST_UPDATE: "finish",
    ABORT_LATE: "cancel_request",
}
"""The action that each of these faults carries out without the backend's lock around all of it."""


def leaves_lock_out(planted: Collection[str]) -> bool:
    """One of these faults leaves the lock out somewhere, so that fields it guards are at risk."""
    return any(fault in UNLOCKED for fault in planted)


def known_concurrency_faults(faults: tuple[str, ...]) -> frozenset[str]:
    """The faults as a set.

    Raises:
        ValueError: a name is not one of ``CONCURRENCY_FAULTS``.
    """
    return known_faults(faults, CONCURRENCY_FAULTS, "choose one of these")
