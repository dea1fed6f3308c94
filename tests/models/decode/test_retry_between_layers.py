"""Tests of calls that fail between two parts of two layers, and are tried again."""

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    Deferral,
    Part,
    agrees,
    append,
    finish,
    positions_from,
    run_now,
    uncached_logits,
)
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.models.decode.ragged import Chunk, RaggedCall, append_ragged

CELLS = [(layer, part) for layer in range(2) for part in Part]
POINTS = pytest.mark.parametrize(
    "point", CELLS, ids=[f"layer {layer} {part.value}" for layer, part in CELLS]
)


class LostError(Exception):
    """A fault of the machine, no refusal of the cache."""


@pytest.fixture(params=LAYOUT_KINDS)
def store(request, shape):
    """A store of each kind."""
    return open_store(request.param, shape, StoreSizes(16, layouts=8))


def shown(layout):
    """Copies of the visible rows of all layers."""
    snapshot = layout.snapshot()
    return [[part.clone() for part in snapshot.read(layer)] for layer in range(layout.shape.layers)]


def same(one, other):
    """Every number of both is the same."""
    pairs = zip(one, other, strict=True)
    return all(torch.equal(a, b) for left, right in pairs for a, b in zip(left, right, strict=True))


def run_until(steps, point):
    """Run a call until a part of a layer was staged."""
    for produced in steps:
        if (produced.layer, produced.part) == point:
            return
    pytest.fail(f"the call never came to {point}")


@POINTS
@pytest.mark.parametrize("way", ["throw", "close"])
def test_a_call_lost_between_layers_leaves_nothing_and_is_tried_again(
    decoder, store, tokens, point, way
):
    """Nothing is visible after the fault; the retry has the logits of an undisturbed run (A4, D3)."""
    layout = store()
    append(decoder, layout, tokens[:, :5])
    before, snapshot = shown(layout), layout.snapshot()
    staging = layout.begin(3)
    steps = decoder.forward_layers(tokens[:, 5:8], positions_from(5, 3, decoder.device), staging)
    run_until(steps, point)
    if way == "throw":
        with pytest.raises(LostError):
            steps.throw(LostError())
    else:
        steps.close()
    staging.discard()
    assert layout.snapshot() is snapshot
    assert same(shown(layout), before)
    found = append(decoder, layout, tokens[:, 5:8])
    assert agrees(found, uncached_logits(decoder, tokens[:, :8])[:, 5:])
    assert same(shown(layout), shown_alone(decoder, store, tokens))


def shown_alone(decoder, store, tokens):
    """The rows of the same appends with nothing lost between them."""
    layout = store()
    append(decoder, layout, tokens[:, :5])
    append(decoder, layout, tokens[:, 5:8])
    return shown(layout)


@POINTS
def test_a_write_that_cannot_start_fails_its_call_and_no_other(decoder, store, tokens, point):
    """A fault while a part is handed over, before or after it landed, is one more of these (D3)."""
    layout, number = store(), CELLS.index(point)
    for lands in (False, True):
        started = []

        def submit(write, device, lands=lands, started=started):
            started.append(device)
            if len(started) == number + 1:
                if lands:
                    write()
                raise LostError
            return run_now(write, device)

        with pytest.raises(LostError):
            append(decoder, layout, tokens[:, :4], submit)
        assert len(started) == number + 1
        assert layout.lengths() == [(0, 0), (0, 0)]
    assert agrees(append(decoder, layout, tokens[:, :4]), uncached_logits(decoder, tokens[:, :4]))


@POINTS
def test_writes_that_land_after_the_fault_spoil_no_retry(decoder, store, tokens, point):
    """Rows of a lost call that are written only later reach neither the retry nor a reader (A9, D3)."""
    layout, held = store(), Deferral()
    append(decoder, layout, tokens[:, :5])
    staging = layout.begin(3, held)
    wrong = (tokens[:, 5:8] + 1) % decoder.config.vocab
    steps = decoder.forward_layers(wrong, positions_from(5, 3, decoder.device), staging)
    run_until(steps, point)
    steps.close()
    staging.discard()
    append(decoder, layout, tokens[:, 5:8])
    held.fire_all()
    found = append(decoder, layout, tokens[:, 8:10])
    assert agrees(found, uncached_logits(decoder, tokens[:, :10])[:, 8:])


@POINTS
def test_a_ragged_call_lost_between_layers_is_lost_for_all_its_requests(
    decoder, store, tokens, point
):
    """None of three requests shows a row of it; all of them try again, in two other batches (D2, A4)."""
    layouts = [store() for _ in range(3)]
    for layout, rows in zip(layouts, (0, 2, 5), strict=True):
        if rows:
            append(decoder, layout, tokens[:, :rows])
    chunks = [
        Chunk(layout, tokens[0, layout.length : layout.length + n])
        for layout, n in zip(layouts, (4, 1, 2), strict=True)
    ]
    before = [shown(layout) for layout in layouts]
    call = RaggedCall([chunk.layout.begin(len(chunk.tokens)) for chunk in chunks])
    steps = call.forward_layers(decoder, [chunk.tokens for chunk in chunks])
    run_until(steps, point)
    with pytest.raises(LostError):
        steps.throw(LostError())
    call.discard()
    assert all(same(shown(a), b) for a, b in zip(layouts, before, strict=True))
    results = append_ragged(decoder, chunks[:1]) + append_ragged(decoder, chunks[1:])
    for layout, chunk, result in zip(layouts, chunks, results, strict=True):
        expected = uncached_logits(decoder, tokens[:, : layout.length])
        assert agrees(result.logits, expected[0, -len(chunk.tokens) :])


def test_a_call_whose_other_layers_are_kept_shows_the_damage(decoder, store, tokens):
    """Rows of the lost call put under the retry's, as a cache would that keeps them, are seen (D4)."""
    layout = store()
    staging = layout.begin(4)
    wrong = (tokens[:, :4] + 1) % decoder.config.vocab
    steps = decoder.forward_layers(wrong, positions_from(0, 4, decoder.device), staging)
    run_until(steps, (0, Part.VALUE))
    steps.close()
    resumed = Resumed(staging)
    finish(decoder.forward_layers(tokens[:, :4], positions_from(0, 4, decoder.device), resumed))
    layout.install(staging)
    found = append(decoder, layout, tokens[:, 4:5])
    assert not agrees(found, uncached_logits(decoder, tokens[:, :5])[:, 4:])


class Resumed:
    """A cache that keeps what a lost call had staged, and takes the rest from its retry."""

    def __init__(self, staging):
        self.staging = staging

    def stage(self, layer, part, rows):
        """Drop the retry's rows where the lost call had some."""
        if (layer, part) not in self.staging.staged():
            self.staging.stage(layer, part, rows)

    def view(self, layer):
        """What the append shows."""
        return self.staging.view(layer)
