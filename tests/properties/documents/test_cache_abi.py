"""The contracts of a cache ABI hold wherever one stands."""

import typing

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document, load_set, verdict
from kvspec.models.documents import at, convert, replaced
from kvspec.properties.documents import find_kind, kinds
from kvspec.spec.documents.cache_abi import ABI_CONTRACTS, CacheAbi
from kvspec.spec.documents.canonical import digest
from kvspec.spec.documents.manifest_record import CacheSchema

DIGESTS = {
    "byte-trajectory": "/cache_abi_sha256",
    "event-log": "/header/cache_abi_sha256",
    "service": "/cache_abi_sha256",
}
IMPOSSIBLE = [
    ("/artifact_identity/model_sha256", "abc", "DIGEST_FORM"),
    ("/cache_schema/kv_heads", 0, "CACHE_SHAPE"),
    ("/cache_schema/key_bytes", 1, "DTYPE_WIDTH"),
    ("/cache_schema/representation/key_dtype", "int3", "DTYPE_WIDTH"),
    ("/cache_schema/axes", ["x"], "AXES"),
    (
        "/cache_schema/shard",
        {"ranks": 2, "rank": 7, "model_kv_heads": 9, "first_head": 5, "end_head": 3},
        "SHARD",
    ),
    ("/position_contract/rope/width", 400, "ROPE"),
    ("/cache_schema/positional_stage", "later", "POSITIONAL_STAGE"),
    ("/cache_schema/family", "mla", "VISIBILITY_POLICY"),
]


def classes_in(kind, seen=None):
    """Every attrs class that stands somewhere in a class."""
    seen = set() if seen is None else seen
    if attrs.has(kind) and kind not in seen:
        seen.add(kind)
        for hint in typing.get_type_hints(kind).values():
            classes_in(hint, seen)
    for part in typing.get_args(kind):
        classes_in(part, seen)
    return seen


def test_every_kind_with_a_schema_of_rows_has_the_contracts():
    """Whoever embeds a cache schema has all contracts of the ABI, and a stored case for each."""
    having = [name for name, kind in kinds().items() if CacheSchema in classes_in(kind.document)]
    assert sorted(having) == sorted(["manifest", *DIGESTS])
    for name in having:
        assert set(ABI_CONTRACTS) <= set(find_kind(name).contracts)
        place = "/cache_abi/" if CacheAbi in classes_in(find_kind(name).document) else "/"
        parts = tuple(f"{place}{part}/" for part in attrs.fields_dict(CacheAbi))
        broken = {case.code for case in load_set(name).cases if case.path.startswith(parts)}
        assert set(ABI_CONTRACTS) <= broken


@pytest.mark.parametrize("kind", DIGESTS)
@pytest.mark.parametrize(("path", "value", "code"), IMPOSSIBLE)
def test_a_right_digest_does_not_save_an_impossible_abi(kind, path, value, code):
    """An ABI that no cache has is told by its own contract, whatever its digest."""
    data = replaced(load_document(kind), f"/cache_abi{path}", value)
    data = replaced(data, DIGESTS[kind], digest(at(data, "/cache_abi")))
    assert verdict(find_kind(kind), data) == code


@pytest.mark.parametrize("kind", DIGESTS)
def test_findings_name_the_place_in_their_document(kind):
    """The pointer of a finding leads to what was found there."""
    data = replaced(load_document(kind), "/cache_abi/cache_schema/axes", ["x"])
    broken = find_kind(kind).first_broken(convert(find_kind(kind), data, kind))
    assert broken.findings[0].path == "/cache_abi/cache_schema/axes"


@pytest.mark.parametrize(
    ("kind", "path"), [("lifecycle", "/cache_abi_sha256"), ("pins", "/projects/0/files/0/sha256")]
)
def test_a_digest_alone_has_its_form(kind, path):
    """Where only the digest of something stands, it looks like one."""
    assert verdict(find_kind(kind), replaced(load_document(kind), path, "abc")) == "DIGEST_FORM"
