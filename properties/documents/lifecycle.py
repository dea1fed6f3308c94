"""The contracts of lifecycle traces that ask the specification: outcomes, snapshots, receipts, batch rows.

Each operation is taken to the core system in `lifecycle_replay`. Where the specification refuses what a
document takes for accepted, or the other way, the contract is that of the code with which it refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Final

import attrs

from kvspec.properties.documents.lifecycle_replay import Step, replay
from kvspec.spec.documents.contracts import Finding, differs, requires
from kvspec.spec.documents.lifecycle import (
    ACCEPTED,
    Call,
    LifecycleTrace,
    Operation,
    Snapshot,
    fingerprint,
    lifecycle,
    snapshot_digest,
)

REFUSALS: Final = {
    "UNKNOWN_SNAPSHOT": "the snapshot that an operation names was stored before",
    "STALE_BASE": "the snapshot that an operation names is the current one of its request",
    "READ_OF_RELEASED": "a reader finds rows, which a released request has given up",
    "OTHER_OWNER": "the slot has the owner that is observed",
    "POSITION_MISMATCH": "rows begin where the last ones ended, without a hole",
    "INTERVAL_FULL": "no row beyond the interval is staged",
    "K_INCOMPLETE": "an append is prepared when every layer has its K rows",
    "V_INCOMPLETE": "an append is prepared when every layer has its V rows",
    "NOT_PREPARED": "what is published was prepared, and not aborted since",
    "TXN_CLOSED": "what is staged belongs to an append that is open",
    "STALE_SNAPSHOT": "the request has the snapshot on which an append was based",
    "STALE_GENERATION": "the slot was not released since an append began",
    "KEY_CONFLICT": "a repeat has the idempotency key of the published append",
    "BASE_CONFLICT": "a repeat has the base of the published append",
    "INTERVAL_CONFLICT": "a repeat has the interval of the published append",
    "HANDLE_CONFLICT": "a repeat names the handle of the published append",
    "NOT_PUBLISHED": "only a published append has a receipt",
    "NOT_A_PERMUTATION": "a reorder takes each row once",
    "BEYOND_COMMITTED": "a fork has rows that are committed",
    "TRUNCATE_GROWS": "a truncation leaves rows that are committed",
    "NOT_TERMINAL": "a request is released once it has finished or was cancelled",
    "HANDLE_TERMINAL": "a request that ended takes no more work",
}
"""Contracts for refusals, by the code of the specification, and what each asks."""

_MEND: Final = "write the code as the outcome, or change this operation, or those before it"
_OWN: Final = {("truncate", "BEYOND_COMMITTED"): "TRUNCATE_GROWS"}
"""Refusals that have a contract of their own with one operation."""


def steps(t: LifecycleTrace) -> tuple[Step, ...]:
    """What the specification says of each operation."""
    return replay(t.layers, t.calls)


def _contract_of(call: Call, code: str) -> str:
    """The contract that speaks of a refusal."""
    found = _OWN.get((call.operation, code), code)
    return found if found in REFUSALS else "REFUSED"


def _refused_otherwise(t: LifecycleTrace) -> Iterator[tuple[str, Finding]]:
    """Each operation that the specification refuses other than told, with its contract."""
    for n, (each, call, step) in enumerate(zip(t.operations, t.calls, steps(t), strict=True)):
        if step.refusal and each.outcome != step.refusal.code:
            told = f"{step.refusal.code}: {step.refusal.expected}"
            found = f"{each.outcome} ({step.refusal.found})"
            path = f"/operations/{n}/outcome"
            yield _contract_of(call, step.refusal.code), Finding(path, told, found)


def _refused_with(code: str) -> Callable[[LifecycleTrace], Iterator[Finding]]:
    def check(t: LifecycleTrace) -> Iterator[Finding]:
        first = next(_refused_otherwise(t), None)  # what comes after it rests on it
        if first and first[0] == code:
            yield first[1]

    return check


for _code, _meaning in REFUSALS.items():
    lifecycle.contract(_code, _meaning, do=_MEND)(_refused_with(_code))
lifecycle.contract("REFUSED", "the specification accepts what is told as accepted", do=_MEND)(
    _refused_with("REFUSED")
)


@lifecycle.contract("NOT_REFUSED", "the specification refuses what is told as refused")
def refusals_are_those_of_the_specification(t: LifecycleTrace) -> Iterator[Finding]:
    """The specification refuses what is told as refused."""
    for n, (each, step) in enumerate(zip(t.operations, steps(t), strict=True)):
        if step.refusal is None:
            yield from differs(f"/operations/{n}/outcome", ACCEPTED, each.outcome)


def _undigested(snapshots: tuple[Snapshot, ...]) -> list[dict[str, Any]]:
    return [attrs.asdict(one, filter=lambda field, _: field.name != "sha256") for one in snapshots]


@lifecycle.contract(
    "STORED", "the snapshots that are stored are those of the specification", derived=True
)
def stored_snapshots_are_those_of_the_specification(t: LifecycleTrace) -> Iterator[Finding]:
    """The snapshots that are stored are those of the specification."""
    for n, (each, step) in enumerate(zip(t.operations, steps(t), strict=True)):
        expected, found = _undigested(step.stored), _undigested(each.stored)
        path = f"/operations/{n}/stored"
        told, shown = f"{len(expected)} snapshots", f"{len(found)} snapshots"
        yield from requires(told == shown, path, told, shown)
        for k, (one, two) in enumerate(zip(expected, found, strict=False)):
            for name, value in one.items():
                yield from differs(f"{path}/{k}/{name}", value, two[name])


RESULTS: Final = {
    "SEEN": ("seen", "a read finds the rows that the specification shows"),
    "RECEIPT": ("receipt", "a receipt tells the snapshot that the publication made"),
    "BATCH": ("batch", "batch rows move together, as those of the specification"),
}
"""Contracts for what else an operation leaves: the field, and what it asks."""


def _result_is(field: str) -> Callable[[LifecycleTrace], Iterator[Finding]]:
    def check(t: LifecycleTrace) -> Iterator[Finding]:
        for n, (each, step) in enumerate(zip(t.operations, steps(t), strict=True)):
            path = f"/operations/{n}/{field}"
            yield from differs(path, getattr(step, field), getattr(each, field))

    return check


for _code, (_field, _meaning) in RESULTS.items():
    lifecycle.contract(_code, _meaning, derived=True)(_result_is(_field))


@lifecycle.contract(
    "SNAPSHOT_DIGEST", "the digest of a snapshot is that of its other fields", derived=True
)
def digests_are_those_of_the_snapshots(t: LifecycleTrace) -> Iterator[Finding]:
    """The digest of a snapshot is that of its other fields."""
    for n, each in enumerate(t.operations):
        for k, snapshot in enumerate(each.stored):
            path = f"/operations/{n}/stored/{k}/sha256"
            yield from differs(path, snapshot_digest(snapshot), snapshot.sha256)


def fingerprint_of(t: LifecycleTrace, each: Operation, call: Call) -> str | None:
    """The fingerprint of a call that names a stored snapshot as its base; None for any other."""
    if each.operation not in ("begin", "retry"):
        return None
    wanted = call.name("request"), call.number("generation")
    for other in t.operations:
        for base in other.stored:
            if (base.request, base.generation) == wanted:
                return fingerprint(call, base, t.cache_abi_sha256)
    return None


@lifecycle.contract(
    "FINGERPRINT",
    "a fingerprint is that of transaction, key, request, base, ABI and interval",
    derived=True,
)
def fingerprints_are_those_of_the_calls(t: LifecycleTrace) -> Iterator[Finding]:
    """A fingerprint is that of transaction, key, request, base, ABI and interval."""
    for n, (each, call) in enumerate(zip(t.operations, t.calls, strict=True)):
        expected = fingerprint_of(t, each, call)
        yield from differs(f"/operations/{n}/fingerprint", expected, each.fingerprint)


@lifecycle.contract(
    "STAGED_INTERVAL", "what is staged of a layer is exactly the interval of its append"
)
def staged_rows_are_the_interval(t: LifecycleTrace) -> Iterator[Finding]:
    """What is staged of a layer is exactly the interval of its append, also where it comes too late."""
    intervals: dict[str, tuple[int, int]] = {}
    for n, call in enumerate(t.calls):
        if call.operation == "begin":
            first = call.number("start")
            intervals.setdefault(call.name("txn"), (first, first + call.number("count")))
        for part in ("keys", "values") if call.operation == "stage" else ():
            if call.numbers(part):
                path, expected = f"/operations/{n}/arguments/{part}", intervals[call.name("txn")]
                yield from differs(path, expected, call.numbers(part))


@lifecycle.contract(
    "NUMBER", "operations are numbered from 1 to their total, without a gap", derived=True
)
def operations_are_numbered(t: LifecycleTrace) -> Iterator[Finding]:
    """Operations are numbered from 1 to their total, without a gap."""
    for n, each in enumerate(t.operations):
        yield from differs(f"/operations/{n}/number", n + 1, each.number)
    yield from differs("/total", len(t.operations), t.total)
