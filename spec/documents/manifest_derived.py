"""What follows from other fields of a manifest: heads of a shard, visible positions, bytes, identities."""

from __future__ import annotations

import attrs

from kvspec.spec.documents.manifest_digests import digests
from kvspec.spec.documents.manifest_record import Interval, Ledger, Manifest, Shard
from kvspec.spec.formulas import committed_bytes, reserved_bytes, token_bytes


def heads_of(shard: Shard) -> Interval:
    """The K/V heads that a rank holds, of those of the model."""
    first = shard.rank * shard.model_kv_heads // shard.ranks
    return Interval(first, first + max(1, shard.model_kv_heads // shard.ranks))


def visible_interval(m: Manifest) -> Interval:
    """The committed positions that a query at the next cache position sees."""
    end = m.state_snapshot.next_cache_position
    if m.state_snapshot.phase == "RELEASED":
        return Interval(end, end)
    window, first = m.position_contract.window, m.position_contract.origin
    return Interval(first if window is None else min(end, max(first, end - window + 1)), end)


def ledger(m: Manifest) -> Ledger:
    """The bytes that follow from schema and snapshot."""
    schema, state = m.cache_schema, m.state_snapshot
    each = token_bytes(
        schema.layers, schema.kv_heads, schema.head_width, schema.key_bytes, schema.value_bytes
    )
    return Ledger(
        token_bytes=each,
        committed_bytes=committed_bytes(state.committed_length, each),
        reserved_bytes=reserved_bytes(state.reserved_tokens, each),
    )


def bound(m: Manifest) -> Manifest:
    """The manifest with its ledger and its digests made anew; all else is taken as it is."""
    made = attrs.evolve(m, ledger=ledger(m))
    return attrs.evolve(made, digests=digests(made))
