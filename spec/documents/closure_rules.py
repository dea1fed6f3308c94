"""The nine classes of failure: how each is closed, who owns that, and which refusals do it.

A failure is closed in one of four ways, and none of them is called rollback: before the publication rows
are thrown away and nothing happened; after an output was emitted, its row can only be computed, by an
append; companions of one row move together or not at all; and what others still own is handed on.
"""

from __future__ import annotations

from typing import Final, Literal

import attrs

from kvspec.spec.failures import (
    ABI_MISMATCH,
    HANDLE_TERMINAL,
    INTERVAL_FULL,
    K_INCOMPLETE,
    NO_LOGITS,
    NOT_A_PERMUTATION,
    NOT_PREPARED,
    POSITION_MISMATCH,
    STALE_FRONTIER,
    STALE_GENERATION,
    STALE_SNAPSHOT,
    STILL_OWNED,
    TXN_CLOSED,
    UNKNOWN_TOKEN,
    UNVERIFIED_DRAFT,
    V_INCOMPLETE,
)
from kvspec.spec.language import ErrorCode

FailureName = Literal[
    "position_mask_mismatch",
    "mixed_schema_or_adapter",
    "partial_layer_publication",
    "split_reorder",
    "stale_publication",
    "cancellation_race",
    "output_cache_frontier",
    "shared_prefix_release",
    "rejected_suffix",
]
Way = Literal[
    "rejected_before_publication", "repaired_by_append", "coupled_operation", "ownership_handoff"
]
Owner = Literal["lifecycle", "decoder", "allocator"]

OWNERS: Final[dict[str, str]] = {
    "rejected_before_publication": "lifecycle",
    "repaired_by_append": "decoder",
    "coupled_operation": "lifecycle",
    "ownership_handoff": "allocator",
}
"""Who closes a failure of each way: the lifecycle itself, the decoder that makes a call, the allocator."""


@attrs.frozen
class Rule:
    """How a class of failures is closed. codes: the refusals of the specification, as they are told."""

    way: Way
    codes: tuple[ErrorCode, ...]


RULES: Final[dict[str, Rule]] = {
    "position_mask_mismatch": Rule(
        "rejected_before_publication", (POSITION_MISMATCH, INTERVAL_FULL)
    ),
    "mixed_schema_or_adapter": Rule("rejected_before_publication", (ABI_MISMATCH,)),
    "partial_layer_publication": Rule("rejected_before_publication", (K_INCOMPLETE, V_INCOMPLETE)),
    "split_reorder": Rule("coupled_operation", (NOT_A_PERMUTATION,)),
    "stale_publication": Rule("rejected_before_publication", (STALE_GENERATION, STALE_SNAPSHOT)),
    "cancellation_race": Rule(
        "rejected_before_publication", (TXN_CLOSED, NOT_PREPARED, HANDLE_TERMINAL)
    ),
    "output_cache_frontier": Rule("repaired_by_append", (UNKNOWN_TOKEN, NO_LOGITS)),
    "shared_prefix_release": Rule("ownership_handoff", (STILL_OWNED,)),
    "rejected_suffix": Rule("repaired_by_append", (UNVERIFIED_DRAFT, STALE_FRONTIER)),
}
"""All nine, in the order in which documents list them."""
