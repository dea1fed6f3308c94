"""What a manifest records of one request and its cache: who, made by what, from what, where it stands.

Modelled: one shard's view of one request at one generation. What never changes during a request (its
identity, the artifact, the input, the schema, positions, policy) stands beside one immutable snapshot of
what does; a publication gives a new manifest with the next generation. Left out: where bytes live
(blocks, pages), and elements narrower than a byte.
"""

from __future__ import annotations

import attrs


@attrs.frozen
class RequestIdentity:
    """Which attempt of which request this is.

    namespace: whose request ids these are. request_id: unique within it. attempt: from 1. lineage: the
    chain of forks that it belongs to. parent_request: the request that it was forked from, if any.
    """

    namespace: str
    request_id: str
    attempt: int
    lineage: str
    parent_request: str | None


@attrs.frozen
class Adapter:
    """An adapter that is active. name: for a reader. weights_sha256: of its weights."""

    name: str
    weights_sha256: str


@attrs.frozen
class ArtifactIdentity:
    """What computed the rows: all that can change a projected value.

    model_sha256: of the weights. configuration_sha256: of the model's configuration. adapters: in the order
    in which they are applied. weight_transforms: what was done to the weights when loaded, in order.
    """

    model_sha256: str
    configuration_sha256: str
    adapters: tuple[Adapter, ...]
    weight_transforms: tuple[str, ...]


@attrs.frozen
class InputIdentity:
    """What the rows were computed from.

    prompt_token_ids: exactly as the model got them. prompt_tokens: P, how many. tokenizer, template: whence
    the ids came, for replay and audit. side_input_sha256: of images, prompt embeddings and the like.
    isolation_salt_sha256: requests with different salts never share rows.
    """

    prompt_token_ids: tuple[int, ...]
    prompt_tokens: int
    tokenizer: str
    template: str
    side_input_sha256: str
    isolation_salt_sha256: str


@attrs.frozen
class Representation:
    """How a scalar is stored. key_dtype, value_dtype: element types. scales: where scale factors are."""

    key_dtype: str
    value_dtype: str
    scales: str


@attrs.frozen
class Shard:
    """Which K/V heads of the model this cache holds: those in [first_head, end_head).

    ranks: the width of tensor parallelism. rank: this one, from 0. model_kv_heads: heads of all ranks.
    """

    ranks: int
    rank: int
    model_kv_heads: int
    first_head: int
    end_head: int


@attrs.frozen
class CacheSchema:
    """What a row looks like.

    family: `full` or `sliding-window`. layers: that produce K and V (L). kv_heads: of this shard (H_kv).
    head_width: d_h, in channels. key_bytes, value_bytes: of one scalar. positional_stage: of stored keys.
    axes: the logical order of a layer's tensor.
    """

    family: str
    layers: int
    kv_heads: int
    head_width: int
    key_bytes: int
    value_bytes: int
    positional_stage: str
    axes: tuple[str, ...]
    representation: Representation
    shard: Shard


@attrs.frozen
class Rope:
    """Rotary positions. theta: base of the frequencies. width: channels that are rotated.

    pairing: which channels form a pair, `halves` or `neighbours`. scaling: of long contexts, by name.
    """

    theta: int
    width: int
    pairing: str
    scaling: str


@attrs.frozen
class PositionContract:
    """What a position means and which ones a query sees.

    convention: of cache positions. origin: the position of the first row. rope: null without rotation.
    visibility: `causal`, or `causal-window`, by which a query at p sees (p - window, p].
    """

    convention: str
    origin: int
    rope: Rope | None
    visibility: str
    window: int | None


@attrs.frozen
class Sampling:
    """How the next token is chosen. temperature_milli: thousandths; 0 is greedy. top_k: 0 means all."""

    method: str
    temperature_milli: int
    top_k: int
    seed: int


@attrs.frozen
class RequestPolicy:
    """How far the request may go.

    model_context_tokens: what the model can take. context_tokens: what this request may fill of it.
    output_tokens: how many outputs it may get at most. stop_token_ids: each of them ends it.
    """

    model_context_tokens: int
    context_tokens: int
    output_tokens: int
    stop_token_ids: tuple[int, ...]
    sampling: Sampling


@attrs.frozen
class Interval:
    """The positions [begin, end)."""

    begin: int
    end: int


@attrs.frozen
class TierBytes:
    """Payload in one tier of memory. resident: what is there. reclaimable: what of it could go now."""

    tier: str
    resident_bytes: int
    reclaimable_bytes: int


@attrs.frozen
class StateSnapshot:
    """Where the request stands at one generation; six quantities that no one of the others can replace.

    generation: counts the snapshots of this request. phase: of its handle. output_token_ids: selected so far
    (E of them). logical_tokens: prompt and outputs. committed_length: rows that every layer has published.
    visible: cache positions that the next query sees of them. next_cache_position: that of the next row.
    reserved_tokens: slots set aside. tiers: resident and reclaimable bytes of each tier.
    """

    generation: int
    phase: str
    output_token_ids: tuple[int, ...]
    logical_tokens: int
    committed_length: int
    visible: Interval
    next_cache_position: int
    reserved_tokens: int
    tiers: tuple[TierBytes, ...]


@attrs.frozen
class Ledger:
    """Bytes that follow from the schema and the snapshot; nominal, whatever an allocator adds to them.

    token_bytes: K and V of one token over all layers. committed_bytes: of the committed rows. reserved_bytes:
    of the slots set aside.
    """

    token_bytes: int
    committed_bytes: int
    reserved_bytes: int


@attrs.frozen
class Digests:
    """The four identities, each SHA-256 of the canonical JSON of a part of the record."""

    prompt_sha256: str
    cache_abi_sha256: str
    prefix_identity_sha256: str
    snapshot_sha256: str


@attrs.frozen
class Manifest:
    """One request and its cache on one shard, at one generation."""

    request_identity: RequestIdentity
    artifact_identity: ArtifactIdentity
    input_identity: InputIdentity
    cache_schema: CacheSchema
    position_contract: PositionContract
    request_policy: RequestPolicy
    state_snapshot: StateSnapshot
    ledger: Ledger
    digests: Digests
