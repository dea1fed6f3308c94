"""The closing of a log: what the cache itself held when nothing more was told, read off its own tables.

A log alone cannot show that its last event is missing, nor that its last event was told and never
happened: after both it is a lawful history. Held against the cache they are told apart: a log that is
ahead of the cache has told success before the publication, one that is behind has lost an event. Events
that change nothing in sight (an output, an observation) are missed by the numbers of their sources.
In a log of lines it is the last line:

    {"closing": {"is_all": true, "sources": [...], "handles": [...]}}
"""

from __future__ import annotations

import attrs

from kvspec.spec.documents.log import HandleEnd


@attrs.frozen(kw_only=True)
class SourceEnd:
    """A source that has told all it will; next_sequence: the number that its next event would have."""

    source_instance: str
    next_sequence: int


@attrs.frozen(kw_only=True)
class Closing:
    """Where requests stood. is_all: every request of the log is listed, released ones as well.

    sources: every source of the log. handles: requests, a name that was used again once for each generation.
    """

    is_all: bool
    sources: tuple[SourceEnd, ...]
    handles: tuple[HandleEnd, ...]
