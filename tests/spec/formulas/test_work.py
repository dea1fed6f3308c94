"""The text's figures of work and of frontiers, from their inputs."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kvspec.spec import formulas as f


def test_rows_of_the_long_request() -> None:
    """2048 prompt tokens, 128 outputs: 270,272 rows or 2,175; 268,097 saved; 124.26 times as few."""
    uncached, cached = f.rows_uncached(2048, 128), f.rows_cached(2048, 128)
    assert (uncached, cached, f.rows_saved(2048, 128)) == (270_272, 2_175, 268_097)
    assert f.reduction(uncached, cached) == Fraction(270_272, 2_175)
    assert f"{float(f.reduction(uncached, cached)):.2f}" == "124.26"


def test_pairs_of_the_long_request() -> None:
    """285,562,176 pairs or 2,366,400; 283,195,776 saved; 120.67 times as few."""
    uncached, cached = f.pairs_uncached(2048, 128), f.pairs_cached(2048, 128)
    saved = f.pairs_saved(2048, 128)
    assert (uncached, cached, saved) == (285_562_176, 2_366_400, 283_195_776)
    assert f"{float(f.reduction(uncached, cached)):.2f}" == "120.67"


@given(st.integers(1, 40), st.integers(1, 12))
def test_the_counts_are_those_of_a_run(P: int, G: int) -> None:
    """Rows and pairs, counted one call after the other, are what the formulas give."""
    widths = [P + g for g in range(G)]
    assert f.rows_uncached(P, G) == sum(widths)
    assert f.pairs_uncached(P, G) == sum(q + 1 for width in widths for q in range(width))
    assert f.rows_cached(P, G) == P + sum(1 for _ in widths[1:])
    assert f.pairs_cached(P, G) == sum(range(1, P + 1)) + sum(widths[1:])
    assert f.rows_saved(P, G) == f.rows_uncached(P, G) - f.rows_cached(P, G)
    assert f.pairs_saved(P, G) == f.pairs_uncached(P, G) - f.pairs_cached(P, G)


def test_the_short_trace() -> None:
    """Four prompt tokens, three outputs, then a stop: 7 logical, 6 committed, 1 ahead; repaired 7."""
    assert f.logical_tokens(4, 3) == 7
    assert f.committed_tokens(4, 2) == f.stop_committed(4, 2) == 6
    assert f.frontier(3, 2) == 1
    assert f.stop_output(2) == 3
    assert f.repaired_committed(4, 2) == 7
    assert f.rows_cached(4, 3) == 6


def test_speculation_leaves_the_correction_ahead() -> None:
    """From 100, two accepted drafts and a correction: 102 committed, one ahead, 103 once it is processed."""
    committed = f.committed_tokens(100, 2)
    assert committed == 102
    assert f.logical_tokens(100, 3) - committed == f.frontier(3, 2) == 1
    assert f.committed_tokens(100, 3) == 103


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda: f.rows_uncached(0, 1), "P = 0, expected at least 1: give P, prompt tokens"),
        (
            lambda: f.rows_cached(Fraction(3, 2), 1),
            r"P = Fraction\(3, 2\), expected a whole number",
        ),
        (lambda: f.pairs_cached(1, 0), "G = 0, expected at least 1"),
        (lambda: f.causal_pairs(-1), "S = -1, expected at least 0"),
        (lambda: f.reduction(1, 0), "cached = 0, expected at least 1"),
        (lambda: f.reduction(1, 2), "work without a cache is no less"),
        (
            lambda: f.frontier(1, 2),
            "E = 1, E_processed = 2, expected that no more tokens are processed",
        ),
        (lambda: f.stop_output(-1), "G_in = -1, expected at least 0"),
    ],
)
def test_what_is_no_run_is_refused(call, told: str) -> None:
    """The error says what was found, what was expected, and what to give."""
    with pytest.raises(ValueError, match=told):
        call()
