"""The adapters of Transformers' caches, driven by hand: what they show, measure and do not try."""

import pytest

from kvspec.models.adapter import RefusedByCacheError
from kvspec.spec.core import SMALL


@pytest.fixture(params=["dynamic", "static"])
def adapter(request, lib):
    """An adapter with one request, of the instance SMALL: two handles, two appends, two layers."""
    from kvspec.models.runtimes import transformers_adapter as adapters

    made = adapters.dynamic_cache() if request.param == "dynamic" else adapters.static_cache()
    made.reset(SMALL)
    made.allocate(0, 0, 0)
    return made


def stage(adapter, x, layer, p=0):
    """Ask for K and V of a layer at a position."""
    adapter.stage_k(x, layer, p)
    adapter.stage_v(x, layer, p)


def test_a_sound_append_has_no_damage(adapter):
    """A forward call from begin to return: layers of five rows, and the logits of an uncached run."""
    adapter.begin(0, 0, 0, 0, 0, 1)
    stage(adapter, 0, 0)
    stage(adapter, 0, 1)
    adapter.prepare(0)
    adapter.publish(0)
    assert adapter.layer_rows(0) == [5, 5]
    assert adapter.damage() == []
    assert adapter.observe()["length"] == (1, 0)


def test_an_exception_between_layers_is_damage(adapter):
    """[5, 4]: the length is ahead, and the next logits are far from an uncached run's (D2)."""
    adapter.begin(0, 0, 0, 0, 0, 1)
    stage(adapter, 0, 0)
    adapter.cancel_txn(0)
    assert (adapter.layer_rows(0), adapter.seq_length(0)) == ([5, 4], 5)
    assert adapter.observe()["k_rows"] == (1, 0, 0, 0)
    assert "layers [5, 4], get_seq_length() 5" in adapter.describe()
    found = {harm.kind: harm.amount for harm in adapter.damage()}
    assert set(found) == {"layers", "logits"}
    assert found["layers"] == 1
    assert found["logits"] > 0.5


def test_rows_are_asked_for_in_the_order_of_a_forward_call(adapter):
    """Layer 1 before layer 0, a row twice, and a return before the end cannot be said to the library."""
    adapter.begin(0, 0, 0, 0, 0, 1)
    assert not adapter.can_try("stage_k", {"x": 0, "l": 1, "p": 0})
    assert adapter.can_try("stage_k", {"x": 0, "l": 0, "p": 0})
    adapter.stage_k(0, 0, 0)
    assert not adapter.can_try("stage_k", {"x": 0, "l": 0, "p": 0})
    assert not adapter.can_try("publish", {"x": 0})
    assert adapter.can_try("cancel_txn", {"x": 0})


def test_a_crop_past_the_last_row(adapter, lib):
    """4.57.0 says nothing; 5.24 refuses, which the adapter tells as a refusal without a code."""
    if not hasattr(adapter, "truncate"):
        assert "truncate" in adapter.not_offered
    elif lib.crops_by_removal:
        with pytest.raises(RefusedByCacheError) as caught:
            adapter.truncate(0, 1)
        assert caught.value.code is None
        assert "negative int" in caught.value.detail
    else:
        adapter.truncate(0, 1)
    assert adapter.layer_rows(0) == [4, 4]


def test_a_released_request_shows_no_rows_and_its_last_length(adapter):
    """The object is gone; what was read of it last stays on record."""
    adapter.begin(0, 0, 0, 0, 0, 1)
    stage(adapter, 0, 0)
    stage(adapter, 0, 1)
    adapter.prepare(0)
    adapter.publish(0)
    adapter.finish(0)
    adapter.release(0)
    shown = adapter.observe()
    assert (shown["length"], shown["k_rows"]) == ((1, 0), (0, 0, 0, 0))
