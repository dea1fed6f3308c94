"""A check of small histories that tries every order of their operations, as a second opinion."""

from kvspec.models.concrete.machine import Machine
from kvspec.properties.linearizability.history import History, Operation, Read, Seen, Told


def is_linearizable(history: History) -> bool:
    """Some order of the operations, and of some that had no answer, is one of atomic steps."""
    machine = Machine(history.instance)
    start = history.start if history.start is not None else machine.initial_states()[0]

    def extends(state, left):
        if not any(operation.returned is not None for operation in left):
            return True
        for operation in left:
            if any(
                other.returned is not None and other.returned < operation.invoked for other in left
            ):
                continue
            after = step(machine, state, operation)
            if after is not None and extends(after, left - {operation}):
                return True
        return False

    return extends(start, frozenset(history.operations))


def step(machine, state, operation: Operation):
    """The state after an operation that is answered as recorded, or None."""
    if isinstance(operation.call, Read):
        seen = tuple(
            machine.value(state, cell.variable, *cell.index) for cell in operation.call.cells
        )
        return state if operation.answer in (None, Seen(seen)) else None
    outcome = machine.step(state, operation.call)
    told = Told(outcome.kind == "accepted", outcome.code)
    return outcome.state if operation.answer in (None, told) else None
