"""The counts in a ledger of saved work: rows, pairs, calls, and what a cache does to each part of the work.

The record is in `saved_work_record`, the contracts of the frontier in `saved_work_frontier`; both together
are the kind in `saved_work`. Parity of cached and uncached logits is assumed, within a tolerance;
`models/decode` shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from kvspec.spec.documents.contracts import DocumentKind, Finding, differs, named, requires
from kvspec.spec.documents.saved_work_record import Comparison, SavedWork
from kvspec.spec.formulas import (
    pairs_cached,
    pairs_saved,
    pairs_uncached,
    reduction,
    rows_cached,
    rows_saved,
    rows_uncached,
)

MOST_OUTPUTS: Final = 100_000
"""A ledger of more outputs than this is refused: its pairs are summed call by call."""

OPERATIONS: Final = {
    "old embedding and layer rows": "saved",
    "old norm and Q/K/V projection rows": "saved",
    "old query scores, softmax and value sums": "saved",
    "old output projection, norm, MLP and residual rows": "saved",
    "old vocabulary rows, where they are formed": "saved",
    "the first prefill": "kept",
    "current embedding and layer row": "kept",
    "current Q/K/V projections and rotation": "kept",
    "current query scores over all visible keys": "kept",
    "current sum of visible values": "kept",
    "current output projection, norm, MLP, residual and logits": "kept",
    "token selection and stop policy": "kept",
    "historical K/V reads": "introduced",
    "the view of past and current K/V": "introduced",
    "writing and publishing the new K/V rows": "introduced",
    "keeping the cache between calls": "introduced",
}
"""Every part of the work, and what a cache of K and V does to it."""

REUSED: Final = ("key", "value")

SAVED_WORK: Final = DocumentKind(
    "saved-work",
    SavedWork,
    "What a cache saves, keeps and adds, and how far output runs ahead of it.",
)


@SAVED_WORK.contract(
    "SIZES", "a prompt has a token at least, and there are from 1 to 100,000 outputs"
)
def sizes(d: SavedWork) -> Iterator[Finding]:
    """There is a request to speak of."""
    prompt, outputs = d.ledger.prompt_tokens, d.ledger.outputs
    yield from requires(prompt >= 1, "/ledger/prompt_tokens", "at least 1", prompt)
    told = f"from 1 to {MOST_OUTPUTS:,}"
    yield from requires(1 <= outputs <= MOST_OUTPUTS, "/ledger/outputs", told, outputs)


@SAVED_WORK.contract("ROWS_UNCACHED", "without a cache call g executes P + g rows")
def uncached_rows(d: SavedWork) -> Iterator[Finding]:
    """G P + G (G - 1) / 2."""
    expected = rows_uncached(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/rows/uncached", expected, d.ledger.rows.uncached)


@SAVED_WORK.contract(
    "ROWS_CACHED", "with a cache each token is executed once, the last output not at all"
)
def cached_rows(d: SavedWork) -> Iterator[Finding]:
    """P + G - 1."""
    expected = rows_cached(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/rows/cached", expected, d.ledger.rows.cached)


@SAVED_WORK.contract("ROWS_SAVED", "saved rows are those of the past in every call after the first")
def saved_rows(d: SavedWork) -> Iterator[Finding]:
    """(G - 1) P + (G - 1) (G - 2) / 2."""
    expected = rows_saved(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/rows/saved", expected, d.ledger.rows.saved)


@SAVED_WORK.contract("PAIRS_UNCACHED", "without a cache each call forms a whole causal triangle")
def uncached_pairs(d: SavedWork) -> Iterator[Finding]:
    """The triangles of P + g for each g below G."""
    expected = pairs_uncached(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/pairs/uncached", expected, d.ledger.pairs.uncached)


@SAVED_WORK.contract("PAIRS_CACHED", "with a cache each call after the first scores one query")
def cached_pairs(d: SavedWork) -> Iterator[Finding]:
    """The prompt's triangle, and P + j for each later call; the keys still grow."""
    expected = pairs_cached(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/pairs/cached", expected, d.ledger.pairs.cached)


@SAVED_WORK.contract("PAIRS_SAVED", "saved pairs are those of old queries")
def saved_pairs(d: SavedWork) -> Iterator[Finding]:
    """The triangle of P + j - 1 for each call after the first."""
    expected = pairs_saved(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/pairs/saved", expected, d.ledger.pairs.saved)


@SAVED_WORK.contract(
    "REDUCTION", "a reduction is the ratio of the two counts, in lowest terms and rounded"
)
def reductions(d: SavedWork) -> Iterator[Finding]:
    """Of rows and of pairs."""
    for name, one in (("rows", d.ledger.rows), ("pairs", d.ledger.pairs)):
        ratio, hundredths = ratio_of(one)
        yield from differs(f"/ledger/{name}/reduction", ratio, one.reduction)
        found = one.reduction_hundredths
        yield from differs(f"/ledger/{name}/reduction_hundredths", hundredths, found)


def ratio_of(one: Comparison) -> tuple[str, int]:
    """How many times as much is done without a cache: exactly as text, and in hundredths."""
    exact = reduction(one.uncached, one.cached)
    return str(exact), (200 * exact.numerator + exact.denominator) // (2 * exact.denominator)


@SAVED_WORK.contract(
    "FIRST_PREFILL", "the first prefill is as wide with a cache as without, and saves nothing"
)
def first_prefill(d: SavedWork) -> Iterator[Finding]:
    """There is no past yet that could be reused."""
    path, one, prompt = "/ledger/first_prefill", d.ledger.first_prefill, d.ledger.prompt_tokens
    yield from differs(f"{path}/rows_uncached", rows_uncached(prompt, 1), one.rows_uncached)
    yield from differs(f"{path}/rows_cached", rows_cached(prompt, 1), one.rows_cached)
    yield from differs(f"{path}/rows_saved", rows_saved(prompt, 1), one.rows_saved)


@SAVED_WORK.contract(
    "MODEL_CALLS", "a cache saves no call: one for each output, the first of them a prefill"
)
def model_calls(d: SavedWork) -> Iterator[Finding]:
    """Outputs do not become parallel."""
    outputs, one = d.ledger.outputs, d.ledger.calls
    yield from differs("/ledger/calls/uncached", outputs, one.uncached)
    yield from differs("/ledger/calls/prefills", 1, one.prefills)
    yield from differs("/ledger/calls/decodes", outputs - 1, one.decodes)


@SAVED_WORK.contract("HISTORICAL_READS", "each decode reads all K/V rows of its past")
def historical_reads(d: SavedWork) -> Iterator[Finding]:
    """What is not executed again is read again: a call reads the rows that it would have repeated."""
    expected = rows_saved(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs("/ledger/cache_work/rows_read", expected, d.ledger.cache_work.rows_read)


@SAVED_WORK.contract("ROWS_WRITTEN", "each row that is executed with a cache is written to it")
def rows_written(d: SavedWork) -> Iterator[Finding]:
    """P + G - 1: the last output has no row."""
    expected = rows_cached(d.ledger.prompt_tokens, d.ledger.outputs)
    yield from differs(
        "/ledger/cache_work/rows_written", expected, d.ledger.cache_work.rows_written
    )


@SAVED_WORK.contract("OPERATIONS", "every part of the work is told once, in order")
def operations(d: SavedWork) -> Iterator[Finding]:
    """None may be left out, least of all the reads that a cache adds."""
    yield from named("/ledger/operations", OPERATIONS, (one.name for one in d.ledger.operations))


@SAVED_WORK.contract(
    "EFFECT", "a cache saves work on old rows, keeps that on the current one, and adds its own"
)
def effect(d: SavedWork) -> Iterator[Finding]:
    """The effect on each part of the work."""
    for n, one in enumerate(d.ledger.operations):
        yield from differs(f"/ledger/operations/{n}/effect", OPERATIONS[one.name], one.effect)


@SAVED_WORK.contract("REUSED_STATE", "what is reused of an old row is its K and V in every layer")
def reused_state(d: SavedWork) -> Iterator[Finding]:
    """No later query needs an old query, score or hidden row."""
    yield from differs("/ledger/reused", REUSED, d.ledger.reused)
