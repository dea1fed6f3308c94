"""Loads and stores of real rows between device blocks and a tier, and faults to switch on.

Modelled: a block and an entry have buffers for the K and V rows of every layer of a small decoder. A sender
copies a layer from one to the other, whatever became of either meanwhile. Each request and each entry has a
prompt of its own, so that whose rows a buffer has is told by its bytes alone. An instance with fewer layers
than the decoder moves several of them as one.
Left out: the network; the prefix rows stand beside the rows that a handle appends.
Damage: logits of the next token that are off, of a request that may read its block; rows of a visible entry
that are not those of its key; bytes of the pool that cannot be given to anybody again, which is found by
trying (`transfer_damage`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.models.decode.mechanisms.tiers_rows import Chain, clear, copy, rows_of
from kvspec.models.decode.mechanisms.transfer_damage import (
    bytes_lost,
    entries_that_are_not_whole,
    logits_that_are_off,
    rows_written_over,
)
from kvspec.models.decode.mechanisms.transfer_ends import (
    Letter,
    Move,
    Place,
    cells_of,
    content,
)
from kvspec.spec.core import system as core
from kvspec.spec.language import Instance

FAULTS: Final = {
    "give_up.unpins-at-once": "an abort drops the pin of the block while the sender may still write",
    "drain.drop-guard.STILL_PUSHING": "both pins are dropped without the sender's word or the lease's end",
    "drain.needs-an-answer": "both pins are dropped when the sender's word has come, and only then",
    "land.drop-guard.LEASE_ENDED": "writes are taken after the end of the lease",
    "deliver.drop-guard.LATE_NOTICE": "a report of another attempt completes the present one",
    "cancel_request.closes-the-transport": "a cancel closes what waits for a running transfer",
    "drain.lists-the-entry": "the entry of a store that failed is visible",
    "queue_store.under-a-load": "blocks are stored that a load under way is to fill",
}
"""Every fault that the cache can be given, by name, with what it does."""

PROMPTS = 12
"""Prompts that have no token in common."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(DecodeBackend):
    """The decode backend with a tier; it speaks of the system `transfer`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.moves: list[Move] = []
        self.blocks: list[Place] = []
        self.entries: list[Place] = []
        self.letters: list[Letter] = []
        self._made: Instance
        self._events: list[Event] = []
        self._layers = 0
        self._prompts = 0

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `transfer`."""
        self._made, self._events = instance, []
        self._layers = instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        numbers = instance.sizes
        self.moves = [Move(landed=[False] * self._layers) for _ in range(numbers["Transfer"])]
        self.blocks = [Place() for _ in range(numbers["Block"])]
        self.entries = [Place() for _ in range(numbers["Entry"])]
        self.letters = [Letter() for _ in range(numbers["Notice"])]
        self._prompts = 0
        plain = dict(self._actions)
        self._actions |= {
            "allocate": lambda h, b, a: self._allocate(plain["allocate"], h, b, a),
            "evict": lambda b: self._evict(plain["evict"], b),
            "begin": lambda **call: self._begin(plain["begin"], **call),
            "cancel_request": lambda h: self._cancel_request(plain["cancel_request"], h),
        } | {
            name: getattr(self, f"_{name}")
            for name in (
                *("queue_load", "queue_store", "cancel", "push", "land", "report", "crash"),
                *("lose", "repeat", "register", "deliver", "give_up", "acknowledge_abort"),
                *("end_lease", "drain", "admit_rows", "recompute", "list_entry", "place", "drop"),
            )
        }

    def observe(self) -> State:
        """The state of the core, and every transfer with both its ends."""
        tables = core_tables(super().observe(), has_layers=bool(self._layers))
        moves, letters, layers = self.moves, self.letters, range(self._layers)
        return State(
            (
                *tables,
                tuple(m.stage for m in moves),
                tuple(m.attempt for m in moves),
                tuple(m.direction for m in moves),
                tuple(m.serves for m in moves),
                tuple(m.generation for m in moves),
                tuple(m.block for m in moves),
                tuple(m.entry for m in moves),
                tuple(m.block_pin for m in moves),
                tuple(m.entry_pin for m in moves),
                tuple(m.waiter for m in moves),
                tuple(m.remembered for m in moves),
                tuple(m.sender for m in moves),
                tuple(m.lease for m in moves),
                tuple(done for m in moves for done in m.landed),
                tuple(m.fill for m in moves),
                tuple(b.fill for b in self.blocks),
                tuple(b.arriving for b in self.blocks),
                tuple(content(b, layer, self._layers) for b in self.blocks for layer in layers),
                tuple(e.state for e in self.entries),
                tuple(
                    content(e, layer, self._layers) == "ROWS"
                    for e in self.entries
                    for layer in layers
                ),
                tuple(n.state for n in letters),
                tuple(n.of for n in letters),
                tuple(n.attempt for n in letters),
            )
        )

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it, and remember it."""
        self._events.append(event)
        return super().perform(event)

    def damage(self) -> list[Damage]:
        """What the backend measures, logits that are off, entries that are not whole, bytes lost."""
        read = [bool(owned) for owned in self._held().pool.owners]
        return [
            *super().damage(),
            *logits_that_are_off(self.blocks, read, self.layers),
            *entries_that_are_not_whole(self.entries, self.layers),
            *rows_written_over(self),
            *bytes_lost(self),
        ]

    @property
    def layers(self) -> int:
        """Layers of the instance."""
        return self._layers

    @property
    def phases(self) -> list[str]:
        """The phase of each handle."""
        return [slot.entry.phase for slot in self._held().slots]

    @property
    def unowned(self) -> list[int]:
        """Blocks with rows that no request owns."""
        owners = self._held().pool.owners
        return [b for b, owned in enumerate(owners) if not owned and self._is_filled(b)]

    def again(self) -> Cache:
        """Another cache in the same state: with the same faults, after the same events."""
        made = type(self)(faults=tuple(self.forgets))
        made.reset(self._made)
        for event in self._events:
            made.perform(event)
        return made

    def _new_prompt(self) -> Chain:
        self._prompts = (self._prompts + 1) % PROMPTS
        return (self._prompts,)

    def _entry(self, h: int) -> Any:
        return self._held().slots[h].entry

    def _owned(self, h: int) -> list[int]:
        return [b for b, owners in enumerate(self._held().pool.owners) if h in owners]

    def _pins(self, b: int) -> bool:
        return any(m.block_pin and m.block == b for m in self.moves)

    # What the core's actions do beside.

    def _allocate(self, allocate: Callable[..., Any], h: int, b: int, a: int) -> None:
        """The block has the rows of the new request."""
        allocate(h=h, b=b, a=a)
        block = self.blocks[b]
        block.fill, block.arriving, block.prompt = block.fill + 1, False, self._new_prompt()
        copy(block.buffer, rows_of(block.prompt))

    def _evict(self, evict: Callable[..., Any], b: int) -> None:
        """A pinned block is kept; what is left in a freed one is nobody's."""
        pool = self._held().pool
        if not pool.owners[b] and self._pins(b):
            _need(not self._is_filled(b), "BLOCK_PINNED", f"a transfer pins block{b}")
        evict(b=b)
        self.blocks[b].prompt = None
        copy(self.blocks[b].buffer, rows_of((0,)))

    def _is_filled(self, b: int) -> bool:
        place = [v.name for v in core.variables.values()].index("filled")
        return bool(super().observe().tables[place][b])

    def _begin(self, begin: Callable[..., Any], **call: Any) -> None:
        """An append computes on rows that are there."""
        waits = any(self.blocks[b].arriving for b in self._owned(call["h"]))
        begin(**call)
        if waits:  # told after all that the core tells, so the append is taken back
            self._actions["cancel_txn"](x=call["x"])
            self._actions["forget"](x=call["x"])
            raise RefusedError("ROWS_ARRIVING", "rows of the request are still being loaded")

    def _cancel_request(self, cancel: Callable[..., Any], h: int) -> None:
        cancel(h=h)
        if "cancel_request.closes-the-transport" in self.forgets:
            for m in self.moves:
                if m.serves == h and m.waiter == "WAITING" and m.stage == "RUNNING":
                    m.waiter = "CLOSED"

    # Transfers.

    def _queue(self, m: Move, direction: str, h: int, b: int, e: int) -> None:
        m.stage, m.attempt, m.direction = "QUEUED", m.attempt + 1, direction
        m.serves, m.generation = h, self._held().slots[h].generation
        m.block, m.entry, m.block_pin, m.entry_pin = b, e, True, True
        m.waiter, m.remembered, m.fill = "ABSENT", False, self.blocks[b].fill
        m.landed = [False] * self._layers
        m.sender, m.lease = "QUIET", "ENDED"

    def _queue_load(self, t: int, h: int, b: int, e: int) -> None:
        """Pin a visible entry and a block whose rows give way to it."""
        m, entry, block = self.moves[t], self.entries[e], self.blocks[b]
        _need(m.is_over, "TRANSFER_IN_USE", f"the transfer is {m.stage}")
        _need(entry.state == "VISIBLE", "ENTRY_NOT_VISIBLE", f"the entry is {entry.state}")
        self._need_ready(h)
        rows = len(self._entry(h).tokens)
        _need(rows == 0, "ROWS_COMMITTED", f"handle{h} has {rows} committed rows")
        _need(b in self._owned(h), "NOT_OWNED", f"handle{h} has no claim on block{b}")
        _need(self._held().pool.owners[b] == {h}, "BLOCK_SHARED", f"block{b} has other owners")
        _need(not self._pins(b), "BLOCK_PINNED", f"a transfer pins block{b}")
        _need(not self._is_read(b), "BLOCK_READ", f"an append reads block{b}")
        self._queue(m, "LOAD", h, b, e)
        clear(block.buffer)
        block.arriving, block.prompt = True, entry.prompt

    def _is_read(self, b: int) -> bool:
        """An append that has begun and not ended is to a handle with a claim on the block."""
        names = [v.name for v in core.variables.values()]
        tables = super().observe().tables
        states, targets = tables[names.index("state")], tables[names.index("target")]
        owners = self._held().pool.owners[b]
        live = {"OPEN", "PREPARED"}
        return any(s in live and h in owners for s, h in zip(states, targets, strict=True))

    def _need_ready(self, h: int) -> None:
        found = self._entry(h).phase
        _need(found == "DECODE_READY", "HANDLE_TERMINAL", f"handle{h} is {found}")

    def _queue_store(self, t: int, h: int, b: int, e: int) -> None:
        """Reserve an entry for a block whose rows are there."""
        m, entry, block = self.moves[t], self.entries[e], self.blocks[b]
        _need(m.is_over, "TRANSFER_IN_USE", f"the transfer is {m.stage}")
        _need(entry.state == "ABSENT", "ENTRY_IN_USE", f"the entry is {entry.state}")
        self._need_ready(h)
        loading = any(o.block_pin and o.block == b and o.direction == "LOAD" for o in self.moves)
        if not (loading and "queue_store.under-a-load" in self.forgets):
            _need(not block.arriving, "ROWS_ARRIVING", f"block{b} is still being loaded")
        _need(b in self._owned(h), "NOT_OWNED", f"handle{h} has no claim on block{b}")
        self._queue(m, "STORE", h, b, e)
        entry.state, entry.prompt = "RESERVED", block.prompt

    def _give_back(self, m: Move) -> None:
        """An entry that a store reserved can be used again, and has no rows."""
        if m.direction == "STORE" and m.entry is not None:
            entry = self.entries[m.entry]
            listed = m.stage == "DRAINED" and "drain.lists-the-entry" in self.forgets
            entry.state = "VISIBLE" if listed else "ABSENT"
            clear(entry.buffer)

    def _cancel(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "QUEUED", "CANCEL_UNSAFE", f"the transfer is {m.stage}")
        self._give_back(m)
        m.end("DRAINED")
        m.waiter = "CLOSED"

    def _push(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "QUEUED", "TRANSFER_NOT_QUEUED", f"the transfer is {m.stage}")
        m.stage, m.sender, m.lease = "RUNNING", "PUSHING", "HELD"

    def _land(self, t: int, l: int) -> None:  # the parameter's name in the specification
        """Copy the rows of one layer, whatever became of the target."""
        m = self.moves[t]
        _need(m.sender == "PUSHING", "NOT_PUSHING", f"the sender is {m.sender}")
        if "land.drop-guard.LEASE_ENDED" not in self.forgets:
            _need(m.lease != "ENDED", "LEASE_ENDED", "the target takes nothing from the sender")
        block, entry = self._ends(m)
        source, target = (entry, block) if m.direction == "LOAD" else (block, entry)
        cells = cells_of(l, self._layers)
        copy(
            {cell: target.buffer[cell] for cell in cells},
            {cell: source.buffer[cell] for cell in cells},
        )
        m.landed[l] = True

    def _ends(self, m: Move) -> tuple[Place, Place]:
        return self.blocks[m.block or 0], self.entries[m.entry or 0]

    def _report(self, t: int, n: int) -> None:
        m, letter = self.moves[t], self.letters[n]
        _need(m.sender == "PUSHING", "NOT_PUSHING", f"the sender is {m.sender}")
        _need(all(m.landed), "CHUNKS_MISSING", f"{m.landed.count(False)} layers are not written")
        _need(letter.state == "UNUSED", "NOTICE_IN_USE", f"the notice is {letter.state}")
        self._give_word(t, letter)

    def _give_word(self, t: int, letter: Letter) -> None:
        """The sender is quiet, and its word is on the way."""
        self.moves[t].sender = "QUIET"
        letter.state, letter.of, letter.attempt = "IN_FLIGHT", t, self.moves[t].attempt

    def _crash(self, t: int) -> None:
        m = self.moves[t]
        _need(m.sender == "PUSHING", "NOT_PUSHING", f"the sender is {m.sender}")
        m.sender = "DEAD"

    def _lose(self, n: int) -> None:
        letter = self.letters[n]
        _need(letter.state == "IN_FLIGHT", "NOTICE_NOT_IN_FLIGHT", f"the notice is {letter.state}")
        letter.state = "LOST"

    def _repeat(self, n: int) -> None:
        letter = self.letters[n]
        _need(letter.state == "TAKEN", "NOT_TAKEN", f"the notice is {letter.state}")
        letter.state = "IN_FLIGHT"

    def _register(self, t: int) -> None:
        m = self.moves[t]
        _need(
            m.stage in {"QUEUED", "RUNNING"}, "TRANSFER_NOT_RUNNING", f"the transfer is {m.stage}"
        )
        _need(m.waiter == "ABSENT", "WAITER_REGISTERED", f"the waiter is {m.waiter}")
        m.waiter = "WAITING"
        if m.remembered:
            m.stage, m.lease = "WRITTEN", "RETURNED"

    def _deliver(self, n: int) -> None:
        """Take a notice; it completes the attempt that it names, if somebody waits for it."""
        letter = self.letters[n]
        _need(letter.state == "IN_FLIGHT", "NOTICE_NOT_IN_FLIGHT", f"the notice is {letter.state}")
        m = self.moves[letter.of or 0]
        letter.state = "TAKEN"
        if "deliver.drop-guard.LATE_NOTICE" not in self.forgets:
            late = f"found attempt {letter.attempt}, expected {m.attempt}"
            _need(letter.attempt == m.attempt, "LATE_NOTICE", late)
        _need(m.lease == "HELD", "REPEATED_NOTICE", f"the lease is {m.lease}")
        if m.waiter != "WAITING":
            m.remembered = True
            raise RefusedError("EARLY_NOTICE", f"the waiter is {m.waiter}")
        m.lease = "RETURNED"
        if m.stage == "RUNNING":
            m.stage = "WRITTEN"

    def _give_up(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "RUNNING", "TRANSFER_NOT_RUNNING", f"the transfer is {m.stage}")
        _need(m.waiter == "WAITING", "NO_END_WAITS", f"the waiter is {m.waiter}")
        m.stage = "FAILED"
        if "give_up.unpins-at-once" in self.forgets:
            m.block_pin = False

    def _acknowledge_abort(self, t: int, n: int) -> None:
        m, letter = self.moves[t], self.letters[n]
        _need(m.stage == "FAILED", "TRANSFER_NOT_GIVEN_UP", f"the transfer is {m.stage}")
        _need(m.sender == "PUSHING", "NOT_PUSHING", f"the sender is {m.sender}")
        _need(letter.state == "UNUSED", "NOTICE_IN_USE", f"the notice is {letter.state}")
        self._give_word(t, letter)

    def _end_lease(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "FAILED", "TRANSFER_NOT_GIVEN_UP", f"the transfer is {m.stage}")
        _need(m.lease == "HELD", "NO_LEASE", f"the lease is {m.lease}")
        m.lease = "ENDED"

    def _drain(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "FAILED", "TRANSFER_NOT_GIVEN_UP", f"the transfer is {m.stage}")
        enough = {"RETURNED", "ENDED"}
        if "drain.needs-an-answer" in self.forgets:
            enough = {"RETURNED"}
        if "drain.drop-guard.STILL_PUSHING" not in self.forgets:
            _need(m.lease in enough, "STILL_PUSHING", f"the lease is {m.lease}")
        m.end("DRAINED")
        self._give_back(m)

    def _admit_rows(self, t: int) -> None:
        """The request that asked may read its rows; if it has ended, nobody may."""
        m = self.moves[t]
        _need(m.stage == "WRITTEN", "NOT_WRITTEN", f"the transfer is {m.stage}")
        _need(m.direction == "LOAD", "OTHER_DIRECTION", f"the transfer is a {m.direction}")
        slot = self._held().slots[m.serves or 0]
        if slot.generation != m.generation or slot.entry.phase != "DECODE_READY":
            m.end("DRAINED")
            raise RefusedError("REQUEST_GONE", f"generation {slot.generation}, {slot.entry.phase}")
        m.end("VISIBLE")
        self._ends(m)[0].arriving = False

    def _recompute(self, h: int, b: int) -> None:
        """Write the rows that a load did not bring."""
        block = self.blocks[b]
        _need(block.arriving, "ROWS_NOT_MISSING", f"the rows of block{b} are there")
        self._need_ready(h)
        _need(b in self._owned(h), "NOT_OWNED", f"handle{h} has no claim on block{b}")
        _need(not self._pins(b), "BLOCK_PINNED", f"a transfer pins block{b}")
        block.arriving = False
        copy(block.buffer, rows_of(block.prompt or (0,)))

    def _list_entry(self, t: int) -> None:
        m = self.moves[t]
        _need(m.stage == "WRITTEN", "NOT_WRITTEN", f"the transfer is {m.stage}")
        _need(m.direction == "STORE", "OTHER_DIRECTION", f"the transfer is a {m.direction}")
        m.end("VISIBLE")
        self._ends(m)[1].state = "VISIBLE"

    def _place(self, e: int) -> None:
        entry = self.entries[e]
        _need(entry.state == "ABSENT", "ENTRY_IN_USE", f"the entry is {entry.state}")
        entry.state, entry.prompt = "VISIBLE", self._new_prompt()
        copy(entry.buffer, rows_of(entry.prompt))

    def _drop(self, e: int) -> None:
        entry = self.entries[e]
        _need(entry.state == "VISIBLE", "ENTRY_NOT_VISIBLE", f"the entry is {entry.state}")
        pinned = any(m.entry_pin and m.entry == e for m in self.moves)
        _need(not pinned, "ENTRY_PINNED", f"a transfer pins entry{e}")
        entry.state = "ABSENT"
        clear(entry.buffer)


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
