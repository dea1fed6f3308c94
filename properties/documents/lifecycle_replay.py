"""A lifecycle trace taken to the specification: what it says of every operation, and what it then shows.

An operation is one or several steps of the core system on an instance made for the trace. Names are
resolved here: a request is a slot together with the releases of the slot when it was made, a snapshot is a
request with a number, and an operation on a slot that another request has by now is refused as stale.
Reading and observing change nothing and are formulas. What an operation names as its base must be current.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import attrs

from kvspec.models.concrete import Event, Machine, Refusal
from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.state import Value
from kvspec.properties.documents.facts import count, fact
from kvspec.spec import core
from kvspec.spec.documents.lifecycle import BatchRow, Call, Seen, Snapshot
from kvspec.spec.handles import is_held
from kvspec.spec.language import Instance
from kvspec.spec.numbering import serial_of

SNAPSHOTS: Final = (
    "allocate",
    "publish",
    "fork",
    "truncate",
    "cancel_request",
    "finish",
    "release",
)
"""Operations that store a snapshot of each request that they touch."""

MOVES_ROWS: Final = ("enter", "reorder", "truncate")


@attrs.frozen
class Step:
    """What the specification says of one operation. Snapshots have no digest here."""

    refusal: Refusal | None = None
    stored: tuple[Snapshot, ...] = ()
    seen: Seen | None = None
    receipt: int | None = None
    batch: tuple[BatchRow, ...] | None = None


@attrs.frozen
class Request:
    """A request. handle: the slot that it has, as an index. parent: the request that it was forked from."""

    name: str
    handle: int
    parent: str | None


class Replay:
    """The state of an instance, and the names of a trace for its members."""

    def __init__(self, layers: int, calls: tuple[Call, ...]) -> None:
        self.slots = _distinct(_slots(calls))
        self.txns = _distinct(_named(calls, "txn"))
        self.keys = _distinct(_named(calls, "key"))
        self.layers = range(layers)
        self.rows = range(sum(call.operation == "enter" for call in calls))
        self.machine = Machine(self._instance(layers, calls))
        (self.state,) = self.machine.initial_states()
        self.requests: dict[str, Request] = {}
        self.owners: dict[tuple[int, int], str] = {}
        self.versions: dict[tuple[str, int], int] = {}
        self.last: dict[str, int] = {}
        self.blocks = 0

    def _instance(self, layers: int, calls: tuple[Call, ...]) -> Instance:
        def times(*operations: str) -> int:
            return sum(call.operation in operations for call in calls)

        begins = [call for call in calls if call.operation == "begin"]
        longest = max([1, *(call.number("start") + call.number("count") for call in begins)])
        return core.make_instance(
            "TRACE",
            "the requests of a lifecycle trace",
            handles=max(1, len(self.slots)),
            txns=len(self.txns),
            layers=layers,
            keys=max(1, len(self.keys)),
            blocks=max(1, times("allocate")),
            rows=len(self.rows),
            longest=longest,
            versions=1 + times("publish", "truncate"),
            generations=1 + times("release"),
        )

    def take(self, call: Call) -> Step:
        """Take an operation to the specification."""
        refusal = self._base_problem(call) or self._do(call)
        if refusal:
            return Step(refusal)
        step = Step()
        if call.operation in SNAPSHOTS:
            stored = tuple(self._store(name) for name in self._touched(call))
            step = attrs.evolve(step, stored=stored)
        if call.operation == "publish":
            step = attrs.evolve(step, receipt=step.stored[0].generation)
        if call.operation == "retry":
            step = attrs.evolve(step, receipt=int(self.value("ack_receipt", self._txn(call)) or 0))
        if call.operation == "read":
            handle = self.requests[call.name("request")].handle
            step = attrs.evolve(step, seen=Seen(*self._lengths(handle)))
        if call.operation in MOVES_ROWS:
            step = attrs.evolve(step, batch=tuple(self._row(row) for row in self.rows))
        return step

    def value(self, variable: str, *index: Value) -> Value:
        """The value of a variable of the specification."""
        return self.machine.value(self.state, variable, *index)

    def _step(self, action: str, **values: Bound) -> Refusal | None:
        outcome = self.machine.step(self.state, Event(action, tuple(values.items())))
        if outcome.kind == "cut":
            raise RuntimeError(f"{action} leaves the bounds of {self.machine.instance!r}")
        self.state = outcome.state
        return outcome.refusal

    def _base_problem(self, call: Call) -> Refusal | None:
        """Why the request, or the snapshot of it, is not what the operation takes it to be."""
        if call.operation == "allocate" or not call.has("request"):
            return None
        name = call.name("request")
        if name not in self.requests:
            return Refusal("UNKNOWN_SNAPSHOT", "a request that was made", f"{name}, refused so far")
        if call.has("generation"):
            named = call.number("generation")
            if (name, named) not in self.versions:
                known = ", ".join(str(n) for request, n in self.versions if request == name)
                return Refusal("UNKNOWN_SNAPSHOT", f"a snapshot of {name}: {known}", str(named))
            if call.operation != "retry" and named != self.last[name]:
                expected = f"the current snapshot of {name}, {self.last[name]}"
                return Refusal("STALE_BASE", expected, str(named))
        request = self.requests[name]
        now = self.owners[request.handle, int(self.value("generation", request.handle) or 0)]
        if call.operation == "read" and not (now == name and self._holds(request.handle)):
            return Refusal("READ_OF_RELEASED", f"{name} holding rows", f"{name} released")
        if call.operation != "retry" and now != name and self._holds(request.handle):
            slot = self.slots[request.handle]
            return Refusal("STALE_GENERATION", f"slot {slot} of {name}", f"slot {slot} of {now}")
        return None

    def _holds(self, handle: int) -> bool:
        return bool(fact(self.machine, self.state, is_held, handle))

    def _do(self, call: Call) -> Refusal | None:
        """The steps of an operation, up to the first that is refused."""
        match call.operation:
            case "allocate":
                return self._allocate(call)
            case "begin":
                return self._begin(call)
            case "stage":
                return self._stage(call)
            case "fork":
                return self._fork(call)
            case "retry":
                base = (call.name("request"), call.number("generation"))
                key = self.keys.index(call.name("key"))
                told = {"k": key, "v": self.versions[base], "n": call.number("count")}
                return self._step("retry", x=self._txn(call), h=self._handle(call), **told)
            case "enter":
                return self._step("enter", r=call.number("row"), h=self._handle(call))
            case "reorder":
                return self._step("reorder", source=call.numbers("source"))
            case "truncate":
                return self._step("truncate", h=self._handle(call), n=call.number("rows"))
            case "read":
                return None
            case "observe":
                return self._observe(call)
        if call.has("txn"):
            return self._step(call.operation, x=self._txn(call))
        return self._step(call.operation, h=self._handle(call))

    def _allocate(self, call: Call) -> Refusal | None:
        handle = self.slots.index(call.number("slot"))
        refusal = self._step("allocate", h=handle, b=self.blocks, a=0)
        if refusal is None:
            self.blocks += 1
            self._make(call.name("request"), handle)
        return refusal

    def _begin(self, call: Call) -> Refusal | None:
        rows = {"p": call.number("start"), "n": call.number("count")}
        key = self.keys.index(call.name("key"))
        return self._step("begin", x=self._txn(call), h=self._handle(call), k=key, a=0, **rows)

    def _stage(self, call: Call) -> Refusal | None:
        for action, part in (("stage_k", "keys"), ("stage_v", "values")):
            for position in range(*call.numbers(part)) if call.numbers(part) else ():
                where = {"l": call.number("layer"), "p": position}
                refusal = self._step(action, x=self._txn(call), **where)
                if refusal:
                    return refusal
        return None

    def _fork(self, call: Call) -> Refusal | None:
        handles = [self.slots.index(slot) for slot in call.numbers("slots")]
        children = tuple(handle in handles for handle in range(len(self.slots)))
        refusal = self._step("fork", p=self._handle(call), children=children, n=call.number("rows"))
        if refusal is None:
            for name, handle in zip(call.names("children"), handles, strict=True):
                self._make(name, handle)
        return refusal

    def _observe(self, call: Call) -> Refusal | None:
        slot = call.number("slot")
        found = "nobody"
        if slot in self.slots and self._holds(self.slots.index(slot)):
            handle = self.slots.index(slot)
            found = self.owners[handle, int(self.value("generation", handle) or 0)]
        owner = call.name("owner")
        told = f"slot {slot} of {owner}", f"slot {slot} of {found}"
        return None if found == owner else Refusal("OTHER_OWNER", *told)

    def _make(self, name: str, handle: int) -> None:
        born = int(self.value("generation", handle) or 0)
        self.requests[name] = Request(name, handle, self._name(self.value("parent", handle)))
        self.owners[handle, born] = name
        self.owners[handle, born + 1] = name  # until another request is made there

    def _txn(self, call: Call) -> int:
        return self.txns.index(call.name("txn"))

    def _handle(self, call: Call) -> int:
        return self.requests[call.name("request")].handle

    def _touched(self, call: Call) -> tuple[str, ...]:
        """The requests that have another snapshot after an operation that was accepted."""
        if call.operation == "fork":
            return call.names("children")
        if call.operation == "publish":
            handle = int(self.value("target", self._txn(call)) or 0)
            return (self.owners[handle, int(self.value("generation", handle) or 0)],)
        return (call.name("request"),)

    def _store(self, name: str) -> Snapshot:
        request = self.requests[name]
        handle = request.handle
        number = count(self.machine, self.state, serial_of, handle)
        self.last[name] = number
        self.versions[name, number] = int(self.value("version", handle) or 0)
        keys, values = self._lengths(handle)
        return Snapshot(
            request=name,
            slot=self.slots[handle],
            releases=int(self.value("generation", handle) or 0),
            generation=number,
            phase=str(self.value("phase", handle)),
            parent=request.parent,
            committed_length=int(self.value("length", handle) or 0),
            keys=keys,
            values=values,
            sha256="",
        )

    def _lengths(self, handle: int) -> tuple[tuple[int, ...], tuple[int, ...]]:
        keys = tuple(int(self.value("k_rows", handle, l) or 0) for l in self.layers)
        values = tuple(int(self.value("v_rows", handle, l) or 0) for l in self.layers)
        return keys, values

    def _row(self, row: int) -> BatchRow:
        names = ("row_cache", "row_tokens", "row_sampler", "row_ancestry")
        cache, tokens, sampler, ancestry = (self._name(self.value(name, row)) for name in names)
        parent = self.requests[cache].parent if cache else None
        if parent and self.requests[parent].handle == self.value("row_ancestry", row):
            ancestry = parent  # also where its slot has another request by now
        position = int(self.value("row_position", row) or 0)
        return BatchRow(cache, tokens, sampler, ancestry, position)

    def _name(self, handle: Value) -> str | None:
        """The request that has a handle now."""
        if handle is None:
            return None
        return self.owners[int(handle), int(self.value("generation", int(handle)) or 0)]


def _distinct(found: list[str] | list[int]) -> list[Any]:
    return list(dict.fromkeys(found))


def _slots(calls: tuple[Call, ...]) -> list[int]:
    made = [call for call in calls if call.operation in ("allocate", "fork")]
    return [
        slot
        for call in made
        for slot in (call.numbers("slots") if call.operation == "fork" else (call.number("slot"),))
    ]


def _named(calls: tuple[Call, ...], argument: str) -> list[str]:
    return [call.name(argument) for call in calls if call.has(argument)]


@lru_cache(maxsize=4)  # each contract asks anew
def replay(layers: int, calls: tuple[Call, ...]) -> tuple[Step, ...]:
    """What the specification says of each operation, refused ones among them."""
    run = Replay(layers, calls)
    return tuple(run.take(call) for call in calls)
