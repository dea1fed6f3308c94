"""What came of an attempt, in four words: the outcome of each refusal, in one table.

An attempt ends as `success`, `failure`, `conflict` or `cancelled`. Modelled: every code with which the
specification refuses is a failure (the call makes no sense, or its rows are not complete) or a
conflict (the call made sense for a state that another call has changed, or it asks for what another
holds). `cancelled` is never the outcome of a refusal: cancel_txn and cancel_request give it to the
appends that they end. Left out: the code itself; the audit log has it, and a metric needs no more series.
"""

from __future__ import annotations

from typing import Final

from kvspec.spec.documents.event import OUTCOMES
from kvspec.spec.failures import CODES

SUCCESS, FAILURE, CONFLICT, CANCELLED = OUTCOMES

OUTCOME_OF_CODE: Final[dict[str, str]] = {
    "HANDLE_LIVE": CONFLICT,
    "HANDLE_TERMINAL": CONFLICT,
    "NOT_TERMINAL": FAILURE,
    "TXN_IN_USE": CONFLICT,
    "TXN_CLOSED": CONFLICT,
    "TXN_LIVE": FAILURE,
    "NOT_PREPARED": FAILURE,
    "NOT_PUBLISHED": FAILURE,
    "HANDLE_CONFLICT": CONFLICT,
    "KEY_CONFLICT": CONFLICT,
    "BASE_CONFLICT": CONFLICT,
    "INTERVAL_CONFLICT": CONFLICT,
    "NO_CHILD": FAILURE,
    "ROW_TAKEN": CONFLICT,
    "NOT_IN_BATCH": FAILURE,
    "IN_BATCH": CONFLICT,
    "NOT_A_PERMUTATION": FAILURE,
    "BLOCK_EMPTY": FAILURE,
    "ABI_MISMATCH": FAILURE,
    "POSITION_MISMATCH": FAILURE,
    "EMPTY_APPEND": FAILURE,
    "INTERVAL_FULL": FAILURE,
    "BEYOND_COMMITTED": FAILURE,
    "CANNOT_REWIND": FAILURE,
    "K_INCOMPLETE": FAILURE,
    "V_INCOMPLETE": FAILURE,
    "STALE_GENERATION": CONFLICT,
    "STALE_SNAPSHOT": CONFLICT,
    "CONTEXT_FULL": FAILURE,
    "EMPTY_PROMPT": FAILURE,
    "PROMPT_TOO_LONG": FAILURE,
    "TOO_MANY_DRAFTS": FAILURE,
    "UNKNOWN_TOKEN": FAILURE,
    "NO_DRAFT": FAILURE,
    "UNVERIFIED_DRAFT": FAILURE,
    "STALE_FRONTIER": CONFLICT,
    "OUTPUT_STOPPED": FAILURE,
    "NO_LOGITS": FAILURE,
    "BLOCK_IN_USE": CONFLICT,
    "CHILD_IN_USE": CONFLICT,
    "STILL_OWNED": CONFLICT,
    "ROW_HOLDS_HANDLE": CONFLICT,
}
"""The outcome of an attempt that was refused with a code of the specification."""


class OutcomeTableError(Exception):
    """The table of outcomes and the codes of the specification are not the same."""


def outcome_of(code: str) -> str:
    """The outcome of an attempt that was refused with this code.

    A code that is not the specification's, such as that of a layout below a faulty backend, is a failure.
    """
    return OUTCOME_OF_CODE.get(code, FAILURE)


def check_total(table: dict[str, str] | None = None) -> None:
    """Refuse a table that leaves out a code of the specification, has another, or another outcome.

    Raises:
        OutcomeTableError: naming each.
    """
    held = OUTCOME_OF_CODE if table is None else table
    missing = sorted(CODES.keys() - held.keys())
    strange = sorted(held.keys() - CODES.keys())
    odd = sorted(f"{code} -> {said}" for code, said in held.items() if said not in OUTCOMES)
    if missing or strange or odd:
        raise OutcomeTableError(
            f"the table of outcomes lacks {missing}, has the unknown codes {strange} and the unknown "
            f"outcomes {odd}; expected each code of kvspec.spec.failures once, with one of "
            f"{', '.join(OUTCOMES)}: add or correct its line"
        )
