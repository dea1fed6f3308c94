"""The ledgers of a cache at one instant: from the rows that each request holds to bytes, by the formulas.

Modelled: a request that holds rows has its reserved capacity in each of its copies, each copy lies in one
tier, and each copy costs the same metadata. Physical bytes are reserved capacity and metadata; those
resident in the tiers are parts of them and no further term. Workspace is added for the instant alone.
Left out: pages, alignment, fragmentation, weights, and what a real allocator reports.
"""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from kvspec.spec.formulas import (
    allocator_bytes,
    instantaneous_bytes,
    logical_bytes,
    materialized_bytes,
    phantom_bytes,
    physical_bytes,
    rectangular_bytes,
    replication_overhead_bytes,
    reservation_slack_bytes,
    reserved_capacity_bytes,
    resident_bytes,
)


@attrs.frozen
class Holding:
    """What one request holds. rows: committed. capacity: reserved rows in each copy.

    copy_tiers: the tier of each copy, the first of them included.
    """

    rows: int
    capacity: int
    copy_tiers: tuple[str, ...]


@attrs.frozen
class Resident:
    """Physical bytes that lie in one tier."""

    tier: str
    bytes_held: int


@attrs.frozen
class Ledger:
    """All ledgers at one instant, in bytes.

    logical: committed rows, each once. materialized: in every copy. replication_overhead: materialized
    beyond logical. reserved: capacity set aside. reservation_slack: reserved beyond materialized.
    allocator: metadata of the copies. physical: reserved and metadata. resident: the parts of physical,
    one for each declared tier. workspace: temporary, for the event alone. instantaneous: physical and
    workspace.
    """

    logical: int
    materialized: int
    replication_overhead: int
    reserved: int
    reservation_slack: int
    allocator: int
    physical: int
    resident: tuple[Resident, ...]
    workspace: int
    instantaneous: int


def ledger(
    holdings: Sequence[Holding],
    tiers: Sequence[str],
    token_bytes: int,
    metadata_per_copy: int,
    workspace: int,
) -> Ledger:
    """The ledgers of all requests that hold rows; each of their copies lies in one of the tiers."""
    rows = [holding.rows for holding in holdings]
    copies = [len(holding.copy_tiers) for holding in holdings]
    capacities = [holding.capacity for holding in holdings]
    logical = logical_bytes(rows, token_bytes)
    materialized = materialized_bytes(rows, copies, token_bytes)
    reserved = reserved_capacity_bytes(capacities, copies, token_bytes)
    allocator = allocator_bytes(copies, metadata_per_copy)
    physical = physical_bytes(reserved, allocator)
    return Ledger(
        logical=logical,
        materialized=materialized,
        replication_overhead=replication_overhead_bytes(materialized, logical),
        reserved=reserved,
        reservation_slack=reservation_slack_bytes(reserved, materialized),
        allocator=allocator,
        physical=physical,
        resident=tuple(
            Resident(tier, resident_bytes(capacities, here, token_bytes, metadata_per_copy))
            for tier, here in ((tier, _copies_in(holdings, tier)) for tier in tiers)
        ),
        workspace=workspace,
        instantaneous=instantaneous_bytes(physical, workspace),
    )


def _copies_in(holdings: Sequence[Holding], tier: str) -> list[int]:
    return [holding.copy_tiers.count(tier) for holding in holdings]


@attrs.frozen
class Rectangle:
    """Ledgers that need no allocation: rows alone, in copies, and padded to the longest request."""

    token_bytes: int
    logical: int
    materialized: int
    rectangular: int
    phantom: int


def rectangle(lengths: Sequence[int], copies: Sequence[int], token_bytes: int) -> Rectangle:
    """The ledgers of committed rows. phantom: what padding invents beyond the logical bytes."""
    logical = logical_bytes(lengths, token_bytes)
    rectangular = rectangular_bytes(lengths, token_bytes)
    return Rectangle(
        token_bytes=token_bytes,
        logical=logical,
        materialized=materialized_bytes(lengths, copies, token_bytes),
        rectangular=rectangular,
        phantom=phantom_bytes(rectangular, logical),
    )
