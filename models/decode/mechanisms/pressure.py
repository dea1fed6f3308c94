"""A pool of real rows that is too small, with preemption by age, and faults to switch on.

Modelled: a slot holds the rows of four tokens. A request computes its rows into each slot when it gets it,
from those of the slots that it has, and computes them anew after a preemption. A step that is in flight when
a slot is released writes the last row of that slot when it settles. A scheduler with its own tables.
Damage: rows of a request that are not its own, and its logits; rows of the next owner that a step in flight
would write over, tried on a copy; requests that never end although everybody takes every turn there is,
played on a copy of the tables; bytes that are refused to a newcomer when everybody has ended.
Left out: work behind the rows of two slots.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Final

import torch
from attrs import frozen
from torch import Tensor

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.agreement import disagreement
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import token_of
from kvspec.models.decode.mechanisms.pressure_pool import FAULTS, NEEDED, Pool
from kvspec.models.decode.mechanisms.slot_rows import SlotRows, is_apart, small_model
from kvspec.spec.language import Instance

__all__ = ["FAULTS", "ROWS", "Cache", "fault_for"]

ROWS: Final = 4
"""Rows of a slot."""

_ROUNDS: Final = 32

Layers = list[tuple[Tensor, Tensor]]
"""K and V of each layer, [1, H_kv, R, d_h]."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of pressure, or None."""
    return mutation if mutation in FAULTS else None


@frozen
class Flight:
    """A step in flight at the release of a slot: its tokens, and the places of their rows."""

    tokens: tuple[int, ...]
    places: tuple[int, ...]


class Cache:
    """The pool, its rows, and the steps in flight; it speaks of the system `pressure`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self._faults = known_faults(faults, FAULTS)

    def reset(self, instance: Instance) -> None:
        """Begin anew, with a pool that is all free and no request."""
        sizes = instance.sizes
        self._variables = list(instance.system.variables)
        self._pool = Pool(sizes["Request"], sizes["Slot"], self._faults)
        self._rows = SlotRows(small_model(), max(1, sizes["Slot"] * ROWS))
        self._flights: list[list[Flight]] = [[] for _ in range(sizes["Slot"])]

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it and change nothing."""
        pool = self._pool
        parked, tables = list(pool.parked), [list(request.table) for request in pool.requests]
        reply = pool.perform(event)
        for q, table in enumerate(tables):
            self._follow(q, table, pool.requests[q].table)
        for s in parked:
            if s not in pool.parked:
                self._land(self._rows, s)
                self._flights[s].clear()
        return reply

    def _follow(self, q: int, before: list[int], after: list[int]) -> None:
        """Compute what goes into a slot that a request got; what it gave up is still being written."""
        tokens = _tokens(f"request{q}")
        for place, s in enumerate(before):
            if s not in after:
                written = (place + 1) * ROWS
                flight = Flight(tokens[:written], tuple(_places(before))[:written])
                self._flights[s].append(flight)
        for place, s in enumerate(after):
            if s not in before:
                new = tokens[place * ROWS : (place + 1) * ROWS]
                self._rows.compute(new, place * ROWS, _places(after[: place + 1]))

    def _land(self, rows: SlotRows, s: int) -> None:
        """The steps in flight on a slot write their last rows."""
        for flight in self._flights[s]:
            rows.compute(flight.tokens[-1:], len(flight.tokens) - 1, flight.places)

    # What is seen.

    def observe(self) -> State:
        """The state as the specification's variables."""
        pool = self._pool
        seen: dict[str, list[Value]] = {
            "life": [request.life for request in pool.requests],
            "age": [request.age for request in pool.requests],
            "arrivals": [pool.arrivals],
            "leaving": [request.is_leaving for request in pool.requests],
            "holds": [s in each.table for s in range(pool.slots) for each in pool.requests],
            "parked": [s in pool.parked for s in range(pool.slots)],
        }
        return State(tuple(tuple(seen[name]) for name in self._variables))

    def damage(self) -> list[Damage]:
        """Rows that are not their request's, or will not be; who never ends, and slots for nobody."""
        found: list[Damage] = []
        for q, request in enumerate(self._pool.requests):
            if request.life == "ACTIVE" and request.table:
                tokens = _tokens(f"request{q}")
                found += self._of(self._rows, f"request{q}", tokens, _places(request.table))
        return found + self._late_writes() + self._ends()

    def _of(
        self, rows: SlotRows, where: str, tokens: tuple[int, ...], places: list[int]
    ) -> list[Damage]:
        known, layers = tokens[: len(places)], rows.layers(places)
        wrong = rows.wrong_rows(known, layers)
        if not wrong:
            return []
        found = [Damage("rows", where, wrong, f"of {len(places)} rows are not its own")]
        logits = rows.next_logits(known[-1], len(known) - 1, layers)
        right = rows.model.run(known).logits
        if is_apart(logits, right):
            off = disagreement(logits, right)
            found.append(Damage("logits", where, off, "logits of the next token, uncached run"))
        return found

    def _late_writes(self) -> list[Damage]:
        """Rows that steps in flight will write over, in slots that do not wait for them."""
        found: list[Damage] = []
        for s, flights in enumerate(self._flights):
            if not flights or (s in self._pool.parked and not self._pool.is_held(s)):
                continue
            rows = deepcopy(self._rows, {id(self._rows.model): self._rows.model})
            tokens, places = _tokens("stranger")[:ROWS], _places([s])
            if not self._pool.is_held(s):
                rows.compute(tokens, 0, places)
            before = rows.layers(places)
            self._land(rows, s)
            lost = _changed(before, rows.layers(places))
            if lost:
                text = "of the slot's next owner are written over by a step in flight"
                found.append(Damage("rows", f"slot{s}", lost, text))
        return found

    def _ends(self) -> list[Damage]:
        """Requests that have not ended, and slots that nobody can have, when everybody took every turn."""
        played, given = self._pool.played_on(_ROUNDS)
        waiting = [q for q, each in enumerate(played.requests) if each.life == "ACTIVE"]
        if waiting:
            text = (
                f"of {played.arrivals} requests have not ended when everybody has taken every turn, with "
                f"{given * ROWS} rows computed in up to {_ROUNDS} rounds"
            )
            return [Damage("waits", "pool", len(waiting), text)]
        slot_bytes = ROWS * self._rows.row_bytes
        text = "bytes are refused to a newcomer although every request has ended"
        return [Damage("owner", f"slot{s}", slot_bytes, text) for s in played.unfree()]


def _tokens(whose: str) -> tuple[int, ...]:
    return tuple(token_of(whose, place) for place in range(NEEDED * ROWS))


def _places(slots: list[int]) -> list[int]:
    """Where the rows of a table of slots lie, in order."""
    return [s * ROWS + place for s in slots for place in range(ROWS)]


def _changed(before: Layers, after: Layers) -> int:
    """How many rows are not as they were, in whatever layer."""
    pairs = [
        parts for layer in zip(before, after, strict=True) for parts in zip(*layer, strict=True)
    ]
    return sum(
        any(not torch.equal(old[:, :, place], new[:, :, place]) for old, new in pairs)
        for place in range(ROWS)
    )
