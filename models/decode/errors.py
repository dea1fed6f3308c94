"""The ways in which the decoder and its cache rows refuse, each with a code of its own.

Modelled: refusals of the physical layer, such as rows of a wrong shape, a full buffer, or a layer
that is still missing. Left out: refusals of the lifecycle (stale base, terminal handle, conflicting
retry); those belong to the specification and to the backend that keeps it.
"""

from typing import ClassVar


class DecodeError(Exception):
    """A refusal that says where it happened, what was found, what was expected and what to do.

    ``code`` states the condition and is stable; the text is for people.
    """

    code: ClassVar[str] = "DECODE_ERROR"

    def __init__(self, *, where: str, found: str, expected: str, fix: str) -> None:
        self.where = where
        self.found = found
        self.expected = expected
        self.fix = fix
        super().__init__(f"{self.code} in {where}: found {found}, but expected {expected}: {fix}")


class BadConfigError(DecodeError):
    """A decoder or cache is described by numbers that contradict each other."""

    code = "BAD_CONFIG"


class BadShapeError(DecodeError):
    """A tensor has another shape, dtype or device than its place demands."""

    code = "BAD_SHAPE"


class BadTokenError(DecodeError):
    """A token id is outside the vocabulary."""

    code = "BAD_TOKEN"


class NoSuchLayerError(DecodeError):
    """A layer index is outside the cache."""

    code = "NO_SUCH_LAYER"


class UnevenRowsError(DecodeError):
    """K and V, or two layers, hold different numbers of rows where one length is needed."""

    code = "UNEVEN_ROWS"


class CapacityExceededError(DecodeError):
    """A preallocated buffer has no room for the interval."""

    code = "CAPACITY_EXCEEDED"


class BadLengthError(DecodeError):
    """A number of rows is outside what the handle can give."""

    code = "BAD_LENGTH"


class CannotRewindError(DecodeError):
    """A windowed layout no longer holds the rows that a call at this length would see."""

    code = "CANNOT_REWIND"


class RowsMissingError(DecodeError):
    """A layer's K or V was never staged."""

    code = "ROWS_MISSING"


class RowsIncompleteError(DecodeError):
    """A layer's K or V was staged, but the device has not yet said that it is written."""

    code = "ROWS_INCOMPLETE"


class IntervalMismatchError(DecodeError):
    """Staged rows cover another interval of positions than the append claims."""

    code = "INTERVAL_MISMATCH"


class NotAtFrontierError(DecodeError):
    """Staged rows do not begin where the visible rows end."""

    code = "NOT_AT_FRONTIER"


class ForeignStagingError(DecodeError):
    """Staged rows were begun on another handle's rows."""

    code = "FOREIGN_STAGING"


class AlreadyStagedError(DecodeError):
    """A layer's K or V is staged a second time in one append."""

    code = "ALREADY_STAGED"


class StagingClosedError(DecodeError):
    """Work reaches an append whose rows were already installed or thrown away."""

    code = "STAGING_CLOSED"


class ReleasedRowsError(DecodeError):
    """Work reaches the rows of a released handle."""

    code = "ROWS_RELEASED"
