"""The linearizability checker as the judge of small histories, made ready once for each instance."""

from __future__ import annotations

from kvspec.models.concrete.state import State
from kvspec.properties.interleaving.judging import VIOLATED, Check, Judgement
from kvspec.properties.interleaving.telling import show_answer, show_call, show_seen
from kvspec.properties.linearizability.check import Checker
from kvspec.properties.linearizability.history import History, Operation, Read, Seen
from kvspec.spec.language import Instance


def linearizability() -> Check:
    """A check that keeps what is compiled for an instance between histories over it."""
    kept: list[tuple[Instance, Checker]] = []

    def checker_of(instance: Instance) -> Checker:
        for known, checker in kept:
            if known is instance:
                return checker
        kept.append((instance, Checker(instance)))
        return kept[-1][1]

    def check(history: History) -> Judgement:
        checker = checker_of(history.instance)
        decision = checker.decide(checker.pack(history))
        reason = decision.reason
        if decision.verdict == VIOLATED:
            reason = _why(checker, history, decision.order, decision.part)
        return Judgement(decision.verdict, reason)

    return check


def _why(checker: Checker, history: History, order: tuple[int, ...], part: tuple[int, ...]) -> str:
    """The longest sequence that was found, and what the specification answers to each next call."""
    machine, state = checker.machine, checker.start_of(history)
    for place in order:
        state = _after(checker, state, history.operations[place])
    taken = "; ".join(show_call(machine, history.operations[place]) for place in order)
    left = [history.operations[place] for place in part if place not in order]
    told = []
    for operation in left:
        if any(o.returned is not None and o.returned < operation.invoked for o in left):
            continue
        if isinstance(operation.call, Read):
            found = tuple(machine.value(state, c.variable, *c.index) for c in operation.call.cells)
            expected = show_seen(machine, operation.call, Seen(found))
        else:
            outcome = machine.step(state, operation.call)
            expected = "accepted" if outcome.code is None else f"refused: {outcome.code}"
        told.append(
            f"client {operation.client}'s {show_call(machine, operation)} found "
            f"{show_answer(machine, operation)}, expected {expected}"
        )
    begun = f"after {taken}" if taken else "at the start"
    return f"no order of atomic steps gives these answers; {begun}, {'; and '.join(told)}"


def _after(checker: Checker, state: State, operation: Operation) -> State:
    """The state after an operation that may come next."""
    if isinstance(operation.call, Read):
        return state
    return checker.machine.step(state, operation.call).state
