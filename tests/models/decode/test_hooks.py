"""Tests of the cache hook."""

import pytest
import torch

from kvspec.models.decode import (
    CallRows,
    DecodeError,
    KVView,
    Part,
    UpdateCache,
    agrees,
    positions_from,
    uncached_logits,
    update,
)


def rows(count):
    """Rows of two heads."""
    return torch.zeros(1, 2, count, 4)


@pytest.mark.parametrize("counts", [(2, 1, 2), (1, 2, 2), (2, 2, 1)])
def test_uneven_views_are_refused(counts):
    """K, V and positions of one view speak of equally many rows."""
    keys, values, positions = counts
    with pytest.raises(DecodeError, match=f"{keys} key rows, {values} value rows") as refusal:
        KVView(rows(keys), rows(values), torch.arange(positions))
    assert refusal.value.code == "UNEVEN_ROWS"


def test_view_before_v_is_refused():
    """A view needs both parts of its layer, and says which one is missing."""
    cache = CallRows(torch.arange(1))
    cache.stage(0, Part.KEY, rows(1))
    with pytest.raises(DecodeError, match="no value rows of layer 0") as refusal:
        cache.view(0)
    assert refusal.value.code == "ROWS_MISSING"


def test_update_is_two_stages_and_a_view():
    """One update gives what staging K, staging V and viewing give."""
    k, v = torch.ones(1, 2, 1, 4), torch.zeros(1, 2, 1, 4)
    view = update(CallRows(torch.arange(1)), 0, k, v)
    assert torch.equal(view.keys, k)
    assert torch.equal(view.values, v)


def test_decoder_runs_on_a_cache_that_takes_k_and_v_together(decoder, tokens):
    """A concatenating update cache, fed in two calls, agrees with the uncached run."""
    held = {}

    def step(layer, k, v):
        if layer in held:
            k, v = (torch.cat(pair, dim=2) for pair in zip(held[layer], (k, v), strict=True))
        held[layer] = (k, v)
        return k, v

    cache = UpdateCache(step)
    pieces = [
        decoder.forward(tokens[:, a:b], positions_from(a, b - a, decoder.device), cache)
        for a, b in ((0, 7), (7, 12))
    ]
    assert agrees(torch.cat(pieces, dim=1), uncached_logits(decoder, tokens))
