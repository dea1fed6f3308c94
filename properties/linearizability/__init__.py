"""Linearizability of recorded concurrent histories, against the specification as the sequential object.

Reading order: `history` (what is recorded), `abstract` and `footprints` (which cells an operation may
touch), `universe` (histories as arrays), `check`, `explain` (why not), `shrink` (the least of it that
fails), `document` (history files), `picture`, `generate`.
"""

from kvspec.properties.linearizability.history import (
    Cell,
    History,
    Operation,
    Read,
    Seen,
    Told,
)

__all__ = ["Cell", "History", "Operation", "Read", "Seen", "Told"]
