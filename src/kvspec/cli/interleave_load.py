"""`kvspec interleave load`: random clients on real threads, and whether what was recorded can be."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from kvspec.cli.errors import UsageError
from kvspec.cli.interleave import WHERE, write_history
from kvspec.cli.progress import counting
from kvspec.cli.verdicts import HOLDS, VIOLATED, Answer, Check, worst

if TYPE_CHECKING:
    from kvspec.cli.interleave import Wanted
    from kvspec.properties.linearizability.history import History

LOADS, CLIENTS, CALLS = 10, 4, 30


@attrs.frozen
class Loaded:
    """One load: its seed, its history, how many of its calls overlap another, and the verdict."""

    seed: int
    history: History
    overlapping: int
    verdict: str
    reason: str


def run_loads(wanted: Wanted) -> Answer:
    """Loads with one seed after the other; each history is judged, and the first that fails kept."""
    from kvspec.models.decode.concurrent import ConcurrentBackend
    from kvspec.properties.interleaving.checking import linearizability

    if wanted.save is not None:
        raise UsageError(
            "a load has no order of steps to be saved",
            f"--save {wanted.save}",
            "--history",
            WHERE,
            "write its history instead",
        )
    planted = () if wanted.fault is None else (wanted.fault,)
    backend, check = (
        ConcurrentBackend(wanted.layout or "dynamic", planted, device="cpu"),
        linearizability(),
    )
    many, found = wanted.sample or LOADS, []
    with counting(f"{WHERE} load") as progress:
        for seed in range(wanted.seed, wanted.seed + many):
            found.append(_load(backend, seed, check))
            if progress is not None:
                progress(len(found), many, f"seed {seed}")
    return _told(found, wanted)


def _load(backend: Any, seed: int, check: Any) -> Loaded:
    """Run one load and judge it."""
    from kvspec.models.decode.concurrent_clients import LOAD, run_load
    from kvspec.properties.interleaving import history_of

    load = run_load(backend, clients=CLIENTS, calls=CALLS, seed=seed)
    history, latest, overlapping = history_of(LOAD, load.asked), 0, 0
    for each in load.asked:
        overlapping += each.invoked < latest
        latest = max(latest, each.returned or each.invoked)
    if load.errors:
        number, error = load.errors[0]
        reason = f"client {number} got no answer: found {type(error).__name__} ({error})"
        return Loaded(seed, history, overlapping, VIOLATED, reason)
    judged = check(history)
    return Loaded(seed, history, overlapping, judged.verdict, judged.reason)


def _told(found: list[Loaded], wanted: Wanted) -> Answer:
    """All loads, for machines and for people."""
    verdict = worst(each.verdict for each in found)
    shown = next((each for each in found if each.verdict != HOLDS), found[-1])
    calls = sum(len(each.history.operations) for each in found)
    overlapping = sum(each.overlapping for each in found)
    cache = "a sound cache" if wanted.fault is None else f"a cache with {wanted.fault}"
    passed = sum(each.verdict == HOLDS for each in found)
    head = f"{len(found)} loads of {CLIENTS} clients on real threads: {calls:,} calls"
    parts = [f"{head}, of which {overlapping:,} began before an earlier one had ended"]
    if shown.reason:
        parts.append(f"seed {shown.seed}: {shown.reason}")
    if wanted.history is not None:
        about = f"{WHERE} load, seed {shown.seed}, {cache}"
        known: Any = shown.verdict
        parts.append(write_history(shown.history, wanted.history, known, about))
    parts.append(
        f"{verdict}: {cache}, {passed} of {len(found)} recorded histories are linearizable"
    )
    data = {
        "verdict": verdict,
        "fault": wanted.fault,
        "layout": wanted.layout,
        "loads": [
            {
                "seed": each.seed,
                "calls": len(each.history.operations),
                "overlapping": each.overlapping,
                "verdict": each.verdict,
                "reason": each.reason,
            }
            for each in found
        ],
    }
    checks = tuple(
        Check("interleave load", f"seed {each.seed}", each.verdict, message=each.reason)
        for each in found
    )
    return Answer("interleave", verdict, data, "\n\n".join(parts), checks)
