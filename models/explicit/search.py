"""Search: breadth first, level by level, in chunks of the frontier.

A chunk is expanded into a buffer, the buffer is inserted into the visited set, what is new is checked
and becomes a part of the next level. The two compiled calls of a chunk are all that takes time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import attrs
import numpy as np

from kvspec.models.explicit.results import Progress
from kvspec.models.explicit.tally import CUT, STUCK
from kvspec.models.explicit.visited import OutOfRoom, Visited, Words

if TYPE_CHECKING:
    from kvspec.models.explicit.program import Program
    from kvspec.models.explicit.swaps import Swaps

BLOCK = 1 << 13
HISTORY = 1 << 16
PARALLEL = 1 << 18
_BETWEEN_PROGRESS = 0.2
_NOTHING: Words = np.empty(0, np.int64)


@attrs.frozen(eq=False)
class Breach:
    """A claim fails in `state` at `depth`, or on the step from `source` to it."""

    name: str
    depth: int
    state: Words
    source: Words | None = None


@attrs.define(eq=False)
class Level:
    """The states of one depth, in blocks; every block but the last is full."""

    blocks: list[Words]
    used: int = 0
    count: int = 0

    def sizes(self) -> list[int]:
        """States in each block."""
        return [BLOCK] * (len(self.blocks) - 1) + [self.used] if self.blocks else []


@attrs.define(eq=False)
class Limits:
    """When to stop without a verdict."""

    states: int | None = None
    bytes: int | None = None
    seconds: float | None = None


class Search:
    """One run of the search of a program.

    history: keep all levels up to a bound, or all (`None` for none at all), for traces.
    """

    def __init__(
        self,
        program: Program,
        *,
        variant: int = 0,
        coverage: bool = False,
        swaps: Swaps | None = None,
        limits: Limits | None = None,
        progress: Callable[[Progress], None] | None = None,
        stop_at_first: bool = True,
        stop_at_deadlock: bool = False,
        keep_all: bool = False,
        last_depth: int | None = None,
        threads: int = 1,
        share: int = 1,
    ) -> None:
        self.program = program
        self.words = program.layout.words
        self.variant = variant
        self.full = coverage
        self.swaps = swaps
        self.limits = limits or Limits()
        self.progress = progress
        self.stop_at_first = stop_at_first
        self.stop_at_deadlock = stop_at_deadlock
        self.keep_all = keep_all
        self.last_depth = last_depth
        self.tally = np.zeros(program.tally.size, np.int64)
        self.out = np.empty(program.slots * self.words, np.int64)
        self.src = np.empty(program.slots if coverage else 1, np.int64)
        self.ev = np.empty(program.slots if coverage else 1, np.int64)
        self.dead = np.empty(program.chunk, np.int64)
        room = None if self.limits.bytes is None else self.limits.bytes // share
        self.visited = Visited(self.words, max_bytes=room)
        self.threads = threads
        self.parallel = False
        self.states = 0
        self.frontier = 0
        self.next = Level([])
        self.history: list[Level] | None = []
        self.kept = 0
        self.transitions = 0
        self.represented = 0
        self.deadlocks = 0
        self.depth = 0
        self.largest = 0
        self.reason = ""
        self.breaches: dict[str, Breach] = {}
        self.reached: dict[str, Breach] = {}
        self.deadlock: Breach | None = None
        self.found = False
        self._expand = program.expand_full if coverage else program.expand_fast
        self._check = program.check_full if coverage else program.check_fast
        self._states = program.claims("invariant", "lemma", "witness")
        self._steps = program.claims("step")
        self._told = self._start = time.perf_counter()

    def run(self) -> None:
        """Search until all is seen, a claim fails or a limit is met."""
        self._start = self._told = time.perf_counter()
        try:
            initial = self.program.initial(self.variant)
            self._canonical(initial, initial.shape[0] // self.words)
            self._absorb(initial, initial.shape[0] // self.words, 0)
            level = self._turn()
            if not level.count and not self.reason:
                self.reason = "the instance has no initial state: give its sorts members"
            while level.count and not self._over():
                if self.last_depth is not None and self.depth >= self.last_depth:
                    self.reason = f"states more than {self.last_depth} steps away: raise max_depth"
                    return
                if self.threads > 1 and self.states > PARALLEL:
                    self._together(level)
                    return
                self._level(level)
                if self._over():
                    return
                level = self._turn()
                self.depth += 1 if level.count else 0
        except OutOfRoom as limit:
            self.reason = str(limit)

    def _turn(self) -> Level:
        """The level just completed; a new one is begun."""
        level, self.next = self.next, Level([])
        if self.history is not None and level.count:
            self.kept += level.count
            self.history.append(level)
            if self.kept > HISTORY and not self.keep_all:
                self.history = None
        return level

    def _level(self, level: Level) -> None:
        blocks, sizes = level.blocks, level.sizes()
        if self.history is None:
            level.blocks = []
        for number, size in enumerate(sizes):
            block = blocks[number]
            for low in range(0, size, self.program.chunk):
                self._chunk(block, low, min(size, low + self.program.chunk))
                self._watch(level.count)
                if self._over():
                    return
            if self.history is None:
                blocks[number] = _NOTHING

    def _chunk(self, block: Words, low: int, high: int) -> None:
        tally = self.tally
        made = self._expand(
            block, low, high, self.variant, 0, self.out, self.dead, tally, self.src, self.ev
        )
        self.transitions += made
        if self._steps:
            self._look_at_steps(block)
        if tally[STUCK]:
            self._look_at_dead(block, int(tally[STUCK]))
            tally[STUCK] = 0
        self._canonical(self.out, made)
        self._deliver(made)

    def _deliver(self, made: int) -> None:
        """Keep the successors just made."""
        self._absorb(self.out, made, self.depth + 1)

    def _together(self, level: Level) -> None:
        """Go on with several threads."""
        from kvspec.models.explicit.parallel import Team

        self.history = None
        self.parallel = True
        Team(self, self.threads).run(level)

    def _canonical(self, states: Words, count: int) -> None:
        if self.swaps is not None:
            self.swaps.canonical(states, count)

    def _absorb(self, states: Words, count: int, depth: int) -> None:
        """Insert states; check what is new."""
        level, start = self.next, 0
        while start < count:
            if not level.blocks or level.used == BLOCK:
                level.blocks.append(np.empty(BLOCK * self.words, np.int64))
                level.used = 0
            block, before = level.blocks[-1], level.used
            start, level.used = self.visited.insert(states, start, count, block, before)
            level.count += level.used - before
            self.states = self.visited.count
            if level.used > before:
                if self.swaps is not None:
                    self.represented += self.swaps.orbits(block, before, level.used)
                if self._check is not None:
                    self._check(block, before, level.used, self.variant, self.tally)
                    self._look_at_states(block, depth)

    def _look_at_states(self, block: Words, depth: int) -> None:
        for claim in self._states:
            place = self.program.tally.breaches[claim.name]
            table = self.reached if claim.kind == "witness" else self.breaches
            if self.tally[place] and claim.name not in table:
                state = self._state(block, int(self.tally[place]) - 1)
                table[claim.name] = Breach(claim.name, depth, state)
                if claim.kind != "witness":
                    self.found = True

    def _look_at_steps(self, block: Words) -> None:
        for claim in self._steps:
            place = self.program.tally.breaches[claim.name]
            if self.tally[place] and claim.name not in self.breaches:
                state = self._state(self.out, int(self.tally[place]) - 1)
                source = self._state(block, int(self.tally[place + 1]))
                self.breaches[claim.name] = Breach(claim.name, self.depth + 1, state, source)
                self.found = True

    def _look_at_dead(self, block: Words, count: int) -> None:
        """Tell deadlocks from proper ends and from states where a limit forbids what is possible."""
        if self.program.ends is not None:
            count = self.program.ends(block, self.dead, count, self.variant)
        places = self.dead[:count].tolist()
        if self.program.instance.limits:
            places = [p for p in places if not self._stopped_by_limit(self._state(block, p))]
        if not places:
            return
        self.deadlocks += len(places)
        if self.deadlock is None:
            self.deadlock = Breach("deadlock", self.depth, self._state(block, places[0]))
        if self.stop_at_deadlock:
            self.found = True

    def _stopped_by_limit(self, state: Words) -> bool:
        """Whether a step away from here is possible that the limits of the instance forbid."""
        program = self.program
        size = max(1, sum(program.event_counts))
        out, src, ev = (np.empty(n, np.int64) for n in (size * self.words, size, size))
        tally = np.zeros(program.tally.size, np.int64)
        dead = np.empty(1, np.int64)
        made = program.expand_full(state, 0, 1, self.variant, 1, out, dead, tally, src, ev)
        rows = out[: made * self.words].reshape(-1, self.words)
        return bool(tally[CUT] or (rows != state).any())

    def _state(self, states: Words, place: int) -> Words:
        return states[place * self.words : (place + 1) * self.words].copy()

    def _watch(self, frontier: int) -> None:
        """Limits, memory and progress."""
        frontier += self.next.count
        self.look(self.states, self.visited.bytes, frontier, self.transitions)

    def look(self, states: int, table: int, frontier: int, transitions: int) -> None:
        """Stop at a limit; tell how far the search is."""
        used = table + 8 * self.words * frontier
        self.largest = max(self.largest, used)
        if self.limits.states is not None and states > self.limits.states:
            self.reason = f"more than {self.limits.states:,} states: raise max_states"
        if self.limits.bytes is not None and used > self.limits.bytes:
            self.reason = f"more than {self.limits.bytes:,} bytes: raise max_bytes"
        if self.limits.seconds is None and self.progress is None:
            return
        now = time.perf_counter()
        if self.limits.seconds is not None and now - self._start > self.limits.seconds:
            self.reason = f"more than {self.limits.seconds:g} s: raise max_seconds"
        if self.progress is not None and now - self._told > _BETWEEN_PROGRESS:
            self._told = now
            past = now - self._start
            self.progress(Progress(states, transitions, states / past, frontier, self.depth, past))

    def _over(self) -> bool:
        return bool(self.reason) or (self.found and self.stop_at_first)
