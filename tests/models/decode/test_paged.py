"""Tests of what only the paged layout does: sharing, copies on write, and blocks that come back."""

import gc
import threading

import pytest
import torch
from filled_rows import add, filled, shown

from kvspec.models.decode import (
    CacheShape,
    DecodeError,
    Deferral,
    LayoutFaults,
    PagedLayout,
    Part,
    agrees,
    append,
    cached_logits,
    uncached_logits,
)
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.models.decode.pages import POISON, BlockPool


@pytest.fixture
def make(shape):
    """Allocates layouts of one pool of eight blocks of two rows, with the faults asked for."""
    pool = BlockPool(shape, blocks=8, block_size=2)

    def allocated(**faults):
        return PagedLayout(pool, LayoutFaults(**faults))

    return allocated


@pytest.fixture
def layout(make):
    """An empty layout."""
    return make()


def table(layout):
    """The blocks of a layout."""
    return layout.snapshot().table


def test_a_store_shares_one_pool(shape):
    """Layouts of a store, and forks, take their blocks from one pool; another store has another."""
    store = open_store("paged", shape, StoreSizes(6, layouts=2, block_size=4))
    one, two = store(), store()
    assert one.pool is two.pool is one.fork(0).pool
    assert (one.pool.blocks, one.pool.block_size) == (8, 4)
    sized = open_store("paged", shape, StoreSizes(6, blocks=3))
    assert (sized().pool.blocks, sized().pool.block_size) == (3, 2)


def test_blocks_are_taken_as_rows_come(layout):
    """Three rows take two blocks of two; the fourth row takes none, the fifth one more."""
    taken = []
    for count in (3, 1, 1):
        add(layout, 1, count)
        taken.append((len(table(layout)), layout.reserved_rows, layout.pool.free_count))
    assert taken == [(2, 4, 6), (2, 4, 6), (3, 6, 5)]
    assert layout.pool.audit() == []


def test_rows_are_written_into_their_blocks_before_they_are_visible(layout):
    """Staged rows lie in the pool at their slots, and publication moves no row."""
    add(layout, 1, 1)
    staging = filled(layout, 2, 2)
    memory = layout.pool.memory.rows[Part.KEY][0][:, 0, 0, 0]
    before = memory.clone()
    assert before[:4].tolist() == [1, 2, 2, 0]
    assert shown(layout) == [1]
    layout.install(staging)
    assert torch.equal(memory, before)
    assert shown(layout) == [1, 2, 2]


def test_publication_needs_no_room(layout):
    """An append that was begun can be published in a pool that has since become full."""
    staging = filled(layout, 1, 2)
    others = [layout.begin(2) for _ in range(7)]
    assert layout.pool.free_count == 0
    layout.install(staging)
    assert shown(layout) == [1, 1]
    assert len(others) == 7


def test_a_fork_shares_all_blocks_and_copies_none(layout):
    """Parent and child have one table; no block is taken and no row moved."""
    add(layout, 1, 3)
    free, rows = layout.pool.free_count, layout.pool.memory.rows[Part.KEY].clone()
    child = layout.fork(3)
    assert table(child) == table(layout)
    assert layout.pool.free_count == free
    assert layout.pool.references[:3] == (2, 2, 0)
    assert torch.equal(layout.pool.memory.rows[Part.KEY], rows)
    assert table(layout.fork(2)) == table(layout)[:1]


@pytest.mark.parametrize("first", ["parent", "child"])
def test_the_shared_tail_is_copied_by_whoever_appends_first(layout, first):
    """One side gets a copy of the last block and keeps the others; the other side writes in place."""
    add(layout, 1, 3)
    child, before = layout.fork(3), table(layout)
    one, other = (layout, child) if first == "parent" else (child, layout)
    add(one, 2, 1)
    assert table(one)[0] == before[0]
    assert table(one)[1] != before[1]
    assert (shown(one), shown(other)) == ([1, 1, 1, 2], [1, 1, 1])
    add(other, 3, 1)
    assert table(other) == before
    assert (shown(one), shown(other)) == ([1, 1, 1, 2], [1, 1, 1, 3])
    assert layout.pool.audit() == []


def test_a_truncated_tail_is_copied_while_a_reader_shows_it(layout):
    """Rows that a snapshot shows are not written over; once it is dropped, its block is free."""
    add(layout, 1, 4)
    older = layout.snapshot()
    layout.truncate(1)
    add(layout, 2, 2)
    assert (shown(older), shown(layout)) == ([1, 1, 1, 1], [1, 2, 2])
    assert layout.pool.free_count == 4
    del older
    assert layout.pool.free_count == 6
    layout.truncate(1)
    tail = table(layout)
    add(layout, 3, 1)
    assert table(layout) == tail
    assert shown(layout) == [1, 3]


def test_blocks_behind_a_truncation_go_back(layout):
    """The table ends with the visible rows, and the blocks behind them are free and poisoned."""
    add(layout, 1, 6)
    third = table(layout)[2]
    layout.truncate(3)
    assert len(table(layout)) == 2
    assert layout.pool.free_count == 6
    assert layout.pool.memory.rows[Part.VALUE][1, 2 * third, 0].eq(POISON).all()


def test_releasing_a_parent_frees_what_no_child_has(layout):
    """The child keeps its two blocks; the parent's third goes back at its release."""
    add(layout, 1, 6)
    child = layout.fork(4)
    layout.release()
    assert child.pool.free_count == 6
    child.release()
    assert child.pool.free_count == 8
    assert child.pool.audit() == []


def test_a_snapshot_of_a_released_layout_holds_its_blocks(layout):
    """Release is logical: rows stay as they were until the last reader drops its snapshot."""
    add(layout, 1, 3)
    reader = layout.snapshot()
    layout.release()
    assert layout.pool.free_count == 6
    assert shown(reader) == [1, 1, 1]
    del reader
    assert layout.pool.free_count == 8


def test_a_discarded_append_gives_its_blocks_back(layout):
    """Its own blocks are free at once, and the tail that it wrote to is written in place again."""
    add(layout, 1, 1)
    tail = table(layout)
    lost = filled(layout, 9, 4)
    assert layout.pool.free_count == 5
    lost.discard()
    assert layout.pool.free_count == 7
    add(layout, 2, 1)
    assert table(layout) == tail
    assert shown(layout) == [1, 2]


def test_an_append_that_was_lost_gives_its_blocks_back(layout):
    """One that is dropped without an end is collected, also from a reference cycle."""
    staging = filled(layout, 9, 4)
    staging.itself = staging
    del staging
    gc.collect()
    assert layout.pool.free_count == 8


def test_blocks_of_a_discarded_append_wait_for_its_writes(layout):
    """Late writes meet nobody's rows: neither the new blocks nor the tail are let before they land."""
    add(layout, 1, 1)
    hold = Deferral()
    lost = filled(layout, 9, 2, hold)
    late = set(lost.lease.blocks)
    lost.discard()
    add(layout, 2, 2)
    assert not late & set(table(layout))
    hold.fire_all()
    assert shown(layout) == [1, 2, 2]
    assert layout.pool.free_count == 6
    assert layout.pool.audit() == []


def test_an_append_that_is_over_holds_nothing(layout):
    """A published append that somebody keeps has no blocks any more, neither its own nor its base's."""
    add(layout, 1, 2)
    kept = filled(layout, 2, 3)
    layout.install(kept)
    layout.release()
    assert kept.is_closed
    assert layout.pool.free_count == 8


def test_blocks_of_a_write_whose_start_failed_are_not_let_again(layout):
    """It may land at any time, so its block stays out of use when the append is thrown away."""
    writes = []

    def lost(write, device):
        writes.append(write)
        raise RuntimeError("device lost")

    staging = layout.begin(3, lost)
    with pytest.raises(RuntimeError, match="device lost"):
        staging.stage(0, Part.KEY, torch.full(layout.shape.rows(3), 9.0, dtype=torch.float64))
    staging.discard()
    assert layout.pool.free_count == 6
    add(layout, 1, 12)
    for write in writes:
        write()
    assert shown(layout) == [1] * 12
    assert layout.pool.audit() == []


def test_two_appends_on_one_base_have_no_block_in_common(layout):
    """The first has the tail, the second a copy; whichever is published, the other's rows are apart."""
    add(layout, 1, 1)
    one, two = filled(layout, 2, 1), filled(layout, 3, 1)
    assert not set(one.lease.blocks) & set(two.lease.blocks)
    layout.install(two)
    assert shown(layout) == [1, 3]
    assert one.view(0).keys[0, 0, :, 0].tolist() == [1, 2]
    one.discard()
    assert layout.pool.audit() == []


def test_an_append_onto_rows_that_were_replaced_keeps_them(layout):
    """Cut and grown again to the same length, the table keeps its own rows; the append adds but its own."""
    add(layout, 1, 1)
    staging, reader = filled(layout, 2, 2), layout.snapshot()
    layout.truncate(0)
    add(layout, 3, 1)
    layout.install(staging)
    assert (shown(layout), shown(reader)) == ([3, 2, 2], [1])
    assert layout.pool.audit() == []
    del reader
    assert layout.pool.free_count == 6


def test_a_full_pool_refuses_and_changes_nothing(make):
    """The refusal says found, expected and what to do; layouts read on, and smaller appends work."""
    one, two = make(), make()
    add(one, 1, 9)
    add(two, 2, 5)
    before = one.pool.references
    with pytest.raises(DecodeError, match=r"rows \[5, 7\).*expected 1 free blocks") as refusal:
        two.begin(2)
    assert refusal.value.code == "CAPACITY_EXCEEDED"
    assert (one.pool.references, one.pool.audit()) == (before, [])
    add(two, 3, 1)
    assert shown(two) == [2] * 5 + [3]
    one.truncate(4)
    add(two, 4, 2)
    assert shown(two) == [2] * 5 + [3, 4, 4]


def test_a_batch_in_lockstep_is_paged_too(decoder, cpu):
    """Two sequences share one table; cached and uncached logits agree over forks and blocks of three."""
    shape = CacheShape.of(decoder.config, cpu, batch=2)
    layout = open_store("paged", shape, StoreSizes(12, block_size=3))()
    generator = torch.Generator().manual_seed(3)
    tokens = torch.randint(0, decoder.config.vocab, (2, 12), generator=generator)
    cached_logits(decoder, layout, tokens[:, :7], (4, 1, 2))
    child = layout.fork(5)
    append(decoder, layout, (tokens[:, :2] + 1) % decoder.config.vocab)
    found = cached_logits(decoder, child, tokens[:, 5:], (1, 3, 3))
    assert agrees(found, uncached_logits(decoder, tokens)[:, 5:])


@pytest.mark.parametrize("block_size", [1, 2, 4, 16])
def test_logits_do_not_depend_on_the_block_size(decoder, shape, tokens, block_size):
    """Blocks of one row, of several and of more than all rows give the uncached logits."""
    layout = open_store("paged", shape, StoreSizes(12, block_size=block_size))()
    found = cached_logits(decoder, layout, tokens, (5, 1, 1, 5))
    assert agrees(found, uncached_logits(decoder, tokens))
    assert layout.pool.audit() == []


def worked(layout, value, rounds, wrong):
    """Fork, append, read and release over and over; a child must show its parent's row and its own."""
    for number in range(rounds):
        child = layout.fork(1)
        reader = child.snapshot()
        add(child, value + number, 2)
        rows = shown(child)
        child.truncate(2)
        add(child, value - number, 1)
        later = shown(child)
        child.release()
        if (rows, later) != (
            [1, value + number, value + number],
            [1, value + number, value - number],
        ) or shown(reader) != [1]:
            wrong.append((value, number, rows, later))


def test_threads_share_a_pool(layout):
    """Three threads fork one parent and append at once: each sees its own rows, and no block is lost."""
    pool = BlockPool(layout.shape, blocks=16, block_size=2)
    parent, wrong = PagedLayout(pool), []
    add(parent, 1, 1)
    threads = [
        threading.Thread(target=worked, args=(parent, 1000 * n, 40, wrong)) for n in (1, 2, 3)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60)
    assert wrong == []
    assert pool.audit() == []
    assert pool.free_count == 15
    assert pool.taken > 200


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_on_cuda_a_block_waits_for_reads_in_flight():
    """A block that a busy stream still reads is not let, though nobody holds its snapshot any more."""
    cuda = torch.device("cuda", torch.cuda.current_device())
    pool = BlockPool(CacheShape(2, 2, 4, torch.float64, cuda), blocks=8, block_size=2)
    layout = PagedLayout(pool)
    staging = layout.begin(3)
    for layer, part in layout.shape.cells():
        rows = torch.ones(layout.shape.rows(3), dtype=torch.float64, device=cuda)
        staging.stage(layer, part, rows)
    layout.install(staging)
    del staging
    layout.read(0)
    torch.cuda.synchronize()
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(200_000_000)
        seen = layout.read(0)[0].clone()
    layout.release()
    assert (pool.free_count, pool.draining_count) == (6, 2)
    torch.cuda.synchronize()
    assert pool.free_count == 8
    assert seen.eq(1).all()
