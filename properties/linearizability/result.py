"""Result: a history's verdict with its reasons."""

from __future__ import annotations

import time

import attrs

from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.linearizability.check import HOLDS, UNKNOWN, VIOLATED, Checker, Decision
from kvspec.properties.linearizability.explain import Stuck, stuck_after
from kvspec.properties.linearizability.history import History
from kvspec.properties.linearizability.shrink import Shrinker, Window

EXPLAIN_SECONDS = 10.0


@attrs.frozen(eq=False)
class Result:
    """What is known of a history.

    verdict: "holds", "violated" or "unknown", with its reason. parts: how many parts that share no cell
    were checked apart. order: places of operations: a linearization if it holds, else the longest
    sequence found that one could begin with, of the part that fails. part: the places of that part.
    stuck: what could come next there in time, and why it cannot. window: the least answers that fail,
    None unless violated. configurations: how many were looked at. kept: in memory. bytes: for them.
    """

    history: History
    verdict: str
    reason: str
    parts: int
    order: tuple[int, ...]
    part: tuple[int, ...]
    stuck: tuple[Stuck, ...]
    window: Window | None
    configurations: int
    kept: int
    bytes: int
    seconds: float


def check(
    history: History,
    *,
    seconds: float | None = 60.0,
    max_states: int | None = None,
    max_bytes: int = 1 << 30,
    checker: Checker | None = None,
    explain: bool = True,
) -> Result:
    """Whether a history is linearizable, and if not, why.

    seconds, max_states, max_bytes: limits of the search and of what makes it ready, past which the verdict
    is "unknown"; the explanation of a violation takes at most as much again, and ten seconds. checker:
    one for the same instance, to be used again. explain: tell why not. Raises HistoryError for what is
    no history.
    """
    started = time.perf_counter()
    limits = Limits(seconds=seconds, max_states=max_states, max_bytes=max_bytes).begun()
    checker = checker or Checker(history.instance)
    found = checker.judge(history, limits)
    stuck: tuple[Stuck, ...] = ()
    window: Window | None = None
    order, part = found.order, found.part
    if found.verdict == VIOLATED and explain:
        shorter = EXPLAIN_SECONDS if seconds is None else min(seconds, EXPLAIN_SECONDS)
        window = Shrinker(checker, history, limits.anew(shorter)).window()
        order = _longest(checker, history, found, limits.anew(shorter))
        start = checker.start_of(history)
        stuck = stuck_after(checker.machine, history, start, order, part)
    return Result(
        history,
        found.verdict,
        found.reason,
        found.parts,
        order,
        part,
        stuck,
        window,
        found.nodes,
        found.kept,
        found.bytes,
        time.perf_counter() - started,
    )


def _longest(
    checker: Checker, history: History, found: Decision, limits: Limits
) -> tuple[int, ...]:
    """The longest sequence of the part that fails, searched without ending branches early."""
    part = sorted(found.part)
    alone = attrs.evolve(history, operations=tuple(history.operations[n] for n in part))
    again = checker.judge(alone, limits, prune=False)
    order = tuple(part[n] for n in again.order)
    return order if len(order) >= len(found.order) else found.order


__all__ = ["HOLDS", "UNKNOWN", "VIOLATED", "Checker", "Result", "check"]
