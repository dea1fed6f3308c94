"""Tests of the pool of blocks: counts, holds that end, work in flight, and what an audit finds."""

import pytest
import torch

from kvspec.models.decode import CacheShape, DecodeError, Deferral
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.pages import POISON, BlockPool
from kvspec.models.decode.pages_audit import Holder, Use, problems

KEY = (0, Part.KEY)


@pytest.fixture
def pool(cpu):
    """Four blocks of two rows, one layer."""
    return BlockPool(CacheShape(1, 1, 1, torch.float64, cpu), blocks=4, block_size=2)


def held_back():
    """A completion that has not come, and the way to let it."""
    late = Deferral()
    return late(lambda: None, torch.device("cpu")), late.fire_all


def fill(pool, lease, value, start, stop):
    """Write one number to positions of a lease's blocks."""
    slots = pool.slots(lease, start, stop)
    pool.memory.write(
        KEY, slots, torch.full((1, 1, stop - start, 1), float(value), dtype=torch.float64)
    )


def shown(pool, lease, length):
    """The K rows of a table as one number each."""
    return pool.memory.gather(KEY, lease.index, length).flatten().tolist()


def test_a_new_pool_is_free_and_zero(pool):
    """All blocks are free once, nobody has a reference, and no row is written."""
    assert (pool.free_count, pool.references) == (4, (0, 0, 0, 0))
    assert pool.audit() == []
    assert pool.memory.rows[Part.KEY].abs().max() == 0


@pytest.mark.parametrize(("name", "sizes"), [("blocks", (0, 2)), ("block_size", (4, 0))])
def test_sizes_are_positive(pool, name, sizes):
    """A pool without blocks, and a block without rows, are refused by name."""
    with pytest.raises(DecodeError, match=f"{name} = 0") as refusal:
        BlockPool(pool.shape, *sizes)
    assert refusal.value.code == "BAD_CONFIG"


def test_rows_are_found_through_the_table(pool):
    """Positions go to rows of blocks in whatever order the blocks stand; reading gives them back."""
    lease = pool.hold((2, 0, 3), 5)
    fill(pool, lease, 1, 0, 2)
    fill(pool, lease, 2, 2, 5)
    assert shown(pool, lease, 5) == [1, 1, 2, 2, 2]
    assert pool.slots(lease, 0, 5).tolist() == [4, 5, 0, 1, 6]
    assert pool.memory.rows[Part.KEY][0].flatten().tolist() == [2, 2, 0, 0, 1, 1, 2, 0]
    assert pool.memory.rows[Part.VALUE].abs().max() == 0


def test_a_block_is_free_when_its_last_holder_has_gone(pool):
    """Two holds on one block: dropping one leaves it, dropping the other frees and poisons it."""
    first = pool.reserve((), 0, 2)
    fill(pool, first, 1, 0, 2)
    second = pool.hold(first.blocks, 2)
    (block,) = first.blocks
    assert pool.references[block] == 2
    first.give_back()
    first.give_back()
    assert (pool.references[block], pool.free_count) == (1, 3)
    assert shown(pool, second, 2) == [1, 1]
    del second
    assert (pool.references[block], pool.free_count) == (0, 4)
    assert (
        pool.memory.rows[Part.KEY][0, 2 * block : 2 * block + 2].flatten().tolist() == [POISON] * 2
    )
    assert pool.audit() == []


def test_ending_a_hold_touches_no_memory_until_the_pool_is_used(pool):
    """Release is told, reclaim comes later: rows are overwritten when the pool is next asked."""
    lease = pool.reserve((), 0, 2)
    fill(pool, lease, 1, 0, 2)
    memory = pool.memory.rows[Part.KEY]
    del lease
    assert memory.max() == 1
    assert pool.reclaim() == 4
    assert memory.max() == POISON


def test_a_block_that_one_holds_is_written_where_it_is(pool):
    """The table's last block has room and one holder: the reservation takes it, and one more."""
    table = pool.reserve((), 0, 1)
    more = pool.reserve(table.blocks, 1, 3)
    assert more.blocks[0] == table.blocks[0]
    assert (more.first, len(more.blocks), pool.free_count) == (0, 2, 2)


def test_a_block_that_others_hold_is_copied_before_it_is_written(pool):
    """With a second holder the reservation gets a copy with the same rows, and the block stays."""
    table = pool.reserve((), 0, 1)
    fill(pool, table, 1, 0, 1)
    other = pool.hold(table.blocks, 1)
    more = pool.reserve(table.blocks, 1, 2)
    fill(pool, more, 2, 1, 2)
    assert more.blocks != table.blocks
    assert shown(pool, more, 2) == [1, 2]
    assert shown(pool, other, 2) == [1, 0]
    assert pool.references[table.blocks[0]] == 2


def test_full_blocks_before_the_interval_are_left_alone(pool):
    """An interval that begins at a block's edge needs nothing of the block before."""
    table = pool.reserve((), 0, 2)
    more = pool.reserve(table.blocks, 2, 3)
    assert (more.first, len(more.blocks)) == (1, 1)
    assert pool.references[table.blocks[0]] == 1


def test_blocks_wait_for_work_in_flight(pool):
    """A hold that ended is taken back when its last write is complete, and not before."""
    lease = pool.reserve((), 0, 2)
    (one, fire_one), (two, fire_two) = held_back(), held_back()
    lease.note("one", one)
    lease.note("two", two)
    lease.give_back()
    assert not lease.is_open
    assert (pool.free_count, pool.draining_count) == (3, 1)
    fire_one()
    assert (pool.free_count, pool.draining_count) == (3, 1)
    assert pool.audit() == []
    fire_two()
    assert (pool.free_count, pool.draining_count) == (4, 0)


def test_a_dropped_hold_waits_for_its_work_too(pool):
    """A lease that is collected and not given back is no way around the wait."""
    lease = pool.reserve((), 0, 2)
    work, fire = held_back()
    lease.note("work", work)
    del lease
    assert pool.free_count == 3
    fire()
    assert pool.free_count == 4


def test_work_can_be_passed_on(pool):
    """A reader that takes a writer's blocks over keeps them until the writer's work is complete."""
    writer = pool.reserve((), 0, 2)
    work, fire = held_back()
    writer.note("work", work)
    reader = pool.hold(writer.blocks, 2)
    writer.pass_on(reader)
    assert pool.references[reader.blocks[0]] == 1
    assert pool.audit() == []
    reader.give_back()
    assert pool.free_count == 3
    fire()
    assert pool.free_count == 4


def test_blocks_of_a_write_whose_start_failed_are_never_let_again(pool):
    """Nobody knows when such a write lands, so the block stays out of use, and on the books."""
    lease = pool.reserve((), 0, 2)
    lease.note("lost", None)
    lease.give_back()
    assert (pool.free_count, pool.draining_count) == (3, 1)
    assert pool.audit() == []


def test_a_full_pool_refuses_and_is_as_before(pool):
    """The refusal tells free blocks, blocks that wait, and what is needed; nothing is taken."""
    kept = pool.reserve((), 0, 5)
    waiting = pool.reserve((), 0, 1)
    waiting.note("work", held_back()[0])
    waiting.give_back()
    with pytest.raises(DecodeError) as refusal:
        pool.reserve(kept.blocks, 5, 7)
    assert refusal.value.code == "CAPACITY_EXCEEDED"
    assert str(refusal.value) == (
        "CAPACITY_EXCEEDED in a pool of 4 blocks of 2 rows: found 0 free blocks for rows [5, 7); 1 more"
        " wait for work in flight, but expected 1 free blocks: release or truncate a handle, drop"
        " snapshots, or open a larger store"
    )
    assert pool.references == (1, 1, 1, 1)
    assert pool.audit() == []
    assert len(pool.reserve(kept.blocks, 5, 6).blocks) == 1


def test_an_audit_finds_a_hold_that_was_given_back_early(pool):
    """A reader that still lives has no references, and its block is free: both are told."""
    reader = pool.hold(pool.reserve((), 0, 2).blocks, 2)
    reader.give_back(is_early=True)
    assert pool.audit() == [
        "block 0 has 0 references and 1 holders",
        "block 0 is free and has 1 holders",
    ]


def test_an_audit_finds_a_write_in_flight_to_a_free_block(pool):
    """Blocks that a writer gave back early are told until the write has landed."""
    writer = pool.reserve((), 0, 2)
    work, fire = held_back()
    writer.note("work", work)
    writer.give_back(is_early=True)
    assert pool.audit() == ["the append of rows [0, 2) was given back with work in flight"]
    fire()
    assert pool.audit() == []


def test_an_audit_finds_a_double_free(pool):
    """References dropped twice put a block in the free list twice."""
    lease = pool.hold(pool.reserve((), 0, 2).blocks, 2)
    lease.give_back_twice()
    del lease
    assert pool.audit() == [
        "block 0 has -1 references and 0 holders",
        "block 0 stands 2 times in the free list",
    ]


def test_an_audit_finds_a_reference_that_was_not_added(pool):
    """A holder that is not counted is told as soon as it is there."""
    parent = pool.hold(pool.reserve((), 0, 2).blocks, 2)
    child = pool.hold(parent.blocks, 2, is_counted=False)
    assert pool.audit() == ["block 0 has 1 references and 2 holders"]
    assert child.is_open


def test_an_audit_finds_writes_to_rows_that_are_shown(pool):
    """A careless reservation takes a block whose rows a reader shows, or another writer has."""
    reader = pool.hold(pool.reserve((), 0, 2).blocks, 2)
    one = pool.reserve(reader.blocks, 1, 2, is_careless=True)
    text = (
        "block 0 is written by the append of rows [1, 2) and shown by the snapshot of rows [0, 2)"
    )
    assert pool.audit() == [text]
    two = pool.reserve(reader.blocks, 1, 2, is_careless=True)
    assert one.blocks == two.blocks
    assert any("two writers" in found for found in pool.audit())


@pytest.mark.parametrize(
    ("references", "free", "holders", "said"),
    [
        (
            (1,),
            (),
            (),
            ["block 0 has 1 references and 0 holders", "block 0 is neither free nor held"],
        ),
        ((0,), (), (), ["block 0 is neither free nor held"]),
        ((0,), (0, 1), (), ["block 1 does not exist"]),
        (
            (2,),
            (),
            (Holder(Use.READER, 0, (0,), (0, 1)), Holder(Use.READER, 1, (0,), (2, 3))),
            ["block 0 stands at the indices [0, 1]"],
        ),
    ],
)
def test_other_problems_are_told_in_words(references, free, holders, said):
    """A leak, a stranger in the free list, a block at two places of tables: one sentence each."""
    assert problems(2, references, free, holders, ()) == said
