"""`kvspec manifest` prints what a manifest says, and what a shape costs."""

import json

import pytest

from kvspec.counterexamples.negative_cases import DOCUMENTS, load_document
from kvspec.models.documents import changed_paths, replaced
from kvspec.spec.documents.manifest import MANIFEST

FILE = str(DOCUMENTS / "manifest.json")
LLAMA = ("--layers", "32", "--kv-heads", "8", "--head-width", "128")


def test_the_worked_manifest(kvspec):
    """64 B a token; 5 logical, 4 committed, [0, 4) visible, 8 reserved; 256 B and 512 B."""
    ran = kvspec("manifest", FILE, "--json")
    assert ran.code == 0
    assert ran.json["ledger"] == {"token_bytes": 64, "committed_bytes": 256, "reserved_bytes": 512}
    assert ran.json["predicates"] == {
        "logical_tokens": 5,
        "committed_length": 4,
        "visible_positions": {"begin": 0, "end": 4},
        "reserved_capacity": 8,
        "resident_bytes": {"gpu": 256, "host": 0},
        "reclaimable_bytes": {"gpu": 0, "host": 0},
    }
    assert {name: one["sha256"] for name, one in ran.json["identities"].items()} == load_document(
        "manifest"
    )["digests"]
    assert "request_identity" not in ran.json["identities"]["prefix_identity_sha256"]["made_of"]


def test_the_same_for_a_reader(kvspec):
    """The three tables; without a file, of the manifest on file."""
    ran = kvspec("manifest")
    assert ran.code == 0
    for text in ("visible positions  [0, 4)", "gpu 256 B, host 0 B", "8 slots x 64", "holds: "):
        assert text in ran.out


def test_a_broken_manifest_is_told(kvspec, tmp_path):
    """Nothing is printed of a manifest that breaks a contract but that contract."""
    file = tmp_path / "manifest.json"
    changed = replaced(load_document("manifest"), "/ledger/committed_bytes", 320)
    file.write_text(json.dumps(changed), encoding="utf-8")
    ran = kvspec("manifest", str(file))
    assert ran.code == 1
    assert "breaks LEDGER" in ran.out
    assert "visible" not in ran.out


def test_binding(kvspec, tmp_path):
    """A manifest changed by hand gets the ledger and the digests that it needs, and then holds."""
    file = tmp_path / "manifest.json"
    data = load_document("manifest")
    for path, value in (
        ("/artifact_identity/adapters", []),
        ("/state_snapshot/reserved_tokens", 16),
        ("/digests/prompt_sha256", ""),
    ):
        data = replaced(data, path, value)
    file.write_text(json.dumps(data), encoding="utf-8")
    assert kvspec("check", str(file)).code == 1
    ran = kvspec("manifest", str(file), "--bind")
    assert ran.code == 0
    assert changed_paths(data, ran.json) == [
        "/ledger/reserved_bytes",
        *(f"/digests/{name}" for name in data["digests"]),
    ]
    file.write_text(ran.out, encoding="utf-8")
    assert kvspec("check", str(file)).code == 0


def test_binding_mends_nothing_else(kvspec, tmp_path):
    """A manifest that breaks another contract is told, not bound."""
    file = tmp_path / "manifest.json"
    changed = replaced(load_document("manifest"), "/state_snapshot/committed_length", 6)
    file.write_text(json.dumps(changed), encoding="utf-8")
    ran = kvspec("manifest", str(file), "--bind")
    assert (ran.code, ran.out) == (1, "")
    assert "COMMIT_BEYOND_LOGICAL" in ran.err


def test_binding_comes_last():
    """The contracts that binding mends are the last ones, so that nothing else hides behind them."""
    derived = [contract.derived for contract in MANIFEST.contracts.values()]
    assert derived == sorted(derived)
    assert sum(derived) == 6


def test_bytes_of_a_shape(kvspec):
    """32 layers, 8 K/V heads of 128 in two bytes: 128 KiB a token, 512 MiB for 4,096."""
    ran = kvspec("manifest", *LLAMA, "--query-heads", "32")
    assert "a token    131,072 B (128 KiB)" in ran.out
    assert "a request  536,870,912 B (512 MiB), 4,096 tokens" in ran.out
    assert "each read by 4 of 32 query heads" in ran.out


def test_multi_head_attention_costs_four_times_as_much(kvspec):
    """32 K/V heads instead of 8: 512 KiB a token and 2 GiB."""
    words = ("--layers", "32", "--kv-heads", "32", "--head-width", "128", "--json")
    found = kvspec("manifest", *words).json
    assert (found["token_bytes"], found["request_bytes"]) == (524_288, 2_147_483_648)


def test_one_control_at_a_time(kvspec):
    """Tokens move the request alone, query heads nothing, every other size both in proportion."""
    found = kvspec("manifest", *LLAMA, "--query-heads", "32", "--tokens", "8192", "--json").json
    token, request = found["token_bytes"], found["request_bytes"]
    moved = {
        (each["control"], each["change"]): (each["token_bytes"], each["request_bytes"])
        for each in found["sensitivity"]
    }
    for change, times in (("halved", 0.5), ("doubled", 2)):
        assert moved["query_heads", change] == (token, request)
        assert moved["tokens", change] == (token, times * request)
        for name in ("layers", "kv_heads", "head_width"):
            assert moved[name, change] == (times * token, times * request)
        for name in ("key_bytes", "value_bytes"):
            part = (1 + times) / 2
            assert moved[name, change] == (part * token, part * request)


def test_sizes_that_cannot_be_halved_are_not(kvspec):
    """An odd size has no half, and a size that would leave uneven groups is not tried."""
    words = ("--layers", "3", "--kv-heads", "2", "--head-width", "4", "--query-heads", "2")
    found = kvspec("manifest", *words, "--value-bytes", "1", "--json").json["sensitivity"]
    tried = {(each["control"], each["change"]) for each in found}
    for never in (
        ("layers", "halved"),
        ("value_bytes", "halved"),
        ("kv_heads", "doubled"),
        ("query_heads", "halved"),
    ):
        assert never not in tried
    assert ("layers", "doubled") in tried


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("--layers", "32"), "no --kv-heads"),
        ((FILE, "--layers", "2"), "a file has its own sizes"),
        ((str(DOCUMENTS / "saved-work.json"),), "is no manifest"),
        ((*LLAMA, "--query-heads", "12"), "a multiple of 8"),
        ((*LLAMA, "--tokens", "0"), "--tokens"),
        (("--layer", "2"), "did you mean '--layers'"),
        (("--bind", *LLAMA), "a document is bound, not a shape"),
        ((FILE, FILE), "one manifest at a time"),
        (("no-such.json",), "cannot be read"),
    ],
)
def test_wrong_usage(kvspec, words, told):
    """Wrong words end with 2 and say what is expected."""
    ran = kvspec("manifest", *words)
    assert ran.code == 2
    assert told in ran.err
