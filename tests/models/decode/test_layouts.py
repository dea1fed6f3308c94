"""Tests of what every layout does."""

import threading
import time

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    CacheShape,
    DecodeError,
    Deferral,
    LayoutFaults,
    Part,
    agrees,
    allocate,
    append,
    cached_logits,
    positions_from,
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


def rows_of(value, shape, count):
    """Rows of one part that all hold ``value``."""
    return torch.full(shape.rows(count), float(value), dtype=shape.dtype)


def stage_all(staging, value):
    """Stage rows that all hold ``value``."""
    for layer, part in staging.shape.cells():
        staging.stage(layer, part, rows_of(value, staging.shape, staging.count))


def contents(layout):
    """Every visible row as one number, by layer and part; rows are constant in these tests."""
    snapshot = layout.snapshot()
    return [
        [part[0, 0, :, 0].tolist() for part in snapshot.read(layer)]
        for layer in range(layout.shape.layers)
    ]


def whole(values):
    """What ``contents`` gives when every part of both layers holds ``values``."""
    return [[list(map(float, values))] * 2] * 2


def test_a_new_layout_is_empty(layout):
    """No rows are visible, in shapes that already fit."""
    assert layout.lengths() == [(0, 0), (0, 0)]
    assert layout.length == 0
    assert [tuple(part.shape) for part in layout.read(1)] == [(1, 2, 0, 4)] * 2


def test_rows_per_token_are_sixty_four_bytes_in_two_byte_rows(decoder):
    """L = 2, H_kv = 2, d_h = 4 and two bytes a number: 64 bytes a token."""
    shape = CacheShape(2, 2, 4, torch.bfloat16, decoder.device)
    assert shape.bytes_per_token == 64


def test_staged_rows_are_invisible_until_installed(decoder, layout, tokens):
    """Through every step of a call lengths and rows stay; one install moves all layers."""
    append(decoder, layout, tokens[:, :4])
    before = [part.clone() for layer in range(2) for part in layout.read(layer)]
    staging = layout.begin(3)
    for _ in decoder.forward_layers(tokens[:, 4:7], positions_from(4, 3, decoder.device), staging):
        assert layout.lengths() == [(4, 4), (4, 4)]
        now = [part for layer in range(2) for part in layout.read(layer)]
        assert all(torch.equal(a, b) for a, b in zip(before, now, strict=True))
    steps = list(layout.install_steps(staging))
    assert [step.lengths() for step in steps] == [[(7, 7), (7, 7)]]
    assert layout.lengths() == [(7, 7), (7, 7)]


def test_staged_rows_are_seen_by_the_same_call(layout):
    """A view holds the base rows, then the staged ones, at positions in order."""
    first = layout.begin(2)
    stage_all(first, 1)
    layout.install(first)
    second = layout.begin(2)
    stage_all(second, 2)
    view = second.view(1)
    assert view.keys[0, 0, :, 0].tolist() == [1, 1, 2, 2]
    assert view.values[0, 1, :, 3].tolist() == [1, 1, 2, 2]
    assert view.positions.tolist() == [0, 1, 2, 3]
    assert contents(layout) == whole([1, 1])


def test_the_intervals_of_staged_parts_can_be_read(layout):
    """K and V of a layer are staged apart, each with its interval and completion."""
    staging = layout.begin(3)
    staging.stage(0, Part.KEY, rows_of(1, layout.shape, 3))
    staging.stage(1, Part.VALUE, rows_of(1, layout.shape, 2), start=1)
    assert staging.staged() == {(0, Part.KEY): (0, 3), (1, Part.VALUE): (1, 3)}
    assert staging.missing() == [(0, Part.VALUE), (1, Part.KEY)]
    assert staging.is_complete(0, Part.KEY)
    assert not staging.is_complete(0, Part.VALUE)
    assert (staging.start, staging.stop, staging.count) == (0, 3, 3)


def test_two_open_appends_do_not_see_each_other(layout):
    """Each view holds its own rows, in whatever order they are staged."""
    one, other = layout.begin(1), layout.begin(2)
    stage_all(other, 2)
    stage_all(one, 1)
    assert one.view(0).keys[0, 0, :, 0].tolist() == [1]
    assert other.view(0).keys[0, 0, :, 0].tolist() == [2, 2]
    layout.install(other)
    assert contents(layout) == whole([2, 2])
    assert one.view(1).values[0, 0, :, 0].tolist() == [1]


def test_of_two_appends_on_one_base_the_second_is_refused(layout):
    """The second no longer begins at the first invisible position; it stays open, nothing changes."""
    one, other = layout.begin(1), layout.begin(1)
    stage_all(one, 1)
    stage_all(other, 2)
    layout.install(one)
    with pytest.raises(DecodeError, match=r"rows \[0, 1\), but expected rows from 1") as refusal:
        layout.install(other)
    assert refusal.value.code == "NOT_AT_FRONTIER"
    assert contents(layout) == whole([1])
    assert not other.is_closed


def test_a_discarded_append_leaves_no_trace(layout):
    """Its rows are gone, late work is refused, and the room is free for the next append."""
    lost = layout.begin(2)
    stage_all(lost, 9)
    lost.discard()
    lost.discard()
    with pytest.raises(DecodeError, match="begin a new append") as refusal:
        lost.view(0)
    assert refusal.value.code == "STAGING_CLOSED"
    with pytest.raises(DecodeError) as refusal:
        layout.install(lost)
    assert refusal.value.code == "STAGING_CLOSED"
    kept = layout.begin(3)
    stage_all(kept, 1)
    layout.install(kept)
    assert contents(layout) == whole([1, 1, 1])


def test_a_call_whose_append_was_discarded_stops_at_its_next_row(decoder, layout, tokens):
    """Discarding between K and V of a layer stops the call when it stages V."""
    staging = layout.begin(2)
    steps = decoder.forward_layers(tokens[:, :2], torch.arange(2), staging)
    next(steps)
    staging.discard()
    with pytest.raises(DecodeError, match="value rows of layer 0") as refusal:
        next(steps)
    assert refusal.value.code == "STAGING_CLOSED"
    assert layout.lengths() == [(0, 0), (0, 0)]


def test_a_failed_append_publishes_nothing(decoder, layout, tokens):
    """An error in the call leaves the layout as it was and the append closed."""
    append(decoder, layout, tokens[:, :3])

    class Lost(Deferral):
        def __call__(self, write, device):
            if len(self.writes) == 2:
                raise RuntimeError("device lost")
            return super().__call__(write, device)

    with pytest.raises(RuntimeError, match="device lost"):
        append(decoder, layout, tokens[:, 3:5], Lost())
    assert layout.lengths() == [(3, 3), (3, 3)]
    found = continued(decoder, layout, tokens, 3)
    assert agrees(found, uncached_logits(decoder, tokens)[:, 3:])


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


def test_snapshots_do_not_change(layout):
    """Snapshots taken along the way still hold their rows after append, truncate and release."""
    taken = []
    for value, keep in ((1, 2), (2, 1), (3, 2), (4, 0), (5, 3)):
        staging = layout.begin(3 - layout.length)
        stage_all(staging, value)
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


def test_snapshots_of_a_child_do_not_change(layout):
    """A child cut to nothing and filled anew leaves its older snapshot alone."""
    staging = layout.begin(2)
    stage_all(staging, 1)
    layout.install(staging)
    child = layout.fork(2)
    older = child.snapshot()
    child.truncate(0)
    staging = child.begin(2)
    stage_all(staging, 2)
    child.install(staging)
    assert contents(child) == whole([2, 2])
    assert older.read(1)[1][0, 0, :, 0].tolist() == [1, 1]


def test_a_released_layout_is_unreadable(layout):
    """Every later use is refused with its code; releasing again is harmless."""
    staging = layout.begin(1)
    stage_all(staging, 1)
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
def test_only_visible_prefixes_can_be_kept(layout, verb, n):
    """Truncate and fork refuse n < 0 and n > T, and change nothing."""
    staging = layout.begin(2)
    stage_all(staging, 1)
    layout.install(staging)
    with pytest.raises(DecodeError, match=f"{verb} .*found n = {n}, .*0 <= n <= 2") as refusal:
        getattr(layout, verb)(n)
    assert refusal.value.code == "BAD_LENGTH"
    assert contents(layout) == whole([1, 1])


def test_empty_appends_are_refused(layout):
    """An append has at least one row."""
    with pytest.raises(DecodeError, match="found 0 rows") as refusal:
        layout.begin(0)
    assert refusal.value.code == "BAD_LENGTH"


def test_an_append_with_a_missing_part_is_refused(layout):
    """Each single missing part is named, and nothing becomes visible."""
    for left_out in layout.shape.cells():
        staging = layout.begin(1)
        for cell in layout.shape.cells():
            if cell != left_out:
                staging.stage(*cell, rows_of(1, layout.shape, 1))
        name = f"no layer {left_out[0]} {left_out[1].value},"
        with pytest.raises(DecodeError, match=name) as refusal:
            layout.install(staging)
        assert refusal.value.code == "ROWS_MISSING"
        staging.discard()
    assert layout.lengths() == [(0, 0), (0, 0)]


def test_an_append_over_another_interval_is_refused(layout):
    """A part that is shifted or too short is named with both intervals."""
    for start, count in ((0, 1), (1, 2), (1, 1)):
        staging = layout.begin(2)
        for layer, part in layout.shape.cells():
            last = (layer, part) == (1, Part.VALUE)
            rows = rows_of(1, layout.shape, count if last else 2)
            staging.stage(layer, part, rows, start if last else None)
        found = rf"layer 1 value: found rows \[{start}, {start + count}\), .*\[0, 2\)"
        with pytest.raises(DecodeError, match=found) as refusal:
            layout.install(staging)
        assert refusal.value.code == "INTERVAL_MISMATCH"
        staging.discard()


def test_an_append_that_is_not_yet_written_is_refused_or_waited_for(layout):
    """Without waiting the late parts are named; with waiting, install ends when they land."""
    hold = Deferral()
    staging = layout.begin(1, hold)
    stage_all(staging, 1)
    for write in hold.writes[:-1]:
        write.fire()
    with pytest.raises(DecodeError, match="found layer 1 value not yet written") as refusal:
        layout.install(staging, wait=False)
    assert refusal.value.code == "ROWS_INCOMPLETE"
    assert layout.length == 0
    thread = threading.Thread(target=layout.install, args=(staging,))
    thread.start()
    hold.fire_all()
    thread.join(timeout=10)
    assert contents(layout) == whole([1])


def test_a_call_sees_its_own_rows_before_they_have_landed(decoder, layout, tokens):
    """With every write held back the logits are still right, and so are the rows once landed."""
    append(decoder, layout, tokens[:, :4])
    hold = Deferral()
    staging = layout.begin(3, hold)
    found = decoder.forward(tokens[:, 4:7], torch.arange(4, 7), staging)
    expected = uncached_logits(decoder, tokens)
    assert agrees(found, expected[:, 4:7])
    hold.fire_all()
    layout.install(staging, wait=False)
    assert agrees(continued(decoder, layout, tokens, 7), expected[:, 7:])


def test_an_append_of_another_layout_is_refused(layout, shape):
    """Rows begun elsewhere are refused although they would fit."""
    staging = allocate(layout.name, shape, capacity=16).begin(1)
    stage_all(staging, 1)
    with pytest.raises(DecodeError, match="begun on another layout") as refusal:
        layout.install(staging)
    assert refusal.value.code == "FOREIGN_STAGING"


def test_a_part_is_staged_once(layout):
    """Staging K of a layer a second time is refused, and the first rows stay."""
    staging = layout.begin(1)
    stage_all(staging, 1)
    with pytest.raises(DecodeError, match="key rows of layer 0") as refusal:
        staging.stage(0, Part.KEY, rows_of(2, layout.shape, 1))
    assert refusal.value.code == "ALREADY_STAGED"
    layout.install(staging)
    assert contents(layout) == whole([1])


@pytest.mark.parametrize(
    "rows",
    [
        torch.zeros(2, 2, 1, 4, dtype=torch.float64),
        torch.zeros(1, 4, 1, 4, dtype=torch.float64),
        torch.zeros(1, 2, 1, 8, dtype=torch.float64),
        torch.zeros(1, 2, 1, 4, dtype=torch.float32),
        torch.zeros(2, 1, 4, dtype=torch.float64),
    ],
)
def test_rows_that_do_not_fit_are_refused(layout, rows):
    """Another batch, head count, width, dtype or rank is refused with both shapes."""
    said = rf"found rows \({', '.join(map(str, rows.shape))}\) of .*expected rows \(1, 2, 1, 4\)"
    with pytest.raises(DecodeError, match=said) as refusal:
        layout.begin(1).stage(0, Part.KEY, rows)
    assert refusal.value.code == "BAD_SHAPE"


@pytest.mark.parametrize("layer", [-1, 2])
def test_layers_that_do_not_exist_are_refused(layout, layer):
    """Reading, staging and viewing them name the range."""
    staging = layout.begin(1)
    uses = [
        lambda: layout.read(layer),
        lambda: staging.stage(layer, Part.KEY, rows_of(1, layout.shape, 1)),
        lambda: staging.view(layer),
    ]
    for use in uses:
        with pytest.raises(DecodeError, match=rf"layer {layer}, .*\[0, 2\)") as refusal:
            use()
        assert refusal.value.code == "NO_SUCH_LAYER"


def test_staged_rows_are_copies(layout):
    """Writing to a tensor after it was staged does not reach the cache."""
    staging = layout.begin(1)
    rows = rows_of(1, layout.shape, 1)
    for layer, part in layout.shape.cells():
        staging.stage(layer, part, rows)
    rows.fill_(9)
    layout.install(staging)
    assert contents(layout) == whole([1])


def test_rows_made_in_inference_mode_serve_outside_it(layout):
    """A layout may be filled under inference mode and used without, and the other way about."""
    with torch.inference_mode():
        child = layout.fork(0)
        staging = child.begin(1)
        stage_all(staging, 1)
        child.install(staging)
    staging = child.begin(1)
    stage_all(staging, 2)
    child.install(staging)
    assert contents(child) == whole([1, 2])


def watched(layout, rounds):
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
        stage_all(staging, value)
        for _ in layout.install_steps(staging):
            # Without a pause the reader gets its turns at one and the same point of the loop.
            time.sleep(0.0002 * (value % 2))
        layout.truncate(0)
    stop.set()
    reader.join(timeout=10)
    return seen, wrong


def test_readers_on_another_thread_see_all_layers_or_none(layout):
    """While rows come and go, no snapshot is uneven, and none mixes rows of two appends."""
    seen, wrong = watched(layout, 300)
    assert wrong == []
    assert len(seen) > 1


def test_readers_on_another_thread_catch_a_torn_install(layout, shape):
    """The same reader finds uneven lengths where layers are published one by one."""
    torn = allocate(layout.name, shape, capacity=16, faults=LayoutFaults(tear=True))
    _, wrong = watched(torn, 300)
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
