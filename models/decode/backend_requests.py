"""The life of a request in the backend: allocate, fork, truncate, end, release, evict.

Modelled: a request takes a slot of the handle table and a prefix block, into which its prompt's rows
are written at once; forks share the block and have rows of their own; release drops rows and claims,
and eviction overwrites the block. Left out: admission, preemption, blocks for more than the prompt.
"""

from __future__ import annotations

from attrs import define, evolve

from kvspec.models.decode.backend_appends import Appends
from kvspec.models.decode.backend_model import prompt_of
from kvspec.models.decode.backend_tables import (
    FREE,
    TERMINAL,
    Entry,
    Output,
    Slot,
    Tables,
    enter_together,
    seal,
)
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.layouts import MixableSnapshot
from kvspec.models.decode.shapes import Snapshot


@define(eq=False)
class Requests:
    """The requests of a backend; each method is an event, refused with `RefusedError`."""

    tables: Tables
    appends: Appends

    def allocate(self, h: int, b: int, a: int) -> None:
        """Give a free handle and an empty block to a new request of the ABI a."""
        tables, slot = self.tables, self.tables.slots[h]
        held = tables.pool.held[b] is not None
        tables.need("allocate", slot.entry.phase in FREE, "HANDLE_LIVE", slot.entry.phase)
        tables.need("allocate", not held, "BLOCK_IN_USE", f"block{b} holds rows")
        lineage = slot.begin_life("")
        prompt = prompt_of(lineage)
        tables.pool.fill(b, prompt, tables.models[a])
        if not tables.lacks("allocate.drop-assignment.owner"):
            tables.pool.owners[b].add(h)
        if slot.layout is None:
            slot.layout = tables.store()
        entry = Entry(
            "DECODE_READY", 0, "", a, lineage=lineage, prompt=prompt, block=b, rows=_shown(slot)
        )
        slot.output = Output(h, prompt, ())
        slot.entry = seal(tables, slot, entry)

    def fork(self, p: int, children: tuple[bool, ...], n: int) -> None:
        """Give the first n rows of a ready handle to all children at once."""
        tables, parent, need = self.tables, self.tables.slots[p].entry, self.tables.need
        chosen = [slot for slot, is_child in zip(tables.slots, children, strict=True) if is_child]
        length = len(parent.tokens)
        busy = [slot.handle for slot in chosen if slot.entry.phase not in FREE]
        need("fork", parent.phase == "DECODE_READY", "HANDLE_TERMINAL", parent.phase)
        need("fork", bool(chosen), "NO_CHILD", "no child")
        need("fork", n <= length, "BEYOND_COMMITTED", f"{length} rows, asked for {n}")
        need("fork", not busy, "CHILD_IN_USE", f"handles {busy} are in use")
        # All that can fail comes before the first child is entered in the table.
        layouts = [self._child_layout(tables.slots[p], n) for _ in chosen]
        claims = [p in owners for owners in tables.pool.owners]
        entries = []
        for slot, (layout, rows) in zip(chosen, layouts, strict=True):
            slot.layout = layout
            entries.append(self._child_entry(slot, p, parent, n, rows))
        enter_together(tables, chosen, entries)
        for slot in chosen:
            if not tables.lacks("fork.drop-assignment.owner"):
                for owners, claimed in zip(tables.pool.owners, claims, strict=True):
                    owners.add(slot.handle) if claimed else owners.discard(slot.handle)

    def truncate(self, h: int, n: int) -> None:
        """Make a snapshot of the first n rows, in all layers at once."""
        tables, slot, need = self.tables, self.tables.slots[h], self.tables.need
        entry, length = slot.entry, len(slot.entry.tokens)
        need("truncate", entry.phase == "DECODE_READY", "HANDLE_TERMINAL", entry.phase)
        need("truncate", n <= length, "BEYOND_COMMITTED", f"{length} rows, asked for {n}")
        need("truncate", length <= n + tables.rewind, "CANNOT_REWIND", f"from {length} to {n}")
        rows = entry.rows
        if slot.layout is not None:
            rows = slot.layout.truncate(n)
            if tables.lacks("truncate.layer-local") and isinstance(entry.rows, MixableSnapshot):
                later = [cell for cell in tables.shape.cells() if cell[0] > 0]
                rows = entry.rows.mixed(rows, later)
        step = 0 if tables.lacks("truncate.drop-assignment.version") else 1
        tokens = _first(entry.tokens, n)
        newer = evolve(entry, version=entry.version + step, tokens=tokens, rows=rows)
        slot.entry = seal(tables, slot, newer)
        if slot.output is not None:
            slot.output.tokens = tokens
        if not tables.lacks("truncate.drop-assignment.row_position"):
            tables.batch.move(h, n)

    def cancel_request(self, h: int) -> None:
        """End a request early and abort every append it has open."""
        slot = self.tables.slots[h]
        self.end("cancel_request", slot, "CANCELLED")
        if not self.tables.lacks("cancel_request.drop-assignment.state"):
            self.appends.abort_all(slot)

    def finish(self, h: int) -> None:
        """End a request after its last row."""
        self.end("finish", self.tables.slots[h], "FINISHED")

    def release(self, h: int) -> None:
        """Give up the rows and claims of an ended request; its record stays, unreadable."""
        tables, slot = self.tables, self.tables.slots[h]
        entry, row = slot.entry, self.tables.batch.find(h)
        tables.need("release", entry.phase in TERMINAL, "NOT_TERMINAL", entry.phase)
        tables.need("release", row < 0, "ROW_HOLDS_HANDLE", f"row{row} carries handle{h}")
        if tables.lacks("release.keeps-rows"):
            slot.entry = evolve(entry, phase="RELEASED")
        else:
            slot.entry = evolve(entry, phase="RELEASED", rows=None)
            if slot.layout is not None:
                slot.layout.release()
                slot.layout = None
        if not tables.lacks("release.drop-assignment.generation"):
            slot.generation += 1
        if not tables.lacks("release.drop-assignment.owner"):
            for owners in tables.pool.owners:
                owners.discard(h)

    def evict(self, b: int) -> None:
        """Overwrite a block that nobody owns, and give it back."""
        pool = self.tables.pool
        self.tables.need("evict", pool.held[b] is not None, "BLOCK_EMPTY", f"block{b} is empty")
        owners = sorted(pool.owners[b])
        self.tables.need("evict", not owners, "STILL_OWNED", f"owned by handles {owners}")
        pool.empty(b)

    def end(self, action: str, slot: Slot, phase: str) -> None:
        """Put the request of a slot into a phase in which it takes no more rows."""
        ready = slot.entry.phase == "DECODE_READY"
        self.tables.need(action, ready, "HANDLE_TERMINAL", slot.entry.phase)
        slot.entry = evolve(slot.entry, phase=phase)

    def _child_entry(
        self, slot: Slot, p: int, parent: Entry, n: int, rows: Snapshot | None
    ) -> Entry:
        """The request of a slot as a child of the parent, with its first n tokens; not yet shown."""
        tokens = _first(parent.tokens, n)
        entry = Entry(
            "DECODE_READY",
            0,
            abi=parent.abi,
            parent=p,
            parent_digest=parent.digest,
            lineage=slot.begin_life(parent.lineage),
            prompt=parent.prompt,
            tokens=tokens,
            block=parent.block,
            rows=rows,
        )
        slot.output = Output(slot.handle, parent.prompt, tokens)
        return seal(self.tables, slot, entry)

    def _child_layout(self, parent: Slot, n: int) -> tuple[AnyLayout, Snapshot | None]:
        if parent.layout is None:
            layout = self.tables.store()
            return layout, layout.snapshot()
        whole = n == len(parent.entry.tokens)
        in_place = parent.layout.writes_in_place
        if self.tables.lacks("fork.shared-rows") and not in_place and whole:
            # A layout that never writes in place has no alias: here the table itself is shared.
            return parent.layout, parent.layout.snapshot()
        child = parent.layout.fork(n)
        return child, child.snapshot()


def _shown(slot: Slot) -> Snapshot | None:
    return None if slot.layout is None else slot.layout.snapshot()


def _first(tokens: tuple[int, ...], n: int) -> tuple[int, ...]:
    """The first n token ids; where there are fewer, zeros, as in a fixed array of ids."""
    return (tokens + (0,) * (n - len(tokens)))[:n]
