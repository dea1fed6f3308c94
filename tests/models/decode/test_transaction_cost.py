"""What transactions cost is measured on the same outputs, and the aim is held against the right ratio."""

import random

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    CacheShape,
    DecoderConfig,
    agrees,
    positions_from,
    uncached_logits,
)
from kvspec.models.decode.transaction_cost import (
    AIM,
    BARE,
    COUNTERPARTS,
    GROWN,
    IN_PLACE,
    Cost,
    InPlace,
    Load,
    Result,
    measure,
    text,
)

SMALL = Load("small", DecoderConfig(), batch=2, prompt=3, steps=6)


def cost(way, ratio):
    """A way whose steps take so many times as long as its base's."""
    base = COUNTERPARTS.get(way, IN_PLACE)
    return Cost(way, base, (ratio,) * 4, (ratio,) * 4, torch.ones(1, 4, 8))


def test_every_way_is_measured_beside_its_base():
    """Both caches without transactions, then every layout, with a ratio for each step."""
    threads = torch.get_num_threads()
    result = measure(SMALL)
    assert [each.way for each in result.costs] == [IN_PLACE, GROWN, *LAYOUT_KINDS]
    assert all(len(each.ratios) == len(each.seconds) == 6 for each in result.costs)
    assert all(each.logits.shape == (2, 6, 32) for each in result.costs)
    assert {each.way: each.base for each in result.judged} == COUNTERPARTS
    assert [each.ratios for each in result.costs[:2]] == [(1.0,) * 6] * 2
    assert result.is_same
    assert text(result).count("steps/s") == len(result.costs)
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize("way", BARE)
def test_a_cache_without_transactions_is_right(decoder, tokens, way):
    """Its logits, token by token after a prompt, are those of an uncached run."""
    cache = BARE[way](CacheShape.of(decoder.config, decoder.device), 12)
    found = []
    for piece in tokens.split((5, 1, 1, 5), -1):
        where = positions_from(cache.length, piece.shape[1], decoder.device)
        found.append(decoder.forward(piece, where, cache))
    assert cache.length == 12
    assert agrees(torch.cat(found, dim=1), uncached_logits(decoder, tokens))


def test_a_way_that_loses_rows_is_found(monkeypatch):
    """A cache that is fast because it forgets a row gives other logits."""

    class Forgetful(InPlace):
        def view(self, layer):
            view = super().view(layer)
            view.keys[:, :, 1] = 0
            return view

    monkeypatch.setitem(BARE, IN_PLACE, Forgetful)
    assert not measure(SMALL, ("static",)).is_same


def test_the_aim_is_held_against_layouts_with_a_counterpart():
    """Each of them alone can miss it; a layout that stores rows in its own way cannot."""
    bare = cost(IN_PLACE, 1.0), cost(GROWN, 1.0)

    def within(**ratios):
        return Result(SMALL, (*bare, *(cost(*each) for each in ratios.items()))).is_within_aim

    assert within(static=1 + AIM - 1e-9, dynamic=1.0, paged=3.0)
    assert within(static=1 + AIM + 0.001, dynamic=1.0) is False
    assert within(static=1.0, dynamic=1.5) is False


def test_a_ratio_of_rates_is_below_one_for_a_slower_way():
    """Steps that take 25 % longer make four fifths of the rate."""
    slower = cost("static", 1.25)
    assert slower.rate_ratio == pytest.approx(0.8)
    assert slower.quartiles == pytest.approx((0.8, 0.8))
    assert slower.rate == pytest.approx(0.8)
    assert slower.slowdown == pytest.approx(0.25)


def test_the_margin_covers_the_median_of_what_was_measured():
    """Of 400 measurements with a normal spread, some 95 % are off by no more than their margin."""
    draw = random.Random(4)
    hits = 0
    for _ in range(400):
        ratios = tuple(draw.gauss(1.01, 0.03) for _ in range(48))
        found = Cost("static", IN_PLACE, ratios, ratios, torch.ones(1, 1, 1))
        hits += abs(found.slowdown - 0.01) <= found.margin
    assert 0.9 <= hits / 400 <= 0.98


def test_an_aim_within_the_margin_is_neither_met_nor_missed():
    """A median of 1 % longer that may be off by more than 1 % says nothing of an aim of 2 %."""
    ratios = (0.91, 0.96, 1.01, 1.01, 1.06, 1.11)
    spread = Cost("static", IN_PLACE, ratios, ratios, torch.ones(1, 1, 1))
    assert spread.slowdown + spread.margin > AIM > spread.slowdown - spread.margin
    assert Result(SMALL, (cost(IN_PLACE, 1.0), spread)).is_within_aim is None
