"""Tests of appends under way: apart from what is visible, whole, and refused when not."""

import threading

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    DecodeError,
    Deferral,
    Part,
    agrees,
    allocate,
    append,
    cached_logits,
    positions_from,
    uncached_logits,
)


@pytest.fixture(params=LAYOUT_KINDS)
def layout(request, shape):
    """An empty layout of each kind."""
    return allocate(request.param, shape, capacity=16)


def continued(decoder, layout, tokens, n):
    """Logits of the tokens behind the first ``n``, appended in two calls."""
    return cached_logits(decoder, layout, tokens[:, n:], (1, tokens.shape[1] - n - 1))


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


def test_staged_rows_are_seen_by_the_same_call(layout, constant):
    """A view holds the base rows, then the staged ones, at positions in order."""
    first = layout.begin(2)
    constant.stage(first, 1)
    layout.install(first)
    second = layout.begin(2)
    constant.stage(second, 2)
    view = second.view(1)
    assert view.keys[0, 0, :, 0].tolist() == [1, 1, 2, 2]
    assert view.values[0, 1, :, 3].tolist() == [1, 1, 2, 2]
    assert view.positions.tolist() == [0, 1, 2, 3]
    assert constant.shown(layout) == constant.whole([1, 1])


def test_the_intervals_of_staged_parts_can_be_read(layout, constant):
    """K and V of a layer are staged apart, each with its interval and completion."""
    staging = layout.begin(3)
    staging.stage(0, Part.KEY, constant.rows(1, layout.shape, 3))
    staging.stage(1, Part.VALUE, constant.rows(1, layout.shape, 2), start=1)
    assert staging.staged() == {(0, Part.KEY): (0, 3), (1, Part.VALUE): (1, 3)}
    assert staging.missing() == [(0, Part.VALUE), (1, Part.KEY)]
    assert staging.is_complete(0, Part.KEY)
    assert not staging.is_complete(0, Part.VALUE)
    assert (staging.start, staging.stop, staging.count) == (0, 3, 3)


def test_two_open_appends_do_not_see_each_other(layout, constant):
    """Each view holds its own rows, in whatever order they are staged."""
    one, other = layout.begin(1), layout.begin(2)
    constant.stage(other, 2)
    constant.stage(one, 1)
    assert one.view(0).keys[0, 0, :, 0].tolist() == [1]
    assert other.view(0).keys[0, 0, :, 0].tolist() == [2, 2]
    layout.install(other)
    assert constant.shown(layout) == constant.whole([2, 2])
    assert one.view(1).values[0, 0, :, 0].tolist() == [1]


def test_of_two_appends_on_one_base_the_second_is_refused(layout, constant):
    """The second no longer begins at the first invisible position; it stays open, nothing changes."""
    one, other = layout.begin(1), layout.begin(1)
    constant.stage(one, 1)
    constant.stage(other, 2)
    layout.install(one)
    with pytest.raises(DecodeError, match=r"rows \[0, 1\), but expected rows from 1") as refusal:
        layout.install(other)
    assert refusal.value.code == "NOT_AT_FRONTIER"
    assert constant.shown(layout) == constant.whole([1])
    assert not other.is_closed


def test_a_discarded_append_leaves_no_trace(layout, constant):
    """Its rows are gone, late work is refused, and the room is free for the next append."""
    lost = layout.begin(2)
    constant.stage(lost, 9)
    lost.discard()
    lost.discard()
    with pytest.raises(DecodeError, match="begin a new append") as refusal:
        lost.view(0)
    assert refusal.value.code == "STAGING_CLOSED"
    with pytest.raises(DecodeError) as refusal:
        layout.install(lost)
    assert refusal.value.code == "STAGING_CLOSED"
    kept = layout.begin(3)
    constant.stage(kept, 1)
    layout.install(kept)
    assert constant.shown(layout) == constant.whole([1, 1, 1])


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


def test_empty_appends_are_refused(layout):
    """An append has at least one row."""
    with pytest.raises(DecodeError, match="found 0 rows") as refusal:
        layout.begin(0)
    assert refusal.value.code == "BAD_LENGTH"


def test_an_append_with_a_missing_part_is_refused(layout, constant):
    """Each single missing part is named, and nothing becomes visible."""
    for left_out in layout.shape.cells():
        staging = layout.begin(1)
        for cell in layout.shape.cells():
            if cell != left_out:
                staging.stage(*cell, constant.rows(1, layout.shape, 1))
        name = f"no layer {left_out[0]} {left_out[1].value},"
        with pytest.raises(DecodeError, match=name) as refusal:
            layout.install(staging)
        assert refusal.value.code == "ROWS_MISSING"
        staging.discard()
    assert layout.lengths() == [(0, 0), (0, 0)]


def test_an_append_over_another_interval_is_refused(layout, constant):
    """A part that is shifted or too short is named with both intervals."""
    for start, count in ((0, 1), (1, 2), (1, 1)):
        staging = layout.begin(2)
        for layer, part in layout.shape.cells():
            last = (layer, part) == (1, Part.VALUE)
            rows = constant.rows(1, layout.shape, count if last else 2)
            staging.stage(layer, part, rows, start if last else None)
        found = rf"layer 1 value: found rows \[{start}, {start + count}\), .*\[0, 2\)"
        with pytest.raises(DecodeError, match=found) as refusal:
            layout.install(staging)
        assert refusal.value.code == "INTERVAL_MISMATCH"
        staging.discard()


def test_an_append_that_is_not_yet_written_is_refused_or_waited_for(layout, constant):
    """Without waiting the late parts are named; with waiting, install ends when they land."""
    hold = Deferral()
    staging = layout.begin(1, hold)
    constant.stage(staging, 1)
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
    assert constant.shown(layout) == constant.whole([1])


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


def test_an_append_of_another_layout_is_refused(layout, shape, constant):
    """Rows begun elsewhere are refused although they would fit."""
    staging = allocate(layout.name, shape, capacity=16).begin(1)
    constant.stage(staging, 1)
    with pytest.raises(DecodeError, match="begun on another layout") as refusal:
        layout.install(staging)
    assert refusal.value.code == "FOREIGN_STAGING"


def test_a_part_is_staged_once(layout, constant):
    """Staging K of a layer a second time is refused, and the first rows stay."""
    staging = layout.begin(1)
    constant.stage(staging, 1)
    with pytest.raises(DecodeError, match="key rows of layer 0") as refusal:
        staging.stage(0, Part.KEY, constant.rows(2, layout.shape, 1))
    assert refusal.value.code == "ALREADY_STAGED"
    layout.install(staging)
    assert constant.shown(layout) == constant.whole([1])


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
def test_layers_that_do_not_exist_are_refused(layout, layer, constant):
    """Reading, staging and viewing them name the range."""
    staging = layout.begin(1)
    uses = [
        lambda: layout.read(layer),
        lambda: staging.stage(layer, Part.KEY, constant.rows(1, layout.shape, 1)),
        lambda: staging.view(layer),
    ]
    for use in uses:
        with pytest.raises(DecodeError, match=rf"layer {layer}, .*\[0, 2\)") as refusal:
            use()
        assert refusal.value.code == "NO_SUCH_LAYER"


def test_staged_rows_are_copies(layout, constant):
    """Writing to a tensor after it was staged does not reach the cache."""
    staging = layout.begin(1)
    rows = constant.rows(1, layout.shape, 1)
    for layer, part in layout.shape.cells():
        staging.stage(layer, part, rows)
    rows.fill_(9)
    layout.install(staging)
    assert constant.shown(layout) == constant.whole([1])
