"""What a ledger of saved work records: counts with and without a cache, and how far output runs ahead.

Modelled: semantic work, counted in token rows (for each layer) and causal pairs (for each layer and query
head) of one request with greedy order of calls; the frontier between output and committed rows through
prefill, decode, stop, repair and a speculative correction. Left out: operations, bytes, time.
"""

from __future__ import annotations

import attrs

from kvspec.spec.documents.service_metrics import Ratio


@attrs.frozen
class Comparison:
    """One count, without and with a cache. saved: the difference. reduction: the ratio, in lowest terms.

    reduction_hundredths: the ratio in hundredths, rounded to the nearest.
    """

    uncached: int
    cached: int
    saved: int
    reduction: Ratio
    reduction_hundredths: int


@attrs.frozen
class FirstPrefill:
    """The call over the prompt, which no cache makes narrower: rows without and with one, and saved."""

    rows_uncached: int
    rows_cached: int
    rows_saved: int


@attrs.frozen
class Calls:
    """Model calls. uncached: one for each output. prefills, decodes: those with a cache."""

    uncached: int
    prefills: int
    decodes: int


@attrs.frozen
class CacheWork:
    """What a cache adds, in K/V rows of one layer. rows_read: of the past. rows_written: new ones."""

    rows_read: int
    rows_written: int


@attrs.frozen
class Operation:
    """A part of the work. effect: what a cache does to it, `saved`, `kept` or `introduced`."""

    name: str
    effect: str


@attrs.frozen
class Work:
    """The ledger of one request. prompt_tokens: P. outputs: G. reused: the state that is kept of a row."""

    prompt_tokens: int
    outputs: int
    rows: Comparison
    pairs: Comparison
    first_prefill: FirstPrefill
    calls: Calls
    cache_work: CacheWork
    operations: tuple[Operation, ...]
    reused: tuple[str, ...]


@attrs.frozen
class ModelCall:
    """A call that appends. call: `prefill`, `decode` or `repair`. position: of its first row.

    inputs: tokens that it processes. logits: `selected` from, or `discarded`. emits: tokens that it returns.
    commits: tokens whose rows it publishes. Then, after it: committed length, logical tokens, and the
    frontier (tokens that are out and have no row).
    """

    call: str
    position: int
    inputs: tuple[str, ...]
    logits: str
    emits: tuple[str, ...]
    commits: tuple[str, ...]
    committed_length: int
    logical_tokens: int
    frontier: tuple[str, ...]


@attrs.frozen
class Stop:
    """Where a request stands that ends with its last selection.

    processed_outputs: outputs that became input. outputs: all. returned: every token of the answer, the
    prompt before it.
    """

    processed_outputs: int
    outputs: int
    committed_length: int
    returned: tuple[str, ...]


@attrs.frozen
class FrontierTrace:
    """A short request, call by call. repair: the call that a reusable cache of all tokens needs more."""

    prompt: tuple[str, ...]
    calls: tuple[ModelCall, ...]
    stop: Stop
    repair: ModelCall


@attrs.frozen
class Draft:
    """A token that was proposed. accepted: by the target's verification."""

    token: str
    accepted: bool


@attrs.frozen
class BranchRow:
    """A row that was computed. token: whose it is said to be. computed_for: the token that was processed.

    call: `verification` or `correction-append`. kept: whether it is committed.
    """

    token: str
    position: int
    computed_for: str
    call: str
    kept: bool


@attrs.frozen
class Speculation:
    """One verification and the correction that it ends with.

    base_committed: length before it. correction: the token that the target puts in the place of the first
    rejected draft. output_progress: tokens that come out. frontier: of them, those without a row then.
    committed_after_verification, committed_after_correction: the latter once the correction was processed.
    """

    base_committed: int
    drafts: tuple[Draft, ...]
    correction: str
    output_progress: int
    rows: tuple[BranchRow, ...]
    committed_after_verification: int
    frontier: tuple[str, ...]
    committed_after_correction: int


@attrs.frozen
class SavedWork:
    """A long request's ledger, a short one's frontier, and a speculative correction."""

    ledger: Work
    trace: FrontierTrace
    speculation: Speculation
