"""Counters, gauges and records beside the decode backend, held against the rows that it really has.

Modelled: rows of an append count as computed, found or fetched once they are published, and a request that
ends, or is turned away, has its record. The numbers are kept beside the tensors, as a service keeps them, and
no step of the backend reads them.
Left out: where rows that are found come from: they are computed like any others.
Assumed: an instance without layers has two, since rows must lie somewhere; its appends are staged when they
are prepared.
Damage: rows that a number tells less those that are measured: rows in the tensors of a request, and rows by
which publications made them longer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import attrs
from attrs import define

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_appends import Txn
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import FREE, RefusedError
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.spec.language import Instance

FAULTS: Final = {
    "truncate.drop-assignment.cached": "a preempted request keeps the count of what it had found",
    "truncate.drop-assignment.external": "a preempted request keeps the count of what it had fetched",
    "fetch.counted-before-it-came": "rows count as found when they are looked up",
    "truncate.takes-the-count-back": "a counter goes back by the rows that a request has lost",
    "cancel_request.drop-assignment.recorded": "nothing is recorded of what a cancelled request had",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Numbers:
    """What is told of a handle, and what was measured: rows written to it, and those of ended requests."""

    prompt: int = 0
    cached: int = 0
    external: int = 0
    total: int = 0
    work: int = 0
    recorded: int = 0
    records: int = 0
    running: bool = False
    held_rows: int = 0
    written: int = 0


class Cache(DecodeBackend):
    """The decode backend with what is counted beside it; it speaks of the system `observation`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.numbers: list[Numbers] = []
        self.origins: list[str] = []
        self.txns: list[Txn] = []
        self.known: list[bool] = []
        self.arrived: list[bool] = []
        self.series: list[bool] = []
        self.other = False
        self.turned_away = self.refusals = 0
        self._without_layers = False

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `observation`; no name is known."""
        part = core_part(instance)
        self._names = list(instance.system.variables)
        self._without_layers = not instance.sizes["Layer"]
        super().reset(part)
        self.numbers = [Numbers() for _ in range(part.sizes["Handle"])]
        self.origins = ["COMPUTED"] * part.sizes["Txn"]
        names = instance.sizes["Name"]
        self.known, self.arrived, self.series = ([False] * names for _ in range(3))
        self.other, self.turned_away, self.refusals = False, 0, 0
        plain = dict(self._actions)
        self.txns = [] if self._requests is None else self._requests.appends.txns
        self._actions |= {
            "allocate": lambda **names: self._allocate(plain["allocate"], **names),
            "begin": lambda **names: self._begin(plain["begin"], **names),
            "cancel_request": lambda h: self._end(
                plain["cancel_request"],
                h,
                forgets="cancel_request.drop-assignment.recorded" in self.forgets,
            ),
            "fetch": self._fetch,
            "find": self._find,
            "finish": lambda h: self._end(plain["finish"], h, forgets=False),
            "fork": lambda **names: self._fork(plain["fork"], **names),
            "prepare": lambda x: self._prepare(plain["prepare"], x),
            "publish": lambda x: self._publish(plain["publish"], x),
            "release": lambda h: self._release(plain["release"], h),
            "truncate": lambda **names: self._truncate(plain["truncate"], **names),
            "turn_away": self._turn_away,
        }

    def begin_in(self, initial: State) -> None:
        """Take on the names that are known in an initial state."""
        self.known = [bool(each) for each in initial.tables[self._names.index("known")]]

    def observe(self) -> State:
        """The state of the core, and all that is told."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        told = {
            name: tuple(getattr(each, name) for each in self.numbers)
            for name in attrs.fields_dict(Numbers)
            if name != "written"
        }
        gauges = [told.pop(name) for name in ("running", "held_rows")]
        found = [told.pop(name) for name in ("prompt", "cached", "external")]
        counted = [(self.turned_away,), (self.refusals,)]
        labels = [tuple(each) for each in (self.known, self.arrived, self.series)]
        own = [*found, tuple(self.origins), *told.values(), *counted, *gauges, *labels]
        return State((*tables, *own, (self.other,)))

    def damage(self) -> list[Damage]:
        """What the backend measures, and every number that is not what is measured."""
        found = super().damage()
        for h, told in enumerate(self.numbers):
            rows, ended = self._rows(h), self._phase(h) != "DECODE_READY"
            off = {
                "rows found": max(0, told.cached - rows),
                "rows fetched": max(0, told.external - rows),
                "rows in use": told.held_rows - rows,
                "rows counted": told.total - told.written,
                "rows in records": told.recorded - told.written if ended else 0,
            }
            found += [
                Damage("gauge", f"handle{h}", float(abs(n)), f"{what}: {n:+d} against the tensors")
                for what, n in off.items()
                if n
            ]
        return found

    def _phase(self, h: int) -> str:
        return self._held().slots[h].entry.phase

    def _rows(self, h: int) -> int:
        """Rows of K in the first layer of the request of a handle; its prompt's block is not counted."""
        rows = self._held().slots[h].entry.rows
        return 0 if rows is None else rows.lengths()[0][0]

    def _count_arrival(self, m: int) -> None:
        self.arrived[m] = True
        if self.known[m]:
            self.series[m] = True
        else:
            self.other = True

    def _allocate(
        self, allocate: Callable[..., Any], *, h: int, b: int, a: int, m: int, q: int
    ) -> None:
        """Give a handle to a request of q tokens, and count it under its name."""
        tables = self._held()
        if self._phase(h) in FREE:
            _need(q >= 1, "EMPTY_PROMPT", "no token")
            _need(q <= tables.context, "PROMPT_TOO_LONG", f"{q} tokens")
        allocate(h=h, b=b, a=a)
        self.numbers[h].prompt, self.numbers[h].running = q, True
        self._count_arrival(m)

    def _turn_away(self, m: int) -> None:
        """Refuse a request where no block is empty: it is counted, and recorded."""
        _need(None not in self._held().pool.held, "ROOM_LEFT", "a block is empty")
        self.turned_away, self.refusals = self.turned_away + 1, self.refusals + 1
        self._count_arrival(m)

    def _begin(self, begin: Callable[..., Any], **names: int) -> None:
        begin(**names)
        self.origins[names["x"]] = "COMPUTED"

    def _look_up(self, x: int, *, local: bool) -> Numbers:
        """The numbers of the request for whose append rows are found, if they may be."""
        txn = self.txns[x]
        _need(txn.state == "OPEN" and txn.target is not None, "TXN_CLOSED", f"it is {txn.state}")
        told = self.numbers[txn.target or 0]
        _need(self.origins[x] == "COMPUTED", "ALREADY_FOUND", self.origins[x])
        _need(txn.start == told.cached, "BEHIND_COMPUTED", f"{told.cached} rows were found")
        _need(not local or not told.external, "BEHIND_EXTERNAL", f"{told.external} were fetched")
        _need(txn.start + txn.count <= told.prompt, "BEYOND_PROMPT", f"{told.prompt} tokens")
        return told

    def _find(self, x: int) -> None:
        self._look_up(x, local=True)
        self.origins[x] = "LOCAL"

    def _fetch(self, x: int) -> None:
        told = self._look_up(x, local=False)
        self.origins[x] = "EXTERNAL"
        if "fetch.counted-before-it-came" in self.forgets:
            told.cached += self.txns[x].count

    def _prepare(self, prepare: Callable[..., Any], x: int) -> None:
        """Prepare an append; where the instance has no layers, its rows are staged before."""
        txn = self.txns[x]
        if self._without_layers and txn.state == "OPEN":
            for layer in range(self._held().shape.layers):
                for p in range(txn.start, txn.start + txn.count):
                    self._actions["stage_k"](x=x, l=layer, p=p)
                    self._actions["stage_v"](x=x, l=layer, p=p)
        prepare(x)

    def _publish(self, publish: Callable[..., Any], x: int) -> None:
        """Publish an append, count its rows, and measure by how many the tensors grew."""
        txn = self.txns[x]
        h, count, start = txn.target or 0, txn.count, txn.start
        before, tables = self._rows(h), self._held()
        # Who is told of the change reads the numbers as well: it is told when they are written.
        watch, tables.watch = tables.watch, _nothing
        try:
            publish(x)
        finally:
            tables.watch = watch
        told = self.numbers[h]
        told.written += self._rows(h) - before
        told.total, told.work, told.held_rows = told.total + count, told.work + count, start + count
        if self.origins[x] != "COMPUTED":
            told.cached += count
        if self.origins[x] == "EXTERNAL":
            told.external += count
        watch()

    def _truncate(self, truncate: Callable[..., Any], *, h: int, n: int) -> None:
        """Cut what was found with the rows; a counter stays."""
        before = self._rows(h)
        truncate(h=h, n=n)
        told = self.numbers[h]
        local = told.cached - told.external
        if n <= told.cached:
            if "truncate.drop-assignment.external" not in self.forgets:
                told.external = max(0, n - local)
            if "truncate.drop-assignment.cached" not in self.forgets:
                told.cached = n
        told.held_rows = n
        if "truncate.takes-the-count-back" in self.forgets:
            told.total -= before - n

    def _fork(
        self, fork: Callable[..., Any], *, p: int, children: tuple[bool, ...], n: int
    ) -> None:
        """What a child gets of its parent was found."""
        fork(p=p, children=children, n=n)
        prompt = max(self.numbers[p].prompt, n)
        for told, is_child in zip(self.numbers, children, strict=True):
            if is_child:
                told.prompt, told.cached, told.running, told.held_rows = prompt, n, True, n

    def _end(self, end: Callable[..., Any], h: int, *, forgets: bool) -> None:
        """End a request, and write its record."""
        end(h)
        told = self.numbers[h]
        told.records += 1
        if not forgets:
            told.recorded += told.work
        told.work, told.running = 0, False

    def _release(self, release: Callable[..., Any], h: int) -> None:
        """Give up the rows; counters and records stay."""
        release(h)
        told = self.numbers[h]
        told.prompt = told.cached = told.external = told.held_rows = 0


def _nothing() -> None:
    """Nobody is told."""


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
