"""Parallel: a search continued by several threads, each of which owns a part of the states.

A state belongs to the thread that its hash names: that thread alone keeps it in its table and expands
it. Successors that belong to another thread are sent to it in chunks. Levels are kept in step, so depths
and counts are those of one thread. The compiled calls run without the interpreter's lock.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from queue import SimpleQueue

import numpy as np

from kvspec.models.explicit import kernels
from kvspec.models.explicit.search import BLOCK, Level, Search
from kvspec.models.explicit.visited import OutOfRoom, Visited, Words

_SLICE = 1 << 16


class Team:
    """The threads of a search, and what they know of each other."""

    def __init__(self, base: Search, threads: int) -> None:
        self.base = base
        self.reason = ""
        self.found = False
        self.shards = [Shard(self, base, number, threads) for number in range(threads)]

    @property
    def over(self) -> bool:
        """Whether all threads are to stop."""
        return bool(self.reason) or (self.found and self.base.stop_at_first)

    def run(self, level: Level) -> None:
        """Take over from the search at a level, and hand back what was found."""
        base = self.base
        self._share(level)
        with ThreadPoolExecutor(len(self.shards)) as pool:
            while any(shard.level.count for shard in self.shards) and not self.over:
                try:
                    list(pool.map(Shard.do_level, self.shards))
                except BaseException:
                    self.release()
                    raise
                if self.over:
                    break
                for shard in self.shards:
                    shard.turn()
                if any(shard.level.count for shard in self.shards):
                    base.depth += 1
        self._merge()

    def release(self) -> None:
        """Let no thread wait for another one, which may not even have begun."""
        self.reason = self.reason or "interrupted"
        for shard in self.shards:
            for _ in self.shards:
                shard.inbox.put(None)

    def _share(self, level: Level) -> None:
        """Give every state to its owner."""
        for low in range(0, self.base.visited.slots, _SLICE):
            for shard, states in zip(self.shards, self._split(low), strict=True):
                shard.adopt(states)
        self.base.visited.release()
        for block, size in zip(level.blocks, level.sizes(), strict=True):
            for shard, states in zip(self.shards, self._parts(block, size), strict=True):
                shard.take(states)

    def _split(self, low: int) -> list[Words]:
        table = self.base.visited.slice(low, low + _SLICE)
        return self._parts(table, table.shape[0] // self.base.words)

    def _parts(self, states: Words, count: int) -> list[Words]:
        words, threads = self.base.words, len(self.shards)
        parts = np.empty(threads * count * words, np.int64)
        sizes = np.zeros(threads, np.int64)
        kernels.partition(states, count, words, parts, sizes)
        room = count * words
        return [parts[n * room : n * room + int(sizes[n]) * words] for n in range(threads)]

    def _merge(self) -> None:
        base = self.base
        base.reason = self.reason
        base.found = self.found
        base.states = sum(shard.states for shard in self.shards)
        for shard in self.shards:
            base.transitions += shard.transitions
            base.represented += shard.represented
            base.deadlocks += shard.deadlocks
            base.tally += shard.tally
            base.deadlock = base.deadlock or shard.deadlock
            for mine, theirs in ((base.breaches, shard.breaches), (base.reached, shard.reached)):
                for name, breach in theirs.items():
                    if name not in mine or breach.depth < mine[name].depth:
                        mine[name] = breach


class Shard(Search):
    """One thread's part of the states."""

    def __init__(self, team: Team, base: Search, number: int, threads: int) -> None:
        super().__init__(
            base.program,
            variant=base.variant,
            coverage=base.full,
            swaps=base.swaps,
            limits=base.limits,
            stop_at_first=base.stop_at_first,
            stop_at_deadlock=base.stop_at_deadlock,
            share=threads,
        )
        # States come in the order of their hashes, which fills a table well unless it has to grow.
        self.visited = Visited(
            self.words, base.states * 11 // (10 * threads), self.visited.max_bytes
        )
        self.team = team
        self.number = number
        self.history = None
        self.breaches, self.reached = dict(base.breaches), dict(base.reached)
        self.deadlock = base.deadlock
        self.level = Level([])
        self.inbox: SimpleQueue[Words | None] = SimpleQueue()
        self._others = 0
        self._parts = np.empty(threads * self.program.slots * self.words, np.int64)
        self._sizes = np.zeros(threads, np.int64)

    def adopt(self, states: Words) -> None:
        """Keep states that the search has seen before."""
        count = states.shape[0] // self.words
        self.visited.insert(states, 0, count, np.empty_like(states), 0)
        self.states = self.visited.count

    def take(self, states: Words) -> None:
        """Keep states of the level that comes first."""
        level, start, count = self.level, 0, states.shape[0] // self.words
        while start < count:
            if not level.blocks or level.used == BLOCK:
                level.blocks.append(np.empty(BLOCK * self.words, np.int64))
                level.used = 0
            size = min(BLOCK - level.used, count - start)
            at = level.used * self.words
            level.blocks[-1][at : at + size * self.words] = states[
                start * self.words : (start + size) * self.words
            ]
            level.used, level.count, start = level.used + size, level.count + size, start + size

    def turn(self) -> None:
        """Go on to the next level."""
        self.level = self._turn()

    def do_level(self) -> None:
        """Expand this part of the level, and insert what comes in until all threads are done."""
        team = self.team
        self.depth = team.base.depth
        try:
            self._level(self.level)
        except OutOfRoom as limit:
            team.reason = str(limit)
        finally:
            for shard in team.shards:
                if shard is not self:
                    shard.inbox.put(None)
        while self._others < len(team.shards) - 1:
            self._receive(self.inbox.get())
        self._others = 0

    def _deliver(self, made: int) -> None:
        """Keep own successors, and send the others to their owners."""
        kernels.partition(self.out, made, self.words, self._parts, self._sizes)
        room = self._parts.shape[0] // len(self._sizes)
        for shard in self.team.shards:
            size = int(self._sizes[shard.number])
            low = shard.number * room
            part = self._parts[low : low + size * self.words]
            if shard is self:
                self._absorb(part, size, self.depth + 1)
            elif size:
                shard.inbox.put(part.copy())
        while not self.inbox.empty():
            self._receive(self.inbox.get())

    def _receive(self, states: Words | None) -> None:
        """Insert what another thread sent; None says that it has sent all of its level."""
        if states is None:
            self._others += 1
            return
        try:
            self._absorb(states, states.shape[0] // self.words, self.depth + 1)
        except OutOfRoom as limit:
            self.team.reason = str(limit)

    def _watch(self, frontier: int) -> None:
        """Limits and progress of the whole team, looked at by the first thread."""
        self.frontier = frontier
        self.states = self.visited.count
        if self.found:
            self.team.found = True
        if self.number:
            return
        shards, base = self.team.shards, self.team.base
        base.look(
            sum(shard.states for shard in shards),
            sum(shard.visited.bytes for shard in shards),
            sum(shard.frontier + shard.next.count for shard in shards),
            base.transitions + sum(shard.transitions for shard in shards),
        )
        self.team.reason = self.team.reason or base.reason

    def _over(self) -> bool:
        return self.team.over or super()._over()
