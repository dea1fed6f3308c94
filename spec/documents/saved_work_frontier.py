"""The frontier in a ledger of saved work: output may be ahead of committed rows, never the other way.

Adds to the contracts of `saved_work_counts`: the trace of a short request, its stop, the repair that closes
the gap, and a speculative correction. A row is that of the token that was processed to make it, whatever
it is called afterwards.
"""

from __future__ import annotations

from collections.abc import Iterator

from kvspec.spec.documents.contracts import Finding, differs, requires
from kvspec.spec.documents.saved_work_counts import SAVED_WORK
from kvspec.spec.documents.saved_work_record import FrontierTrace, ModelCall, SavedWork, Speculation
from kvspec.spec.formulas import (
    committed_tokens,
    frontier,
    logical_tokens,
    repaired_committed,
    stop_committed,
    stop_output,
)


def _calls(trace: FrontierTrace) -> Iterator[tuple[str, ModelCall]]:
    for n, one in enumerate(trace.calls):
        yield f"/trace/calls/{n}", one


def emitted(trace: FrontierTrace) -> tuple[str, ...]:
    """All tokens that the calls return, in order."""
    return tuple(token for one in trace.calls for token in one.emits)


@SAVED_WORK.contract(
    "TRACE_CALLS", "a prefill comes first, decodes follow, and each selects from its logits"
)
def trace_calls(d: SavedWork) -> Iterator[Finding]:
    """The ordinary loop."""
    yield from requires(d.trace.prompt, "/trace/prompt", "at least one token", d.trace.prompt)
    yield from requires(d.trace.calls, "/trace/calls", "at least one call", d.trace.calls)
    for n, (path, one) in enumerate(_calls(d.trace)):
        yield from differs(f"{path}/call", "decode" if n else "prefill", one.call)
        yield from differs(f"{path}/logits", "selected", one.logits)


@SAVED_WORK.contract("TRACE_EMITS", "each call returns one token that was not there before")
def trace_emits(d: SavedWork) -> Iterator[Finding]:
    """One decision a call; tokens of a trace have names of their own."""
    known = list(d.trace.prompt)
    for path, one in _calls(d.trace):
        yield from requires(len(one.emits) == 1, f"{path}/emits", "one token", one.emits)
        for token in one.emits:
            good = token and token not in known
            yield from requires(good, f"{path}/emits", "a token with a name of its own", token)
        known.extend(one.emits)


@SAVED_WORK.contract(
    "TRACE_INPUT", "a call processes the prompt, and later the frontier, at the next position"
)
def trace_input(d: SavedWork) -> Iterator[Finding]:
    """The output of a call is the input of the next one."""
    inputs, length = d.trace.prompt, 0
    for path, one in _calls(d.trace):
        yield from differs(f"{path}/inputs", inputs, one.inputs)
        yield from differs(f"{path}/position", length, one.position)
        inputs, length = one.emits, length + len(inputs)


@SAVED_WORK.contract(
    "TRACE_COMMITS", "a call commits the rows of its inputs, not of what it returns"
)
def trace_commits(d: SavedWork) -> Iterator[Finding]:
    """A row is made by processing its token."""
    for path, one in _calls(d.trace):
        yield from differs(f"{path}/commits", one.inputs, one.commits)


@SAVED_WORK.contract(
    "TRACE_LENGTHS",
    "logical tokens are P + E, committed ones P + E processed, the rest the frontier",
)
def trace_lengths(d: SavedWork) -> Iterator[Finding]:
    """After call n: E = n + 1, of which n are processed."""
    prompt = len(d.trace.prompt)
    for n, (path, one) in enumerate(_calls(d.trace)):
        yield from differs(
            f"{path}/committed_length", committed_tokens(prompt, n), one.committed_length
        )
        yield from differs(
            f"{path}/logical_tokens", logical_tokens(prompt, n + 1), one.logical_tokens
        )
        ahead = emitted(d.trace)[n : n + frontier(n + 1, n)]
        yield from differs(f"{path}/frontier", ahead, one.frontier)


@SAVED_WORK.contract(
    "STOP_OUTPUT", "a request that stops returns the outputs that became input, and the last"
)
def stopped_output(d: SavedWork) -> Iterator[Finding]:
    """O = G_in + 1."""
    one, made = d.trace.stop, emitted(d.trace)
    processed = len(d.trace.calls) - 1
    yield from differs("/trace/stop/processed_outputs", processed, one.processed_outputs)
    yield from differs("/trace/stop/outputs", stop_output(processed), one.outputs)
    yield from differs("/trace/stop/returned", (*d.trace.prompt, *made), one.returned)


@SAVED_WORK.contract("STOP_COMMITTED", "at a stop the last output has no row")
def stopped_committed(d: SavedWork) -> Iterator[Finding]:
    """K = S + G_in."""
    one = d.trace.stop
    expected = stop_committed(len(d.trace.prompt), one.processed_outputs)
    yield from differs("/trace/stop/committed_length", expected, one.committed_length)


@SAVED_WORK.contract("REPAIR_INPUT", "a repair processes the frontier at the next position")
def repair_input(d: SavedWork) -> Iterator[Finding]:
    """A model call like any other, over the last output."""
    one, last = d.trace.repair, d.trace.calls[-1]
    yield from differs("/trace/repair/call", "repair", one.call)
    yield from differs("/trace/repair/inputs", last.frontier, one.inputs)
    yield from differs("/trace/repair/position", last.committed_length, one.position)


@SAVED_WORK.contract("REPAIR_EMITS", "a repair returns no further token")
def repair_emits(d: SavedWork) -> Iterator[Finding]:
    """The request has had its last output."""
    yield from differs("/trace/repair/emits", (), d.trace.repair.emits)
    expected = d.trace.calls[-1].logical_tokens
    yield from differs("/trace/repair/logical_tokens", expected, d.trace.repair.logical_tokens)


@SAVED_WORK.contract("REPAIR_LOGITS", "the logits of a repair are discarded")
def repair_logits(d: SavedWork) -> Iterator[Finding]:
    """They are computed, and nothing is selected from them."""
    yield from differs("/trace/repair/logits", "discarded", d.trace.repair.logits)


@SAVED_WORK.contract(
    "REPAIR_COMMITS", "a repair commits the row of the last output, and no token is ahead then"
)
def repair_commits(d: SavedWork) -> Iterator[Finding]:
    """K = S + G_in + 1."""
    one = d.trace.repair
    yield from differs("/trace/repair/commits", one.inputs, one.commits)
    expected = repaired_committed(len(d.trace.prompt), d.trace.stop.processed_outputs)
    yield from differs("/trace/repair/committed_length", expected, one.committed_length)
    yield from differs("/trace/repair/frontier", (), one.frontier)


def _accepted(s: Speculation) -> int:
    return sum(draft.accepted for draft in s.drafts)


@SAVED_WORK.contract(
    "DRAFTS", "drafts are accepted up to the first that is rejected, which the correction replaces"
)
def drafts(d: SavedWork) -> Iterator[Finding]:
    """Nothing after a rejected draft is accepted, and names tell all tokens apart."""
    s = d.speculation
    taken = [draft.accepted for draft in s.drafts]
    told = "accepted drafts before rejected ones, at least one of which is rejected"
    good = taken == sorted(taken, reverse=True) and False in taken
    yield from requires(good, "/speculation/drafts", told, taken)
    names = [*(draft.token for draft in s.drafts), s.correction]
    distinct = len(set(names)) == len(names) and "" not in names
    yield from requires(distinct, "/speculation/drafts", "tokens with names of their own", names)
    good = s.base_committed >= 0
    yield from requires(good, "/speculation/base_committed", "at least 0", s.base_committed)


@SAVED_WORK.contract(
    "OUTPUT_PROGRESS", "the accepted drafts and the correction come out, the latter without a row"
)
def output_progress(d: SavedWork) -> Iterator[Finding]:
    """One token more than drafts were accepted."""
    s = d.speculation
    yield from differs("/speculation/output_progress", _accepted(s) + 1, s.output_progress)
    yield from differs("/speculation/frontier", (s.correction,), s.frontier)


@SAVED_WORK.contract(
    "BRANCH_ROWS", "there is one row for each draft and one for the correction, at its position"
)
def branch_rows(d: SavedWork) -> Iterator[Finding]:
    """The correction stands where the first rejected draft stood."""
    s = d.speculation
    names = (*(draft.token for draft in s.drafts), s.correction)
    yield from differs("/speculation/rows", names, tuple(row.token for row in s.rows))
    places = (*range(len(s.drafts)), _accepted(s))
    for n, (place, row) in enumerate(zip(places, s.rows, strict=False)):
        yield from differs(
            f"/speculation/rows/{n}/position", s.base_committed + place, row.position
        )


@SAVED_WORK.contract("ROW_TOKEN", "a row is that of the token that was processed to make it")
def row_token(d: SavedWork) -> Iterator[Finding]:
    """A rejected draft's row does not become the correction's by another name."""
    for n, row in enumerate(d.speculation.rows):
        yield from differs(f"/speculation/rows/{n}/computed_for", row.token, row.computed_for)


@SAVED_WORK.contract(
    "ROW_CALL", "verification makes the drafts' rows, the correction's own append makes its row"
)
def row_call(d: SavedWork) -> Iterator[Finding]:
    """The correction was selected from the verification's logits; it was no input of it."""
    for n, row in enumerate(d.speculation.rows):
        own = row.token == d.speculation.correction
        expected = "correction-append" if own else "verification"
        yield from differs(f"/speculation/rows/{n}/call", expected, row.call)


@SAVED_WORK.contract(
    "ROW_KEPT", "rows of accepted drafts and of the correction are kept, those of rejected ones not"
)
def row_kept(d: SavedWork) -> Iterator[Finding]:
    """No row of a rejected branch enters the committed prefix."""
    kept = (*(draft.accepted for draft in d.speculation.drafts), True)
    for n, (expected, row) in enumerate(zip(kept, d.speculation.rows, strict=True)):
        yield from differs(f"/speculation/rows/{n}/kept", expected, row.kept)


@SAVED_WORK.contract(
    "VERIFIED_COMMITTED", "after verification the accepted drafts are committed, not the correction"
)
def verified_committed(d: SavedWork) -> Iterator[Finding]:
    """Base plus accepted drafts."""
    s = d.speculation
    expected = committed_tokens(s.base_committed, _accepted(s))
    path = "/speculation/committed_after_verification"
    yield from differs(path, expected, s.committed_after_verification)


@SAVED_WORK.contract("CORRECTED_COMMITTED", "the correction's own append commits one row more")
def corrected_committed(d: SavedWork) -> Iterator[Finding]:
    """Base plus accepted drafts plus the correction."""
    s = d.speculation
    expected = committed_tokens(s.base_committed, _accepted(s) + 1)
    path = "/speculation/committed_after_correction"
    yield from differs(path, expected, s.committed_after_correction)
