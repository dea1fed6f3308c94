"""Groups of the atlas about a prefix index apart from ownership: who frees, and what outlives its rows."""

from __future__ import annotations

import attrs

from kvspec.properties.atlas.model import Case, Evidence, Group
from kvspec.properties.faults import also, drop_guard, mutant
from kvspec.properties.index import index
from kvspec.spec.append import Txn, is_live, target
from kvspec.spec.failures import ABI_MISMATCH
from kvspec.spec.index import (
    give_up,
    make_instance,
    match,
    reload,
    sleep,
    system,
)
from kvspec.spec.index_entries import (
    REQUESTS_HELD,
    STALE_MEMORY,
    STALE_TIER,
    STALE_WEIGHTS,
    STILL_INDEXED,
    STILL_READ,
    kept,
)
from kvspec.spec.language import Counts, Expr, Instance, Step, exists
from kvspec.spec.lifecycle import cancel_request
from kvspec.spec.prefix import Block, evict, owner


def bare(name: str, doc: str, expected: Counts | None = None, **sizes: int) -> Instance:
    """An instance without layers, and without keys and lengths where there are no appends."""
    made = make_instance(name, doc, expected=expected, **sizes)
    return attrs.evolve(
        made,
        sizes={**made.sizes, "Layer": 0, "Key": sizes.get("txns", 0)},
        bounds={**made.bounds, "Length": sizes.get("txns", 0)},
        constants={**made.constants, "rewind": 0},
    )


PAGES_USED_AGAIN = bare(
    "PAGES_USED_AGAIN",
    "A, B and C on one handle, two blocks, two contents",
    generations=3,
    blocks=2,
    contents=2,
    expected=Counts(4_033, 19_653, 18, 0),
)
FREED_BY_ANOTHER = bare(
    "FREED_BY_ANOTHER",
    "two requests, two blocks, two contents",
    handles=2,
    blocks=2,
    contents=2,
    expected=Counts(19_237, 103_629, 14, 0),
)
ONE_READER = bare(
    "ONE_READER",
    "a request and the block that it matched",
    blocks=2,
    expected=Counts(511, 2_217, 11, 0),
)
ONE_BLOCK = bare(
    "ONE_BLOCK", "a request that reads the block it filled", expected=Counts(31, 87, 7, 0)
)
ONE_NIGHT = bare(
    "ONE_NIGHT",
    "a request, and a block of before the sleep",
    blocks=2,
    epochs=1,
    expected=Counts(6_207, 28_957, 15, 0),
)
OVER_A_REQUEST = bare(
    "OVER_A_REQUEST", "a request that runs", epochs=1, expected=Counts(311, 1_068, 10, 0)
)

IN_PREFILL = bare(
    "IN_PREFILL",
    "A, B and C on one handle, an append, two blocks, two contents",
    generations=3,
    blocks=2,
    contents=2,
    txns=1,
    expected=Counts(74_617, 480_965, 23, 0),
)


def free_what_is_in_prefill(step: Step, h: Expr) -> None:
    """All blocks of an aborted request go, those of the index among them, if its next chunk is under way."""
    in_prefill = exists(Txn, lambda x: is_live(x) & (target[x] == h))
    for b in step.every(Block):
        step.assign(kept[b], kept[b] & ~(owner[b, h] & in_prefill))


CHUNKS = Group(
    name="A-B20",
    title="Rows indexed in the middle of a prefill are freed with the request",
    kind="partial publication",
    evidence=Evidence.ANALYSIS,
    sources=("sgl-project/sglang issue #38319", "sgl-project/sglang PR #38355 (open)"),
    happened=(
        "request A publishes the rows of its first chunk to the prefix index",
        "A is taken back, or aborted, before its last chunk",
        "the release frees all rows of A, those of the index among them",
        "request B is given the rows and writes its own",
        "request C finds A's chunk in the index and reads what B wrote",
    ),
    cases=(
        Case(
            shows="the index has no claim on what A published, so that A's release frees it, "
            "and C reads the rows that B wrote there",
            fault=mutant(
                system,
                "index_rows.drop-assignment.kept",
                "a request publishes rows to the index and remains the only one that holds them",
            ),
            properties=index,
            claim="nobody_matches_rows_of_another_content",
            instance=PAGES_USED_AGAIN,
        ),
        Case(
            shows="the free list is not told of the index, and takes what no request holds",
            fault=drop_guard(
                system,
                evict,
                STILL_INDEXED,
                "a block is freed although the index has a claim on it",
            ),
            properties=index,
            claim="nobody_matches_rows_of_another_content",
            instance=FREED_BY_ANOTHER,
        ),
        Case(
            shows="an entry is given up under a request that matched it, and another load takes its block",
            fault=drop_guard(
                system, give_up, STILL_READ, "an entry is given up while a request reads its block"
            ),
            properties=index,
            claim="rows_do_not_change_under_a_reader",
            instance=ONE_READER,
        ),
        Case(
            shows="a block that is read is repaired in place, and its reader finds half-loaded rows",
            fault=drop_guard(
                system, reload, STILL_READ, "rows are loaded anew into a block that a request reads"
            ),
            properties=index,
            claim="rows_do_not_change_under_a_reader",
            instance=ONE_BLOCK,
        ),
        Case(
            shows="a request that is gone counts as a reader, so that the index holds the block for ever",
            fault=mutant(
                system,
                "release.drop-assignment.reader",
                "a request that is taken back is not struck from the readers of its blocks",
            ),
            properties=index,
            claim="every_withdrawn_entry_without_reader_is_given_up",
            instance=ONE_BLOCK,
        ),
        Case(
            shows="A is aborted while its second chunk is computed, and the abort frees the first one, "
            "which is in the index",
            fault=also(
                system,
                cancel_request,
                free_what_is_in_prefill,
                name="frees-all-in-prefill",
                says="the abort of a request in prefill frees all its blocks, indexed or not",
            ),
            properties=index,
            claim="nobody_matches_rows_of_another_content",
            instance=IN_PREFILL,
        ),
    ),
)

SLEEPS = Group(
    name="A-B76",
    title="Sleep drops the rows and keeps the prefix index",
    kind="other",
    evidence=Evidence.ANALYSIS,
    sources=("vllm-project/vllm-omni issue #6442 (open)", "vllm-project/vllm-omni #6739"),
    happened=(
        "rows of a prefix are in the index",
        "the server sleeps, and its device memory is dropped",
        "it wakes with memory that is zero everywhere",
        "the index still has the prefix",
        "a request matches it and reads zeros",
    ),
    cases=(
        Case(
            shows="sleep does not end the epoch of memory, and a request matches an entry without rows",
            fault=mutant(
                system,
                "sleep.drop-assignment.memory",
                "sleep drops the rows and leaves the index as it is",
            ),
            properties=index,
            claim="a_request_reads_rows_of_its_prompt",
            instance=ONE_NIGHT,
        ),
        Case(
            shows="a match does not ask whether the memory of the rows is still there",
            fault=drop_guard(
                system, match, STALE_MEMORY, "a match takes an entry of memory that was dropped"
            ),
            properties=index,
            claim="a_request_reads_rows_of_its_prompt",
            instance=ONE_NIGHT,
        ),
        Case(
            shows="weights are replaced, and a request matches rows that the old ones computed",
            fault=drop_guard(
                system, match, STALE_WEIGHTS, "a match takes rows that replaced weights computed"
            ),
            properties=index,
            claim="a_request_reads_rows_of_the_weights_in_use",
            instance=ONE_NIGHT,
        ),
        Case(
            shows="a repair after an update of the weights loads rows of the old ones as if they were new",
            fault=drop_guard(
                system, reload, STALE_TIER, "a reload takes rows of a tier that is not filled anew"
            ),
            properties=index,
            claim="a_request_reads_rows_of_the_weights_in_use",
            instance=ONE_NIGHT,
        ),
        Case(
            shows="sleep is granted while a request runs, which then reads rows that are gone",
            fault=drop_guard(
                system, sleep, REQUESTS_HELD, "sleep drops the rows of a request that runs"
            ),
            properties=index,
            claim="a_block_of_a_request_has_rows_of_its_prompt",
            instance=OVER_A_REQUEST,
        ),
    ),
)

TWO_ABIS = bare(
    "TWO_ABIS",
    "one request and a load of another ABI",
    blocks=2,
    abis=2,
    expected=Counts(2_137, 10_257, 14, 0),
)

OTHER_ADAPTER = Case(
    shows="an entry is matched by its content alone, and its rows were computed under another adapter",
    fault=drop_guard(
        system, match, ABI_MISMATCH, "a match compares the content and not the ABI of the rows"
    ),
    properties=index,
    claim="a_request_reads_rows_of_its_abi",
    instance=TWO_ABIS,
)
"""A-B30 in the words of the index, where the adapter is part of the ABI."""

GROUPS = (CHUNKS, SLEEPS)
