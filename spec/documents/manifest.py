"""The manifest of a request and its cache: what must hold between its parts.

The record is in `manifest_record`, its four identities in `manifest_digests`, what else follows from other
fields in `manifest_derived`; the contracts of its cache ABI are in `cache_abi`. Contracts go from single
fields to relations between lengths, to the ledger, to the digests: a field that is wrong by itself is
told as such, one that is merely not the one that was hashed is told by the digest.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvspec.spec.documents import manifest_digests as identities
from kvspec.spec.documents.cache_abi import CacheAbi, add_abi_contracts
from kvspec.spec.documents.contracts import Binding, DocumentKind, Finding, differs, requires
from kvspec.spec.documents.manifest_derived import bound, ledger, visible_interval
from kvspec.spec.documents.manifest_record import Manifest
from kvspec.spec.formulas import logical_tokens
from kvspec.spec.handles import Phase
from kvspec.spec.language import type_of

PHASES: Final = tuple(phase for phase in type_of(Phase).members if phase != "VACANT")
MANIFEST: Final = DocumentKind(
    "manifest", Manifest, "What a request is, what made its cache rows, and where it stands."
)
MANIFEST.binding = Binding(("/ledger", "/digests"), bound)
MANIFEST.frees(
    "/input_identity/tokenizer", "provenance alone: the token ids are what the model gets"
)
MANIFEST.frees(
    "/input_identity/template", "provenance alone: the token ids are what the model gets"
)


@MANIFEST.contract(
    "REQUEST_IDENTITY", "a request has names and a first attempt, and is no own parent"
)
def request_identity(m: Manifest) -> Iterator[Finding]:
    """Names are there, and the parent is another request."""
    one, path = m.request_identity, "/request_identity"
    yield from requires(one.namespace, f"{path}/namespace", "a name", one.namespace)
    yield from requires(one.request_id, f"{path}/request_id", "a name", one.request_id)
    yield from requires(one.lineage, f"{path}/lineage", "a name", one.lineage)
    yield from requires(one.attempt >= 1, f"{path}/attempt", "at least 1", one.attempt)
    yield from requires(
        one.parent_request not in ("", one.request_id),
        f"{path}/parent_request",
        "null, or the id of another request",
        one.parent_request,
    )


def _abi(m: Manifest) -> CacheAbi:
    return CacheAbi(m.artifact_identity, m.cache_schema, m.position_contract)


def _input_digests(m: Manifest) -> dict[str, str]:
    given, path = m.input_identity, "/input_identity"
    return {
        f"{path}/side_input_sha256": given.side_input_sha256,
        f"{path}/isolation_salt_sha256": given.isolation_salt_sha256,
    }


add_abi_contracts(MANIFEST, "", _abi, _input_digests)


@MANIFEST.contract("TOKEN_IDS", "token ids are not negative, and a prompt has at least one")
def token_ids(m: Manifest) -> Iterator[Finding]:
    """All token ids of the record."""
    prompt = m.input_identity.prompt_token_ids
    yield from requires(prompt, "/input_identity/prompt_token_ids", "at least one id", prompt)
    found = {
        "/input_identity/prompt_token_ids": prompt,
        "/state_snapshot/output_token_ids": m.state_snapshot.output_token_ids,
        "/request_policy/stop_token_ids": m.request_policy.stop_token_ids,
    }
    for path, ids in found.items():
        for n, one in enumerate(ids):
            yield from requires(one >= 0, f"{path}/{n}", "at least 0", one)


@MANIFEST.contract("PHASE", "a snapshot has a generation from 0 and a phase of its handle")
def phase(m: Manifest) -> Iterator[Finding]:
    """The handle's own state."""
    one, path = m.state_snapshot, "/state_snapshot"
    yield from requires(one.generation >= 0, f"{path}/generation", "at least 0", one.generation)
    yield from requires(
        one.phase in PHASES, f"{path}/phase", f"one of {', '.join(PHASES)}", one.phase
    )


@MANIFEST.contract("SAMPLING", "sampling has a method, and no negative temperature or top-k")
def sampling(m: Manifest) -> Iterator[Finding]:
    """How the next token is chosen can be carried out."""
    one, path = m.request_policy.sampling, "/request_policy/sampling"
    yield from requires(one.method, f"{path}/method", "a name", one.method)
    for name in ("temperature_milli", "top_k"):
        size = getattr(one, name)
        yield from requires(size >= 0, f"{path}/{name}", "at least 0", size)


@MANIFEST.contract("PROMPT_COUNT", "the prompt has as many tokens as it has ids")
def prompt_count(m: Manifest) -> Iterator[Finding]:
    """P is the number of ids."""
    one = m.input_identity
    yield from differs(
        "/input_identity/prompt_tokens", len(one.prompt_token_ids), one.prompt_tokens
    )


@MANIFEST.contract("OUTPUT_AFTER_STOP", "no output follows a stop token")
def output_after_stop(m: Manifest) -> Iterator[Finding]:
    """Each stop token ends the output: only the last output may be one."""
    stops = m.request_policy.stop_token_ids
    for place, token in enumerate(m.state_snapshot.output_token_ids[:-1]):
        path = f"/state_snapshot/output_token_ids/{place}"
        yield from requires(token not in stops, path, "a token that does not stop", token)


@MANIFEST.contract("LOGICAL_COUNT", "logical tokens are those of the prompt and the outputs")
def logical_count(m: Manifest) -> Iterator[Finding]:
    """Logical tokens are P + E."""
    one = m.state_snapshot
    expected = logical_tokens(m.input_identity.prompt_tokens, len(one.output_token_ids))
    yield from differs("/state_snapshot/logical_tokens", expected, one.logical_tokens)


@MANIFEST.contract(
    "MODEL_LIMITS", "prompt and outputs fit the request's limits, and these the model"
)
def model_limits(m: Manifest) -> Iterator[Finding]:
    """No limit promises what another one forbids."""
    policy, path = m.request_policy, "/request_policy"
    most = policy.model_context_tokens
    fits = 1 <= policy.context_tokens <= most
    yield from requires(fits, f"{path}/context_tokens", f"from 1 to {most}", policy.context_tokens)
    room = policy.context_tokens - m.input_identity.prompt_tokens
    made = len(m.state_snapshot.output_token_ids)
    told = f"at least the {max(made, 1)} of the snapshot, at most {room}"
    enough = max(made, 1) <= policy.output_tokens <= room
    yield from requires(enough, f"{path}/output_tokens", told, policy.output_tokens)


@MANIFEST.contract("COMMIT_BEYOND_LOGICAL", "no more is committed than there are logical tokens")
def commit_beyond_logical(m: Manifest) -> Iterator[Finding]:
    """A row is that of a token."""
    one = m.state_snapshot
    good = 0 <= one.committed_length <= one.logical_tokens
    told = f"from 0 to {one.logical_tokens}"
    yield from requires(good, "/state_snapshot/committed_length", told, one.committed_length)


@MANIFEST.contract(
    "OUTPUT_AHEAD",
    "at most one output has no row, and none is there before the prompt has its rows",
)
def output_ahead(m: Manifest) -> Iterator[Finding]:
    """The output runs at most one token ahead of the rows, until the request is released."""
    one, prompt = m.state_snapshot, m.input_identity.prompt_tokens
    least = one.logical_tokens - 1 if one.output_token_ids else 0
    good = one.phase == "RELEASED" or one.committed_length >= max(least, prompt if least else 0)
    told = f"at least {max(least, prompt if least else 0)}"
    yield from requires(good, "/state_snapshot/committed_length", told, one.committed_length)


@MANIFEST.contract("POSITION_GAP", "the next row stands right behind the committed ones")
def position_gap(m: Manifest) -> Iterator[Finding]:
    """The next cache position is origin plus committed length."""
    one = m.state_snapshot
    expected = m.position_contract.origin + one.committed_length
    yield from differs("/state_snapshot/next_cache_position", expected, one.next_cache_position)


@MANIFEST.contract("VISIBLE_BEYOND_COMMIT", "what is visible is committed")
def visible_beyond_commit(m: Manifest) -> Iterator[Finding]:
    """No visible position is outside [origin, origin + committed length)."""
    seen, first, end = (
        m.state_snapshot.visible,
        m.position_contract.origin,
        m.state_snapshot.next_cache_position,
    )
    good = first <= seen.begin <= seen.end <= end
    told = f"within [{first}, {end})"
    yield from requires(good, "/state_snapshot/visible", told, f"[{seen.begin}, {seen.end})")


@MANIFEST.contract(
    "VISIBLE_POSITIONS", "the next query sees what the visibility shows, nothing of a released one"
)
def visible_positions(m: Manifest) -> Iterator[Finding]:
    """The visible interval is the one of the policy."""
    expected = visible_interval(m)
    found = m.state_snapshot.visible
    yield from differs("/state_snapshot/visible/begin", expected.begin, found.begin)
    yield from differs("/state_snapshot/visible/end", expected.end, found.end)


@MANIFEST.contract("RESERVED_BELOW_COMMIT", "at least the committed rows that are kept have slots")
def reserved_below_commit(m: Manifest) -> Iterator[Finding]:
    """Reserved capacity covers the committed length, or the window where one is kept."""
    one, window = m.state_snapshot, m.position_contract.window
    kept = one.committed_length if window is None else min(one.committed_length, window)
    good = one.reserved_tokens >= kept
    told = f"at least {kept}"
    yield from requires(good, "/state_snapshot/reserved_tokens", told, one.reserved_tokens)


@MANIFEST.contract("TIERS", "each tier is named once and holds no negative number of bytes")
def tiers(m: Manifest) -> Iterator[Finding]:
    """Resident bytes are a partition over tiers."""
    names = [one.tier for one in m.state_snapshot.tiers]
    for n, one in enumerate(m.state_snapshot.tiers):
        path = f"/state_snapshot/tiers/{n}"
        good = one.tier and names.count(one.tier) == 1
        yield from requires(good, f"{path}/tier", "a name that no other tier has", one.tier)
        for name in ("resident_bytes", "reclaimable_bytes"):
            size = getattr(one, name)
            yield from requires(size >= 0, f"{path}/{name}", "at least 0", size)


@MANIFEST.contract("RECLAIMABLE_ABOVE_RESIDENT", "no tier can give back more than it holds")
def reclaimable_above_resident(m: Manifest) -> Iterator[Finding]:
    """Reclaimable bytes are among the resident ones, in every tier."""
    for n, one in enumerate(m.state_snapshot.tiers):
        good = one.reclaimable_bytes <= one.resident_bytes
        path = f"/state_snapshot/tiers/{n}/reclaimable_bytes"
        yield from requires(good, path, f"at most {one.resident_bytes}", one.reclaimable_bytes)


@MANIFEST.contract("TOKEN_BYTES", "bytes a token are those of the schema", derived=True)
def ledger_token(m: Manifest) -> Iterator[Finding]:
    """L H_kv d_h (b_K + b_V)."""
    yield from differs("/ledger/token_bytes", ledger(m).token_bytes, m.ledger.token_bytes)


@MANIFEST.contract(
    "LEDGER", "committed and reserved bytes are those of the snapshot's lengths", derived=True
)
def ledger_lengths(m: Manifest) -> Iterator[Finding]:
    """Lengths times bytes a token."""
    expected = ledger(m)
    yield from differs(
        "/ledger/committed_bytes", expected.committed_bytes, m.ledger.committed_bytes
    )
    yield from differs("/ledger/reserved_bytes", expected.reserved_bytes, m.ledger.reserved_bytes)


@MANIFEST.contract("PROMPT_DIGEST", "the prompt's digest is that of its token ids", derived=True)
def prompt_digest(m: Manifest) -> Iterator[Finding]:
    """See `manifest_digests.prompt_digest`."""
    yield from differs(
        "/digests/prompt_sha256", identities.prompt_digest(m), m.digests.prompt_sha256
    )


@MANIFEST.contract(
    "CACHE_ABI", "the ABI's digest is that of artifact, schema and positions", derived=True
)
def cache_abi(m: Manifest) -> Iterator[Finding]:
    """See `manifest_digests.abi_projection`."""
    yield from differs(
        "/digests/cache_abi_sha256", identities.abi_digest(m), m.digests.cache_abi_sha256
    )


@MANIFEST.contract(
    "PREFIX_IDENTITY",
    "the prefix's digest is that of ABI, prompt, side input and salt",
    derived=True,
)
def prefix_identity(m: Manifest) -> Iterator[Finding]:
    """See `manifest_digests.prefix_projection`."""
    found = m.digests.prefix_identity_sha256
    yield from differs("/digests/prefix_identity_sha256", identities.prefix_digest(m), found)


@MANIFEST.contract(
    "SNAPSHOT_DIGEST",
    "the snapshot's digest is that of request, prefix, policy and state",
    derived=True,
)
def snapshot(m: Manifest) -> Iterator[Finding]:
    """See `manifest_digests.snapshot_projection`."""
    yield from differs(
        "/digests/snapshot_sha256", identities.snapshot_digest(m), m.digests.snapshot_sha256
    )
