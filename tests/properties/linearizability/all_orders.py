"""A reference for the checker: every order is tried in plain Python; and random histories."""

from itertools import product
from random import Random

import attrs

from kvspec.models.concrete import Event, Machine, State
from kvspec.models.concrete.state import Value, indices, position
from kvspec.properties.linearizability import Cell, History, Operation, Read, Seen, Told
from kvspec.properties.linearizability.generate import falsify
from kvspec.spec.core import make_instance
from kvspec.spec.language import Instance

INSTANCE = make_instance(
    "REFERENCE",
    "two of everything",
    handles=2,
    txns=2,
    layers=1,
    blocks=2,
    rows=1,
    longest=2,
    versions=7,
    generations=7,
)


def value_at(machine: Machine, state: State, cell: Cell) -> Value:
    """What a state has in a cell."""
    variable = machine.system.variables[cell.variable]
    index = list(indices(variable, machine.instance))
    numbers = product(*(range(machine.instance.members(kind)) for kind in variable.domain))
    by_number = dict(zip(numbers, index, strict=True))
    place = position(variable, by_number[cell.index], machine.instance)
    return state.tables[list(machine.system.variables).index(cell.variable)][place]


def took(machine: Machine, state: State, operation: Operation) -> State | None:
    """The state after an operation that is answered as it was; None if it would not be."""
    call, answer = operation.call, operation.answer
    if isinstance(call, Read):
        seen = tuple(value_at(machine, state, cell) for cell in call.cells)
        return state if answer is None or answer == Seen(seen) else None
    outcome = machine.step(state, call)
    if outcome.kind == "cut":
        return None
    told = Told(outcome.kind == "accepted", outcome.code)
    is_some = isinstance(answer, Told) and not answer.accepted and answer.code is None
    fits = answer is None or answer == told or (is_some and not told.accepted)
    return outcome.state if fits else None


def is_linearizable(machine: Machine, history: History) -> bool:
    """Whether some order of the operations explains every answer: all orders are tried."""
    operations = history.operations
    start = history.start or machine.initial_states()[0]

    def explains(state: State, left: frozenset[int]) -> bool:
        if all(operations[place].returned is None for place in left):
            return True
        for place in left:
            mine = operations[place]
            if any(precedes(operations, other, place) for other in left):
                continue
            after = took(machine, state, mine)
            if after is not None and explains(after, left - {place}):
                return True
        return False

    return explains(start, frozenset(range(len(operations))))


def precedes(operations: tuple[Operation, ...], one: int, two: int) -> bool:
    """One was answered before two was asked, or is an earlier one of the same client."""
    first, second = operations[one], operations[two]
    if first.client == second.client:
        return one < two
    return first.returned is not None and first.returned < second.invoked


class RandomHistories:
    """Histories of any events of an instance, from a state that some steps reach."""

    def __init__(self, seed: int, instance: Instance = INSTANCE) -> None:
        self.random = Random(seed)
        self.machine = Machine(instance)
        self.cells = [
            Cell(variable.name, numbers)
            for variable in instance.system.variables.values()
            for numbers in product(*(range(instance.members(kind)) for kind in variable.domain))
        ]
        self.cells = [c for c in self.cells if not c.variable.startswith(("ack", "row_"))]

    def history(self, clients: int, operations: int) -> History:
        """A history: linearizable as it is made, and half of the time then falsified."""
        machine, random = self.machine, self.random
        (state,) = machine.initial_states()
        for _ in range(random.choice((0, 2, 6, 12))):
            state = self._stepped(state, self._event(state))
        start, now = state, 0
        asked: dict[int, Operation] = {}
        done: list[Operation] = []
        gone: set[int] = set()
        while len(done) + len(asked) < operations or asked:
            idle = [c for c in range(clients) if c not in asked and c not in gone]
            can_ask = len(done) + len(asked) < operations and idle
            if not asked and not can_ask:
                break
            now += random.choice((0, 1, 1))
            if can_ask and (not asked or random.random() < 0.5):
                client = random.choice(idle)
                asked[client] = Operation(client, self._call(state), None, now, None)
                continue
            client = random.choice(list(asked))
            mine = asked[client]
            if mine.answer is None:
                asked[client], state = self._answered(mine, state)
            else:
                done.append(attrs.evolve(asked.pop(client), returned=now + 1))
                now += 1
            if client in asked and random.random() < 0.08:
                done.append(attrs.evolve(asked.pop(client), answer=None))
                gone.add(client)
        done.sort(key=lambda operation: operation.invoked)
        history = History(machine.instance, tuple(done), start)
        answered = [n for n, o in enumerate(done) if o.answer is not None]
        if answered and random.random() < 0.5:
            history = falsify(history, random.choice(answered), random)
        if answered and random.random() < 0.4:
            history = self._forgetful(history, set(random.sample(answered, len(answered) // 2)))
        return history

    @staticmethod
    def _forgetful(history: History, places: set[int]) -> History:
        """The history with these answers forgotten, though they came."""
        operations = [
            attrs.evolve(operation, answer=None) if place in places else operation
            for place, operation in enumerate(history.operations)
        ]
        return attrs.evolve(history, operations=tuple(operations))

    def _call(self, state: State) -> Event | Read:
        if self.random.random() < 0.35:
            return Read(tuple(self.random.sample(self.cells, self.random.choice((1, 1, 2)))))
        return self._event(state)

    def _event(self, state: State) -> Event:
        machine = self.machine
        if self.random.random() < 0.2:
            return self.random.choice(machine.events())
        name = self.random.choice(list(machine.system.actions))
        events = list(machine.events_of(machine.system.action(name)))
        events = self.random.sample(events, min(12, len(events)))
        accepted = [e for e in events if machine.step(state, e).kind == "accepted"]
        return self.random.choice(accepted or events or machine.events())

    def _stepped(self, state: State, event: Event) -> State:
        outcome = self.machine.step(state, event)
        return state if outcome.kind == "cut" else outcome.state

    def _answered(self, mine: Operation, state: State) -> tuple[Operation, State]:
        call = mine.call
        if isinstance(call, Read):
            seen = tuple(value_at(self.machine, state, cell) for cell in call.cells)
            return attrs.evolve(mine, answer=Seen(seen)), state
        outcome = self.machine.step(state, call)
        if outcome.kind == "cut":
            call = Event("prepare", (("x", 0),))
            mine, outcome = attrs.evolve(mine, call=call), self.machine.step(state, call)
        told = Told(outcome.kind == "accepted", outcome.code)
        return attrs.evolve(mine, answer=told), outcome.state
