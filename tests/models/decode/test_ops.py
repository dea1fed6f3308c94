"""Tests of one layer's arithmetic against small computations that go another way."""

import cmath
import math

import pytest
import torch

from kvspec.models.decode import KVView
from kvspec.models.decode.ops import attend, rms_norm, rotate, swiglu, visible

F64 = torch.float64


def drawn(*size, seed=0):
    """Seeded normal numbers."""
    return torch.randn(*size, generator=torch.Generator().manual_seed(seed), dtype=F64)


def test_rms_norm_is_division_by_the_root_mean_square():
    """Every entry equals x_i / sqrt(mean(x^2) + eps) * g_i, summed in plain Python."""
    x, gain, eps = drawn(3, 8), drawn(8, seed=1), 1e-3
    found = rms_norm(x, gain, eps)
    for row in range(3):
        root = math.sqrt(math.fsum(v * v for v in x[row].tolist()) / 8 + eps)
        for i in range(8):
            expected = x[row, i].item() / root * gain[i].item()
            assert found[row, i].item() == pytest.approx(expected, rel=1e-14)


def test_rms_norm_of_half_rows_does_not_overflow():
    """float16 rows of 300, whose squares exceed float16, come out as ones."""
    rows = torch.full((1, 4), 300.0, dtype=torch.float16)
    assert torch.equal(rms_norm(rows, torch.ones(4).half(), 1e-6), torch.ones(1, 4).half())


def test_rotation_is_a_product_with_unit_complex_numbers():
    """Channels i and i + d/2, read as one complex number, are multiplied by exp(i p theta^(-2i/d))."""
    x, theta = drawn(1, 2, 3, 8), 100.0
    positions = torch.tensor([[0, 5, 1000]])
    found = rotate(x, positions, theta)
    for head in range(2):
        for row, position in enumerate(positions[0].tolist()):
            for i in range(4):
                number = complex(x[0, head, row, i].item(), x[0, head, row, i + 4].item())
                turned = number * cmath.exp(1j * position * theta ** (-2 * i / 8))
                assert found[0, head, row, i].item() == pytest.approx(turned.real, abs=1e-12)
                assert found[0, head, row, i + 4].item() == pytest.approx(turned.imag, abs=1e-12)


def test_scores_depend_on_the_distance_alone():
    """Shifting query and key by the same number of positions leaves their product as it is."""
    q, k = drawn(1, 1, 1, 8), drawn(1, 1, 1, 8, seed=1)

    def score(at, key_at):
        turned = [rotate(t, torch.tensor([[p]]), 10_000.0) for t, p in ((q, at), (k, key_at))]
        return (turned[0] * turned[1]).sum().item()

    assert score(7, 3) == pytest.approx(score(1007, 1003), abs=1e-12)
    assert abs(score(7, 3) - score(7, 4)) > 1e-2


def test_rotation_at_zero_is_none():
    """Position 0 leaves rows bit for bit as they are."""
    x = drawn(2, 2, 1, 4)
    assert torch.equal(rotate(x, torch.zeros(2, 1, dtype=torch.int64), 10_000.0), x)


def test_swiglu_is_gate_times_input():
    """Every entry equals sum_j down_ij * silu(gate_j x) * (up_j x), summed in plain Python."""
    x, gate, up, down = drawn(4), drawn(6, 4, seed=1), drawn(6, 4, seed=2), drawn(4, 6, seed=3)
    found = swiglu(x, gate, up, down)

    def dot(row, other):
        return math.fsum(a * b for a, b in zip(row.tolist(), other.tolist(), strict=True))

    inner = [(g := dot(gate[j], x)) / (1 + math.exp(-g)) * dot(up[j], x) for j in range(6)]
    for i in range(4):
        expected = math.fsum(down[i, j].item() * inner[j] for j in range(6))
        assert found[i].item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("kv_heads", [4, 2, 1])
@pytest.mark.parametrize("window", [None, 2])
def test_attention_is_a_weighted_mean_head_by_head(kv_heads, window):
    """Every output equals the plain-Python weighted mean over the keys at or before its query."""
    heads, width, past, count = 4, 6, 3, 2
    keys = past + count
    q = drawn(1, heads, count, width)
    k, v = drawn(1, kv_heads, keys, width, seed=1), drawn(1, kv_heads, keys, width, seed=2)
    positions = torch.tensor([[past, past + 1]])
    found = attend(q, KVView(k, v, torch.arange(keys)), positions, window)
    for head in range(heads):
        shared = head * kv_heads // heads
        for row in range(count):
            last = past + row
            first = 0 if window is None else max(0, last - window + 1)
            seen = range(first, last + 1)
            scores = [float(q[0, head, row] @ k[0, shared, j]) / math.sqrt(width) for j in seen]
            shares = [math.exp(s - max(scores)) for s in scores]
            for i in range(width):
                expected = math.fsum(
                    s * v[0, shared, j, i].item() for s, j in zip(shares, seen, strict=True)
                ) / math.fsum(shares)
                assert found[0, head, row, i].item() == pytest.approx(expected, rel=1e-11)


def test_visibility_covers_past_and_new_keys():
    """With T_past = 2 and T_new = 3 the mask has five keys and a triangle behind the past."""
    seen = visible(torch.tensor([[2, 3, 4]]), torch.arange(5), None)
    assert seen.int().tolist() == [[[1, 1, 1, 0, 0], [1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]]


def test_window_bounds_visibility_from_below():
    """A window of two leaves each query itself and the key before it."""
    seen = visible(torch.tensor([[2, 3]]), torch.arange(4), 2)
    assert seen.int().tolist() == [[[0, 1, 1, 0], [0, 0, 1, 1]]]


def test_empty_slots_and_padding_see_nothing():
    """A key at a negative position is seen by none, a query at one sees none; its output is zero."""
    seen = visible(torch.tensor([[-1, 1]]), torch.tensor([[0, -1, 1]]), None)
    assert seen.int().tolist() == [[[0, 0, 0], [1, 0, 1]]]
    q, k = drawn(1, 1, 2, 4), drawn(1, 1, 3, 4, seed=1)
    mixed = attend(q, KVView(k, k, torch.tensor([[0, -1, 1]])), torch.tensor([[-1, 1]]), None)
    assert torch.equal(mixed[0, 0, 0], torch.zeros(4, dtype=F64))
    assert bool(mixed.isfinite().all())
