"""What holds between clocks and rates, for any number of outputs and requests."""

from __future__ import annotations

from typing import Any

import attrs

from kvspec.spec.formulas.claims import Claims, follows, one_more
from kvspec.spec.formulas.folds import count, first, largest, last, total, total_between
from kvspec.spec.formulas.frame import Book
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
    WINDOW,
    Quantity,
    column,
)
from kvspec.spec.formulas.units import BYTE, MS
from kvspec.spec.language import where

RATES = Claims()
identity = RATES.identity

IS_DONE = column(COMPLETED, "c_i", "1 for each request that completed, else 0")
IS_VALID = column(VALID, "q_i", "1 for each request that kept its limits, else 0")
SOME_COMPLETED = attrs.evolve(COMPLETED, least=1)
PAYLOAD = Quantity("B_n", "bytes owned during one interval more", BYTE)
DURATION = Quantity("dt_n", "length of that interval", MS)


def _gaps_reach_from_first_to_last(_: Book, outputs: Any) -> Any:
    number, gaps = count(outputs), total_between(lambda one, two: two - one, outputs)
    start, end = first(outputs), last(outputs)
    empty = follows(number == 0, (start == 0) & (end == 0))
    return (number >= 0) & (gaps == end - start) & empty


@identity(OUTPUTS, lemmas=(_gaps_reach_from_first_to_last,))
def gaps_add_up_to_the_whole(f: Book, outputs: Any) -> Any:
    """All TBT together are the time from the first output to the last."""
    gaps = total_between(lambda one, two: f.tbt((one, two))[0], outputs)
    return gaps == last(outputs) - first(outputs)


@identity(OUTPUTS, lemmas=(_gaps_reach_from_first_to_last,))
def tpot_is_the_mean_of_tbt(f: Book, outputs: Any) -> Any:
    """TPOT is the mean of TBT, for any number of outputs."""
    return f.tpot(outputs) == f.mean_tbt(outputs)


SERVICE = (IS_COMPLETE, TTFT, TTFT_LIMIT, TBT_LIMIT, TBT)


def _none_is_over(_: Book, __: Any, ___: Any, ____: Any, limit: Any, tbts: Any) -> Any:
    over = _over(limit, tbts)
    return (over >= 0) & ((largest(tbts) <= limit) == (over == 0))


def _over(limit: Any, tbts: Any) -> Any:
    """How many times are longer than the limit."""

    def one(tbt: Any) -> Any:
        is_over = tbt > limit
        return int(is_over) if isinstance(is_over, bool) else where(is_over, 1, 0)

    return total(one, tbts)


@identity(*SERVICE, lemmas=(_none_is_over,))
def a_valid_request_keeps_each_limit(
    f: Book, complete: Any, ttft: Any, ttft_limit: Any, tbt_limit: Any, tbts: Any
) -> Any:
    """A request is valid if and only if it completed, came in time, and no TBT is over the limit."""
    kept = complete & (ttft <= ttft_limit) & (_over(tbt_limit, tbts) == 0)
    return f.slo_valid(complete, ttft, tbts, ttft_limit, tbt_limit) == kept


@identity(WINDOW, IS_DONE, IS_VALID, each=lambda _, done, valid: (valid <= done) & (done <= 1))
def goodput_is_within_throughput(f: Book, window: Any, done: Any, valid: Any) -> Any:
    """Goodput is at most throughput, as a valid request is a completed one."""
    completed, kept = total(lambda c: c, done), total(lambda q: q, valid)
    return f.request_goodput(kept, window) <= f.request_throughput(completed, window)


@identity(PAYLOAD, DURATION, PAYLOADS, DURATIONS)
def holding_on_adds_an_area(
    f: Book, payload: Any, duration: Any, payloads: Any, durations: Any
) -> Any:
    """A payload held for a time more adds its bytes times that time, to any area or to none."""
    longer = f.payload_time(one_more(payloads, payload), one_more(durations, duration))
    added = longer - f.payload_time(payloads, durations) == payload * duration
    return added & (f.payload_time((payload,), (duration,)) == payload * duration)


@identity(
    ARRIVAL, OUTPUTS, lemmas=(lambda _, __, outputs: _gaps_reach_from_first_to_last(_, outputs),)
)
def ttft_and_gaps_reach_the_last_output(f: Book, arrival: Any, outputs: Any) -> Any:
    """TTFT and all TBT together are the time from arrival to the last output."""
    gaps = total_between(lambda one, two: two - one, outputs)
    return f.ttft(arrival, outputs) + gaps == last(outputs) - arrival


@identity(ARRIVAL, FINISH, RELEASE)
def a_request_is_served_and_then_held(f: Book, arrival: Any, finish: Any, release: Any) -> Any:
    """The time to the stop and the lag of the release are the time from arrival to release."""
    return f.e2e(arrival, finish) + f.release_lag(finish, release) == release - arrival


@identity(VALID, SOME_COMPLETED, WINDOW)
def goodput_is_a_part_of_throughput(f: Book, valid: Any, completed: Any, window: Any) -> Any:
    """Goodput is the goodput fraction of the throughput."""
    part = f.goodput_fraction(valid, completed) * f.request_throughput(completed, window)
    return part == f.request_goodput(valid, window)


@identity(VALID, WINDOW)
def one_token_each_is_one_rate(f: Book, valid: Any, window: Any) -> Any:
    """If valid requests have one output each, token goodput is request goodput."""
    return f.token_goodput(valid, window) == f.request_goodput(valid, window)
