"""Bytes: what one committed token costs, and the ledgers of a set of requests at one cut of time.

Left out: weights, sampler state and communication buffers, and how a real allocator lays out
capacity. Physical bytes are here reserved payload and a charge for each live copy.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from kvspec.spec.formulas.folds import N, count, largest, ratio, total
from kvspec.spec.formulas.frame import Requirement, formula
from kvspec.spec.formulas.quantities import (
    ALLOCATOR,
    B_K,
    B_V,
    BATCH,
    BETA,
    CAPACITIES,
    COPIES,
    COPIES_HERE,
    D_H,
    H_KV,
    H_Q,
    L_CACHE,
    LENGTHS,
    LOGICAL,
    MATERIALIZED,
    METADATA,
    PHYSICAL,
    RECTANGULAR,
    RESERVED,
    T_COMMITTED,
    T_NEW,
    T_RESERVED,
    WORKSPACE,
)
from kvspec.spec.formulas.units import BYTE, LAYER, ONE, TOKEN

ROW = (H_KV, D_H, B_K, B_V)


@formula("B_token", unit=BYTE / TOKEN, takes=(L_CACHE, *ROW), section="0x02")
def token_bytes(cache_layers: N, kv_heads: N, head_width: N, key_bytes: N, value_bytes: N) -> N:
    """Bytes of one committed token: a row of K and one of V in every layer."""
    return cache_layers * kv_heads * head_width * (key_bytes + value_bytes)


@formula("B_token(model)", unit=BYTE / TOKEN, takes=(L_CACHE, H_Q, *ROW), section="0x09")
def model_token_bytes(
    cache_layers: N, query_heads: N, kv_heads: N, head_width: N, key_bytes: N, value_bytes: N
) -> N:
    """Bytes of one committed token of a model; its query heads are stored nowhere."""
    del query_heads
    return token_bytes(cache_layers, kv_heads, head_width, key_bytes, value_bytes)


@formula("B_layer_append", unit=BYTE / LAYER, takes=(BATCH, T_NEW, *ROW), section="0x01")
def layer_append_bytes(
    batch: N, new_tokens: N, kv_heads: N, head_width: N, key_bytes: N, value_bytes: N
) -> N:
    """Bytes that a call stages in one layer."""
    return batch * new_tokens * kv_heads * head_width * (key_bytes + value_bytes)


@formula("B_append", unit=BYTE, takes=(L_CACHE, BATCH, T_NEW, *ROW), section="0x01")
def append_bytes(
    cache_layers: N,
    batch: N,
    new_tokens: N,
    kv_heads: N,
    head_width: N,
    key_bytes: N,
    value_bytes: N,
) -> N:
    """Bytes that a call stages in all layers."""
    return cache_layers * layer_append_bytes(
        batch, new_tokens, kv_heads, head_width, key_bytes, value_bytes
    )


@formula("M_committed", unit=BYTE, takes=(T_COMMITTED, BETA), section="0x09")
def committed_bytes(committed_tokens: N, token_bytes: N) -> N:
    """Bytes of one request's committed tokens."""
    return committed_tokens * token_bytes


@formula("M_reserved", unit=BYTE, takes=(T_RESERVED, BETA), section="0x09")
def reserved_bytes(reserved_tokens: N, token_bytes: N) -> N:
    """Bytes of one request's reserved capacity."""
    return reserved_tokens * token_bytes


@formula("B_logical", unit=BYTE, takes=(LENGTHS, BETA), section="0x02")
def logical_bytes(lengths: Iterable[N], token_bytes: N) -> N:
    """Bytes of the committed tokens of all requests, each history once."""
    return token_bytes * total(lambda length: length, lengths)


@formula("B_materialized", unit=BYTE, takes=(LENGTHS, COPIES, BETA), section="0x02")
def materialized_bytes(lengths: Iterable[N], copies: Iterable[N], token_bytes: N) -> N:
    """Bytes of the committed tokens in every copy."""
    return token_bytes * total(lambda copy, length: copy * length, copies, lengths)


@formula("B_reserved", unit=BYTE, takes=(CAPACITIES, COPIES, BETA), section="0x02")
def reserved_capacity_bytes(capacities: Iterable[N], copies: Iterable[N], token_bytes: N) -> N:
    """Bytes of the capacity that is set aside in every copy."""
    return token_bytes * total(lambda copy, capacity: copy * capacity, copies, capacities)


@formula("B_rectangular", unit=BYTE, takes=(LENGTHS, BETA), section="0x02, 0x09")
def rectangular_bytes(lengths: Iterable[N], token_bytes: N) -> N:
    """Bytes if every request were padded to the longest; an upper bound, and no allocation."""
    return token_bytes * count(lengths) * largest(lengths)


@formula("B_allocator", unit=BYTE, takes=(COPIES, METADATA), section="0x02")
def allocator_bytes(copies: Iterable[N], metadata_per_copy: N) -> N:
    """Bytes of allocator state, one charge for each live copy."""
    return total(lambda copy: copy, copies) * metadata_per_copy


@formula(
    "B_phantom",
    unit=BYTE,
    takes=(RECTANGULAR, LOGICAL),
    section="0x02, 0x09",
    requires=(
        Requirement("the rectangle is no smaller than the logical payload", lambda r, l: r >= l),
    ),
)
def phantom_bytes(rectangular: N, logical: N) -> N:
    """Bytes that padding invents."""
    return rectangular - logical


@formula(
    "B_replication",
    unit=BYTE,
    takes=(MATERIALIZED, LOGICAL),
    section="0x02",
    requires=(
        Requirement("what is materialized is no less than what is logical", lambda m, l: m >= l),
    ),
)
def replication_overhead_bytes(materialized: N, logical: N) -> N:
    """Bytes of second and further copies."""
    return materialized - logical


@formula(
    "B_slack",
    unit=BYTE,
    takes=(RESERVED, MATERIALIZED),
    section="0x02",
    requires=(
        Requirement("what is reserved is no less than what is materialized", lambda c, m: c >= m),
    ),
)
def reservation_slack_bytes(reserved: N, materialized: N) -> N:
    """Bytes set aside and not yet filled."""
    return reserved - materialized


@formula("B_physical", unit=BYTE, takes=(RESERVED, ALLOCATOR), section="0x02")
def physical_bytes(reserved: N, allocator: N) -> N:
    """Bytes of cache that are allocated, under the allocation of the fixture."""
    return reserved + allocator


@formula("B_copy", unit=BYTE, takes=(T_RESERVED, BETA, METADATA), section="0x02")
def copy_bytes(capacity: N, token_bytes: N, metadata_per_copy: N) -> N:
    """Bytes that one copy of a request occupies on its tier."""
    return capacity * token_bytes + metadata_per_copy


@formula(
    "B_resident",
    unit=BYTE,
    takes=(CAPACITIES, COPIES_HERE, BETA, METADATA),
    section="0x02",
)
def resident_bytes(
    capacities: Iterable[N], copies_here: Iterable[N], token_bytes: N, metadata_per_copy: N
) -> N:
    """Bytes of cache on one tier, for the copies of each request that are there."""
    return total(
        lambda copies, capacity: copies * copy_bytes(capacity, token_bytes, metadata_per_copy),
        copies_here,
        capacities,
    )


@formula("B_instantaneous", unit=BYTE, takes=(PHYSICAL, WORKSPACE), section="0x02")
def instantaneous_bytes(physical: N, workspace: N) -> N:
    """Bytes of cache and of the event's workspace at one cut."""
    return physical + workspace


@formula(
    "g_query",
    unit=ONE,
    takes=(H_Q, H_KV),
    section="0x01",
    requires=(Requirement("H_kv divides H_q", lambda q, kv: q % kv == 0),),
)
def query_group(query_heads: N, kv_heads: N) -> N:
    """Query heads that read one K/V head."""
    found: Any = ratio(query_heads, kv_heads)
    is_whole = isinstance(found, Fraction) and found.denominator == 1
    whole: Any = found.numerator if is_whole else found
    group: N = whole
    return group
