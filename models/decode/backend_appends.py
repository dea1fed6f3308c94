"""Appends of the backend: begin, stage, prepare, publish, retry, forget, and the abort of one.

Modelled: an append captures its base (handle, generation, snapshot digest, ABI) and its tokens at
begin; rows are staged in memory of its own; publication compares the base with the handle table and
installs the rows of all layers, tokens, version and digest by one reference swap. The receipt and
the fingerprint of a published append stay with its record until it is forgotten. Left out: time
limits, and records that outlive the process.
"""

from __future__ import annotations

import hashlib

from attrs import define, evolve, field, frozen

from kvspec.models.decode.backend_calls import Call, Staged
from kvspec.models.decode.backend_model import token_of
from kvspec.models.decode.backend_tables import (
    Entry,
    RefusedError,
    Slot,
    Tables,
    remember,
    seal,
)
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.shapes import Snapshot

LIVE = ("OPEN", "PREPARED")
ENDED = ("PUBLISHED", "ABORTED", "REJECTED")


@frozen
class Receipt:
    """What a publication made: the version and the digest of the new snapshot."""

    version: int
    digest: str


@frozen
class Ack:
    """What a client that asked again had named, and the version that it was told."""

    handle: int
    key: int
    base: int
    count: int
    receipt: int


@define(eq=False)
class Txn:
    """The record of an append.

    Attributes:
        state: where it is in its life.
        target: handle that it extends; this and the base are given up when it is discarded.
        base_generation: generation of the handle at begin, as are ``base_version``, ``base_digest``.
        abi: cache ABI of its rows.
        key: the client's idempotency key.
        start: first position of its interval, of ``count`` rows.
        tokens: the tokens to append.
        fingerprint: SHA-256 over everything that makes a repeated call the same call.
        receipt: what its publication made.
        ack: what a client that asked again was told.
        staged: its rows, None when they were thrown away.
        call: its model call, which may still produce rows when nobody wants them any more.
    """

    state: str = "IDLE"
    target: int | None = None
    base_generation: int = 0
    base_version: int = 0
    base_digest: str = ""
    abi: int | None = None
    key: int | None = None
    start: int = 0
    count: int = 0
    tokens: tuple[int, ...] = ()
    fingerprint: str = ""
    receipt: Receipt | None = None
    ack: Ack | None = None
    staged: Staged | None = None
    call: Call | None = None

    def end(self, layer: int, part: Part) -> int:
        """The position behind the last staged row of a part."""
        return self.start if self.staged is None else self.staged.ends[layer, part]

    def discard(self, state: str) -> None:
        """End without publication: claims and rows are given up, the interval stays on record."""
        self.state = state
        self.target = self.abi = self.key = None
        self.base_generation = self.base_version = 0
        self.base_digest = self.fingerprint = ""
        self.staged = None


@define(eq=False)
class Appends:
    """The appends of a backend; each method is an event, refused with `RefusedError`."""

    tables: Tables
    txns: list[Txn] = field(factory=list)

    def begin(self, x: int, h: int, k: int, a: int, p: int, n: int) -> None:
        """Open an append of n rows at position p, computed under the ABI a."""
        txn, slot = self.txns[x], self.tables.slots[h]
        entry, length = slot.entry, len(slot.entry.tokens)
        need = self.tables.need
        need("begin", txn.state == "IDLE", "TXN_IN_USE", f"txn{x} is {txn.state}")
        ready = entry.phase == "DECODE_READY"
        need("begin", ready, "HANDLE_TERMINAL", f"handle{h} is {entry.phase}")
        need("begin", entry.abi == a, "ABI_MISMATCH", f"handle{h} has abi{entry.abi}, not abi{a}")
        need("begin", p == length, "POSITION_MISMATCH", f"{length} rows, append at {p}")
        need("begin", n >= 1, "EMPTY_APPEND", f"{n} rows")
        need("begin", p + n <= self.tables.context, "CONTEXT_FULL", f"{p + n} rows")
        tokens = self.tables.fed.pop(h, ())
        if len(tokens) != n:
            tokens = tuple(
                token_of(entry.lineage, place, entry.version, x, k) for place in range(p, p + n)
            )
        fresh = Txn("OPEN", h, slot.generation, entry.version, entry.digest, a, k, p, n, tokens)
        fresh.receipt, fresh.ack = txn.receipt, txn.ack
        fresh.fingerprint = self._fingerprint(x, fresh, _fields(fresh))
        fresh.staged = Staged.begin(self.tables.shape, p, self.tables.longest)
        if tokens:
            fresh.call = Call(self.tables, entry, a, p, tokens)
            whole = entry.prompt + entry.tokens[:p] + tokens
            remember(self.tables, f"txn{x} on handle{h}, request {slot.births}", a, whole)
        self.txns[x] = fresh

    def stage_k(self, x: int, l: int, p: int) -> None:
        """Stage the K row of one layer at position p."""
        self._stage("stage_k", x, l, Part.KEY, p)

    def stage_v(self, x: int, l: int, p: int) -> None:
        """Stage the V row of one layer at position p."""
        self._stage("stage_v", x, l, Part.VALUE, p)

    def prepare(self, x: int) -> None:
        """Declare the append complete: staged over its interval, and written."""
        txn = self.txns[x]
        self.tables.need("prepare", txn.state == "OPEN", "TXN_CLOSED", f"txn{x} is {txn.state}")
        if self.tables.wait and txn.staged and not self.tables.lacks("publish.unwritten"):
            txn.staged.wait()
        for part, code in ((Part.KEY, "K_INCOMPLETE"), (Part.VALUE, "V_INCOMPLETE")):
            ends = [txn.end(layer, part) for layer in range(self.tables.shape.layers)]
            whole = all(end == txn.start + txn.count for end in ends)
            stop = f"{part.value} rows end at {ends}, the interval at {txn.start + txn.count}"
            written = whole and self._is_written(txn, part)
            self.tables.need("prepare", written, code, stop)
        txn.state = "PREPARED"

    def keep_first(self, x: int, n: int) -> None:
        """Throw away the rows behind the first n of an append, which is for n tokens from then on."""
        txn = self.txns[x]
        txn.count, txn.tokens = n, txn.tokens[:n]
        if txn.staged is not None:
            stop = txn.start + n
            txn.staged.ends = {cell: min(end, stop) for cell, end in txn.staged.ends.items()}
        txn.fingerprint = self._fingerprint(x, txn, _fields(txn))

    def publish(self, x: int) -> None:
        """Make the rows of all layers visible, if the handle still has the captured snapshot."""
        self.show(self.publishable(x), x)

    def publishable(self, x: int) -> Slot:
        """The checks of a publication, and the slot that it may extend; a stale append is rejected."""
        txn = self.txns[x]
        # An empty record names slot 0, as a zeroed descriptor does.
        slot = self.tables.slots[txn.target or 0]
        need, entry = self.tables.need, slot.entry
        need("publish", txn.state == "PREPARED", "NOT_PREPARED", f"txn{x} is {txn.state}")
        try:
            found = f"generation {slot.generation}, begun at {txn.base_generation}"
            same = slot.generation == txn.base_generation
            need("publish", same, "STALE_GENERATION", found)
            found = f"version {entry.version}, begun at {txn.base_version}"
            need("publish", self._is_base(txn, entry), "STALE_SNAPSHOT", found)
            need("publish", entry.phase == "DECODE_READY", "HANDLE_TERMINAL", entry.phase)
        except RefusedError:
            txn.discard("REJECTED")
            raise
        return slot

    def show(self, slot: Slot, x: int) -> None:
        """The change of a publication, which has been checked."""
        txn = self.txns[x]
        txn.receipt = self._commit(slot, txn)
        txn.state = "PUBLISHED"

    def retry(self, x: int, h: int, k: int, v: int, n: int) -> None:
        """Return the receipt of a published append to a call with the same fingerprint."""
        txn, need = self.txns[x], self.tables.need
        need("retry", txn.state == "PUBLISHED", "NOT_PUBLISHED", f"txn{x} is {txn.state}")
        own = _fields(txn)
        base = self.tables.digests.get((txn.target or 0, txn.base_generation, v), "unknown")
        named = {
            "HANDLE_CONFLICT": h,
            "KEY_CONFLICT": k,
            "BASE_CONFLICT": base,
            "INTERVAL_CONFLICT": (txn.start, n),
        }
        if self._fingerprint(x, txn, named) != txn.fingerprint:
            for code, value in named.items():
                need("retry", value == own[code], code, f"named {value}, published {own[code]}")
        txn.ack = Ack(h, k, v, n, txn.receipt.version if txn.receipt else 0)
        if self.tables.lacks("retry.appends-again"):
            self._commit(self.tables.slots[h], txn)

    def forget(self, x: int) -> None:
        """Drop the record of an ended append."""
        state = self.txns[x].state
        self.tables.need("forget", state in ENDED, "TXN_LIVE", f"txn{x} is {state}")
        self.txns[x] = Txn()

    def cancel_txn(self, x: int) -> None:
        """Abort one append and keep the request."""
        state = self.txns[x].state
        self.tables.need("cancel_txn", state in LIVE, "TXN_CLOSED", f"txn{x} is {state}")
        self.txns[x].discard("ABORTED")

    def abort_all(self, slot: Slot) -> None:
        """Abort every append to the request that a handle has now."""
        for txn in self.txns:
            ours = txn.target == slot.handle and txn.base_generation == slot.generation
            if ours and txn.state in LIVE:
                txn.discard("ABORTED")

    def _stage(self, action: str, x: int, layer: int, part: Part, place: int) -> None:
        txn, need = self.txns[x], self.tables.need
        end, stop = txn.end(layer, part), txn.start + txn.count
        need(action, txn.state == "OPEN", "TXN_CLOSED", f"txn{x} is {txn.state}")
        need(action, place == end, "POSITION_MISMATCH", f"next row is {end}, found {place}")
        need(action, end < stop, "INTERVAL_FULL", f"the interval ends at {stop}")
        if txn.call is None:
            return
        if txn.staged is None:
            # A late row of a discarded append, let through by a fault, finds memory again.
            txn.staged = Staged.begin(self.tables.shape, txn.start, self.tables.longest)
        row = txn.call.row(layer, part, place)
        txn.staged.stage(self.tables, (layer, part), place, row)

    def _is_written(self, txn: Txn, part: Part) -> bool:
        if txn.staged is None or self.tables.lacks("publish.unwritten"):
            return True
        return txn.staged.is_written(part)

    def _is_base(self, txn: Txn, entry: Entry) -> bool:
        """The handle shows the snapshot that the append began on.

        The digest covers the generation too. A backend that forgot generations has no such digest,
        and compares its bare counter of snapshots.
        """
        if self.tables.lacks("publish.drop-guard.STALE_GENERATION"):
            return entry.version == txn.base_version
        return entry.digest == txn.base_digest

    def _commit(self, slot: Slot, txn: Txn) -> Receipt:
        """The linearization point: one swap of the slot's entry shows all of it."""
        entry = slot.entry
        tokens = entry.tokens + txn.tokens
        newer = evolve(entry, version=entry.version + 1, tokens=tokens)
        newer = seal(self.tables, slot, newer)
        slot.entry = evolve(newer, rows=self._install(slot, txn, newer))
        self.tables.watch()
        if slot.output is not None:
            slot.output.tokens = tokens
        if not self.tables.lacks("publish.drop-assignment.row_position"):
            self.tables.batch.move(slot.handle, len(tokens))
        return Receipt(newer.version, newer.digest)

    def _install(self, slot: Slot, txn: Txn, newer: Entry) -> Snapshot | None:
        """The layout's snapshot with the staged rows; nothing that a reader looks at has moved yet.

        Only the torn fault moves the slot's entry here: tokens at once, and rows part by part.
        """
        staged, layout = txn.staged, slot.layout
        if staged is None or layout is None or txn.count == 0:
            return slot.entry.rows
        kept = {Part.KEY: "k_rows", Part.VALUE: "v_rows"}
        parts = {
            cell: staged.part(cell)
            for cell in staged.ends
            if not self.tables.lacks(f"publish.drop-assignment.{kept[cell[1]]}")
        }
        parts = {cell: rows for cell, rows in parts.items() if rows.shape[2]}
        if not parts:
            return slot.entry.rows
        staging = layout.begin(txn.count)
        try:
            for (layer, part), rows in parts.items():
                staging.stage(layer, part, rows, start=staged.start)
            snapshot: Snapshot | None = slot.entry.rows
            for snapshot in layout.install_steps(staging):
                if self.tables.lacks("publish.torn"):
                    slot.entry = evolve(newer, rows=snapshot)
                    self.tables.watch()
        finally:
            staging.discard()
        return snapshot

    def _fingerprint(self, x: int, txn: Txn, named: dict[str, object]) -> str:
        """SHA-256 over id, handle, key, base, interval, generation and ABI of a call.

        A field whose comparison is left out by a fault does not enter.
        """
        compared = [
            value
            for code, value in named.items()
            if not self.tables.lacks(f"retry.drop-guard.{code}")
        ]
        parts = (x, txn.base_generation, txn.abi, compared)
        return hashlib.sha256(repr(parts).encode()).hexdigest()


def _fields(txn: Txn) -> dict[str, object]:
    """What makes a call the call of this append, by the code of the conflict over it."""
    return {
        "HANDLE_CONFLICT": txn.target,
        "KEY_CONFLICT": txn.key,
        "BASE_CONFLICT": txn.base_digest,
        "INTERVAL_CONFLICT": (txn.start, txn.count),
    }
