"""Generated histories: clients of the specification itself, and one answer of them falsified.

Modelled: a client asks, the step is taken at a moment between, the client is answered; clients take
turns at random. Such a history is linearizable as it is made. Each client has an append of its own and a
handle; most of what it asks would be accepted when it asks, some not, and some of it are reads.
Left out: operations of more than one handle (forks, reorders).
"""

from __future__ import annotations

from random import Random

import attrs

from kvspec.models.concrete.compiled import CUT, Cells, Compiled
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value, values_of
from kvspec.properties.linearizability.history import Cell, History, Operation, Read, Seen, Told
from kvspec.spec import core
from kvspec.spec.language import Instance

READS = 0.4
"""The share of reads among operations."""

SENSIBLE = 0.85
"""The share of events that would be accepted when they are asked for, if there is one."""


@attrs.frozen
class Shape:
    """How large a history is: clients, operations of each, handles that they share."""

    clients: int
    operations: int
    handles: int = 1

    def __str__(self) -> str:
        over = "" if self.handles == 1 else f" over {self.handles} handles"
        return f"{self.clients} x {self.operations}{over}"


def instance_for(shape: Shape) -> Instance:
    """An instance of the core with room for such a history: an append a client, a block a handle."""
    return core.make_instance(
        f"HISTORY_{shape.clients}_{shape.operations}_{shape.handles}",
        f"histories of {shape}",
        handles=shape.handles,
        txns=shape.clients,
        layers=2,
        blocks=shape.handles,
        longest=6,
        versions=min(1_000, shape.clients * shape.operations),
        generations=1,
    )


class Generator:
    """Histories of one shape. The start has every handle given to a request."""

    def __init__(self, shape: Shape, seed: int = 0, instance: Instance | None = None) -> None:
        self.shape = shape
        self.instance = instance or instance_for(shape)
        self.random = Random(seed)
        self.compiled = Compiled(self.instance)
        self._reads: dict[int, tuple[Read, ...]] = {}
        cells = self.compiled.initial()
        for handle in range(shape.handles):
            self.compiled.steps["allocate"](cells, handle, handle, 0)
        self.start: State = self.compiled.restore(cells)

    def history(self) -> History:
        """A history that is linearizable."""
        cells = self.compiled.flatten(self.start)
        left = [self.shape.operations] * self.shape.clients
        asked: dict[int, Operation] = {}
        done: list[Operation] = []
        now = 0
        while any(left) or asked:
            client = self.random.choice([c for c, n in enumerate(left) if n or c in asked])
            now += 1
            if client not in asked:
                call = self._call(client, cells)
                asked[client] = Operation(client, call, None, now, None)
            elif asked[client].answer is None:
                taken = self._take(asked[client], cells)
                if taken is None:  # beyond the bounds of the instance: ask for something else
                    del asked[client]
                    continue
                asked[client] = taken
            else:
                done.append(attrs.evolve(asked.pop(client), returned=now))
                left[client] -= 1
        done.sort(key=lambda operation: operation.invoked)
        return History(self.instance, tuple(done), self.start)

    def corrupted(self) -> History:
        """A linearizable history in which one value that a read gave is another."""
        history = self.history()
        reads = [n for n, o in enumerate(history.operations) if isinstance(o.answer, Seen)]
        place = self.random.choice(reads) if reads else 0
        return falsify(history, place, self.random)

    def _take(self, operation: Operation, cells: Cells) -> Operation | None:
        call = operation.call
        if isinstance(call, Read):
            return attrs.evolve(
                operation, answer=Seen(tuple(self._at(cells, c) for c in call.cells))
            )
        code = self.compiled.steps[call.action](cells, *(value for _, value in call.values))
        if code == CUT:
            return None
        return attrs.evolve(operation, answer=Told(code is None, code))

    def _at(self, cells: Cells, cell: Cell) -> Value:
        variable = self.instance.system.variables[cell.variable]
        value: Value = cells[self.compiled.layout.place(variable, *cell.index)]
        return value

    def _call(self, client: int, cells: Cells) -> Event | Read:
        handle = client % self.shape.handles
        if self.random.random() < READS:
            return self._read(handle)
        events = self._events(client, handle, cells)
        accepted = [event for event in events if self._is_accepted(event, cells)]
        if accepted and self.random.random() < SENSIBLE:
            return self.random.choice(accepted)
        return self.random.choice(events)

    def _read(self, handle: int) -> Read:
        if handle not in self._reads:
            self._reads[handle] = self._reads_of(handle)
        return self.random.choice(self._reads[handle])

    def _reads_of(self, handle: int) -> tuple[Read, ...]:
        last = self.instance.sizes["Layer"] - 1
        whole = (
            Cell("version", (handle,)),
            Cell("length", (handle,)),
            Cell("k_rows", (handle, 0)),
            Cell("v_rows", (handle, last)),
        )
        return Read(whole), Read(whole[:1]), Read(whole[1:2]), Read(whole[2:])

    def _events(self, client: int, handle: int, cells: Cells) -> list[Event]:
        length = int(self._at(cells, Cell("length", (handle,))) or 0)
        x = ("x", client)
        found = [
            Event("begin", (x, ("h", handle), ("k", 0), ("a", 0), ("p", length), ("n", 1))),
            Event("prepare", (x,)),
            Event("publish", (x,)),
            Event("forget", (x,)),
            Event("truncate", (("h", handle), ("n", max(0, length - 1)))),
        ]
        for layer in range(self.instance.sizes["Layer"]):
            for name, table in (("stage_k", "k_end"), ("stage_v", "v_end")):
                end = self._at(cells, Cell(table, (client, layer)))
                found.append(Event(name, (x, ("l", layer), ("p", int(end or 0)))))
        if self.random.random() < 0.1:
            found.append(Event("cancel_txn", (x,)))
        return found

    def _is_accepted(self, event: Event, cells: Cells) -> bool:
        values = [value for _, value in event.values]
        return self.compiled.steps[event.action](list(cells), *values) is None


def falsify(history: History, place: int, random: Random) -> History:
    """The history with another answer at a place: one value of a read, or accepted for refused."""
    operation = history.operations[place]
    answer = operation.answer
    if isinstance(answer, Seen) and isinstance(operation.call, Read):
        which = random.randrange(len(answer.values))
        cell = operation.call.cells[which]
        kind = history.instance.system.variables[cell.variable].type
        others = [v for v in values_of(kind, history.instance) if v != answer.values[which]]
        values = list(answer.values)
        values[which] = random.choice(others[:8] if others else values)
        answer = Seen(tuple(values))
    elif isinstance(answer, Told) and isinstance(operation.call, Event):
        action = history.instance.system.action(operation.call.action)
        codes = [guard.code.name for guard in action.guards if guard.code.name != answer.code]
        told = [Told(accepted=False, code=code) for code in codes]
        answer = random.choice(told if answer.accepted else [*told, Told(accepted=True)])
    operations = list(history.operations)
    operations[place] = attrs.evolve(operation, answer=answer)
    return attrs.evolve(history, operations=tuple(operations))
