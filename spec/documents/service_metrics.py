"""The metrics of a service trace, from the clocks of its requests and the rows that they hold.

All figures are those of `kvspec.spec.formulas`; ratios are exact and written as text, such as 28/3. A TPOT
that does not exist is null: of a single output there is no time between outputs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Annotated

import attrs

from kvspec.spec.formulas import (
    byte_time,
    committed_bytes,
    e2e,
    goodput_fraction,
    release_lag,
    request_goodput,
    request_throughput,
    slo_valid,
    tbt,
    token_goodput,
    tpot,
    ttft,
)

Ratio = Annotated[str, 'an exact ratio as text, such as "28/3" or "9"']
RatioOrNone = Annotated[str | None, 'an exact ratio as text, such as "28/3" or "9", or null']


@attrs.frozen
class Limits:
    """Limits of a valid request, and the observation window from time 0 on, in milliseconds.

    ttft: on the time to the first output. tbt: on each time between two outputs.
    """

    ttft: int
    tbt: int
    window: int


@attrs.frozen
class Clocks:
    """When a request arrived, was output, stopped and was released; None for what has not happened."""

    arrival: int | None
    outputs: tuple[int, ...]
    finish: int | None
    release: int | None


@attrs.frozen
class RequestMetrics:
    """The metrics of a request, in milliseconds. tbt: each time between two outputs.

    tpot: exact, as text; null for a single output. release_lag: from the last output to the release.
    slo_valid: it kept its limits. byte_time: area under its logical bytes, in bytes times milliseconds.
    """

    request: str
    ttft: int
    tbt: tuple[int, ...]
    tpot: RatioOrNone
    e2e: int
    release_lag: int
    slo_valid: bool
    byte_time: int


@attrs.frozen
class Aggregate:
    """Rates over the window, exact, as text: requests a second, their fraction, tokens a second.

    completed, valid: requests. byte_time: area under the logical bytes of all requests.
    """

    completed: int
    valid: int
    request_throughput: Ratio
    request_goodput: Ratio
    goodput_fraction: Ratio
    token_goodput: Ratio
    byte_time: int


def text(ratio: Fraction | None) -> str | None:
    """An exact ratio as text; None stays None."""
    return None if ratio is None else str(ratio)


def area(times: Sequence[int], committed: Iterable[int], token_bytes: int) -> int:
    """The area under the bytes of the rows committed from each time on, up to the last time."""
    ends = times[1:]
    steps = zip(committed, times, ends, strict=False)
    return byte_time(
        (committed_bytes(rows, token_bytes), end - begin) for rows, begin, end in steps
    )


def request_metrics(
    request: str, clocks: Clocks, limits: Limits, bytes_times_time: int
) -> RequestMetrics:
    """The metrics of a request that completed and was released."""
    if clocks.arrival is None or clocks.finish is None or clocks.release is None:
        raise ValueError(f"{request} has not arrived, stopped and released: there are no metrics")
    first, gaps = ttft(clocks.arrival, clocks.outputs), tbt(clocks.outputs)
    return RequestMetrics(
        request=request,
        ttft=first,
        tbt=gaps,
        tpot=text(tpot(clocks.outputs)),
        e2e=e2e(clocks.arrival, clocks.finish),
        release_lag=release_lag(clocks.finish, clocks.release),
        slo_valid=slo_valid(True, first, gaps, limits.ttft, limits.tbt),
        byte_time=bytes_times_time,
    )


def aggregate(found: Sequence[RequestMetrics], limits: Limits, bytes_times_time: int) -> Aggregate:
    """Rates over the window of requests that all completed in it."""
    valid = [each for each in found if each.slo_valid]
    tokens = sum(len(each.tbt) + 1 for each in valid)
    return Aggregate(
        completed=len(found),
        valid=len(valid),
        request_throughput=str(request_throughput(len(found), limits.window)),
        request_goodput=str(request_goodput(len(valid), limits.window)),
        goodput_fraction=str(goodput_fraction(len(valid), len(found))),
        token_goodput=str(token_goodput(tokens, limits.window)),
        byte_time=bytes_times_time,
    )
