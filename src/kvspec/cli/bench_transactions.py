"""`kvspec bench transactions`: decode steps a second of the torch cache, with transactions and without."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from kvspec.cli.backends import TORCH_MISSING
from kvspec.cli.errors import UsageError
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer

if TYPE_CHECKING:
    from kvspec.models.decode.transaction_cost import Result

NEEDED = "torch"


def bench_transactions() -> Answer:
    """Decode with every layout and without transactions, on a tiny decoder and on a big one."""
    if find_spec(NEEDED) is None:
        raise UsageError(
            "transactions cannot be measured here",
            f"no {NEEDED}",
            NEEDED,
            "kvspec bench transactions",
            TORCH_MISSING.partition(": ")[2],
        )
    from kvspec.models.decode.transaction_cost import BIG, COUNTERPARTS, TINY, measure

    # Other layouts store rows in ways of their own: on the tiny decoder that is told, not judged.
    return answer(measure(TINY), measure(BIG, tuple(COUNTERPARTS)))


def answer(tiny: Result, big: Result) -> Answer:
    """Both results; a missed aim is told, and only different logits are a violation."""
    from kvspec.models.decode.transaction_cost import AIM, text

    is_same = tiny.is_same and big.is_same
    verdict = HOLDS if is_same else VIOLATED
    told = "the same logits each way" if is_same else "DIFFERENT logits: a cache lost or mixed rows"
    longer = ", ".join(
        f"{cost.way} by {cost.slowdown:+.1%} (± {cost.margin:.1%})" for cost in big.judged
    )
    aim = {
        True: f"within the aim of {AIM:.0%}",
        False: f"NOT within the aim of {AIM:.0%}",
        None: f"whether within the aim of {AIM:.0%} cannot be told on a machine that is as busy",
    }[big.is_within_aim]
    data = {
        "verdict": verdict,
        "aim": AIM,
        "is_within_aim": big.is_within_aim,
        "loads": {result.load.name: _data(result) for result in (tiny, big)},
    }
    lines = [
        text(tiny),
        text(big),
        "",
        f"on the big decoder a transaction makes a step longer: {longer}; {aim}",
        f"{verdict}: {told}",
    ]
    return Answer("bench", verdict, data, "\n".join(lines))


def _data(result: Result) -> dict[str, Any]:
    """The figures of one decoder."""
    ways: dict[str, Any] = {
        cost.way: {
            "steps_per_second": cost.rate,
            "compared_with": cost.base,
            "rate_ratio": cost.rate_ratio,
            "quartiles": list(cost.quartiles),
            "slowdown": cost.slowdown,
            "margin": cost.margin,
            "is_judged": cost in result.judged,
        }
        for cost in result.costs
    }
    return {"steps": result.load.steps, "batch": result.load.batch, "ways": ways}
