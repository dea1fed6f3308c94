"""Traces: a shortest way from an initial state to a state that a search found.

A search keeps its levels while they are few; for a larger one it is run a second time up to the level
in question. From the end, a predecessor is looked for in each level before; then the way is walked
forward in real states, which under symmetry are not the representatives.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from kvspec.models.explicit.results import TraceStep
from kvspec.models.explicit.search import Breach, Level, Search
from kvspec.models.explicit.visited import Words

if TYPE_CHECKING:
    from kvspec.models.explicit.program import Program


class Tracer:
    """Finds traces for what a search found."""

    def __init__(self, search: Search) -> None:
        self.search = search
        self.program: Program = search.program
        self.words = self.program.layout.words
        slots = self.program.slots
        self.out = np.empty(slots * self.words, np.int64)
        self.src = np.empty(slots, np.int64)
        self.ev = np.empty(slots, np.int64)
        self.dead = np.empty(self.program.chunk, np.int64)
        self.tally = np.zeros(self.program.tally.size, np.int64)

    def trace(self, breach: Breach) -> tuple[TraceStep, ...]:
        """The shortest trace to a breach; its last step is the one that fails."""
        if breach.source is None:
            return self.walk(self.backwards(breach.state, breach.depth))
        way = self.backwards(breach.source, breach.depth - 1)
        return self.walk([*way, self._canonical(breach.state)], claim=breach.name)

    def backwards(self, state: Words, depth: int) -> list[Words]:
        """Representatives along a way to the state, from depth 0."""
        levels = self._levels(depth)
        way = [self._canonical(state)]
        for level in reversed(levels[:depth]):
            way.append(self._predecessor(level, way[-1]))
        return way[::-1]

    def walk(self, way: list[Words], claim: str | None = None) -> tuple[TraceStep, ...]:
        """Real steps along representatives; the last is one on which the step claim fails."""
        initial = self.program.initial(self.search.variant).reshape(-1, self.words)
        state = next(s for s in initial if np.array_equal(self._canonical(s), way[0]))
        steps = [TraceStep(None, "initial", self.program.unpack(state))]
        for place, goal in enumerate(way[1:], 2):
            last = claim if place == len(way) else None
            state, code = self._step(np.ascontiguousarray(state), goal, last)
            event, refusal = self.program.event(code)
            outcome = "accepted" if refusal is None else "refused"
            steps.append(TraceStep(event, outcome, self.program.unpack(state), refusal))
        return tuple(steps)

    def _levels(self, depth: int) -> list[Level]:
        found = self.search.history
        if found is not None and len(found) >= depth:
            return found
        again = Search(
            self.program,
            variant=self.search.variant,
            coverage=self.search.full,
            swaps=self.search.swaps,
            stop_at_first=False,
            keep_all=True,
            last_depth=depth,
        )
        again.run()
        self.search.history = again.history
        return again.history or []

    def _predecessor(self, level: Level, goal: Words) -> Words:
        for block, size in zip(level.blocks, level.sizes(), strict=True):
            for low in range(0, size, self.program.chunk):
                made = self._expand(block, low, min(size, low + self.program.chunk))
                self._canonical_all(self.out, made)
                rows = self.out[: made * self.words].reshape(-1, self.words)
                hits = np.flatnonzero((rows == goal).all(axis=1))
                if hits.size:
                    source = int(self.src[hits[0]])
                    return block[source * self.words : (source + 1) * self.words].copy()
        raise RuntimeError(
            "a state of the search has no predecessor in the level before: the search and its trace "
            "disagree, which is a fault of this engine"
        )

    def _step(self, state: Words, goal: Words, claim: str | None) -> tuple[Words, int]:
        made = self._expand(state, 0, 1)
        real = self.out[: made * self.words].reshape(-1, self.words).copy()
        if claim is not None:
            place = int(self.tally[self.program.tally.breaches[claim]]) - 1
            if place >= 0:
                return real[place], int(self.ev[place])
        self._canonical_all(self.out, made)
        rows = self.out[: made * self.words].reshape(-1, self.words)
        hits = np.flatnonzero((rows == goal).all(axis=1)).tolist()
        if hits:
            return real[hits[0]], int(self.ev[hits[0]])
        raise RuntimeError("a step of a trace is not a step of the system: a fault of this engine")

    def _expand(self, block: Words, low: int, high: int) -> int:
        self.tally.fill(0)
        return self.program.expand_full(
            block, low, high, self.search.variant, 0,
            self.out, self.dead, self.tally, self.src, self.ev,
        )  # fmt: skip

    def _canonical(self, state: Words) -> Words:
        found = state.copy()
        self._canonical_all(found, 1)
        return found

    def _canonical_all(self, states: Words, count: int) -> None:
        if self.search.swaps is not None:
            self.search.swaps.canonical(states, count)
