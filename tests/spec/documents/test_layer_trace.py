"""The layer trace: shapes follow from sizes, and only K and V rows stay."""

import pytest

from kvspec.counterexamples.negative_cases import documents_of, load_document
from kvspec.models.documents import convert, replaced
from kvspec.spec.documents.layer_trace import LAYER_TRACE, Shapes

FILES = documents_of("layer-trace")


def trace(file):
    """A trace on file."""
    return convert(LAYER_TRACE, FILES[file], file)


def test_the_worked_shapes():
    """B=1, d=16, H_q=4, H_kv=2, d_h=4 over four past rows and a new one."""
    assert Shapes.of(trace("layer-trace.json")) == Shapes(
        hidden=(1, 1, 16),
        query=(1, 4, 1, 4),
        pending=(1, 2, 1, 4),
        usable=(1, 2, 5, 4),
        expanded=(1, 4, 5, 4),
        scores=(1, 4, 1, 5),
    )


def test_payload():
    """32 B a layer, 64 B in all."""
    t = trace("layer-trace.json")
    assert [one.payload_bytes for one in t.layers] == [32, 32]
    assert t.publication.payload_bytes == 64


def test_twice_as_many_query_heads_keep_the_payload():
    """H_q of 8 changes queries, expanded views and scores, and leaves 64 B."""
    four, eight = trace("layer-trace.json"), trace("layer-trace-eight-query-heads.json")
    assert (four.geometry.query_heads, eight.geometry.query_heads) == (4, 8)
    assert four.publication == eight.publication
    for one, two in zip(four.layers, eight.layers, strict=True):
        assert one.pending_key == two.pending_key
        assert one.usable_value == two.usable_value
        assert (one.scores, two.scores) == ((1, 4, 1, 5), (1, 8, 1, 5))


def test_prefill_is_the_same_kind_of_document():
    """No past and four new rows: a triangular mask, four rows published, the same contracts."""
    t = trace("layer-trace-prefill.json")
    assert (t.call.past_tokens, t.call.new_tokens) == (0, 4)
    assert t.call.cache_positions == (0, 1, 2, 3)
    assert t.mask.visible == (1, 2, 3, 4)
    assert (t.publication.committed_during, t.publication.committed_after) == (0, 4)
    assert LAYER_TRACE.first_broken(t) is None


@pytest.mark.parametrize("path", ["/geometry/layers", "/call/new_tokens", "/call/past_tokens"])
def test_a_huge_count_is_told_at_once(path):
    """A count is compared with what is there; nothing of its size is made."""
    changed = replaced(load_document("layer-trace"), path, 2**62)
    broken = LAYER_TRACE.first_broken(convert(LAYER_TRACE, changed, "changed"))
    assert broken.code in ("LAYER_SET", "CACHE_POSITIONS")
