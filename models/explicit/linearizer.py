"""Linearizer: one search for a linearization, with its arrays, its memory and its time.

A problem is a history as arrays of int64, operations client by client and in order within a client.
Arrays grow as the search needs them, up to a limit; past it, or past its time, the search ends without
an answer.
"""

from __future__ import annotations

import time
from typing import Any

import attrs
import numpy as np

from kvspec.models.explicit.linear import (
    BEST,
    CHOICES_FULL,
    CONTROL,
    CUT,
    FOUND,
    LEFT,
    MEMO_FULL,
    NEVER,
    NODES,
    NONE,
    PAUSED,
    USED,
    horizons,
    liveness,
    rehash,
    search,
)
from kvspec.models.explicit.packing import WORD_BITS
from kvspec.models.explicit.stepper import READ, Stepper

Array = np.ndarray[Any, np.dtype[np.int64]]

_FIRST_MEMO = 512
_FIRST_BUDGET, _BUDGET = 4_096, 65_536


@attrs.frozen(eq=False)
class Problem:
    """What is searched.

    first: where the operations of each client begin, and the end. rows: `Stepper.width` numbers for
    each operation. expected: the number of its answer, or ANY_REFUSAL, ANY_ANSWER. invoked, returned:
    ticks; NEVER if no answer came. reads: word, shift, mask and code of each cell read. kinds: the
    class of each operation. conflicts: which of `many` classes conflict, row by row. read, put: the bits
    of a packed state that each class may read and certainly puts. quiet: 1 for each operation that never
    changes a state.
    """

    first: Array
    rows: Array
    expected: Array
    invoked: Array
    returned: Array
    reads: Array
    kinds: Array
    conflicts: Array
    many: int
    read: Array
    put: Array
    quiet: Array


@attrs.frozen
class Limits:
    """When a search gives up: seconds, configurations kept, and bytes for its tables. None: never.

    deadline: when the seconds are over, by `time.perf_counter`, once they have begun.
    """

    seconds: float | None = 60.0
    max_states: int | None = None
    max_bytes: int = 1 << 30
    deadline: float | None = None

    def begun(self) -> Limits:
        """The same limits with a deadline."""
        if self.seconds is None or self.deadline is not None:
            return self
        return attrs.evolve(self, deadline=time.perf_counter() + self.seconds)

    def anew(self, seconds: float | None) -> Limits:
        """The same limits with so many seconds, which have not begun."""
        return attrs.evolve(self, seconds=seconds, deadline=None)

    def check(self) -> None:
        """Raise LimitError if the seconds are over."""
        if self.deadline is not None and time.perf_counter() >= self.deadline:
            raise LimitError(f"no answer within {self.seconds:g} s")

    def check_bytes(self, needed: int, what: str) -> None:
        """Raise LimitError if so many bytes are too many."""
        if needed > self.max_bytes:
            raise LimitError(
                f"{what} need {needed:,} bytes of memory, the limit is {self.max_bytes:,}"
            )


class LimitError(Exception):
    """A limit was reached before there was an answer; its text is the reason."""

    @property
    def reason(self) -> str:
        """Which limit."""
        return str(self)


@attrs.frozen(eq=False)
class Solution:
    """What a search found.

    verdict: "holds" (a linearization), "violated" (there is none) or "unknown" with its reason.
    order: the longest sequence found, as places of operations. nodes: configurations looked at.
    kept: those in the memo. bytes: of memory that the search took.
    """

    verdict: str
    reason: str
    order: tuple[int, ...]
    nodes: int
    kept: int
    bytes: int


class Linearizer:
    """Searches over the events of one instance; arrays are used again from search to search."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.words = stepper.layout.words
        self._states = np.empty(0, np.int64)
        self.choices = np.empty(1 << 12, np.int64)
        self._small = (np.empty(2 * _FIRST_MEMO, np.int64), np.empty(_FIRST_MEMO, np.int64))
        self._memo = np.empty(0, np.int64)

    def solve(
        self,
        problem: Problem,
        start: Array,
        limits: Limits,
        *,
        prune: bool = True,
        variant: int = 0,
        order: bool = True,
    ) -> Solution:
        """Search for a linearization from a state.

        prune: end branches early, which hides how far they would have come. order: tell the longest
        sequence.
        """
        count, clients = problem.invoked.shape[0], problem.first.shape[0] - 1
        needed = 8 * (count * (clients + 6) + (count + 2) * self.words)
        if needed > limits.max_bytes:
            reason = f"{count:,} operations of {clients:,} clients need {needed:,} bytes of memory"
            return Solution("unknown", f"{reason}, the limit is {limits.max_bytes:,}", (), 0, 0, 0)
        limits = limits.begun()
        if not self.stepper.address and not self._can_go(problem, limits):
            reason = f"the step of {self.stepper.instance!r} is not compiled"
            return Solution("unknown", f"{reason} within {limits.seconds:g} s", (), 0, 0, 0)
        return _Run(self, problem, start, variant, limits, prune=prune).go(order=order)

    def _can_go(self, problem: Problem, limits: Limits) -> bool:
        """Whether the step is compiled by the deadline, or not needed as there are reads alone."""
        if (problem.rows[:: self.stepper.width] == READ).all():
            return True
        left = None if limits.deadline is None else limits.deadline - time.perf_counter()
        return self.stepper.compiles_within(left)

    def arrays(self, count: int, size: int) -> tuple[Array, Array, Array, Array]:
        """States at each depth, and an empty memo of the first size."""
        if self._states.shape[0] < (count + 2) * self.words:
            self._states = np.empty(2 * (count + 2) * self.words, np.int64)
        if self._memo.shape[0] < _FIRST_MEMO * size:
            self._memo = np.empty(_FIRST_MEMO * size, np.int64)
        slots, hashes = self._small
        slots[:] = 0
        return self._states, slots, hashes, self._memo


class _Run:
    """One search."""

    def __init__(
        self,
        owner: Linearizer,
        problem: Problem,
        start: Array,
        variant: int,
        limits: Limits,
        *,
        prune: bool,
    ) -> None:
        self.limits = limits
        self.owner = owner
        self.problem = problem
        self.variant = variant
        self.address = owner.stepper.address
        self.prune = int(prune)
        count, clients = problem.invoked.shape[0], problem.first.shape[0] - 1
        self.clients = clients
        self.count_word, self.count_one, more = _counters(problem.first)
        self.counts = np.zeros(more, np.int64)
        self.size = more + owner.words
        self.states, self.slots, self.hashes, self.memo = owner.arrays(count, self.size)
        self.states[: owner.words] = start
        if limits.max_states is not None:
            self.hashes = self.hashes[: limits.max_states]
        self.choices = owner.choices
        self.frames = np.empty((4, count + 1), np.int64)
        self.taken = np.zeros(clients, np.int64)
        self.best = np.empty(count + 1, np.int64)
        self.control = np.zeros(CONTROL, np.int64)
        self.control[LEFT] = int(np.count_nonzero(problem.returned != NEVER))
        self.horizon = np.empty(count * clients + 1, np.int64)
        horizons(
            problem.first,
            problem.invoked,
            problem.returned,
            problem.kinds,
            problem.conflicts,
            problem.many,
            self.horizon,
        )
        self.live = np.empty((count + clients) * owner.words, np.int64)
        liveness(
            problem.first,
            problem.returned,
            problem.kinds,
            problem.read,
            problem.put,
            owner.words,
            self.live,
        )

    @property
    def bytes(self) -> int:
        """Of the memo and what grows beside it."""
        arrays = (self.slots, self.hashes, self.memo, self.choices)
        return sum(array.nbytes for array in arrays)

    def go(self, *, order: bool) -> Solution:
        """Search on until there is an answer or a limit is reached."""
        limits = self.limits.begun()
        deadline = limits.deadline
        budget, reason = _FIRST_BUDGET, ""
        while not reason:
            status = self._search(budget)
            if status == FOUND:
                return self._solution("holds", "", order=order)
            if status == NONE:
                cut = "a step would leave the bounds of the instance: give it larger bounds"
                is_cut = bool(self.control[CUT])
                return self._solution(
                    "unknown" if is_cut else "violated", cut if is_cut else "", order=order
                )
            if status == PAUSED:
                budget = _BUDGET
            elif status == MEMO_FULL:
                reason = self._grow_memo()
            elif status == CHOICES_FULL:
                reason = self._grow_choices()
            if deadline is not None and time.perf_counter() >= deadline:
                reason = reason or f"no answer within {limits.seconds:g} s"
        return self._solution("unknown", reason, order=order)

    def _search(self, budget: int) -> int:
        p = self.problem
        return int(
            search(
                self.address,
                self.variant,
                self.owner.words,
                self.owner.stepper.width,
                p.first,
                p.rows,
                p.expected,
                p.invoked,
                p.returned,
                p.reads,
                p.quiet,
                self.horizon,
                self.live,
                self.prune,
                budget,
                self.control,
                self.states,
                self.frames[0],
                self.frames[1],
                self.frames[2],
                self.frames[3],
                self.choices,
                self.taken,
                self.counts,
                self.count_word,
                self.count_one,
                self.slots,
                self.hashes,
                self.memo,
                self.best,
            )
        )

    def _grow_memo(self) -> str:
        """Double the memo, or say why not; both copies are there for a moment."""
        limits = self.limits
        used = int(self.control[USED])
        if limits.max_states is not None and used >= limits.max_states:
            return f"no answer within {limits.max_states:,} configurations"
        room = 2 * self.hashes.shape[0]
        if limits.max_states is not None:
            room = min(room, limits.max_states)
        slots = 1 << (2 * room - 1).bit_length()
        needed = 8 * (slots + room + room * self.size)
        if needed + self.memo.nbytes + self.hashes.nbytes > limits.max_bytes:
            return f"no answer within {limits.max_bytes:,} bytes of memory"
        self.hashes = _longer(self.hashes, used, room)
        self.memo = _longer(self.memo, used * self.size, room * self.size)
        self.slots = np.zeros(slots, np.int64)
        rehash(self.slots, self.hashes, used)
        return ""

    def _grow_choices(self) -> str:
        limits = self.limits
        room = 2 * self.choices.shape[0] + self.clients
        if self.bytes + 8 * room > limits.max_bytes:
            return f"no answer within {limits.max_bytes:,} bytes of memory"
        self.choices = _longer(self.choices, self.choices.shape[0], room)
        return ""

    def _solution(self, verdict: str, reason: str, *, order: bool) -> Solution:
        found: list[int] = []
        if order:
            places = self.problem.first[:-1].tolist()
            for client in self.best[: self.control[BEST]].tolist():
                found.append(places[client])
                places[client] += 1
        nodes, used = int(self.control[NODES]), int(self.control[USED])
        return Solution(verdict, reason, tuple(found), nodes, used, self.bytes)


def _longer(array: Array, used: int, room: int) -> Array:
    longer = np.empty(room, np.int64)
    longer[:used] = array[:used]
    return longer


def _counters(first: Array) -> tuple[Array, Array, int]:
    """For each client the word and the unit of its count, and how many words there are."""
    lengths = np.diff(first).tolist()
    words, ones, word, used = [], [], 0, 0
    for length in lengths:
        width = int(length).bit_length()
        if used + width > WORD_BITS:
            word, used = word + 1, 0
        words.append(word)
        ones.append(1 << used)
        used += width
    return np.array(words, np.int64), np.array(ones, np.int64), word + 1
