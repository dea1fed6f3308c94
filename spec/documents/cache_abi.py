"""A cache ABI: the parts of a manifest that say how a stored row is read, and what must hold of them.

It stands in a manifest, and in every document whose bytes are counted by it. Its contracts are written
here once; `add_abi_contracts` gives them to a kind that has one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, requires
from kvspec.spec.documents.manifest_derived import heads_of
from kvspec.spec.documents.manifest_record import ArtifactIdentity, CacheSchema, PositionContract
from kvspec.spec.formulas import token_bytes

AXES: Final = ("batch", "kv_head", "position", "channel")
STAGES: Final = {True: ("post-rope", "pre-rope"), False: ("unrotated",)}
"""The stages at which a key may be stored, with and without rotary positions."""

FAMILIES: Final = {"full": "causal", "sliding-window": "causal-window"}
"""The families of caches, and the visibility that each of them serves."""

WIDTHS: Final = {
    "float32": 4,
    "bfloat16": 2,
    "float16": 2,
    "float8_e4m3": 1,
    "float8_e5m2": 1,
    "int8": 1,
}
"""Bytes of an element of each type."""

DIGEST_FORM: Final = "a digest is 64 lower-case hexadecimal digits"
_HEX: Final = frozenset("0123456789abcdef")


@attrs.frozen
class CacheAbi:
    """The parts of a manifest that say how a stored row is read; their digest is the manifest's own."""

    artifact_identity: ArtifactIdentity
    cache_schema: CacheSchema
    position_contract: PositionContract


AbiCheck = Callable[[CacheAbi, str], Iterator[Finding]]
"""Where an ABI breaks a contract; the text is the pointer to the ABI in its document."""


def coefficient(abi: CacheAbi) -> int:
    """Bytes of one committed row under a cache ABI."""
    schema = abi.cache_schema
    return token_bytes(
        schema.layers, schema.kv_heads, schema.head_width, schema.key_bytes, schema.value_bytes
    )


def have_digest_form(found: dict[str, str]) -> Iterator[Finding]:
    """A finding for each text, by its pointer, that does not look like SHA-256."""
    for path, text in found.items():
        good = len(text) == 64 and set(text) <= _HEX
        yield from requires(good, path, "64 lower-case hexadecimal digits", text)


def digest_form(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """The digests that are given, not computed here, look like SHA-256."""
    made, path = abi.artifact_identity, f"{at}/artifact_identity"
    yield from have_digest_form(
        {
            f"{path}/model_sha256": made.model_sha256,
            f"{path}/configuration_sha256": made.configuration_sha256,
            **{
                f"{path}/adapters/{n}/weights_sha256": adapter.weights_sha256
                for n, adapter in enumerate(made.adapters)
            },
        }
    )


def cache_shape(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """No size of a row is zero."""
    for name in ("layers", "kv_heads", "head_width"):
        size = getattr(abi.cache_schema, name)
        yield from requires(size >= 1, f"{at}/cache_schema/{name}", "at least 1", size)


def dtype_width(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """Element types are known and have their widths, K's and V's each by itself."""
    schema, types = abi.cache_schema, abi.cache_schema.representation
    sides = (
        ("key", types.key_dtype, schema.key_bytes),
        ("value", types.value_dtype, schema.value_bytes),
    )
    for side, dtype, width in sides:
        path = f"{at}/cache_schema/representation/{side}_dtype"
        yield from requires(dtype in WIDTHS, path, f"one of {', '.join(WIDTHS)}", dtype)
        if dtype in WIDTHS:
            yield from differs(f"{at}/cache_schema/{side}_bytes", WIDTHS[dtype], width)


def axes(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """The axes are a permutation of batch, kv_head, position, channel."""
    found = abi.cache_schema.axes
    yield from requires(
        sorted(found) == sorted(AXES),
        f"{at}/cache_schema/axes",
        f"{', '.join(AXES)} in some order",
        found,
    )


def shard(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """Heads are dealt out evenly; with more ranks than heads, several ranks hold one head."""
    one, path = abi.cache_schema.shard, f"{at}/cache_schema/shard"
    heads, ranks = one.model_kv_heads, one.ranks
    even = heads >= 1 and ranks >= 1 and (heads % ranks == 0 or ranks % heads == 0)
    if not even:
        told = "heads that ranks divide, or ranks that heads divide"
        yield Finding(path, told, f"{heads} heads over {ranks} ranks")
        return
    yield from requires(0 <= one.rank < ranks, f"{path}/rank", f"from 0 to {ranks - 1}", one.rank)
    held = heads_of(one)
    yield from differs(f"{path}/first_head", held.begin, one.first_head)
    yield from differs(f"{path}/end_head", held.end, one.end_head)
    count = held.end - held.begin
    yield from differs(f"{at}/cache_schema/kv_heads", count, abi.cache_schema.kv_heads)


def rope(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """The rotary configuration is one that can be applied."""
    one, path = abi.position_contract.rope, f"{at}/position_contract/rope"
    width = abi.cache_schema.head_width
    if one is None:
        return
    yield from requires(one.theta >= 1, f"{path}/theta", "at least 1", one.theta)
    fits = one.width % 2 == 0 and 2 <= one.width <= width
    yield from requires(fits, f"{path}/width", f"an even number from 2 to {width}", one.width)
    known = one.pairing in ("halves", "neighbours")
    yield from requires(known, f"{path}/pairing", "halves or neighbours", one.pairing)


def positional_stage(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """Keys are stored before or after rotation, or there is none."""
    stages = STAGES[abi.position_contract.rope is not None]
    found = abi.cache_schema.positional_stage
    told = f"one of {', '.join(stages)}"
    yield from requires(found in stages, f"{at}/cache_schema/positional_stage", told, found)


def visibility_policy(abi: CacheAbi, at: str) -> Iterator[Finding]:
    """Which positions a query sees is said by the family and the position contract alike."""
    family, one, path = abi.cache_schema.family, abi.position_contract, f"{at}/position_contract"
    known = f"one of {', '.join(FAMILIES)}"
    yield from requires(family in FAMILIES, f"{at}/cache_schema/family", known, family)
    if family in FAMILIES:
        yield from differs(f"{path}/visibility", FAMILIES[family], one.visibility)
    windowed = one.visibility == "causal-window"
    good = one.window is not None and one.window >= 1 if windowed else one.window is None
    yield from requires(good, f"{path}/window", "at least 1" if windowed else "null", one.window)
    yield from differs(f"{path}/convention", "absolute", one.convention)
    yield from requires(one.origin >= 0, f"{path}/origin", "at least 0", one.origin)


ABI_CONTRACTS: Final[dict[str, tuple[str, AbiCheck]]] = {
    "DIGEST_FORM": (DIGEST_FORM, digest_form),
    "CACHE_SHAPE": ("layers, K/V heads and channels are at least 1", cache_shape),
    "DTYPE_WIDTH": ("a scalar has the bytes of its element type, at least 1", dtype_width),
    "AXES": ("a layer's tensor has each of its four axes once", axes),
    "SHARD": ("a shard holds the K/V heads of its rank, and counts just these", shard),
    "ROPE": ("rotation takes an even number of channels, at most those of a head", rope),
    "POSITIONAL_STAGE": (
        "the stage of stored keys is one that the positions can have",
        positional_stage,
    ),
    "VISIBILITY_POLICY": (
        "a cache family serves its visibility, with a window if it needs one",
        visibility_policy,
    ),
}
"""The contracts of a cache ABI by code, each with its meaning."""


def is_lawful(abi: CacheAbi) -> bool:
    """Whether an ABI keeps all its contracts."""
    return not any(True for _, check in ABI_CONTRACTS.values() for _ in check(abi, ""))


def add_abi_contracts(
    kind: DocumentKind,
    at: str = "/cache_abi",
    abi_of: Callable[[Any], CacheAbi] = lambda document: document.cache_abi,
    more_digests: Callable[[Any], dict[str, str]] = lambda _: {},
) -> None:
    """Give a kind of document the contracts of the cache ABI that it has.

    at: the pointer to it. more_digests: others of the document that are given, by their pointers.
    """
    for code, (meaning, check) in ABI_CONTRACTS.items():
        kind.contract(code, meaning)(_of(check, at, abi_of))
    form = kind.contracts["DIGEST_FORM"]
    kind.contracts["DIGEST_FORM"] = attrs.evolve(
        form, check=lambda d: (*form.check(d), *have_digest_form(more_digests(d)))
    )


def _of(
    check: AbiCheck, at: str, abi_of: Callable[[Any], CacheAbi]
) -> Callable[[Any], Iterator[Finding]]:
    return lambda document: check(abi_of(document), at)
