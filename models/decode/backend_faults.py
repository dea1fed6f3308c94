"""The faults of the decode backend: one switch for each check that it can be made to forget.

Modelled: every guard of the core system as a check that can be left out, under the name of the
mutant that drops it (`publish.drop-guard.STALE_SNAPSHOT`); and single updates that caches get wrong:
a torn publication, a reorder of some companions only, a fork that shares memory, a cut of some
layers only, a release that keeps rows or forgets the generation, a retry that appends again.

Left out, because a backend has no place for them:

- `plus-one`, `minus-one`, `next-member`, `negate`, `nobody`, `somebody`: a length is the length of a
  tensor, a phase or a handle the one that was named; there is no number beside them to be off by one.
  Where the mutant says that layers come out unequal, the torn and the layer-local faults do it.
- `drop-assignment` and `skip-first` of what one object holds: phase, version, ABI, parent and tokens of
  a request are one record that is replaced whole; so are handle, base, key and interval of an append,
  and what a client was told. To discard or forget an append empties its record whole.
- `evict.drop-assignment.filled` and `allocate.drop-assignment.filled`: whether a block is filled is
  told by what it holds.

Three checks are told by the answer or the free list alone, for leaving them out assigns nothing:
`evict.drop-guard.BLOCK_EMPTY` (the block stands twice in the free list), `leave.drop-guard.NOT_IN_BATCH`
(the search answers -1, and the last row is cleared), `fork.drop-guard.NO_CHILD` (the answer alone).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kvspec.models.decode.shapes import SOUND, LayoutFaults

_GUARDS: Final[dict[str, tuple[str, ...]]] = {
    "evict": ("BLOCK_EMPTY", "STILL_OWNED"),
    "enter": ("HANDLE_TERMINAL", "ROW_TAKEN", "IN_BATCH"),
    "leave": ("NOT_IN_BATCH",),
    "reorder": ("NOT_A_PERMUTATION",),
    "begin": (
        "TXN_IN_USE",
        "HANDLE_TERMINAL",
        "ABI_MISMATCH",
        "POSITION_MISMATCH",
        "EMPTY_APPEND",
        "CONTEXT_FULL",
    ),
    "stage_k": ("TXN_CLOSED", "POSITION_MISMATCH", "INTERVAL_FULL"),
    "stage_v": ("TXN_CLOSED", "POSITION_MISMATCH", "INTERVAL_FULL"),
    "prepare": ("TXN_CLOSED", "K_INCOMPLETE", "V_INCOMPLETE"),
    "publish": ("NOT_PREPARED", "STALE_GENERATION", "STALE_SNAPSHOT", "HANDLE_TERMINAL"),
    "retry": (
        "NOT_PUBLISHED",
        "HANDLE_CONFLICT",
        "KEY_CONFLICT",
        "BASE_CONFLICT",
        "INTERVAL_CONFLICT",
    ),
    "forget": ("TXN_LIVE",),
    "allocate": ("HANDLE_LIVE", "BLOCK_IN_USE"),
    "fork": ("HANDLE_TERMINAL", "NO_CHILD", "BEYOND_COMMITTED", "CHILD_IN_USE"),
    "truncate": ("HANDLE_TERMINAL", "BEYOND_COMMITTED", "CANNOT_REWIND"),
    "cancel_txn": ("TXN_CLOSED",),
    "cancel_request": ("HANDLE_TERMINAL",),
    "finish": ("HANDLE_TERMINAL",),
    "release": ("NOT_TERMINAL", "ROW_HOLDS_HANDLE"),
}

_UPDATES: Final[dict[str, str]] = {
    "publish.torn": "publication makes one part of one layer visible after the other",
    "publish.unwritten": "prepare and publish do not ask whether staged rows are written",
    "publish.drop-assignment.row_position": "publish leaves the batch row at its old position",
    "truncate.drop-assignment.row_position": "truncate leaves the batch row at its old position",
    "truncate.layer-local": "truncate leaves the rows of the first layer as they are",
    "truncate.drop-assignment.version": "truncate makes no new snapshot",
    "publish.drop-assignment.k_rows": "publish installs the V rows alone",
    "publish.drop-assignment.v_rows": "publish installs the K rows alone",
    "allocate.drop-assignment.owner": "a request has no claim on the prefix block that it fills",
    "fork.shared-rows": "a child appends into the memory of its parent",
    "fork.drop-assignment.owner": "a child has no claim on the prefix block that it reads",
    "release.keeps-rows": "release leaves the rows with the handle, for its next request to find",
    "release.drop-assignment.generation": "release does not advance the generation of the handle",
    "release.drop-assignment.owner": "release keeps the claim on the prefix block",
    "cancel_request.drop-assignment.state": "cancel_request leaves the appends of the request open",
    "retry.appends-again": "a retry of a published append publishes its rows once more",
}


_COMPANIONS: Final[dict[str, str]] = {
    "row_cache": "the cache handle",
    "row_tokens": "tokens and output",
    "row_sampler": "the sampler's random state",
    "row_ancestry": "the ancestry",
    "row_position": "the position",
}


def _companion_faults() -> dict[str, str]:
    """Each action on batch rows, with one companion left as it was."""
    return {
        f"{action}.drop-assignment.{name}": f"{action} leaves {said} of a batch row as it was"
        for action in ("enter", "leave", "reorder")
        for name, said in _COMPANIONS.items()
    }


def _guard_faults() -> dict[str, str]:
    return {
        f"{action}.drop-guard.{code}": f"{action} does not check {code}"
        for action, codes in _GUARDS.items()
        for code in codes
    }


FAULTS: Final[dict[str, str]] = {**_guard_faults(), **_companion_faults(), **_UPDATES}
"""Every fault that a backend can be given, by name, with what it does."""

_SAME: Final[dict[str, str]] = {
    "publish.skip-first.k_rows": "publish.torn",
    "publish.skip-first.v_rows": "publish.torn",
    "truncate.drop-assignment.k_rows": "truncate.layer-local",
    "truncate.drop-assignment.v_rows": "truncate.layer-local",
    "truncate.skip-first.k_rows": "truncate.layer-local",
    "truncate.skip-first.v_rows": "truncate.layer-local",
    "release.drop-assignment.k_rows": "release.keeps-rows",
    "release.drop-assignment.v_rows": "release.keeps-rows",
}


def fault_for(mutant_name: str) -> str | None:
    """The fault that makes a backend behave like a mutant of the core system, or None.

    Most have the mutant's own name. A few mutants of single row counts share one fault, because
    tensors are kept or dropped for K and V together.
    """
    name = _SAME.get(mutant_name, mutant_name)
    return name if name in FAULTS else None


def known_faults(
    faults: Iterable[str], known: Iterable[str] = FAULTS, fix: str = "see FAULTS"
) -> frozenset[str]:
    """The faults as a set.

    Raises:
        ValueError: a name is not among those that are known; ``fix`` says what to do.
    """
    chosen, names = frozenset(faults), list(known)
    unknown = sorted(chosen - set(names))
    if unknown:
        raise ValueError(
            f"found the faults {', '.join(unknown)}, expected names out of {', '.join(names)}: {fix}"
        )
    return chosen


def layout_faults(faults: frozenset[str]) -> LayoutFaults:
    """What the layouts of a faulty backend let through: they rely on the backend's own checks."""
    if not faults:
        return SOUND
    return LayoutFaults(
        tear="publish.torn" in faults,
        allow_missing=True,
        allow_interval=True,
        allow_start=True,
        allow_beyond=True,
        allow_gone=True,
        alias_fork="fork.shared-rows" in faults,
        overwrite="publish.over-shown-rows" in faults,
        early_reuse="release.early-reuse" in faults,
    )
