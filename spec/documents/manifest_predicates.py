"""Six quantities of a snapshot that are not synonyms, kept apart by name.

An emitted token is logical before it is committed; a committed row may be outside the view of the next
query; reserved slots hold nothing yet; resident bytes may belong to no committed row; and what could go
is a part of what is there. One field for any two of them could not tell these states.
"""

from __future__ import annotations

import attrs

from kvspec.spec.documents.manifest_record import Interval, Manifest


@attrs.frozen
class Predicate:
    """One quantity of a snapshot. unit: `tokens`, `rows`, `positions`, `slots` or `bytes`."""

    name: str
    value: int | Interval | tuple[tuple[str, int], ...]
    unit: str
    meaning: str


def predicates(m: Manifest) -> tuple[Predicate, ...]:
    """The six of a manifest; bytes are told for each tier."""
    s = m.state_snapshot
    resident = tuple((one.tier, one.resident_bytes) for one in s.tiers)
    reclaimable = tuple((one.tier, one.reclaimable_bytes) for one in s.tiers)
    return (
        Predicate("logical tokens", s.logical_tokens, "tokens", "given or returned"),
        Predicate("committed length", s.committed_length, "rows", "published by every layer"),
        Predicate(
            "visible positions", s.visible, "positions", "committed, and seen by the next query"
        ),
        Predicate("reserved capacity", s.reserved_tokens, "slots", "set aside, filled or not"),
        Predicate("resident bytes", resident, "bytes", "payload that is in the tier"),
        Predicate("reclaimable bytes", reclaimable, "bytes", "of these, what could go now"),
    )
