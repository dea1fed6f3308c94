"""The linearizability checker as the judge of small histories, made ready once for each instance."""

from __future__ import annotations

from kvspec.models.explicit.linearizer import Limits
from kvspec.properties.interleaving.judging import VIOLATED, Check, Judgement
from kvspec.properties.interleaving.telling import show_answer, show_call, show_seen
from kvspec.properties.linearizability.check import Checker
from kvspec.properties.linearizability.explain import cell_value, replayed, stuck_after
from kvspec.properties.linearizability.history import History, Read, Seen
from kvspec.spec.language import Instance

SECONDS = 60.0
BYTES = 1 << 30


def linearizability(seconds: float | None = SECONDS, max_bytes: int = BYTES) -> Check:
    """A check that keeps what is compiled for an instance between histories over it.

    seconds, max_bytes: limits of the search in one history, past which the verdict is "unknown".
    """
    limits = Limits(seconds=seconds, max_bytes=max_bytes)
    kept: list[tuple[Instance, Checker]] = []

    def checker_of(instance: Instance) -> Checker:
        for known, checker in kept:
            if known is instance:
                return checker
        kept.append((instance, Checker(instance)))
        return kept[-1][1]

    def check(history: History) -> Judgement:
        checker = checker_of(history.instance)
        decision = checker.judge(history, limits)
        reason = decision.reason
        if decision.verdict == VIOLATED:
            reason = _why(checker, history, decision.order, decision.part)
        return Judgement(decision.verdict, reason)

    return check


def _why(checker: Checker, history: History, order: tuple[int, ...], part: tuple[int, ...]) -> str:
    """The longest sequence that was found, and what the specification answers to each next call."""
    machine, start = checker.machine, checker.start_of(history)
    state = replayed(machine, history, start, order)
    told = []
    for stuck in stuck_after(machine, history, start, order, part):
        operation, expected = history.operations[stuck.place], stuck.instead
        if isinstance(operation.call, Read):
            values = tuple(cell_value(machine, state, cell) for cell in operation.call.cells)
            expected = show_seen(machine, operation.call, Seen(values))
        told.append(
            f"client {operation.client}'s {show_call(machine, operation)} found "
            f"{show_answer(machine, operation)}, expected {expected}"
        )
    taken = "; ".join(show_call(machine, history.operations[place]) for place in order)
    begun = f"after {taken}" if taken else "at the start"
    return f"no order of atomic steps gives these answers; {begun}, {'; and '.join(told)}"
