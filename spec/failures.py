"""Every code with which the core and the serving system refuse, and the order in which failures are told.

Compatibility of an append with a snapshot is checked in the order of `FailureClass`: a failure of an
earlier class hides those of later ones, and the language refuses an action whose guards go back in it.
Codes of class NONE say that the request makes no sense yet (a transaction in use, a handle at its
end) and may stand anywhere. The codes of outputs and drafts are those of `spec.frontier`.
"""

from __future__ import annotations

from enum import IntEnum

from kvspec.spec.language import ErrorCode


class FailureClass(IntEnum):
    """The classes of failure, in the order in which they are told."""

    NONE = 0
    ABI = 1
    POSITION = 2
    LAYERS = 3
    SNAPSHOT = 4
    FRONTIER = 5
    OWNERSHIP = 6


CODES: dict[str, ErrorCode] = {}


def error_code(name: str, meaning: str, kind: FailureClass = FailureClass.NONE) -> ErrorCode:
    """A code of a module of its own, in one of the classes or in none."""
    return ErrorCode(name, meaning, int(kind))


def _code(name: str, kind: FailureClass, meaning: str) -> ErrorCode:
    CODES[name] = error_code(name, meaning, kind)
    return CODES[name]


HANDLE_LIVE = _code("HANDLE_LIVE", FailureClass.NONE, "the handle is in use by a request")
HANDLE_TERMINAL = _code(
    "HANDLE_TERMINAL", FailureClass.NONE, "the handle is not ready: vacant, ended or released"
)
NOT_TERMINAL = _code(
    "NOT_TERMINAL", FailureClass.NONE, "the handle is neither finished nor cancelled"
)
TXN_IN_USE = _code("TXN_IN_USE", FailureClass.NONE, "the transaction id is in use")
TXN_CLOSED = _code("TXN_CLOSED", FailureClass.NONE, "the transaction takes no more work")
TXN_LIVE = _code("TXN_LIVE", FailureClass.NONE, "the transaction has not ended")
NOT_PREPARED = _code("NOT_PREPARED", FailureClass.NONE, "the transaction is not prepared")
NOT_PUBLISHED = _code("NOT_PUBLISHED", FailureClass.NONE, "there is no receipt to return")
HANDLE_CONFLICT = _code(
    "HANDLE_CONFLICT", FailureClass.NONE, "a retry names another handle than the published append"
)
KEY_CONFLICT = _code(
    "KEY_CONFLICT",
    FailureClass.NONE,
    "a retry has another idempotency key than the published append",
)
BASE_CONFLICT = _code(
    "BASE_CONFLICT",
    FailureClass.NONE,
    "a retry has another base snapshot than the published append",
)
INTERVAL_CONFLICT = _code(
    "INTERVAL_CONFLICT", FailureClass.NONE, "a retry has another interval than the published append"
)
NO_CHILD = _code("NO_CHILD", FailureClass.NONE, "a fork names no child")
ROW_TAKEN = _code("ROW_TAKEN", FailureClass.NONE, "the batch row carries a request")
NOT_IN_BATCH = _code("NOT_IN_BATCH", FailureClass.NONE, "no batch row carries the handle")
IN_BATCH = _code("IN_BATCH", FailureClass.NONE, "the handle is in a batch row already")
NOT_A_PERMUTATION = _code(
    "NOT_A_PERMUTATION", FailureClass.NONE, "the map takes one row twice: that is select and fork"
)
BLOCK_EMPTY = _code("BLOCK_EMPTY", FailureClass.NONE, "the block holds nothing")
ABI_MISMATCH = _code(
    "ABI_MISMATCH",
    FailureClass.ABI,
    "the rows are computed under another cache ABI than the handle's",
)
POSITION_MISMATCH = _code(
    "POSITION_MISMATCH", FailureClass.POSITION, "the rows do not begin where the last ones ended"
)
EMPTY_APPEND = _code("EMPTY_APPEND", FailureClass.POSITION, "the interval has no row")
INTERVAL_FULL = _code(
    "INTERVAL_FULL", FailureClass.POSITION, "the layer has all rows of the interval"
)
BEYOND_COMMITTED = _code(
    "BEYOND_COMMITTED", FailureClass.POSITION, "the position lies beyond the committed length"
)
CANNOT_REWIND = _code(
    "CANNOT_REWIND", FailureClass.POSITION, "the cache cannot go back by so many rows"
)
K_INCOMPLETE = _code("K_INCOMPLETE", FailureClass.LAYERS, "some layer lacks K rows of the interval")
V_INCOMPLETE = _code("V_INCOMPLETE", FailureClass.LAYERS, "some layer lacks V rows of the interval")
STALE_GENERATION = _code(
    "STALE_GENERATION", FailureClass.SNAPSHOT, "the handle was released since the append began"
)
STALE_SNAPSHOT = _code(
    "STALE_SNAPSHOT", FailureClass.SNAPSHOT, "the handle has another snapshot than at the begin"
)
CONTEXT_FULL = _code(
    "CONTEXT_FULL", FailureClass.FRONTIER, "the append would pass the request's context limit"
)
EMPTY_PROMPT = _code("EMPTY_PROMPT", FailureClass.FRONTIER, "the request has no prompt token")
PROMPT_TOO_LONG = _code(
    "PROMPT_TOO_LONG", FailureClass.FRONTIER, "the prompt would pass the request's context limit"
)
TOO_MANY_DRAFTS = _code(
    "TOO_MANY_DRAFTS", FailureClass.FRONTIER, "more drafts are accepted than there are"
)
UNKNOWN_TOKEN = _code(
    "UNKNOWN_TOKEN",
    FailureClass.FRONTIER,
    "a row would be for a token that is neither in the prompt nor emitted nor a draft",
)
NO_DRAFT = _code("NO_DRAFT", FailureClass.FRONTIER, "the append has no draft to verify")
UNVERIFIED_DRAFT = _code(
    "UNVERIFIED_DRAFT", FailureClass.FRONTIER, "the append has rows of drafts that nobody accepted"
)
STALE_FRONTIER = _code(
    "STALE_FRONTIER", FailureClass.FRONTIER, "a token was emitted since the drafts were made"
)
OUTPUT_STOPPED = _code("OUTPUT_STOPPED", FailureClass.FRONTIER, "no output may follow the last one")
NO_LOGITS = _code(
    "NO_LOGITS",
    FailureClass.FRONTIER,
    "the prompt or the last output is not processed yet, so that there is nothing to choose from",
)
BLOCK_IN_USE = _code("BLOCK_IN_USE", FailureClass.OWNERSHIP, "the block holds rows already")
CHILD_IN_USE = _code("CHILD_IN_USE", FailureClass.OWNERSHIP, "a child's handle is in use")
STILL_OWNED = _code("STILL_OWNED", FailureClass.OWNERSHIP, "some handle owns the block")
ROW_HOLDS_HANDLE = _code(
    "ROW_HOLDS_HANDLE", FailureClass.OWNERSHIP, "a batch row still carries the handle"
)
