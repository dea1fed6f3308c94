"""Locks with receipts over nodes of real rows, counted in whole numbers, and faults to switch on.

Modelled: a node is a prefix, and a component of it the rows of one layer, in a block of that layer's pool. A
lock raises the count of what is there, notes that on its receipt, and reads those blocks. What a drop gives
back is filled with rows of a stranger at once. A count can fall below zero, as a number can.
Damage: rows that the holder of a lock reads and that are not its node's, with its logits, where the layers
that it did not find are its own; where a count is too low, what dropping under that lock, or under the
next, would cost, tried on a copy; bytes that no drop frees although all locks were given back, tried too.
Left out: paths of several nodes; whoever locks a path locks each of its nodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import deepcopy
from itertools import product
from typing import Final

import torch
from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import VOCAB, Model, model_of, token_of
from kvspec.models.decode.config import DecoderConfig
from kvspec.models.decode.mechanisms.checks import Checked
from kvspec.models.decode.mechanisms.slot_rows import is_apart, is_same
from kvspec.spec.language import Instance

ROWS: Final = 4
"""Rows of a node in each layer."""

FAULTS: Final = {
    "unlock.by-what-is-present": "an unlock gives back what is there by then",
    "unlock.at-most-the-receipt": "an unlock may give back less than its lock took",
    "unlock.drop-guard.NOT_THE_RECEIPT": "an unlock gives back whatever it likes",
    "unlock.drop-assignment.counted": "an unlock lowers no count",
    "lock.drop-assignment.counted": "a lock raises no count",
    "lock.drop-assignment.took": "a lock writes nothing on its receipt",
    "drop.drop-guard.COMPONENT_LOCKED": "a component is dropped whatever its count says",
}
"""Every fault that the cache can be given, by name, with what it does."""

Rows = tuple[Tensor, Tensor]
"""K and V of one layer, [1, H_kv, ROWS, d_h]."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of locks, or None."""
    return mutation if mutation in FAULTS else None


def model_with(layers: int) -> Model:
    """The decoder whose rows the nodes have; the same one at each call."""
    return model_of(DecoderConfig(layers=max(1, layers), vocab=VOCAB), 0, torch.device("cpu"))


@define
class Holder:
    """Who locks: the node, the components on its receipt, and the blocks that it reads, by component."""

    node: int | None = None
    receipt: set[int] = field(factory=set)
    reads: dict[int, int] = field(factory=dict)


@define
class Component:
    """The rows of a node in one layer: where they are, the count of locks, and the locks that raised it."""

    block: int | None = None
    count: int = 0
    raised_by: set[int] = field(factory=set)


class Cache(Checked):
    """Nodes, the pools of their components, and locks; it speaks of the system `locks`.

    Attributes:
        nodes: the components of each node.
        holders: the locks.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew, with nodes that have no component and locks that are on none."""
        sizes = instance.sizes
        nodes, self._layers = sizes["Node"], sizes["Component"]
        self._variables = list(instance.system.variables)
        self.model = model_with(self._layers)
        self.nodes = [[Component() for _ in range(self._layers)] for _ in range(nodes)]
        self.holders = [Holder() for _ in range(sizes["Lock"])]
        self._free = [list(range(nodes)) for _ in range(self._layers)]
        # Whoever had the pools before has left its rows.
        self._pools = [[self._strange(layer)] * nodes for layer in range(self._layers)]

    # Actions.

    def _load(self, n: int, c: int) -> None:
        found = self.nodes[n][c]
        self._need(found.block is None, "IS_PRESENT")
        found.block = self._free[c].pop()
        self._pools[c][found.block] = self._rows_of(_tokens(f"node{n}"), c)

    def _drop(self, n: int, c: int) -> None:
        found = self.nodes[n][c]
        self._need(found.block is not None, "IS_ABSENT")
        self._need(found.count <= 0, "COMPONENT_LOCKED")
        if found.block is not None:
            self._free[c].append(found.block)
            self._pools[c][found.block] = self._strange(c)
        found.block = None

    def _lock(self, k: int, n: int) -> None:
        self._need(self.holders[k].node is None, "LOCK_IN_USE")
        there = {c: each.block for c, each in enumerate(self.nodes[n]) if each.block is not None}
        receipt = set() if self._has("drop-assignment.took") else set(there)
        self.holders[k] = Holder(n, receipt, there)
        for c in () if self._has("drop-assignment.counted") else there:
            self.nodes[n][c].count += 1
            self.nodes[n][c].raised_by.add(k)

    def _unlock(self, k: int, back: tuple[bool, ...]) -> None:
        holder = self.holders[k]
        self._need(holder.node is not None, "NOT_LOCKED")
        node = [] if holder.node is None else self.nodes[holder.node]
        given = {c for c, is_given in enumerate(back) if is_given}
        self._need(self._is_due(given, holder, node), "NOT_THE_RECEIPT")
        for c in () if self._has("drop-assignment.counted") else given:
            node[c].count -= 1
            node[c].raised_by.discard(k)
        self.holders[k] = Holder()

    def _is_due(self, given: set[int], holder: Holder, node: Sequence[Component]) -> bool:
        """What is given back is what the lock took."""
        if self._has("by-what-is-present"):
            return given == {c for c, each in enumerate(node) if each.block is not None}
        if self._has("at-most-the-receipt"):
            return given <= holder.receipt
        return given == holder.receipt

    def _has(self, fault: str) -> bool:
        return f"{self._action}.{fault}" in self._faults

    # Rows.

    def _rows_of(self, tokens: tuple[int, ...], layer: int) -> Rows:
        run = self.model.run(tokens)
        return run.keys[layer : layer + 1], run.values[layer : layer + 1]

    def _strange(self, layer: int) -> Rows:
        return self._rows_of(_tokens("stranger"), layer)

    @property
    def _block_bytes(self) -> int:
        return sum(part.numel() * part.element_size() for part in self._strange(0))

    # What is seen.

    def observe(self) -> State:
        """The state as the specification's variables; what a count should be is told by who raised it."""
        each = [component for node in self.nodes for component in node]
        layers = range(self._layers)
        seen: dict[str, list[Value]] = {
            "present": [found.block is not None for found in each],
            "locked": [holder.node for holder in self.holders],
            "took": [c in holder.receipt for holder in self.holders for c in layers],
            "counted": [k in found.raised_by for k in range(len(self.holders)) for found in each],
            "short": [found.count < len(found.raised_by) for found in each],
        }
        return State(tuple(tuple(seen[name]) for name in self._variables))

    def damage(self) -> list[Damage]:
        """What holders read that is not their node's, what too low a count costs, and bytes for nobody."""
        return self.misread() + self._endangered() + self._kept()

    def misread(self) -> list[Damage]:
        """What holders of locks read that is not their node's."""
        found: list[Damage] = []
        for k, holder in enumerate(self.holders):
            if holder.node is not None:
                found += self._of_reads(f"lock{k}", _tokens(f"node{holder.node}"), holder.reads)
        return found

    def _of_reads(self, where: str, tokens: tuple[int, ...], reads: dict[int, int]) -> list[Damage]:
        """Rows in the blocks that a holder reads that are not its node's, and its logits with those rows."""
        own = [self._rows_of(tokens, layer) for layer in range(self.model.decoder.config.layers)]
        read = [self._pools[c][reads[c]] if c in reads else own[c] for c in range(len(own))]
        wrong = sum(_unlike(found, right) for found, right in zip(read, own, strict=True))
        if not wrong:
            return []
        text = f"of the rows that it has locked, in {len(reads)} layers, are of a stranger"
        found = [Damage("rows", where, wrong, text)]
        places = [torch.arange(ROWS)] * len(own)
        logits = self.model.logits(tokens[-1], ROWS - 1, read, places)
        right = self.model.run(tokens).logits
        if is_apart(logits, right):
            off = disagreement(logits, right)
            found.append(Damage("logits", where, off, "logits behind the node, uncached run"))
        return found

    def _endangered(self) -> list[Damage]:
        """For each count below the number of holders that read, the rows that a drop would take from one."""
        found: list[Damage] = []
        for n, node in enumerate(self.nodes):
            for c, component in enumerate(node):
                if component.count < self._readers(n, c):
                    found += self._try_drop(n, c)
        return found

    def _readers(self, n: int, c: int) -> int:
        return sum(holder.node == n and c in holder.reads for holder in self.holders)

    def _try_drop(self, n: int, c: int) -> list[Damage]:
        tried, before = self._copy(), len(self.misread())
        component, locks = tried.nodes[n][c], max(1, self._readers(n, c))
        if component.block is None:
            tried.perform(Event("load", (("n", n), ("c", c))))
        if not self._readers(n, c):
            tried.holders.append(Holder())
            tried.perform(Event("lock", (("k", len(tried.holders) - 1), ("n", n))))
        if not tried.perform(Event("drop", (("n", n), ("c", c)))).accepted:
            return []
        lost = sum(int(harm.amount) for harm in tried.misread()[before:] if harm.kind == "rows")
        text = (
            f"of component{c} can be dropped under {locks} lock, whose count is {component.count}"
        )
        return [Damage("rows", f"node{n}", lost, text)] if lost else []

    def _kept(self) -> list[Damage]:
        """Bytes of components that cannot be dropped when all locks have been given back, by any receipt."""
        tried = self._copy()
        for k, holder in enumerate(self.holders):
            if holder.node is not None:
                own = tuple(c in holder.receipt for c in range(self._layers))
                for back in (own, *product((False, True), repeat=self._layers)):
                    if tried.perform(Event("unlock", (("k", k), ("back", back)))).accepted:
                        break
        found: list[Damage] = []
        for n, node in enumerate(tried.nodes):
            for c, component in enumerate(node):
                gone = tried.perform(Event("drop", (("n", n), ("c", c))))
                if component.block is not None:
                    text = f"bytes of component{c} stay for ever: without locks {gone.code}"
                    found.append(Damage("owner", f"node{n}", self._block_bytes, text))
        return found

    def _copy(self) -> Cache:
        """The same tables and rows, to try things on."""
        return deepcopy(self, {id(self.model): self.model})


def _tokens(whose: str) -> tuple[int, ...]:
    return tuple(token_of(whose, place) for place in range(ROWS))


def _unlike(found: Rows, right: Rows) -> int:
    """How many rows of a layer are not the right ones."""
    pairs = list(zip(found, right, strict=True))
    return sum(
        not all(is_same(one[0, :, place], other[0, :, place]) for one, other in pairs)
        for place in range(ROWS)
    )
