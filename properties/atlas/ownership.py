"""Public faults of slots that were given away too early, or never given back."""

from __future__ import annotations

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import drop_guard, loosen, mutant, put
from kvspec.properties.ownership import ownership
from kvspec.properties.pressure import pressure
from kvspec.properties.tables import tables
from kvspec.spec import ownership as blocks
from kvspec.spec import pressure as pool
from kvspec.spec import tables as table_rows
from kvspec.spec.language import Counts, Expr, exists, where
from kvspec.spec.language.expr import FALSE
from kvspec.spec.lifecycle import release
from kvspec.spec.ownership import (
    BEHIND_FENCE,
    HELD_FOR_WRITER,
    NOT_OUTSTANDING,
    TAIL_SHARED,
    Load,
    LoadState,
    expire,
    fence,
    hold,
    load_block,
    load_state,
)
from kvspec.spec.passes import dispatch, unsettled
from kvspec.spec.prefix import evict, owner
from kvspec.spec.pressure import (
    NOT_LEAVING,
    SLOTS_COME_BACK,
    Slot,
    has_slots,
    is_held,
    leave,
    leaving,
    parked,
    preempt,
)
from kvspec.spec.tables import BUFFER_READ, ROW_OUTDATED, ROW_READ, rewrite_row, take_row

STALE_WORK = "stale work, reuse under an outstanding access"
SPLIT = "split reorder"
ACCOUNTING = "accounting"
OTHER = "other"

LATE_LOAD = blocks.make_instance(
    "LATE_LOAD",
    "two requests, one after the other in one block, and one load",
    loads=1,
    layers=0,
    keys=0,
    expected=Counts(318, 1_175, 10, 3),
)
ONE_LOAD = blocks.make_instance(
    "ONE_LOAD",
    "one request and one load",
    handles=1,
    loads=1,
    layers=0,
    keys=0,
    expected=Counts(34, 115, 6, 1),
)
LATE_PASS = blocks.make_instance(
    "LATE_PASS",
    "two requests, one after the other in one block, and two passes",
    passes=2,
    layers=0,
    keys=0,
    expected=Counts(362, 1_301, 10, 3),
)
TWO_BRANCHES = blocks.make_instance(
    "TWO_BRANCHES",
    "a request and its fork, in one block, and one pass",
    passes=1,
    layers=0,
    keys=0,
    expected=Counts(170, 581, 9, 3),
)
OLD_SOURCE = blocks.make_instance(
    "OLD_SOURCE",
    "two handles that are used twice, two blocks and one pass",
    blocks=2,
    generations=2,
    passes=1,
    layers=0,
    keys=0,
    expected=Counts(9_210, 41_099, 17, 4),
)
RECYCLED_ROW = table_rows.make_instance(
    "RECYCLED_ROW",
    "one row, written twice, and one pass",
    rows=1,
    passes=1,
    buffers=1,
    expected=Counts(21, 35, 7, 2),
)
SHARED_BUFFER = table_rows.make_instance(
    "SHARED_BUFFER",
    "two passes and one buffer",
    rows=1,
    passes=2,
    buffers=1,
    editions=1,
    expected=Counts(23, 40, 6, 3),
)
OVERLAPPING_STEPS = table_rows.make_instance(
    "OVERLAPPING_STEPS",
    "one row, written once, two passes and one buffer",
    rows=1,
    passes=2,
    buffers=1,
    editions=2,
    expected=Counts(56, 117, 8, 3),
)
LATE_STEP = blocks.make_instance(
    "LATE_STEP",
    "two requests, one after the other in one block, and one pass",
    passes=1,
    layers=0,
    keys=0,
    expected=Counts(170, 581, 9, 3),
)
FULL_POOL = pool.make_instance(
    "FULL_POOL",
    "two requests, and slots for one",
    requests=2,
    slots=2,
    expected=Counts(141, 422, 8, 2),
)


def _whatever_was_loaded(h: Expr, block_0: Expr) -> Expr:
    loaded = exists(Load, lambda x: (load_state[x] != LoadState.IDLE) & (load_block[x] == block_0))
    return where(owner[block_0, h] & loaded, True, hold[block_0])


def _the_step_that_runs(h: Expr, block_0: Expr) -> Expr:
    running = where(unsettled[()] > 0, 1, 0)
    return where(owner[block_0, h], running, fence[block_0])


def _no_slot_is_free() -> Expr:
    return ~exists(Slot, lambda s: ~parked[s] & ~is_held(s))


GROUPS = (
    Group(
        name="A-B01",
        title="Blocks are free at the abort of a request, while a peer still loads into them",
        kind=STALE_WORK,
        evidence=Evidence.MERGED,
        sources=("vllm-project/vllm PR #32255",),
        happened=(
            "A peer is to write the blocks of a request.",
            "The request is aborted, and its blocks are free at once.",
            "Another request gets them.",
            "The peer's write lands, and the second request reads it as its own.",
        ),
        cases=(
            Case(
                shows="The bytes of an aborted load land in a block that another request has by then.",
                fault=drop_guard(
                    blocks.system,
                    evict,
                    HELD_FOR_WRITER,
                    "frees a block that a peer may still write",
                ),
                properties=ownership,
                claim="no_peer_writes_into_a_block_of_another_request",
                instance=LATE_LOAD,
            ),
            Case(
                shows="A hold is made for a load whose completion was seen before: nothing lifts it.",
                fault=put(
                    blocks.system,
                    release,
                    hold,
                    _whatever_was_loaded,
                    name="hold-what-was-completed",
                    says="holds a block for its load, whether or not the completion was seen",
                ),
                properties=ownership,
                claim="every_released_block_is_reclaimed",
                instance=ONE_LOAD,
            ),
            Case(
                shows="A hold that the peer alone can lift outlives the peer.",
                fault=loosen(
                    blocks.system,
                    expire,
                    NOT_OUTSTANDING,
                    lambda: FALSE,
                    name="no-lease",
                    says="waits for the peer, however long",
                ),
                properties=ownership,
                claim="every_hold_is_lifted",
                instance=ONE_LOAD,
            ),
        ),
    ),
    Group(
        name="A-B02",
        title="The blocks of a finished request are free while a later step of it is in flight",
        kind=STALE_WORK,
        evidence=Evidence.MERGED,
        sources=("vllm-project/vllm PR #45357",),
        happened=(
            "Two steps of a request are dispatched, one ahead of the other's result.",
            "The result of the first ends the request, and its blocks are freed.",
            "The blocks are given to another request, as the target of a transfer.",
            "The second step writes them.",
        ),
        cases=(
            Case(
                shows="A step dispatched ahead writes a block that was given away before it settled.",
                fault=put(
                    blocks.system,
                    release,
                    fence,
                    _the_step_that_runs,
                    name="fence-at-the-running-step",
                    says="waits for the step that runs, and for none that was dispatched behind it",
                ),
                properties=ownership,
                claim="no_pass_writes_into_a_block_of_another_request",
                instance=LATE_PASS,
            ),
            Case(
                shows="A block is free although a step in flight writes it.",
                fault=drop_guard(
                    blocks.system,
                    evict,
                    BEHIND_FENCE,
                    "frees a block that a pass in flight may still write",
                ),
                properties=ownership,
                claim="no_pass_writes_into_a_block_of_another_request",
                instance=LATE_STEP,
            ),
        ),
    ),
    Group(
        name="A-B08",
        title="A row of the page table goes to the next request under a step that reads it",
        kind=STALE_WORK,
        evidence=Evidence.REPRODUCED,
        sources=("sgl-project/sglang PR #18803", "sgl-project/sglang issue #18744"),
        happened=(
            "A step that reads a request's row of the table is dispatched.",
            "The result of the step before ends the request, and the row is returned.",
            "Another request gets the row and writes its mapping.",
            "The step reads the second request's mapping as the first one's.",
        ),
        cases=(
            Case(
                shows="A step in flight reads the mapping of the request that got its row meanwhile.",
                fault=drop_guard(
                    table_rows.system, take_row, ROW_READ, "gives away a row that is still read"
                ),
                properties=tables,
                claim="a_pass_reads_the_mapping_that_it_captured",
                instance=RECYCLED_ROW,
            ),
            Case(
                shows="The row's own request writes another mapping while a step in flight reads the row.",
                fault=drop_guard(
                    table_rows.system, rewrite_row, ROW_READ, "rewrites a row that is still read"
                ),
                properties=tables,
                claim="a_pass_reads_the_mapping_that_it_captured",
                instance=RECYCLED_ROW,
            ),
            Case(
                shows="Steps overlap for ever, and the row that waits for its readers is never written.",
                fault=drop_guard(
                    table_rows.system,
                    dispatch,
                    ROW_OUTDATED,
                    "dispatches on a row that is to be written anew",
                ),
                properties=tables,
                claim="every_changed_row_is_rewritten_in_the_end",
                instance=OVERLAPPING_STEPS,
            ),
        ),
    ),
    Group(
        name="A-B38",
        title="Two beams that part go on in one block, and each writes over the other",
        kind=SPLIT,
        evidence=Evidence.MERGED,
        sources=("xLLM-AI/xllm PR #1984",),
        happened=(
            "A fork leaves two beams with one partly filled block.",
            "One beam appends into the block, and so does the other.",
            "Each finds a row of the other's in its place.",
            "In a variant the source of a copy outlives a reset, and a later request copies from it.",
        ),
        cases=(
            Case(
                shows="A beam appends into the block that it shares with another.",
                fault=drop_guard(
                    blocks.system, dispatch, TAIL_SHARED, "appends into a block that others have"
                ),
                properties=ownership,
                claim="no_pass_writes_into_a_block_of_another_request",
                instance=TWO_BRANCHES,
            ),
            Case(
                shows="A handle's next request copies rows that the last one wanted.",
                fault=mutant(
                    blocks.system,
                    "release.drop-assignment.source",
                    "keeps the source of a copy that the request did not make any more",
                ),
                properties=ownership,
                claim="no_copy_is_made_for_an_earlier_request",
                instance=OLD_SOURCE,
            ),
        ),
    ),
    Group(
        name="A-B64",
        title="A sequence is flushed that the scheduler has flushed, and nobody advances without a flush",
        kind=ACCOUNTING,
        evidence=Evidence.ANALYSIS,
        sources=(
            "deepspeedai/DeepSpeed-MII issue #497",
            "deepspeedai/DeepSpeed-MII PR #403",
            "deepspeedai/DeepSpeed-MII PR #278",
            "deepspeedai/DeepSpeed-MII issue #339",
        ),
        happened=(
            "Requests fill the pool, and none has enough to go on.",
            "The scheduler flushes one of them.",
            "Its owner flushes it again when it is done with it, and the second flush finds nothing.",
        ),
        cases=(
            Case(
                shows="The owner of a request that the scheduler flushed is refused, and never gets away.",
                fault=loosen(
                    pool.system,
                    leave,
                    NOT_LEAVING,
                    lambda q: leaving[q] & has_slots(q),
                    name="flush-finds-nothing",
                    says="refuses to flush a request that has no slot any more",
                ),
                properties=pressure,
                claim="every_owner_gets_away",
                instance=FULL_POOL,
            ),
            Case(
                shows="All requests wait for a slot, and nobody is flushed to give one.",
                fault=loosen(
                    pool.system,
                    preempt,
                    SLOTS_COME_BACK,
                    lambda: FALSE,
                    name="nobody-gives-way",
                    says="never flushes a request for another",
                ),
                properties=pressure,
                claim="every_request_ends",
                instance=FULL_POOL,
            ),
        ),
    ),
    Group(
        name="A-B73",
        title="A block table was staged in a host buffer that the next step wrote over",
        kind=OTHER,
        evidence=Evidence.MERGED,
        sources=("NVIDIA/TensorRT-LLM PR #15546",),
        happened=(
            "The host writes the table of a step into a buffer, and starts its upload.",
            "It goes on to the next step, and writes that one's table into the same buffer.",
            "The first upload runs late.",
            "The device uses the second table for the first step.",
        ),
        cases=(
            Case(
                shows="A step runs with the metadata of the one behind it.",
                fault=drop_guard(
                    table_rows.system,
                    dispatch,
                    BUFFER_READ,
                    "writes over a buffer whose upload has not run",
                ),
                properties=tables,
                claim="a_pass_uses_the_metadata_that_was_staged_for_it",
                instance=SHARED_BUFFER,
            ),
        ),
    ),
    Group(
        name="A-B75",
        title="Deferred free and preemption: everybody is preempted, and nothing becomes free",
        kind=OTHER,
        evidence=Evidence.REPRODUCED,
        sources=("vllm-project/vllm-ascend issue #16315", "vllm-project/vllm PR #49675"),
        happened=(
            "The pool is empty, and a request needs a slot.",
            "Another is preempted, and its slots are parked behind the fence.",
            "The count of free slots has not changed, so the next is preempted, and the next.",
            "All are taken up again, and it begins anew.",
        ),
        cases=(
            Case(
                shows="Everybody is preempted over and over, since parked slots do not count.",
                fault=loosen(
                    pool.system,
                    preempt,
                    SLOTS_COME_BACK,
                    _no_slot_is_free,
                    name="parked-slots-do-not-count",
                    says="preempts although slots are parked that will be free",
                ),
                properties=pressure,
                claim="every_request_ends",
                instance=FULL_POOL,
            ),
        ),
    ),
)
