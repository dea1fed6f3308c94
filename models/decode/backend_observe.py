"""The backend's state in the specification's words, read off what it holds.

Modelled: one reader for each variable. Lengths of rows are those of the tensors that a reader of the
handle sees, whose sampler state a row has is told by its generator's seed, whether a block is filled
by what it holds. Left out: everything the specification has no variable for.
"""

from __future__ import annotations

from collections.abc import Callable

from attrs import frozen

from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_appends import Appends, Txn
from kvspec.models.decode.backend_tables import Slot, Tables
from kvspec.models.decode.hooks import Part

_SEED_HANDLE = 0xFFFF


@frozen(eq=False)
class Observer:
    """Reads variables, by name, off the tables and appends of one backend."""

    tables: Tables
    appends: Appends

    def state(self, variables: list[str]) -> State:
        """The state whose tables are those variables, in that order."""
        return State(tuple(tuple(READERS[name](self)) for name in variables))

    def rows(self, part: Part) -> list[Value]:
        """Rows of one part that a reader sees, for each handle and layer."""
        side = 0 if part is Part.KEY else 1
        found: list[Value] = []
        for slot in self.tables.slots:
            shown = slot.entry.rows
            if shown is None:
                found += [0] * self.tables.shape.layers
            else:
                found += [pair[side] for pair in shown.lengths()]
        return found

    def staged(self, part: Part) -> list[Value]:
        """Position behind the last staged row of one part, for each append and layer."""
        layers = range(self.tables.shape.layers)
        return [txn.end(layer, part) for txn in self.appends.txns for layer in layers]

    def owners(self) -> list[Value]:
        """Whether a handle has a claim on a block, for each block and handle."""
        pool, handles = self.tables.pool, range(len(self.tables.slots))
        return [handle in owners for owners in pool.owners for handle in handles]


def _slots(read: Callable[[Slot], Value]) -> Callable[[Observer], list[Value]]:
    return lambda of: [read(slot) for slot in of.tables.slots]


def _txns(read: Callable[[Txn], Value]) -> Callable[[Observer], list[Value]]:
    return lambda of: [read(txn) for txn in of.appends.txns]


READERS: dict[str, Callable[[Observer], list[Value]]] = {
    "phase": _slots(lambda slot: slot.entry.phase),
    "generation": _slots(lambda slot: slot.generation),
    "version": _slots(lambda slot: slot.entry.version),
    "abi": _slots(lambda slot: slot.entry.abi),
    "parent": _slots(lambda slot: slot.entry.parent),
    "length": _slots(lambda slot: len(slot.entry.tokens)),
    "k_rows": lambda of: of.rows(Part.KEY),
    "v_rows": lambda of: of.rows(Part.VALUE),
    "filled": lambda of: [held is not None for held in of.tables.pool.held],
    "owner": lambda of: of.owners(),
    "row_cache": lambda of: list(of.tables.batch.caches),
    "row_tokens": lambda of: [
        None if held is None else held.handle for held in of.tables.batch.outputs
    ],
    "row_sampler": lambda of: [
        None if held is None else held.initial_seed() & _SEED_HANDLE
        for held in of.tables.batch.samplers
    ],
    "row_ancestry": lambda of: list(of.tables.batch.ancestry),
    "row_position": lambda of: list(of.tables.batch.positions),
    "state": _txns(lambda txn: txn.state),
    "target": _txns(lambda txn: txn.target),
    "base_generation": _txns(lambda txn: txn.base_generation),
    "base_version": _txns(lambda txn: txn.base_version),
    "txn_abi": _txns(lambda txn: txn.abi),
    "key": _txns(lambda txn: txn.key),
    "start": _txns(lambda txn: txn.start),
    "count": _txns(lambda txn: txn.count),
    "k_end": lambda of: of.staged(Part.KEY),
    "v_end": lambda of: of.staged(Part.VALUE),
    "receipt": _txns(lambda txn: txn.receipt.version if txn.receipt else 0),
    "acked": _txns(lambda txn: txn.ack is not None),
    "ack_handle": _txns(lambda txn: txn.ack.handle if txn.ack else None),
    "ack_key": _txns(lambda txn: txn.ack.key if txn.ack else None),
    "ack_base": _txns(lambda txn: txn.ack.base if txn.ack else 0),
    "ack_count": _txns(lambda txn: txn.ack.count if txn.ack else 0),
    "ack_receipt": _txns(lambda txn: txn.ack.receipt if txn.ack else 0),
}
"""How each variable of the core system is read."""
