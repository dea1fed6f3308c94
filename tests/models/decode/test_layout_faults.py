"""Tests of the fault switches: a sound layout refuses, a faulty one shows damage in numbers."""

import pytest
import torch

from kvspec.models.decode import (
    LAYOUT_KINDS,
    SOUND,
    TOLERANCES,
    DecodeError,
    Deferral,
    LayoutFaults,
    Part,
    StaticLayout,
    agrees,
    allocate,
    append,
    disagreement,
    positions_from,
    uncached_logits,
)

DAMAGE = 1e9 * TOLERANCES[torch.float64]
"""A disagreement no rounding explains: a share of 8e-6 of the largest logit."""


@pytest.fixture(params=LAYOUT_KINDS)
def make(request, shape):
    """Allocates a layout of each kind, with the faults asked for."""

    def allocated(**faults):
        return allocate(request.param, shape, capacity=16, faults=LayoutFaults(**faults))

    return allocated


@pytest.fixture
def logits(decoder, tokens):
    """The logits of the uncached run."""
    return uncached_logits(decoder, tokens)


def called(decoder, layout, tokens, start, stop, submit=None):
    """An open append with the rows of tokens [start, stop), and the call's logits."""
    staging = layout.begin(stop - start, *(() if submit is None else (submit,)))
    at = positions_from(start, stop - start, decoder.device)
    return staging, decoder.forward(tokens[:, start:stop], at, staging)


def damage(decoder, layout, tokens, at, logits):
    """How far the logits of the token at ``at``, read through ``layout``, are off."""
    _, found = called(decoder, layout, tokens, at, at + 1)
    return disagreement(found[:, 0], logits[:, at])


def test_a_sound_layout_has_no_fault():
    """No switch is set by default."""
    assert not SOUND.uneven
    assert LayoutFaults() == SOUND


def test_a_torn_install_shows_each_part_by_itself(decoder, make, tokens):
    """Lengths advance K before V, layer by layer; the last step is the sound one."""
    layout = make(tear=True)
    append(decoder, layout, tokens[:, :4])
    staging, _ = called(decoder, layout, tokens, 4, 5)
    seen = [step.lengths() for step in layout.install_steps(staging)]
    assert seen == [
        [(5, 4), (4, 4)],
        [(5, 5), (4, 4)],
        [(5, 5), (5, 4)],
        [(5, 5), (5, 5)],
    ]


def test_a_reader_of_a_torn_install_computes_wrong_logits(decoder, make, tokens, logits):
    """Between the layers a call reads five rows in layer 0 and four in layer 1, and is off."""
    layout = make(tear=True)
    append(decoder, layout, tokens[:, :4])
    staging, _ = called(decoder, layout, tokens, 4, 5)
    steps = layout.install_steps(staging)
    next(steps)
    with pytest.raises(DecodeError) as refusal:
        called(decoder, layout, tokens, 5, 6)
    assert refusal.value.code == "UNEVEN_ROWS"
    next(steps)
    assert damage(decoder, layout, tokens, 5, logits) > DAMAGE
    for _ in steps:
        pass
    assert damage(decoder, layout, tokens, 5, logits) < TOLERANCES[torch.float64]


def test_a_torn_truncation_shows_each_part_by_itself(decoder, make, tokens):
    """A truncation that is left after two steps leaves layers uneven."""
    layout = make(tear=True)
    append(decoder, layout, tokens[:, :4])
    steps = layout.truncate_steps(1)
    assert next(steps).lengths() == [(1, 4), (4, 4)]
    assert next(steps).lengths() == [(1, 1), (4, 4)]
    steps.close()
    assert layout.lengths() == [(1, 1), (4, 4)]
    assert layout.length == 1


def test_a_partial_install_leaves_layers_uneven(decoder, make, tokens, logits):
    """A call that stops after layer 0 is published all the same; the next call is off."""
    layout = make(allow_missing=True)
    append(decoder, layout, tokens[:, :4])
    staging = layout.begin(1)
    at = positions_from(4, 1, decoder.device)
    steps = decoder.forward_layers(tokens[:, 4:5], at, staging)
    next(steps)
    next(steps)
    layout.install(staging)
    assert layout.lengths() == [(5, 5), (4, 4)]
    assert damage(decoder, layout, tokens, 5, logits) > DAMAGE


def test_an_install_of_unwritten_rows_publishes_zeros(decoder, make, tokens, logits):
    """Rows that have not landed read as zeros; the next call is off."""
    layout = make(allow_incomplete=True)
    append(decoder, layout, tokens[:, :4])
    staging, _ = called(decoder, layout, tokens, 4, 5, Deferral())
    layout.install(staging)
    assert layout.read(0)[0][0, :, 4].abs().max() == 0
    assert damage(decoder, layout, tokens, 5, logits) > DAMAGE


def test_an_install_of_another_interval_leaves_layers_uneven(make):
    """A layer with one row too few is published all the same."""
    layout = make(allow_interval=True)
    staging = layout.begin(2)
    for layer, part in layout.shape.cells():
        count = 1 if layer == 1 else 2
        rows = torch.zeros(layout.shape.rows(count), dtype=torch.float64)
        staging.stage(layer, part, rows)
    layout.install(staging)
    assert layout.lengths() == [(2, 2), (1, 1)]


def test_a_stale_install_damages_what_was_published(decoder, make, tokens, logits):
    """A second append on the same base is published: behind the first, or over it."""
    layout = make(allow_start=True)
    append(decoder, layout, tokens[:, :4])
    other = (tokens + 1) % decoder.config.vocab
    stale, _ = called(decoder, layout, other, 4, 5)
    append(decoder, layout, tokens[:, 4:5])
    layout.install(stale)
    assert layout.length == {"static": 5, "paged": 5}.get(layout.name, 6)
    assert damage(decoder, layout, tokens, layout.length, logits) > DAMAGE


def test_a_foreign_install_shows_another_requests_rows(decoder, make, tokens, logits):
    """An append begun for one handle is published to another, which then reads its rows."""
    layout, elsewhere = make(allow_foreign=True), make()
    other = (tokens + 1) % decoder.config.vocab
    append(decoder, layout, tokens[:, :4])
    append(decoder, elsewhere, other[:, :4])
    late, _ = called(decoder, elsewhere, other, 4, 5)
    layout.install(late)
    assert torch.equal(layout.read(1)[1][:, :, 4:5], late.rows((1, Part.VALUE)))
    assert damage(decoder, layout, tokens, 5, logits) > DAMAGE


def test_overwriting_changes_older_snapshots(decoder, shape, tokens):
    """With ``overwrite`` a truncated static layout writes over rows that a snapshot still shows."""
    layout = StaticLayout(shape, 16, LayoutFaults(overwrite=True))
    append(decoder, layout, tokens[:, :4])
    older = layout.snapshot()
    before = older.read(0)[0].clone()
    layout.truncate(2)
    append(decoder, layout, (tokens[:, 2:4] + 1) % decoder.config.vocab)
    assert torch.equal(older.read(0)[0][:, :, :2], before[:, :, :2])
    assert not torch.equal(older.read(0)[0][:, :, 2:], before[:, :, 2:])


def test_an_aliased_fork_writes_into_its_parent(decoder, make, tokens, logits):
    """The child's append changes a static or paged parent's logits; a dynamic one is out of reach."""
    layout = make(alias_fork=True)
    append(decoder, layout, tokens[:, :6])
    child = layout.fork(4)
    append(decoder, child, (tokens[:, 4:6] + 1) % decoder.config.vocab)
    found = append(decoder, layout, tokens[:, 6:7])
    if layout.name in {"static", "paged"}:
        assert disagreement(found[:, 0], logits[:, 6]) > DAMAGE
    else:
        assert agrees(found[:, 0], logits[:, 6])
