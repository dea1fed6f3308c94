"""Metrics: what a user sees of the clocks of a request, and rates over a window.

Times are exact, in milliseconds, of one clock. Two requests with one TPOT may differ in their worst
gap, so limits are put on TTFT and on every TBT. TPOT of one output is undefined, and not zero.

Left out: where the time goes. TTFT holds waiting, prefill, sampling and delivery alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from itertools import pairwise
from typing import Any

from kvspec.spec.formulas.folds import (
    N,
    count,
    first,
    largest,
    last,
    neighbours,
    per_second,
    ratio,
    total,
    total_between,
)
from kvspec.spec.formulas.frame import Requirement, formula
from kvspec.spec.formulas.quantities import (
    ARRIVAL,
    COMPLETED,
    DURATIONS,
    FINISH,
    IS_COMPLETE,
    OUTPUTS,
    PAYLOADS,
    RELEASE,
    TBT,
    TBT_LIMIT,
    TTFT,
    TTFT_LIMIT,
    VALID,
    VALID_TOKENS,
    WINDOW,
)
from kvspec.spec.formulas.units import BYTE, MS, ONE, REQUEST, SECOND, TOKEN


def _in_order(times: Iterable[int]) -> bool:
    return all(before <= after for before, after in pairwise(times))


IN_ORDER = "outputs are emitted one after the other"
VALID_WITHIN = Requirement(
    "a valid request is a completed one, and one is completed",
    lambda valid, completed: valid <= completed and completed >= 1,
)


@formula(
    "TTFT",
    unit=MS,
    takes=(ARRIVAL, OUTPUTS),
    section="0x05",
    requires=(
        Requirement(
            "there is an output, none before the arrival, in order",
            lambda a, ys: ys and a <= ys[0] and _in_order(ys),
        ),
    ),
)
def ttft(arrival: N, outputs: Iterable[N]) -> N:
    """Time from arrival to the first output."""
    return first(outputs) - arrival


def _gap(before: N, after: N) -> N:
    return after - before


@formula(
    "TBT_j",
    unit=MS,
    takes=(OUTPUTS,),
    section="0x05",
    requires=(Requirement(IN_ORDER, _in_order),),
)
def tbt(outputs: Iterable[N]) -> tuple[N, ...]:
    """Each time between two outputs that follow one another; none of a single output."""
    return tuple(_gap(before, after) for before, after in neighbours(outputs))


@formula(
    "mean(TBT)",
    unit=MS,
    takes=(OUTPUTS,),
    section="0x05",
    requires=(Requirement(IN_ORDER, _in_order),),
)
def mean_tbt(outputs: Iterable[int]) -> Fraction | None:
    """The mean of the times between outputs; None below two outputs."""
    return _per_interval(total_between(_gap, outputs), count(outputs))


@formula(
    "TPOT",
    unit=MS,
    takes=(OUTPUTS,),
    section="0x05",
    requires=(Requirement(IN_ORDER, _in_order),),
)
def tpot(outputs: Iterable[int]) -> Fraction | None:
    """Time from the first output to the last, for each interval between; None below two outputs."""
    return _per_interval(last(outputs) - first(outputs), count(outputs))


def _per_interval(time: int, outputs: int) -> Fraction | None:
    """The time for one of the intervals between outputs, of which there is one less than outputs."""
    number: Any = outputs  # an expression, where the list is of any length
    if isinstance(number, int) and number < 2:
        return None
    found: Fraction = ratio(time, outputs - 1)
    return found


@formula(
    "E2E",
    unit=MS,
    takes=(ARRIVAL, FINISH),
    section="0x05",
    requires=(Requirement("a request stops after it arrives", lambda a, f: a <= f),),
)
def e2e(arrival: N, finish: N) -> N:
    """Time from arrival to the stop."""
    return finish - arrival


@formula(
    "release_lag",
    unit=MS,
    takes=(FINISH, RELEASE),
    section="0x05",
    requires=(Requirement("a request is released after it stops", lambda f, r: f <= r),),
)
def release_lag(finish: N, release: N) -> N:
    """Time from the stop to the end of ownership."""
    return release - finish


@formula("q", unit=ONE, takes=(IS_COMPLETE, TTFT, TBT, TTFT_LIMIT, TBT_LIMIT), section="0x05")
def slo_valid(
    completed: bool, ttft: int, tbts: Iterable[int], ttft_limit: int, tbt_limit: int
) -> bool:
    """Whether a request completed within its limits; without a TBT, that limit is kept."""
    return completed & (ttft <= ttft_limit) & (largest(tbts) <= tbt_limit)


@formula("throughput", unit=REQUEST / SECOND, takes=(COMPLETED, WINDOW), section="0x05")
def request_throughput(completed: int, window: int) -> Fraction:
    """Completed requests a second."""
    return _rate(completed, window)


@formula("goodput", unit=REQUEST / SECOND, takes=(VALID, WINDOW), section="0x05")
def request_goodput(valid: int, window: int) -> Fraction:
    """Requests a second that completed within their limits."""
    return _rate(valid, window)


@formula("token goodput", unit=TOKEN / SECOND, takes=(VALID_TOKENS, WINDOW), section="0x05")
def token_goodput(tokens: int, window: int) -> Fraction:
    """Output tokens a second of requests that completed within their limits."""
    return _rate(tokens, window)


def _rate(number: int, window: int) -> Fraction:
    found: Fraction = ratio(per_second(number), window)
    return found


@formula(
    "goodput fraction",
    unit=ONE,
    takes=(VALID, COMPLETED),
    section="0x05",
    requires=(VALID_WITHIN,),
)
def goodput_fraction(valid: int, completed: int) -> Fraction:
    """The part of the completed requests that kept their limits."""
    found: Fraction = ratio(valid, completed)
    return found


@formula("KV_byte_time", unit=BYTE * MS, takes=(PAYLOADS, DURATIONS), section="0x05")
def payload_time(payloads: Iterable[N], durations: Iterable[N]) -> N:
    """The area under a payload that is constant within each interval."""
    return total(lambda payload, duration: payload * duration, payloads, durations)


def byte_time(steps: Iterable[tuple[int, int]]) -> int:
    """The area under a payload. steps: bytes owned, and for how many milliseconds."""
    pairs = tuple(steps)
    return payload_time([payload for payload, _ in pairs], [duration for _, duration in pairs])
