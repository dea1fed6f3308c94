"""`kvspec bench transactions`: what is told of the cost of transactions, and when it fails."""

import pytest

pytest.importorskip("torch")

import torch

from kvspec.cli.bench_transactions import answer
from kvspec.models.decode import DecoderConfig, transaction_cost
from kvspec.models.decode.transaction_cost import GROWN, IN_PLACE, Cost, Load, Result

LOAD = Load("small", DecoderConfig(), batch=1, prompt=2, steps=4)


def result(static, logit=1.0, spread=0.0):
    """A result in which a static layout takes so many times as long, and gives these logits."""
    bare = [
        Cost(way, way, (1.0,) * 4, (1.0,) * 4, torch.ones(1, 4, 8)) for way in (IN_PLACE, GROWN)
    ]
    ratios = (static - spread, static, static, static + spread)
    logits = torch.full((1, 4, 8), logit)
    return Result(LOAD, (*bare, Cost("static", IN_PLACE, ratios, ratios, logits)))


@pytest.mark.bench
def test_both_decoders_are_measured(kvspec, monkeypatch) -> None:
    """Every layout on the tiny decoder, those that are judged on the big one, with their ratios."""
    monkeypatch.setattr(transaction_cost, "TINY", LOAD)
    monkeypatch.setattr(transaction_cost, "BIG", LOAD)
    ran = kvspec("bench", "transactions", "--json")
    assert ran.code == 0
    assert list(ran.json["loads"]) == ["small"]
    ways = ran.json["loads"]["small"]["ways"]
    assert {way for way, told in ways.items() if told["is_judged"]} == {"dynamic", "static"}
    assert ways[IN_PLACE]["rate_ratio"] == 1
    assert all(way["steps_per_second"] > 0 for way in ways.values())
    assert ran.json["is_within_aim"] in {True, False, None}


def test_a_missed_aim_is_told_plainly() -> None:
    """It is a figure of a machine at one moment, and no violation."""
    told = answer(result(1.5), result(1.25))
    assert told.verdict == "holds"
    assert told.data["is_within_aim"] is False
    assert "a step longer: static by +25.0% (± 0.0%); NOT within the aim of 2%" in told.text
    assert "static by +1.0% (± 0.0%); within the aim" in answer(result(1.5), result(1.01)).text


def test_an_aim_that_cannot_be_told_is_not_met() -> None:
    """Where steps spread too far, the answer is neither yes nor no."""
    told = answer(result(1.5), result(1.01, spread=0.1))
    assert told.data["is_within_aim"] is None
    assert "whether within the aim of 2% cannot be told" in told.text


def test_other_outputs_are_a_violation() -> None:
    """A cache that gives other logits is wrong, however fast."""
    told = answer(result(1.5), result(1.01, logit=1.5))
    assert told.verdict == "violated"
    assert "DIFFERENT logits" in told.text


def test_transactions_cannot_be_measured_without_torch(kvspec, monkeypatch) -> None:
    """It says what to install."""
    monkeypatch.setattr("kvspec.cli.bench_transactions.NEEDED", "no_such_library")
    ran = kvspec("bench", "transactions")
    assert ran.code == 2
    assert "pip install 'kvspec[torch]'" in ran.err
