"""Tests of the faults of the paged layout, each beside the sound layout on the same sequence."""

import pytest
import torch
from filled_rows import add, filled, shown

from kvspec.models.decode import (
    TOLERANCES,
    Deferral,
    LayoutFaults,
    PagedLayout,
    append,
    disagreement,
    positions_from,
    uncached_logits,
)
from kvspec.models.decode.pages import BlockPool

DAMAGE = 1e9 * TOLERANCES[torch.float64]
"""A disagreement no rounding explains: a share of 8e-6 of the largest logit."""


@pytest.fixture
def make(shape):
    """Allocates layouts of one pool of eight blocks of two rows, with the faults asked for."""
    pool = BlockPool(shape, blocks=8, block_size=2)

    def allocated(**faults):
        return PagedLayout(pool, LayoutFaults(**faults))

    return allocated


def next_logits(decoder, layout, tokens, at):
    """The logits of the token at ``at``, read through ``layout``."""
    staging = layout.begin(1)
    where = positions_from(at, 1, decoder.device)
    return decoder.forward(tokens[:, at : at + 1], where, staging)[:, 0]


def disagreement_of_a_child(decoder, make, tokens, **faults):
    """How far a child's logits are off once its parent has appended behind the tail they share."""
    layout = make(**faults)
    append(decoder, layout, tokens[:, :3])
    child = layout.fork(3)
    append(decoder, child, tokens[:, 3:4])
    append(decoder, layout, (tokens[:, 3:4] + 1) % decoder.config.vocab)
    found = next_logits(decoder, child, tokens, 4)
    return disagreement(found, uncached_logits(decoder, tokens)[:, 4])


def test_without_copy_on_write_a_parent_writes_over_its_child(decoder, make, tokens):
    """With ``share_tail`` both write the same row of the shared block, and the child's logits are off."""
    sound = disagreement_of_a_child(decoder, make, tokens)
    assert sound <= TOLERANCES[torch.float64]
    assert disagreement_of_a_child(decoder, make, tokens, share_tail=True) > DAMAGE


@pytest.mark.parametrize(("block_size", "shows"), [(1, False), (2, True), (4, True)])
def test_a_tail_is_shared_only_where_a_block_has_two_rows(shape, block_size, shows):
    """With blocks of one row ``share_tail`` changes nothing: no append begins within a block."""
    pool = BlockPool(shape, blocks=16, block_size=block_size)
    layout = PagedLayout(pool, LayoutFaults(share_tail=True))
    add(layout, 1, 3)
    child = layout.fork(3)
    add(child, 2, 1)
    add(layout, 3, 1)
    assert shown(child) == [1, 1, 1, 3 if shows else 2]


def reused(make, **faults):
    """What a reader of a truncated layout sees once another layout has appended, and the audit."""
    layout, other = make(**faults), make()
    add(layout, 1, 4)
    reader = layout.snapshot()
    layout.truncate(1)
    found = layout.pool.audit()
    add(other, 2, 2)
    return shown(reader), found


def test_early_reuse_shows_a_reader_another_requests_rows(make):
    """With ``early_reuse`` a truncation lets a block that a snapshot shows; the audit tells at once."""
    assert reused(make) == ([1, 1, 1, 1], [])
    rows, found = reused(make, early_reuse=True)
    assert rows == [1, 1, 2, 2]
    assert any("is free and has 1 holders" in text for text in found)


def late(make, **faults):
    """What a layout shows when a late write of an append that it discarded has landed; the audit."""
    layout, hold = make(**faults), Deferral()
    filled(layout, 9, 2, hold).discard()
    found = layout.pool.audit()
    add(layout, 1, 2)
    hold.fire_all()
    return shown(layout), found


def test_early_reuse_lets_a_late_write_land_on_published_rows(make):
    """With ``early_reuse`` a discarded append's blocks are let while its writes are in flight."""
    assert late(make) == ([1, 1], [])
    rows, found = late(make, early_reuse=True)
    assert rows == [9, 9]
    assert found == ["the append of rows [0, 2) was given back with work in flight"]


def released(make, **faults):
    """What two later requests read of themselves after a release, and the audit."""
    layout = make(**faults)
    add(layout, 1, 2)
    layout.release()
    found = layout.pool.audit()
    one, two = make(), make()
    add(one, 2, 2)
    add(two, 3, 2)
    return shown(one), shown(two), found


def test_a_double_free_gives_one_block_to_two_requests(make):
    """With ``double_free`` two requests get the same block, and the first reads the second's rows."""
    assert released(make) == ([2, 2], [3, 3], [])
    one, two, found = released(make, double_free=True)
    assert (one, two) == ([3, 3], [3, 3])
    assert any("2 times in the free list" in text for text in found)


def orphaned(make, **faults):
    """What a child reads when its parent was released and another request came; the audit."""
    layout = make(**faults)
    add(layout, 1, 2)
    child = layout.fork(2)
    found = layout.pool.audit()
    layout.release()
    add(make(), 2, 2)
    return shown(child), found


def test_a_lost_reference_shows_a_child_another_requests_rows(make):
    """With ``lost_reference`` a parent's release frees the blocks that its child reads."""
    assert orphaned(make) == ([1, 1], [])
    rows, found = orphaned(make, lost_reference=True)
    assert rows == [2, 2]
    assert "has 1 references and 2 holders" in found[0]
