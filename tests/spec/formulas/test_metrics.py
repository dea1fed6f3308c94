"""The text's figures of clocks and rates, from their inputs."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.spec import formulas as f

A, B = (14, 21, 30, 42), (18,)


def test_the_clocks_of_request_a() -> None:
    """TTFT 14, TBT 7, 9, 12, TPOT 28/3, E2E 42, lag 8; not valid, since 12 is more than 10."""
    assert f.ttft(0, A) == 14
    assert f.tbt(A) == (7, 9, 12)
    assert f.tpot(A) == f.mean_tbt(A) == Fraction(28, 3)
    assert (f.e2e(0, 42), f.release_lag(42, 50)) == (42, 8)
    assert f.slo_valid(True, f.ttft(0, A), f.tbt(A), 15, 10) is False
    assert f.slo_valid(True, f.ttft(0, A), f.tbt(A), 15, 12) is True


def test_the_clocks_of_request_b() -> None:
    """TTFT 13, no TBT, TPOT undefined and not zero, E2E 13, lag 1; valid."""
    assert f.ttft(5, B) == 13
    assert f.tbt(B) == ()
    assert f.tpot(B) is None
    assert f.mean_tbt(B) is None
    assert (f.e2e(5, 18), f.release_lag(18, 19)) == (13, 1)
    assert f.slo_valid(True, f.ttft(5, B), f.tbt(B), 15, 10) is True
    assert f.slo_valid(False, f.ttft(5, B), f.tbt(B), 15, 10) is False
    assert f.slo_valid(True, f.ttft(5, B), f.tbt(B), 12, 10) is False


def test_the_rates_of_the_window() -> None:
    """Of 100 ms: 20 requests/s, 10 valid requests/s, half of them valid, 10 valid tokens/s."""
    assert f.request_throughput(2, 100) == 20
    assert f.request_goodput(1, 100) == 10
    assert f.goodput_fraction(1, 2) == Fraction(1, 2)
    assert f.token_goodput(1, 100) == 10
    assert f.request_throughput(1, 7) == Fraction(1000, 7)


def test_clocks_may_be_finer_than_a_millisecond() -> None:
    """A time is an exact number, whole or not; a count is whole."""
    assert f.ttft(Fraction(1, 2), [2]) == Fraction(3, 2)
    assert f.request_throughput(1, Fraction(5, 2)) == 400


def test_the_area_under_the_payload() -> None:
    """A: 13,568 byte-ms; B: 512; both: 14,080, which are 14.08 byte-seconds."""
    beta = f.token_bytes(2, 2, 4, 2, 2)
    cuts = [(4, 12, 20), (5, 20, 29), (6, 29, 41), (7, 41, 50)]
    of_a = f.byte_time((f.committed_bytes(n, beta), end - start) for n, start, end in cuts)
    of_b = f.byte_time([(f.committed_bytes(2, beta), 19 - 15)])
    assert (of_a, of_b, of_a + of_b) == (13_568, 512, 14_080)
    assert Fraction(of_a + of_b, 1000) == Fraction("14.08")
    assert f.byte_time([]) == 0


@given(st.lists(st.integers(0, 50), min_size=2, max_size=9).map(sorted))
def test_tpot_is_the_mean_of_the_gaps(outputs: list[int]) -> None:
    """On any clock, the mean of what `tbt` lists."""
    gaps = f.tbt(outputs)
    assert f.tpot(outputs) == f.mean_tbt(outputs) == Fraction(sum(gaps), len(gaps))


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: f.ttft(0, []), "outputs = .., expected that there is an output"),
        (lambda: f.ttft(15, A), "none before the arrival"),
        (lambda: f.tbt([3, 2]), "expected that outputs are emitted one after the other"),
        (lambda: f.tpot([3, 2, 4]), "expected that outputs are emitted one after the other"),
        (lambda: f.e2e(5, 4), "expected that a request stops after it arrives"),
        (lambda: f.release_lag(5, 4), "expected that a request is released after it stops"),
        (lambda: f.request_throughput(1, 0), "window = 0, expected at least 1: give W"),
        (lambda: f.request_goodput(-1, 100), "valid = -1, expected at least 0"),
        (lambda: f.goodput_fraction(2, 1), "expected that a valid request is a completed one"),
        (lambda: f.goodput_fraction(0, 0), "and one is completed"),
        (lambda: f.slo_valid(1, 1, [], 1, 1), "completed = 1, expected True or False"),
        (lambda: f.request_throughput(1, 0.5), "window = 0.5, expected an exact number"),
    ],
)
def test_what_is_no_clock_is_refused(call, told: str) -> None:
    """The error says what was found, what was expected, and what to give."""
    with pytest.raises(ValueError, match=told):
        call()
