"""Whether a history is linearizable.

It is if there is an order of its operations, each between its call and its answer, in which the
sequential specification gives every answer.

Modelled: Wing and Gong's search with Lowe's memo, compiled (`models.explicit.linear`), over parts of the
history that share no cell (`footprints`). An operation without an answer took effect at some moment
after its call, or never did. A refusal that assigns something takes effect like any step. A read sees
all its cells at one moment. Limits of an instance, which bound a search, are not looked at; a step that
would leave its bounds makes the verdict unknown where it could have mattered.
Left out: answers of which only a part is known, beside a refusal without its code.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import attrs
import numpy as np

from kvspec.models.concrete.machine import Machine
from kvspec.models.concrete.state import State
from kvspec.models.explicit.linear import components
from kvspec.models.explicit.linearizer import LimitError, Limits, Linearizer, Problem
from kvspec.models.explicit.stepper import Stepper
from kvspec.properties.linearizability.errors import HistoryError
from kvspec.properties.linearizability.history import History
from kvspec.properties.linearizability.parts import joined, merged
from kvspec.properties.linearizability.universe import NO_LIMITS, Packed, Universe
from kvspec.spec.language import Instance

HOLDS, VIOLATED, UNKNOWN = "holds", "violated", "unknown"
MOST_STARTS = 64
"""Starts of histories for which what was computed is kept."""


@attrs.frozen(eq=False)
class Decision:
    """A verdict on a history without its reasons.

    parts: how many parts were checked apart. order: places of operations, of the whole history if it
    holds, else the longest sequence found in the part that fails. part: the places of that part.
    """

    verdict: str
    reason: str
    parts: int
    order: tuple[int, ...]
    part: tuple[int, ...]
    nodes: int
    kept: int
    bytes: int


class Checker:
    """Checks histories over one instance, with what is compiled and computed kept between them.

    partition: check apart what shares no cell. prune: cut branches early; the verdict is the same
    without. variant: read the specification as that mutant.
    """

    def __init__(
        self, instance: Instance, *, partition: bool = True, prune: bool = True, variant: int = 0
    ) -> None:
        self.instance = instance
        self.partition = partition
        self.prune = prune
        self.variant = variant
        self.stepper = Stepper(instance)
        self._universes: dict[State, Universe] = {}

    @cached_property
    def machine(self) -> Machine:
        """The specification in plain Python."""
        return Machine(self.instance, self.variant)

    @cached_property
    def initial(self) -> State:
        """The one initial state of the instance."""
        states = self.machine.initial_states()
        if len(states) != 1:
            raise HistoryError(
                f"a history over {self.instance!r}",
                f"no start, and {len(states)} initial states",
                "one state before the first operation",
                "give the history a start",
            )
        return states[0]

    @cached_property
    def _linearizer(self) -> Linearizer:
        return Linearizer(self.stepper)

    def start_of(self, history: History) -> State:
        """The state before the first operation."""
        return self.initial if history.start is None else history.start

    def pack(
        self,
        history: History,
        forgotten: frozenset[int] = frozenset(),
        limits: Limits = NO_LIMITS,
    ) -> Packed:
        """A history as arrays; forgotten: places of operations that may have been told anything.

        Raises LimitError at a limit.
        """
        start = self.start_of(history)
        universe = self._universes.get(start)
        if universe is None:
            if len(self._universes) >= MOST_STARTS:
                self._universes.clear()
            universe = self._universes[start] = Universe(self.stepper, start)
        try:
            return universe.pack(history, forgotten, limits)
        except LimitError:
            del self._universes[start]  # what it was taking in is there in part
            raise

    def judge(
        self,
        history: History,
        limits: Limits | None = None,
        *,
        forgotten: frozenset[int] = frozenset(),
        order: bool = True,
        prune: bool | None = None,
    ) -> Decision:
        """The verdict on a history; what the limits bound begins with its arrays."""
        limits = (limits or Limits()).begun()
        try:
            packed = self.pack(history, forgotten, limits)
        except LimitError as limit:
            return Decision(UNKNOWN, limit.reason, 1, (), (), 0, 0, 0)
        return self.decide(packed, limits, order=order, prune=prune)

    def decide(
        self,
        packed: Packed,
        limits: Limits | None = None,
        *,
        order: bool = True,
        prune: bool | None = None,
    ) -> Decision:
        """The verdict on a packed history.

        order: tell a linearization, or how far one comes. prune: other than the checker's own.
        """
        early = self.prune if prune is None else prune
        limits = (limits or Limits()).begun()
        parts = self._parts(packed)
        nodes, kept, size = 0, 0, 0
        orders: list[list[int]] = []
        unknown: Decision | None = None
        for problem, places in parts:
            solution = self._linearizer.solve(
                problem, packed.start, limits, prune=early, variant=self.variant, order=order
            )
            nodes, kept = nodes + solution.nodes, kept + solution.kept
            size = max(size, solution.bytes)
            sequence = [int(places[place]) for place in solution.order]
            if solution.verdict != HOLDS:
                told = Decision(
                    solution.verdict,
                    solution.reason,
                    len(parts),
                    tuple(sequence),
                    tuple(int(place) for place in places) if order else (),
                    nodes,
                    kept,
                    size,
                )
                if solution.verdict == VIOLATED:
                    return told
                unknown = unknown or told
            orders.append(sequence)
        if unknown is not None:
            return unknown
        whole: tuple[int, ...] = ()
        if order:
            places, asked = packed.places.tolist(), packed.problem.invoked.tolist()
            whole = merged(
                orders,
                dict(zip(places, packed.clients.tolist(), strict=True)),
                dict(zip(places, asked, strict=True)),
            )
        return Decision(HOLDS, "", len(parts), whole, (), nodes, kept, size)

    def _parts(self, packed: Packed) -> list[tuple[Problem, Any]]:
        """The problems that are checked apart, each with the places of its operations."""
        whole = packed.problem
        if not self.partition or not whole.invoked.shape[0]:
            return [(whole, packed.places)]
        labels = np.empty(whole.many, np.int64)
        count = components(whole.kinds, whole.conflicts, whole.many, labels)
        if count <= 1:
            return [(whole, packed.places)]
        of = joined(labels[whole.kinds], packed.clients, whole.invoked, whole.returned)
        found = []
        for label in range(count):
            chosen = np.flatnonzero(of == label)
            if chosen.shape[0] == whole.invoked.shape[0]:
                return [(whole, packed.places)]
            if chosen.shape[0]:
                found.append((self._select(packed, chosen), packed.places[chosen]))
        return found

    def _select(self, packed: Packed, chosen: Any) -> Problem:
        whole, clients = packed.problem, packed.clients[chosen]
        edges = np.flatnonzero(clients[1:] != clients[:-1]) + 1
        rows = whole.rows.reshape(-1, self.stepper.width)[chosen]
        return attrs.evolve(
            whole,
            first=np.concatenate((np.zeros(1, np.int64), edges, [chosen.shape[0]])),
            rows=rows.reshape(-1),
            expected=whole.expected[chosen],
            invoked=whole.invoked[chosen],
            returned=whole.returned[chosen],
            kinds=whole.kinds[chosen],
            quiet=whole.quiet[chosen],
        )
