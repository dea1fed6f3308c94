"""A consumer of the decode backend's log of blocks, which says where prefixes are, and faults to switch on.

Modelled: an engine whose blocks hold rows of named prefixes, its log, a channel of one event, and a consumer
with a table of its own, which it changes by nothing but events, heartbeats and snapshots.
Assumed: an instance without layers has two, since rows must lie somewhere.
Damage: everything on its way is delivered to a copy of the consumer, a heartbeat comes, and it takes a
snapshot if it knows of a gap. Then a request for each prefix goes by its table: rows that it is promised and
that no block has are computed by the request, and rows that some block has and the table lacks are computed a
second time elsewhere. What a block has is told by its bytes. Beside that all that the backend measures.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, Final

import attrs
from attrs import define, field, frozen

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import PREFIX_ROWS, prompt_of
from kvspec.models.decode.backend_tables import Output, RefusedError, seal
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.models.decode.mechanisms.slot_rows import is_same
from kvspec.spec.language import Instance

FAULTS: Final = {
    "deliver.removes-every-copy": "a removal of one copy is taken for that of the prefix",
    "deliver.does-not-clear": "the event that the cache was cleared is passed over",
    "deliver.applies-old-events": "an event from before a snapshot is written over it",
    "deliver.takes-another-log-for-its-own": "the start of an event is not compared",
    "resynchronize.drop-assignment.known": "a gap is closed without a snapshot",
    "heartbeat.drop-assignment.gap": "the number of a heartbeat is not compared",
}
"""Every fault that the cache can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@frozen
class Event:
    """What the engine tells: the kind, the block and the prefix, its number in the log of a start."""

    kind: str
    block: int | None
    prefix: int | None
    number: int
    boot: int


@define
class Consumer:
    """Who follows the log: its table of blocks, and how far it has come in which log."""

    faults: frozenset[str]
    table: list[int | None]
    expected: int = 0
    boot: int = 0
    gap: bool = False

    def hear(self, event: Event) -> None:
        """Apply the event that is next, and notice one that is not."""
        is_other = event.boot != self.boot
        is_next = event.number == self.expected and not is_other
        is_old = event.number < self.expected
        if is_old and event.block is not None and "deliver.applies-old-events" in self.faults:
            self.table[event.block] = event.prefix
        if is_next:
            self._apply(event)
        if is_other and "deliver.takes-another-log-for-its-own" not in self.faults:
            self.gap = True
        self.gap = self.gap or event.number > self.expected
        self.expected += is_next
        self.boot = event.boot

    def _apply(self, event: Event) -> None:
        blocks = range(len(self.table))
        if event.kind == "STORED" and event.block is not None:
            self.table[event.block] = event.prefix
        elif event.kind == "REMOVED":
            by_prefix = "deliver.removes-every-copy" in self.faults
            for b in blocks:
                if self.table[b] == event.prefix if by_prefix else b == event.block:
                    self.table[b] = None
        elif event.kind == "CLEARED" and "deliver.does-not-clear" not in self.faults:
            self.table = [None for _ in blocks]

    def beat(self, number: int, boot: int) -> None:
        """Hear how far the engine is."""
        if "heartbeat.drop-assignment.gap" not in self.faults:
            self.gap = self.gap or boot != self.boot or number > self.expected
        self.boot = boot

    def take(self, table: list[int | None], number: int, boot: int) -> None:
        """Take a snapshot of the engine."""
        if "resynchronize.drop-assignment.known" not in self.faults:
            self.table = list(table)
        self.expected, self.boot, self.gap = number, boot, False


@define
class Log:
    """The engine's log: the next number of this start, and the event that is on its way."""

    number: int = 0
    boot: int = 0
    channel: list[Event] = field(factory=list)

    def tell(self, kind: str, block: int | None = None, prefix: int | None = None) -> None:
        """Send an event; one that finds the channel full is lost."""
        if not self.channel:
            self.channel.append(Event(kind, block, prefix, self.number, self.boot))
        self.number += 1


class Cache(DecodeBackend):
    """The decode backend with a log of its blocks and a consumer of it; it speaks of the system `replica`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self._prompts: list[tuple[int, ...]] = []
        self._without_layers = False

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `replica`."""
        self._without_layers = not instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        self._prompts = [prompt_of(f"prefix{k}") for k in range(instance.sizes["Hash"])]
        self.log = Log()
        self.consumer = Consumer(self.forgets, [None] * part.sizes["Block"])
        plain = dict(self._actions)
        self._actions |= {
            "allocate": lambda h, b, a, k: self._store(plain["allocate"], h, b, a, k),
            "evict": lambda b: self._remove(plain["evict"], b),
            "clear_all": self._clear_all,
            "restart_engine": self._restart_engine,
            "lose": self._lose,
            "deliver": self._deliver,
            "heartbeat": self._heartbeat,
            "restart": self._restart,
            "resynchronize": self._resynchronize,
        }

    # The engine.

    def _store(self, allocate: Any, h: int, b: int, a: int, k: int) -> None:
        """The request's prompt is a prefix that others may have as well, and its storing is told."""
        allocate(h, b, a)
        tables, slot = self._held(), self._held().slots[h]
        prompt = self._prompts[k]
        tables.pool.fill(b, prompt, tables.models[a])
        slot.output = Output(h, prompt, ())
        slot.entry = seal(tables, slot, attrs.evolve(slot.entry, prompt=prompt))
        self.log.tell("STORED", b, k)

    def _remove(self, evict: Any, b: int) -> None:
        prefix = self._holds()[b]
        evict(b)
        self.log.tell("REMOVED", b, prefix)

    def _clear_all(self) -> None:
        _need(any(self._held().pool.held), "BLOCK_EMPTY", "no block holds rows")
        self._empty_blocks()
        self.log.tell("CLEARED")

    def _restart_engine(self) -> None:
        self._empty_blocks()
        self.log.number = 0
        self.log.boot += 1

    def _empty_blocks(self) -> None:
        pool = self._held().pool
        _need(not any(pool.owners), "BLOCK_OWNED", "a handle has a claim on a block")
        for b, prompt in enumerate(pool.held):
            if prompt is not None:
                pool.empty(b)

    def _holds(self) -> list[int | None]:
        """The prefix of each block, by the tokens that its rows were computed from."""
        held = self._held().pool.held
        return [None if prompt is None else self._prompts.index(prompt) for prompt in held]

    # The channel and the consumer.

    def _lose(self) -> None:
        self._next_event()

    def _deliver(self) -> None:
        self.consumer.hear(self._next_event())

    def _next_event(self) -> Event:
        _need(bool(self.log.channel), "CHANNEL_EMPTY", "nothing is on its way")
        return self.log.channel.pop()

    def _heartbeat(self) -> None:
        _need(not self.log.channel, "CHANNEL_FULL", "an event is on its way")
        self.consumer.beat(self.log.number, self.log.boot)

    def _restart(self) -> None:
        self.consumer = Consumer(self.forgets, [None] * len(self.consumer.table), gap=True)

    def _resynchronize(self) -> None:
        _need(self.consumer.gap, "NO_GAP", "nothing is known to be missing")
        self.consumer.take(self._holds(), self.log.number, self.log.boot)

    # What is seen.

    def observe(self) -> State:
        """The state of the core, the log with its channel, and what the consumer knows."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        log, consumer = self.log, self.consumer
        event = log.channel[0] if log.channel else Event("STORED", None, None, 0, 0)
        return State(
            (
                *tables,
                tuple(self._holds()),
                (log.number,),
                (log.boot,),
                (bool(log.channel),),
                (event.kind,),
                (event.block,),
                (event.prefix,),
                (event.number,),
                (event.boot,),
                tuple(consumer.table),
                (consumer.expected,),
                (consumer.boot,),
                (consumer.gap,),
            )
        )

    def damage(self) -> list[Damage]:
        """What the backend measures, and rows that are computed anew since the consumer is wrong."""
        found, told = super().damage(), self._caught_up()
        for k in range(len(self._prompts)):
            holders = [b for b in range(len(told)) if self._has_rows_of(b, k)]
            text = ""
            if k in told and not holders:
                text = f"of prefix{k} are promised in block{told.index(k)}, and computed anew"
            elif holders and k not in told:
                text = (
                    f"of prefix{k} are in block{holders[0]}, and computed a second time elsewhere"
                )
            if text:
                found.append(Damage("rows", f"prefix{k}", PREFIX_ROWS, text))
        return found

    def _caught_up(self) -> list[int | None]:
        """The table of a copy of the consumer that has heard all there is to hear."""
        consumer, log = deepcopy(self.consumer), self.log
        for event in log.channel:
            consumer.hear(event)
        consumer.beat(log.number, log.boot)
        if consumer.gap:
            consumer.take(self._holds(), log.number, log.boot)
        return consumer.table

    def _has_rows_of(self, b: int, k: int) -> bool:
        """Whether the bytes of a block are rows of a prefix, under whatever ABI."""
        tables = self._held()
        keys, values = tables.pool.keys[:, b], tables.pool.values[:, b]
        runs = [model.run(self._prompts[k]) for model in tables.models]
        return any(is_same(keys, run.keys) and is_same(values, run.values) for run in runs)


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
