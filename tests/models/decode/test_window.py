"""Tests of the sliding-window layout: few rows stay, positions stay right, and what is gone is refused."""

import itertools

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    TOLERANCES,
    CacheShape,
    DecodeError,
    Decoder,
    DecoderConfig,
    LayoutFaults,
    Part,
    WindowLayout,
    agrees,
    append,
    cached_logits,
    disagreement,
    most_rows,
    positions_from,
    uncached_logits,
)
from kvspec.models.decode.measure import SCHEDULES, WINDOW, measure

DAMAGE = 1e9 * TOLERANCES[torch.float64]
"""A disagreement no rounding explains: a share of 8e-6 of the largest logit."""

WINDOWS = (1, 2, 3, 5)
REWINDS = (0, 1, 2)


@pytest.fixture(scope="module")
def decoders(cpu):
    """Two layers in float64, by window; the upper layer sees through the lower one twice as far."""
    return {w: Decoder(DecoderConfig(dtype=torch.float64, window=w), cpu) for w in WINDOWS}


@pytest.fixture(scope="module")
def long_tokens():
    """Sixteen tokens of one sequence."""
    return torch.randint(0, 32, (1, 16), generator=torch.Generator().manual_seed(7))


def opened(decoder, rewind=0, **faults):
    """An empty layout for the window of a decoder."""
    shape = CacheShape.of(decoder.config, decoder.device)
    return WindowLayout(shape, decoder.config.window, rewind, LayoutFaults(**faults))


def needed(window, rewind, length):
    """The rows that the next append can see, at this length or after a truncate by up to ``rewind``."""
    lengths = range(max(0, length - rewind), length + 1)
    return {row for n in lengths for row in range(max(0, n - window + 1), n)}


@pytest.mark.parametrize(("window", "rewind"), list(itertools.product(WINDOWS, range(5))))
def test_the_rows_that_stay_are_exactly_those_that_can_be_needed(window, rewind):
    """At every length the newest w - 1 + r rows are those that an append can see; none where w = 1."""
    most = most_rows(window, rewind)
    assert most == (0 if window == 1 else window - 1 + rewind)
    for length in range(20):
        assert needed(window, rewind, length) == set(range(max(0, length - most), length))


@pytest.mark.parametrize(("window", "rewind"), list(itertools.product(WINDOWS, REWINDS)))
def test_at_every_length_logits_are_those_of_an_uncached_run(decoders, long_tokens, window, rewind):
    """One token at a time through w - 1, w, w + 1, w + r and 2 w rows: logits agree, few rows stay (D2)."""
    decoder = decoders[window]
    layout, expected = opened(decoder, rewind), uncached_logits(decoder, long_tokens)
    for length in range(1, 17):
        found = append(decoder, layout, long_tokens[:, length - 1 : length])
        assert agrees(found[:, 0], expected[:, length - 1]), length
        stay = min(length, most_rows(window, rewind))
        snapshot = layout.snapshot()
        assert layout.lengths() == [(length, length)] * 2
        assert snapshot.kept() == [(stay, stay)] * 2
        assert layout.reserved_rows == snapshot.read(1)[0].shape[2] == stay
        assert snapshot.positions(1).tolist() == list(range(length - stay, length))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("chunks", [(16,), (7, 9), (1, 6, 1, 8), (4, 4, 4, 4)])
def test_a_chunk_may_be_longer_than_the_window(decoders, long_tokens, window, chunks):
    """Queries inside a chunk see their own windows, which reach back into earlier calls (D2)."""
    decoder = decoders[window]
    layout = opened(decoder)
    found = cached_logits(decoder, layout, long_tokens, chunks)
    assert agrees(found, uncached_logits(decoder, long_tokens))
    assert layout.snapshot().kept() == [(window - 1, window - 1)] * 2


@pytest.mark.parametrize(("window", "rewind"), list(itertools.product(WINDOWS, REWINDS)))
@pytest.mark.parametrize("verb", ["truncate", "fork"])
def test_after_going_back_the_rest_agrees(decoders, long_tokens, window, rewind, verb):
    """From every length to every n within the rewind, the calls that follow agree."""
    decoder = decoders[window]
    expected = uncached_logits(decoder, long_tokens)
    for length in (window, window + 1, window + rewind, 2 * window + rewind, 12):
        for n in range(max(0, length - rewind), length + 1):
            layout = opened(decoder, rewind)
            append(decoder, layout, long_tokens[:, :length])
            child = getattr(layout, verb)(n)
            assert child.lengths() == [(n, n)] * 2
            going = layout if verb == "truncate" else child
            found = cached_logits(decoder, going, long_tokens[:, n : n + 3], (1, 2))
            assert agrees(found, expected[:, n : n + 3]), (length, n)


@pytest.mark.parametrize("verb", ["truncate", "fork"])
def test_what_is_gone_cannot_be_gone_back_to(decoders, long_tokens, verb):
    """One row too far is refused with what is there and what to do, and changes nothing."""
    decoder = decoders[3]
    layout = opened(decoder, rewind=2)
    append(decoder, layout, long_tokens[:, :10])
    before = layout.snapshot()
    with pytest.raises(DecodeError) as refusal:
        getattr(layout, verb)(7)
    assert refusal.value.code == "CANNOT_REWIND"
    assert str(refusal.value) == (
        f"CANNOT_REWIND in {verb} of a window layout: found n = 7, where a call sees rows from 5 on, and "
        "rows from 6 on, but expected n = 0, or n >= 8: go back by at most 2 rows from the longest length, "
        "or process the tokens anew"
    )
    assert layout.snapshot() is before
    found = append(decoder, layout, long_tokens[:, 10:11])
    assert agrees(found[:, 0], uncached_logits(decoder, long_tokens)[:, 10])


def test_a_second_truncate_in_a_row_starts_from_the_longest_length(decoders, long_tokens):
    """Rows dropped for the longest length do not come back with a truncate; appends make room anew."""
    decoder = decoders[2]
    layout = opened(decoder, rewind=1)
    append(decoder, layout, long_tokens[:, :8])
    layout.truncate(7)
    with pytest.raises(DecodeError, match="found n = 6") as refusal:
        layout.truncate(6)
    assert refusal.value.code == "CANNOT_REWIND"
    append(decoder, layout, long_tokens[:, 7:9])
    layout.truncate(8)
    found = append(decoder, layout, long_tokens[:, 8:9])
    assert agrees(found[:, 0], uncached_logits(decoder, long_tokens)[:, 8])


@pytest.mark.parametrize("window", WINDOWS)
def test_nothing_is_needed_to_begin_anew(decoders, long_tokens, window):
    """A truncate and a fork to zero rows are sound however much is gone."""
    decoder = decoders[window]
    layout = opened(decoder)
    append(decoder, layout, long_tokens[:, :9])
    child = layout.fork(0)
    layout.truncate(0)
    expected = uncached_logits(decoder, long_tokens)
    for each in (layout, child):
        assert each.snapshot().positions(0).tolist() == []
        assert agrees(cached_logits(decoder, each, long_tokens, (4, 12)), expected)


def test_dropped_rows_stay_with_the_snapshots_and_forks_that_show_them(decoders, long_tokens):
    """Rows that the layout drops later are as they were in an older snapshot, and a fork goes on."""
    decoder = decoders[3]
    layout = opened(decoder)
    append(decoder, layout, long_tokens[:, :6])
    older, child = layout.snapshot(), layout.fork(6)
    held = [part.clone() for part in older.read(1)]
    append(decoder, layout, (long_tokens[:, 6:] + 1) % 32)
    assert older.positions(1).tolist() == [4, 5]
    assert all(torch.equal(a, b) for a, b in zip(older.read(1), held, strict=True))
    found = cached_logits(decoder, child, long_tokens[:, 6:], (1, 9))
    assert agrees(found, uncached_logits(decoder, long_tokens)[:, 6:])


def test_dropped_rows_take_no_memory(decoders, long_tokens):
    """The tensors' memory is that of the rows that are left, after appends and after a truncate."""
    decoder = decoders[5]
    layout = opened(decoder, rewind=2)
    row = 2 * 4 * torch.float64.itemsize

    def held():
        return [part.untyped_storage().nbytes() // row for part in layout.snapshot().parts.values()]

    append(decoder, layout, long_tokens[:, :10])
    assert held() == [6] * 4
    append(decoder, layout, long_tokens[:, 10:11])
    assert held() == [6] * 4
    layout.truncate(9)
    assert held() == [4] * 4


def test_an_open_append_sees_the_rows_of_its_base(decoders, long_tokens):
    """Of two appends on one base the loser's view is still whole, and at its own positions."""
    decoder = decoders[3]
    layout = opened(decoder)
    append(decoder, layout, long_tokens[:, :6])
    loser = layout.begin(2)
    append(decoder, layout, long_tokens[:, 6:12])
    found = decoder.forward(long_tokens[:, 6:8], positions_from(6, 2, decoder.device), loser)
    assert agrees(found, uncached_logits(decoder, long_tokens)[:, 6:8])
    assert loser.view(0).positions.tolist() == [4, 5, 6, 7]


# What is lost without a guard.


def off(decoder, layout, tokens, at):
    """How far the logits of the token at ``at``, read through ``layout``, are off."""
    staging = layout.begin(1)
    found = decoder.forward(tokens[:, at : at + 1], positions_from(at, 1, decoder.device), staging)
    return disagreement(found[:, 0], uncached_logits(decoder, tokens)[:, at])


@pytest.mark.parametrize("window", [2, 3, 5])
@pytest.mark.parametrize("fault", ["window_early", "row_as_position"])
def test_a_window_that_is_off_shows_in_the_logits(decoders, long_tokens, window, fault):
    """One row dropped too early, or positions counted from the first row that is left: logits are off."""
    decoder = decoders[window]
    damage = []
    for faults in ({}, {fault: True}):
        layout = opened(decoder, **faults)
        append(decoder, layout, long_tokens[:, :12])
        damage.append(off(decoder, layout, long_tokens, 12))
    sound, faulty = damage
    assert sound <= TOLERANCES[torch.float64]
    assert faulty > DAMAGE


def history(layout, constant):
    """Positions and lengths after each of some changes, or the code of the refusal."""
    seen = []
    for change in (3, 2, -1, 1, 1, -4, 2):
        try:
            if change > 0:
                staging = layout.begin(change)
                constant.stage(staging, len(seen))
                layout.install(staging)
            else:
                layout.truncate(layout.length + change)
            snapshot = layout.snapshot()
            seen.append((snapshot.positions(0).tolist(), snapshot.lengths(), snapshot.kept()))
        except DecodeError as refusal:
            seen.append(refusal.code)
    return seen


@pytest.mark.parametrize("fault", ["allow_gone", "window_early", "row_as_position"])
@pytest.mark.parametrize(("window", "shows"), [(None, False), (1, False), (2, True), (3, True)])
def test_a_fault_of_the_window_needs_a_window_of_two(shape, constant, fault, window, shows):
    """Without a window, or with one key in it, the same changes leave the same rows as without the fault."""
    sound = history(WindowLayout(shape, window), constant)
    faulty = history(WindowLayout(shape, window, 0, LayoutFaults(**{fault: True})), constant)
    assert (faulty != sound) is shows


@pytest.mark.parametrize("rewind", [1, 2])
def test_a_row_dropped_early_is_missed_after_a_truncate(decoders, long_tokens, rewind):
    """With a rewind r the row is missed by the append behind a truncate by r, and by no other (D4)."""
    decoder = decoders[3]
    for back in range(rewind + 1):
        layout = opened(decoder, rewind, window_early=True)
        append(decoder, layout, long_tokens[:, :12])
        layout.truncate(12 - back)
        found = off(decoder, layout, long_tokens, 12 - back)
        assert found > DAMAGE if back == rewind else found <= TOLERANCES[torch.float64]


@pytest.mark.parametrize("verb", ["truncate", "fork"])
@pytest.mark.parametrize("n", [7, 4])
def test_going_back_to_what_is_gone_shows_in_the_logits(decoders, long_tokens, verb, n):
    """Without the refusal the next append misses rows of its window, some or all (D4)."""
    decoder = decoders[3]
    layout = opened(decoder, 2, allow_gone=True)
    append(decoder, layout, long_tokens[:, :10])
    child = getattr(layout, verb)(n)
    assert child.lengths() == [(n, n)] * 2
    assert off(decoder, layout if verb == "truncate" else child, long_tokens, n) > DAMAGE


def test_a_torn_install_shows_rows_of_two_windows(decoders, long_tokens):
    """Between K and V of layer 0 both have two rows, of different positions; the next call is off."""
    decoder = decoders[3]
    layout = opened(decoder, tear=True)
    append(decoder, layout, long_tokens[:, :6])
    staging = layout.begin(1)
    decoder.forward(long_tokens[:, 6:7], positions_from(6, 1, decoder.device), staging)
    steps = layout.install_steps(staging)
    torn = next(steps)
    assert torn.lengths() == [(7, 6), (6, 6)]
    assert torn.kept() == [(2, 2)] * 2
    assert off(decoder, layout, long_tokens, 7) > DAMAGE
    assert [step.lengths() for step in steps][-1] == [(7, 7)] * 2
    assert off(decoder, layout, long_tokens, 7) <= TOLERANCES[torch.float64]


@pytest.mark.parametrize(("window", "rewind"), [(0, 0), (3, -1)])
def test_sizes_that_make_no_sense_are_refused(shape, window, rewind):
    """A window without a key and a negative rewind are refused with both numbers."""
    with pytest.raises(DecodeError, match=f"window = {window}, rewind = {rewind}") as refusal:
        WindowLayout(shape, window, rewind)
    assert refusal.value.code == "BAD_CONFIG"


def test_without_a_window_all_rows_stay(decoder, tokens):
    """The layout of a decoder without a window drops nothing, and goes back to anywhere."""
    layout = WindowLayout(CacheShape.of(decoder.config, decoder.device), None)
    append(decoder, layout, tokens[:, :9])
    assert layout.snapshot().kept() == [(9, 9)] * 2
    layout.truncate(2)
    found = append(decoder, layout, tokens[:, 2:4])
    assert agrees(found, uncached_logits(decoder, tokens)[:, 2:4])
    assert layout.snapshot().parts[0, Part.KEY].shape[2] == 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_the_measurement_covers_windows(cpu, dtype):
    """With a window of 5 every layout agrees on decoders of all group sizes, also where chunks are longer."""
    schedules = {name: SCHEDULES[name] for name in ("prefill", "chunks")}
    cases = list(measure(dtype, cpu, seeds=1, schedules=schedules, window=WINDOW))
    assert {case.layout for case in cases} == set(LAYOUT_KINDS)
    assert {case.config.window for case in cases} == {5}
    worst = max(cases, key=lambda case: case.disagreement)
    assert worst.disagreement <= TOLERANCES[dtype], worst
