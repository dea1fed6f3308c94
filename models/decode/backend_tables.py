"""What the backend keeps: the handle table, the block pool, the batch, and the sizes of all.

Modelled: a handle is a slot of a table with a generation; the request in it is one immutable record,
`Entry`, that is replaced by a single reference swap, so that a reader takes phase, version, tokens and
rows of all layers at one moment. Prefix rows lie in a pool of blocks that is written in place, with
owner sets and a free list. A batch row's companions lie in arrays of their own, as in an engine
that feeds them to separate kernels. Left out: memory pressure, more than one block a request.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable

import torch
from attrs import define, evolve, field, frozen
from torch import Tensor

from kvspec.models.decode.backend_model import PREFIX_ROWS, Model
from kvspec.models.decode.completion import Submit, settle
from kvspec.models.decode.kinds import AnyLayout, Store
from kvspec.models.decode.pages import POISON
from kvspec.models.decode.shapes import CacheShape, Snapshot

FREE = ("VACANT", "RELEASED")
TERMINAL = ("FINISHED", "CANCELLED")


@frozen(eq=False)
class Entry:
    """A request at one moment: everything that a reader of its handle sees.

    Attributes:
        phase: where it is in its life.
        version: snapshots of this request before this one.
        digest: SHA-256 of this snapshot, in hexadecimal.
        abi: cache ABI of its rows.
        parent: handle it was forked from.
        parent_digest: snapshot of the parent that it was forked from.
        lineage: names this request among all that ever were.
        prompt: tokens of its prefix block, at positions [0, P).
        tokens: tokens that it committed, at positions [P, P + T).
        block: block that holds its prompt's rows.
        rows: rows of its tokens in every layer, or None when it holds none.
    """

    phase: str = "VACANT"
    version: int = 0
    digest: str = ""
    abi: int | None = None
    parent: int | None = None
    parent_digest: str = ""
    lineage: str = ""
    prompt: tuple[int, ...] = ()
    tokens: tuple[int, ...] = ()
    block: int | None = None
    rows: Snapshot | None = None


@define(eq=False)
class Switch:
    """What several entries wait for, to be seen at one moment."""

    is_on: bool = False


@frozen(eq=False)
class Arrival:
    """An entry that is seen in its slot from the moment on at which its switch goes on."""

    entry: Entry
    switch: Switch


@define(eq=False)
class Output:
    """The token state of a request, which a batch row carries: whose, and which tokens."""

    handle: int
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]


@define(eq=False)
class Slot:
    """An entry of the handle table.

    Attributes:
        handle: its place.
        generation: requests that were released here.
        births: requests that were ever begun here; the clients' count, which no check reads.
        entry: the request, swapped as one reference.
        arriving: the entry that is about to be swapped in, together with those of other slots.
        layout: where the rows lie, None when there are none.
        output: the request's token state.
    """

    handle: int
    generation: int = 0
    births: int = 0
    entry: Entry = field(factory=Entry)
    arriving: Arrival | None = None
    layout: AnyLayout | None = None
    output: Output | None = None

    @property
    def shown(self) -> Entry:
        """The request as a reader sees it that holds no lock: `entry`, or one that has just arrived."""
        arriving = self.arriving
        if arriving is not None and arriving.switch.is_on:
            return arriving.entry
        return self.entry

    @property
    def sampler_seed(self) -> int:
        """The seed of the request's sampler; its low 16 bits name the handle."""
        return self.births << 16 | self.handle

    def begin_life(self, parent_lineage: str) -> str:
        """Count one request more, and name it."""
        self.births += 1
        return hashlib.sha256(f"{self.handle}|{self.births}|{parent_lineage}".encode()).hexdigest()


class Pool:
    """Blocks of prefix rows, written in place.

    Attributes:
        keys: [L, blocks, H_kv, P, d_h], as are ``values``.
        held: the prompt whose rows a block holds, None when it is empty.
        owners: handles with a claim, for each block.
        free: empty blocks, each once.
    """

    def __init__(self, blocks: int, shape: CacheShape) -> None:
        size = (shape.layers, blocks, shape.kv_heads, PREFIX_ROWS, shape.head_dim)
        with torch.inference_mode():
            self.keys = torch.zeros(size, dtype=shape.dtype, device=shape.device)
            self.values = torch.zeros_like(self.keys)
        self.held: list[tuple[int, ...] | None] = [None] * blocks
        self.owners: list[set[int]] = [set() for _ in range(blocks)]
        self.free = list(range(blocks))

    @torch.inference_mode()
    def fill(self, block: int, prompt: tuple[int, ...], model: Model) -> None:
        """Write the rows of a prompt into a block, over whatever it held."""
        run = model.run(prompt)
        self.keys[:, block] = run.keys
        self.values[:, block] = run.values
        settle(self.keys.device)
        self.held[block] = prompt
        if block in self.free:
            self.free.remove(block)

    @torch.inference_mode()
    def empty(self, block: int) -> None:
        """Overwrite a block's rows and give it back."""
        self.keys[:, block] = POISON
        self.values[:, block] = POISON
        settle(self.keys.device)
        self.held[block] = None
        self.free.append(block)

    def read(self, block: int, layer: int) -> tuple[Tensor, Tensor]:
        """K and V of one layer, [1, H_kv, P, d_h] each, as they are in memory now."""
        return self.keys[layer, block : block + 1], self.values[layer, block : block + 1]


class Batch:
    """The rows of the running batch, each companion in an array of its own.

    Attributes:
        caches: cache handle of each row.
        outputs: tokens and output of each row.
        samplers: random state of each row; its initial seed tells whose it is.
        ancestry: parent of the row's request.
        positions: position of the row's next token, counted behind the prompt.
    """

    def __init__(self, rows: int) -> None:
        self.caches: list[int | None] = [None] * rows
        self.outputs: list[Output | None] = [None] * rows
        self.samplers: list[torch.Generator | None] = [None] * rows
        self.ancestry: list[int | None] = [None] * rows
        self.positions = [0] * rows

    def find(self, handle: int) -> int:
        """The row that carries the handle, or -1."""
        return self.caches.index(handle) if handle in self.caches else -1

    def move(self, handle: int, position: int) -> None:
        """The rows that carry the handle go to another position."""
        for row, held in enumerate(self.caches):
            if held == handle:
                self.positions[row] = position


@define(eq=False)
class Tables:
    """All that one backend holds, and how it was made.

    Attributes:
        kind: name of the layouts.
        store: gives the layout of a new request.
        shape: what rows look like.
        models: the model of each ABI.
        context: most rows that a request may commit.
        rewind: most rows that one truncate can take back.
        longest: largest position that an event can name.
        faults: the checks that are left out.
        submit: starts writes of staged rows.
        wait: prepare waits until staged rows are written; else it refuses while they are not.
        watch: called after every visible change of a publication.
        switch: makes the switch at which the entries of several slots are seen.
        sequences: every token sequence that any request or append had, by whose it was.
        digests: the snapshot digest of a handle's generation and version.
        fed: tokens that a client named for the next append to a handle.
        lock: orders all changes.
    """

    kind: str
    store: Store
    shape: CacheShape
    models: list[Model]
    context: int
    rewind: int
    longest: int
    faults: frozenset[str]
    submit: Submit
    wait: bool
    watch: Callable[[], None]
    slots: list[Slot]
    pool: Pool
    batch: Batch
    sequences: dict[str, tuple[int, tuple[int, ...]]] = field(factory=dict)
    digests: dict[tuple[int, int, int], str] = field(factory=dict)
    fed: dict[int, tuple[int, ...]] = field(factory=dict)
    lock: threading.RLock = field(factory=threading.RLock)
    switch: Callable[[], Switch] = Switch

    def need(self, action: str, holds: bool, code: str, detail: str = "") -> None:
        """Refuse unless the condition holds, or this very check is left out by a fault."""
        if not holds and f"{action}.drop-guard.{code}" not in self.faults:
            raise RefusedError(code, detail)

    def lacks(self, fault: str) -> bool:
        """The backend was given this fault."""
        return fault in self.faults


class RefusedError(Exception):
    """A check of the backend failed; ``code`` states which, ``detail`` what was found."""

    def __init__(self, code: str, detail: str) -> None:
        super().__init__(f"{code}: {detail}")
        self.code = code
        self.detail = detail


def enter_together(tables: Tables, slots: list[Slot], entries: list[Entry]) -> None:
    """Put an entry into each slot, all seen at one moment, by readers without the lock as well.

    One entry needs no more than its own swap.
    """
    if len(slots) == 1 or tables.lacks("fork.child-by-child"):
        for slot, entry in zip(slots, entries, strict=True):
            slot.entry = entry
        return
    switch = tables.switch()
    for slot, entry in zip(slots, entries, strict=True):
        slot.arriving = Arrival(entry, switch)
    switch.is_on = True
    for slot, entry in zip(slots, entries, strict=True):
        slot.entry = entry
    for slot in slots:
        slot.arriving = None


_KEPT_SEQUENCES = 512


def seal(tables: Tables, slot: Slot, entry: Entry) -> Entry:
    """The entry with its digest, entered in the indexes; the table itself is left as it is."""
    entry = evolve(entry, digest=_digest(slot, entry, tables))
    tables.digests[slot.handle, slot.generation, entry.version] = entry.digest
    if entry.abi is not None:
        whose = f"request {slot.births} of handle{slot.handle} at version {entry.version}"
        remember(tables, whose, entry.abi, entry.prompt + entry.tokens)
    return entry


def remember(tables: Tables, whose: str, abi: int, tokens: tuple[int, ...]) -> None:
    """Note a token sequence, so that rows can be told to be of it."""
    if len(tables.sequences) >= _KEPT_SEQUENCES:
        tables.sequences.pop(next(iter(tables.sequences)))
    tables.sequences[whose] = (abi, tokens)


def _digest(slot: Slot, entry: Entry, tables: Tables) -> str:
    """SHA-256 over handle, generation, version, ABI, parent's snapshot and committed tokens.

    The prompt is not in it: handle and generation name it.
    """
    abi = "" if entry.abi is None else tables.models[entry.abi].digest
    parts = (slot.handle, slot.generation, entry.version, abi, entry.parent_digest, entry.tokens)
    return hashlib.sha256(repr(parts).encode()).hexdigest()
