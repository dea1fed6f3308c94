"""Tests of what every layout does."""

import threading
import time

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    CacheShape,
    DecodeError,
    LayoutFaults,
    agrees,
    allocate,
    append,
    cached_logits,
    uncached_logits,
)
from kvspec.models.decode.shapes import common_length


@pytest.fixture(params=LAYOUT_KINDS)
def layout(request, shape):
    """An empty layout of each kind."""
    return allocate(request.param, shape, capacity=16)


def continued(decoder, layout, tokens, n):
    """Logits of the tokens behind the first ``n``, appended in two calls."""
    return cached_logits(decoder, layout, tokens[:, n:], (1, tokens.shape[1] - n - 1))


def test_a_new_layout_is_empty(layout):
    """No rows are visible, in shapes that already fit."""
    assert layout.lengths() == [(0, 0), (0, 0)]
    assert layout.length == 0
    assert [tuple(part.shape) for part in layout.read(1)] == [(1, 2, 0, 4)] * 2


def test_rows_per_token_are_sixty_four_bytes_in_two_byte_rows(decoder):
    """L = 2, H_kv = 2, d_h = 4 and two bytes a number: 64 bytes a token."""
    shape = CacheShape(2, 2, 4, torch.bfloat16, decoder.device)
    assert shape.bytes_per_token == 64


@pytest.mark.parametrize("n", [0, 1, 5, 8])
def test_truncate_then_continue_equals_the_uncached_run(decoder, layout, tokens, n):
    """After eight rows of other tokens are cut to n shared ones, the rest agrees."""
    other = torch.cat((tokens[:, :n], (tokens[:, n:8] + 1) % decoder.config.vocab), dim=1)
    append(decoder, layout, other)
    assert [s.lengths() for s in layout.truncate_steps(n)] == [[(n, n), (n, n)]]
    found = continued(decoder, layout, tokens, n)
    assert agrees(found, uncached_logits(decoder, tokens)[:, n:])


@pytest.mark.parametrize("n", [0, 3, 6])
def test_a_fork_and_its_parent_go_separate_ways(decoder, layout, tokens, n):
    """Child and parent continue differently, in turns, and each agrees with its own uncached run."""
    append(decoder, layout, tokens[:, :6])
    child = layout.fork(n)
    assert layout.lengths() == [(6, 6), (6, 6)]
    assert child.lengths() == [(n, n), (n, n)]
    others = torch.cat((tokens[:, :n], (tokens[:, n:] + 5) % decoder.config.vocab), dim=1)
    of_parent, of_child = [], []
    for step in range(4):
        of_parent.append(append(decoder, layout, tokens[:, 6 + step : 7 + step]))
        of_child.append(append(decoder, child, others[:, n + step : n + step + 1]))
    parent_run, child_run = uncached_logits(decoder, tokens), uncached_logits(decoder, others)
    assert agrees(torch.cat(of_parent, dim=1), parent_run[:, 6:10])
    assert agrees(torch.cat(of_child, dim=1), child_run[:, n : n + 4])


def test_a_child_outlives_its_parent(decoder, layout, tokens):
    """Truncating and releasing the parent leaves the child's rows."""
    append(decoder, layout, tokens[:, :6])
    child = layout.fork(6)
    layout.truncate(0)
    layout.release()
    found = continued(decoder, child, tokens, 6)
    assert agrees(found, uncached_logits(decoder, tokens)[:, 6:])


def test_snapshots_do_not_change(layout, constant):
    """Snapshots taken along the way still hold their rows after append, truncate and release."""
    taken = []
    for value, keep in ((1, 2), (2, 1), (3, 2), (4, 0), (5, 3)):
        staging = layout.begin(3 - layout.length)
        constant.stage(staging, value)
        taken.append((layout.install(staging), layout.snapshot()))
        taken.append((layout.truncate(keep), layout.snapshot()))
    layout.release()
    held = [a.read(1)[0][0, 0, :, 0].tolist() for a, _ in taken]
    assert all(a is b for a, b in taken)
    assert held == [
        [1, 1, 1],
        [1, 1],
        [1, 1, 2],
        [1],
        [1, 3, 3],
        [1, 3],
        [1, 3, 4],
        [],
        [5, 5, 5],
        [5, 5, 5],
    ]


def test_snapshots_of_a_child_do_not_change(layout, constant):
    """A child cut to nothing and filled anew leaves its older snapshot alone."""
    staging = layout.begin(2)
    constant.stage(staging, 1)
    layout.install(staging)
    child = layout.fork(2)
    older = child.snapshot()
    child.truncate(0)
    staging = child.begin(2)
    constant.stage(staging, 2)
    child.install(staging)
    assert constant.shown(child) == constant.whole([2, 2])
    assert older.read(1)[1][0, 0, :, 0].tolist() == [1, 1]


def test_a_released_layout_is_unreadable(layout, constant):
    """Every later use is refused with its code; releasing again is harmless."""
    staging = layout.begin(1)
    constant.stage(staging, 1)
    layout.release()
    layout.release()
    assert layout.is_released
    assert layout.reserved_rows == 0
    uses = [
        layout.snapshot,
        layout.lengths,
        lambda: layout.length,
        lambda: layout.read(0),
        lambda: layout.begin(1),
        lambda: layout.install(staging),
        lambda: layout.truncate(0),
        lambda: layout.fork(0),
    ]
    for use in uses:
        with pytest.raises(DecodeError, match="allocate a new handle") as refusal:
            use()
        assert refusal.value.code == "ROWS_RELEASED"


@pytest.mark.parametrize("verb", ["truncate", "fork"])
@pytest.mark.parametrize("n", [-1, 3])
def test_only_visible_prefixes_can_be_kept(layout, verb, n, constant):
    """Truncate and fork refuse n < 0 and n > T, and change nothing."""
    staging = layout.begin(2)
    constant.stage(staging, 1)
    layout.install(staging)
    with pytest.raises(DecodeError, match=f"{verb} .*found n = {n}, .*0 <= n <= 2") as refusal:
        getattr(layout, verb)(n)
    assert refusal.value.code == "BAD_LENGTH"
    assert constant.shown(layout) == constant.whole([1, 1])


def test_rows_made_in_inference_mode_serve_outside_it(layout, constant):
    """A layout may be filled under inference mode and used without, and the other way about."""
    with torch.inference_mode():
        child = layout.fork(0)
        staging = child.begin(1)
        constant.stage(staging, 1)
        child.install(staging)
    staging = child.begin(1)
    constant.stage(staging, 2)
    child.install(staging)
    assert constant.shown(child) == constant.whole([1, 2])


def watched(layout, rounds, constant):
    """What a reader on another thread sees while rows come and go: all lengths, and what is wrong."""
    stop = threading.Event()
    seen, wrong = set(), []

    def read():
        while not stop.is_set():
            snapshot = layout.snapshot()
            pairs = set(snapshot.lengths())
            parts = [part for layer in range(2) for part in snapshot.read(layer)]
            values = {float(x) for part in parts for x in part.unique()}
            seen.update(pairs)
            if len(pairs) != 1 or len(values) > 1:
                wrong.append((pairs, values))

    reader = threading.Thread(target=read)
    reader.start()
    for value in range(rounds):
        staging = layout.begin(1 + value % 3)
        constant.stage(staging, value)
        for _ in layout.install_steps(staging):
            # Without a pause the reader gets its turns at one and the same point of the loop.
            time.sleep(0.0002 * (value % 2))
        layout.truncate(0)
    stop.set()
    reader.join(timeout=10)
    return seen, wrong


def test_readers_on_another_thread_see_all_layers_or_none(layout, constant):
    """While rows come and go, no snapshot is uneven, and none mixes rows of two appends."""
    seen, wrong = watched(layout, 300, constant)
    assert wrong == []
    assert len(seen) > 1


def test_readers_on_another_thread_catch_a_torn_install(layout, shape, constant):
    """The same reader finds uneven lengths where layers are published one by one."""
    torn = allocate(layout.name, shape, capacity=16, faults=LayoutFaults(tear=True))
    _, wrong = watched(torn, 300, constant)
    assert wrong != []


def test_uneven_lengths_have_no_common_length():
    """The one length of a cache is refused where layers differ, with all lengths."""
    assert common_length([(3, 3), (3, 3)], "a test") == 3
    for lengths in ([(3, 3), (2, 3)], [(3, 2), (3, 2)]):
        with pytest.raises(DecodeError, match="publish all layers in one step") as refusal:
            common_length(lengths, "a test")
        assert refusal.value.code == "UNEVEN_ROWS"
        assert str(lengths) in str(refusal.value)


def test_unknown_kinds_are_refused_with_the_known_ones(shape):
    """The refusal lists what exists."""
    with pytest.raises(DecodeError, match=r"'paper', .*dynamic, static") as refusal:
        allocate("paper", shape, capacity=4)
    assert refusal.value.code == "BAD_CONFIG"


def test_cache_sizes_are_positive(decoder):
    """A cache without layers is refused."""
    with pytest.raises(DecodeError, match="layers = 0") as refusal:
        CacheShape(0, 2, 4, torch.float32, decoder.device)
    assert refusal.value.code == "BAD_CONFIG"
