"""The four identities of a manifest: what each of them includes, why, and what it leaves out.

One digest of everything would be easy, and of no use: it would differ between two requests whose rows
are interchangeable. Each of these is made of the part of the record that answers one question.
"""

from __future__ import annotations

from typing import Any

from kvspec.spec.documents.canonical import digest, plain
from kvspec.spec.documents.manifest_record import Digests, Manifest


def prompt_digest(m: Manifest) -> str:
    """Which tokens? The prompt's ids in their order, and nothing else.

    Left out: the text and the tokenizer from which the ids came (the model never sees these), and the
    outputs (the snapshot has those).
    """
    return digest(m.input_identity.prompt_token_ids)


def abi_projection(m: Manifest) -> dict[str, Any]:
    """What cache ABI? All that it takes to interpret a stored row.

    artifact_identity: weights, configuration, active adapters and transforms each change what is projected,
    even where every shape stays as it is; so another LoRA adapter gives another ABI. cache_schema: axes,
    element types and the heads of this shard; equal byte counts do not make equal heads. position_contract:
    a row that is right at one position is wrong at another.

    Left out: tokens, request and state. Rows of different prompts have one ABI.
    """
    return {
        "artifact_identity": plain(m.artifact_identity),
        "cache_schema": plain(m.cache_schema),
        "position_contract": plain(m.position_contract),
    }


def abi_digest(m: Manifest) -> str:
    """The digest of `abi_projection`."""
    return digest(abi_projection(m))


def prefix_projection(m: Manifest) -> dict[str, Any]:
    """May these prompt rows be reused? What decides the rows of a prompt, and who may share them.

    The ABI and the token ids decide the rows of plain text; side inputs (an image behind placeholder ids,
    prompt embeddings) decide them where equal ids stand for different input; the isolation salt keeps apart
    tenants that must not share even equal rows.

    Left out: request_id, attempt and lineage, since with them no two requests could ever share a prefix;
    tokenizer and template, whose effect is in the ids; policy and state, which come after the prompt.
    """
    return {
        "cache_abi_sha256": abi_digest(m),
        "prompt_sha256": prompt_digest(m),
        "side_input_sha256": m.input_identity.side_input_sha256,
        "isolation_salt_sha256": m.input_identity.isolation_salt_sha256,
    }


def prefix_digest(m: Manifest) -> str:
    """The digest of `prefix_projection`."""
    return digest(prefix_projection(m))


def snapshot_projection(m: Manifest) -> dict[str, Any]:
    """Which state of which request? What an append names as its base, and a publication compares.

    state_snapshot: generation, phase, outputs, lengths, visibility and bytes. The prefix identity says what
    lies below the outputs. request_identity is in here (as it is not in the prefix): a receipt for one
    request's snapshot must never pass for another's. request_policy: it bounds what may follow.

    Left out: the ledger, which follows from the rest, and tokenizer and template.
    """
    return {
        "request_identity": plain(m.request_identity),
        "prefix_identity_sha256": prefix_digest(m),
        "request_policy": plain(m.request_policy),
        "state_snapshot": plain(m.state_snapshot),
    }


def snapshot_digest(m: Manifest) -> str:
    """The digest of `snapshot_projection`."""
    return digest(snapshot_projection(m))


def digests(m: Manifest) -> Digests:
    """All four, as they must be."""
    return Digests(
        prompt_sha256=prompt_digest(m),
        cache_abi_sha256=abi_digest(m),
        prefix_identity_sha256=prefix_digest(m),
        snapshot_sha256=snapshot_digest(m),
    )
