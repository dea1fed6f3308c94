"""The manifest: what its identities are made of, and what its lengths and bytes must be."""

import hashlib

import attrs
import pytest

from kvspec.counterexamples.negative_cases import load_document
from kvspec.models.documents import at, convert, replaced
from kvspec.spec.documents.manifest import MANIFEST
from kvspec.spec.documents.manifest_derived import bound, heads_of, visible_interval
from kvspec.spec.documents.manifest_digests import abi_projection, prefix_projection
from kvspec.spec.documents.manifest_predicates import predicates
from kvspec.spec.documents.manifest_record import Interval, Shard


def manifest(**changes):
    """The manifest on file with values changed, its ledger and digests made anew."""
    data = load_document("manifest")
    for path, value in changes.items():
        data = replaced(data, f"/{path.replace('__', '/')}", value)
    return bound(convert(MANIFEST, data, "manifest.json"))


def moved(**changes):
    """Which of the four identities a change moves."""
    before, after = (attrs.asdict(manifest(**each).digests) for each in ({}, changes))
    return {name.removesuffix("_sha256") for name in before if before[name] != after[name]}


def code(m):
    """The first broken contract, or None."""
    broken = MANIFEST.first_broken(m)
    return broken and broken.code


def test_the_worked_figures():
    """L=2, H_kv=2, d_h=4, b_K=b_V=2: 64 B a token, 256 B committed, 512 B reserved."""
    m = manifest()
    c = m.cache_schema
    assert (c.layers, c.kv_heads, c.head_width, c.key_bytes, c.value_bytes) == (2, 2, 4, 2, 2)
    assert attrs.astuple(m.ledger) == (64, 256, 512)
    assert m.input_identity.prompt_token_ids == (11, 22, 33, 44)


def test_six_quantities_are_kept_apart():
    """5 logical, 4 committed, [0, 4) visible, 8 reserved, 256 B resident, none reclaimable."""
    assert [one.value for one in predicates(manifest())] == [
        5,
        4,
        Interval(0, 4),
        8,
        (("gpu", 256), ("host", 0)),
        (("gpu", 0), ("host", 0)),
    ]


def test_the_prompt_digest_can_be_made_without_kvspec():
    """It is SHA-256 of the ids as JSON without blanks."""
    expected = hashlib.sha256(b"[11,22,33,44]").hexdigest()
    assert manifest().digests.prompt_sha256 == expected


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"artifact_identity__adapters__0__weights_sha256": "0" * 64}, "cache_abi prefix snapshot"),
        ({"artifact_identity__model_sha256": "0" * 64}, "cache_abi prefix snapshot"),
        ({"artifact_identity__weight_transforms": []}, "cache_abi prefix snapshot"),
        ({"cache_schema__positional_stage": "pre-rope"}, "cache_abi prefix snapshot"),
        ({"cache_schema__layers": 3}, "cache_abi prefix snapshot"),
        ({"position_contract__rope__theta": 500_000}, "cache_abi prefix snapshot"),
        ({"input_identity__prompt_token_ids": [11, 22, 33, 45]}, "prompt prefix snapshot"),
        ({"input_identity__side_input_sha256": "0" * 64}, "prefix snapshot"),
        ({"input_identity__isolation_salt_sha256": "0" * 64}, "prefix snapshot"),
        ({"request_identity__request_id": "request-18"}, "snapshot"),
        ({"request_identity__attempt": 2}, "snapshot"),
        ({"request_policy__sampling__seed": 8}, "snapshot"),
        ({"state_snapshot__generation": 4}, "snapshot"),
        ({"state_snapshot__output_token_ids": [56]}, "snapshot"),
        ({"input_identity__tokenizer": "another"}, ""),
        ({"input_identity__template": "another"}, ""),
    ],
)
def test_what_each_identity_includes(changes, expected):
    """A part of the record moves the identities that include it, and no other."""
    names = {"prefix": "prefix_identity"}
    assert moved(**changes) == {names.get(name, name) for name in expected.split()}


def test_another_adapter_of_equal_shape_is_another_abi():
    """Tokens, shapes and bytes are the same, and yet no row may be shared."""
    one, two = manifest(), manifest(artifact_identity__adapters__0__weights_sha256="1" * 64)
    assert one.cache_schema == two.cache_schema
    assert one.ledger == two.ledger
    assert one.digests.prompt_sha256 == two.digests.prompt_sha256
    assert one.digests.cache_abi_sha256 != two.digests.cache_abi_sha256
    assert (code(one), code(two)) == (None, None)


def test_two_requests_may_share_a_prefix_and_never_a_snapshot():
    """request_id is no part of the prefix identity; no two requests could share one if it were."""
    one = manifest()
    two = manifest(
        request_identity__request_id="request-18", request_identity__lineage="request-18"
    )
    assert prefix_projection(one) == prefix_projection(two)
    assert one.digests.snapshot_sha256 != two.digests.snapshot_sha256
    assert code(two) is None
    assert "request_identity" not in {*prefix_projection(one), *abi_projection(one)}


@pytest.mark.parametrize(
    ("window", "committed", "expected"),
    [(None, 4, (0, 4)), (9, 4, (0, 4)), (4, 4, (1, 4)), (1, 4, (4, 4)), (2, 0, (0, 0))],
)
def test_visible_positions(window, committed, expected):
    """The query at p sees (p - window, p]; of these, the committed ones are told."""
    family = "full" if window is None else "sliding-window"
    outputs = [55] if committed else []
    m = manifest(
        state_snapshot__output_token_ids=outputs,
        state_snapshot__logical_tokens=4 + len(outputs),
        cache_schema__family=family,
        position_contract__visibility="causal" if window is None else "causal-window",
        position_contract__window=window,
        state_snapshot__committed_length=committed,
        state_snapshot__next_cache_position=committed,
        state_snapshot__visible=dict(zip(("begin", "end"), expected, strict=True)),
    )
    assert visible_interval(m) == Interval(*expected)
    assert code(m) is None


def test_positions_may_begin_elsewhere():
    """With another origin all positions move with it."""
    m = manifest(
        position_contract__origin=100,
        state_snapshot__next_cache_position=104,
        state_snapshot__visible={"begin": 100, "end": 104},
    )
    assert code(m) is None


def test_nothing_of_a_released_request_is_visible():
    """A tombstone keeps its lengths and is unreadable."""
    m = manifest(state_snapshot__phase="RELEASED", state_snapshot__visible={"begin": 4, "end": 4})
    assert code(m) is None
    assert m.state_snapshot.committed_length == 4


def test_a_cache_without_rotation():
    """Without RoPE keys have one stage."""
    free = manifest(position_contract__rope=None, cache_schema__positional_stage="unrotated")
    assert code(free) is None
    assert code(manifest(position_contract__rope=None)) == "POSITIONAL_STAGE"


@pytest.mark.parametrize(("heads", "ranks"), [(8, 1), (8, 2), (8, 8), (4, 8), (1, 4), (2, 2)])
def test_ranks_hold_all_heads(heads, ranks):
    """Ranks in their order cover the heads; each holds equally many, one at least."""
    held = [heads_of(Shard(ranks, rank, heads, 0, 0)) for rank in range(ranks)]
    widths = {one.end - one.begin for one in held}
    assert widths == {max(1, heads // ranks)}
    covered = [head for one in held for head in range(one.begin, one.end)]
    assert sorted(covered) == covered
    assert set(covered) == set(range(heads))


def test_every_digest_of_the_record_is_checked():
    """No digest of the record can be replaced unnoticed."""
    data = load_document("manifest")
    for name in data["digests"]:
        changed = replaced(data, f"/digests/{name}", "0" * 64)
        assert at(changed, f"/digests/{name}") == "0" * 64
        assert code(convert(MANIFEST, changed, "changed")) is not None


@pytest.mark.parametrize(
    ("outputs", "committed", "expected"),
    [
        ([], 0, None),
        ([55], 4, None),
        ([55], 5, None),
        ([55], 3, "OUTPUT_AHEAD"),
        ([55, 56], 5, None),
        ([55, 56], 4, "OUTPUT_AHEAD"),
        ([55, 56, 57], 0, "OUTPUT_AHEAD"),
        ([2, 55], 5, "OUTPUT_AFTER_STOP"),
        ([55, 2], 5, None),
    ],
)
def test_the_output_runs_at_most_one_token_ahead(outputs, committed, expected):
    """Rows of the prompt before any output, and of every output but one; nothing after a stop (A10, B1)."""
    m = manifest(
        state_snapshot__output_token_ids=outputs,
        state_snapshot__logical_tokens=4 + len(outputs),
        state_snapshot__committed_length=committed,
        state_snapshot__next_cache_position=committed,
        state_snapshot__visible={"begin": 0, "end": committed},
    )
    assert code(m) == expected


def test_a_window_keeps_no_more_than_itself():
    """A cache with a window needs slots for the window, not for its whole history (B1)."""
    for reserved, expected in ((4, None), (3, "RESERVED_BELOW_COMMIT")):
        m = manifest(
            cache_schema__family="sliding-window",
            position_contract__visibility="causal-window",
            position_contract__window=4,
            state_snapshot__output_token_ids=list(range(50, 56)),
            state_snapshot__logical_tokens=10,
            state_snapshot__committed_length=10,
            state_snapshot__next_cache_position=10,
            state_snapshot__visible={"begin": 7, "end": 10},
            state_snapshot__reserved_tokens=reserved,
            request_policy__output_tokens=12,
        )
        assert code(m) == expected
