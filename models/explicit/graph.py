"""Graph: the whole state graph of a small instance, as arrays.

States stand in breadth-first order; edges are sorted by their source, and within a source by the number
of their event. Every transition is an edge of its own, so two events between two states are two edges.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import numpy as np
import numpy.typing as npt

from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.explicit import kernels
from kvspec.models.explicit.search import Limits, Search
from kvspec.models.explicit.tally import CUT
from kvspec.models.explicit.visited import Words

if TYPE_CHECKING:
    from kvspec.models.explicit.program import Program

Flags = npt.NDArray[np.bool_]


@attrs.frozen(eq=False, repr=False)
class StateGraph:
    """The reachable states of an instance and its transitions.

    packed: one row of words for each state, in breadth-first order. depth: steps from an initial
    state. starts: the edges of state i are starts[i] to starts[i + 1]. source, target: states of each
    edge. number: its event, a place in `events`; code: 0 if accepted, else which guard (from 1)
    refused. expanded: states all of whose steps are edges: not cut, and within the limit of states.
    complete: all states are expanded.
    """

    program: Program
    variant: int
    packed: npt.NDArray[np.int64]
    depth: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    target: npt.NDArray[np.int64]
    number: npt.NDArray[np.int64]
    code: npt.NDArray[np.int64]
    expanded: Flags
    reason: str

    @property
    def complete(self) -> bool:
        """Whether the graph is the whole one."""
        return not self.reason

    @property
    def events(self) -> list[Event]:
        """Every event of the instance, by number."""
        return self.program.events

    def __len__(self) -> int:
        return int(self.packed.shape[0])

    def state(self, place: int) -> State:
        """A state by its place."""
        return self.program.unpack(self.packed[place])

    def event(self, edge: int) -> tuple[Event, str | None]:
        """The event of an edge, and the code of the refusal if it was one."""
        return self.program.event(
            int(self.number[edge]) * self.program.radix + int(self.code[edge])
        )

    def to_networkx(self) -> Any:
        """A networkx MultiDiGraph: nodes are places with `state` and `depth`, edges have `event`."""
        import networkx as nx

        drawn = nx.MultiDiGraph()
        for place in range(len(self)):
            drawn.add_node(place, state=self.state(place), depth=int(self.depth[place]))
        for edge in range(self.source.shape[0]):
            event, code = self.event(edge)
            ends = int(self.source[edge]), int(self.target[edge])
            drawn.add_edge(*ends, event=event, code=code)
        return drawn

    def __repr__(self) -> str:
        return f"StateGraph({self.program.instance!r}: {len(self):,} states, {len(self.source):,} edges)"


def make_graph(program: Program, *, variant: int = 0, max_states: int | None = None) -> StateGraph:
    """The graph of a program's states, up to a limit of states."""
    search = Search(
        program,
        variant=variant,
        coverage=True,
        limits=Limits(states=max_states),
        stop_at_first=False,
        keep_all=True,
    )
    search.run()
    levels = [*(search.history or []), *([search.next] if search.next.count else [])]
    words = program.layout.words
    blocks = [
        block[: size * words]
        for level in levels
        for block, size in zip(level.blocks, level.sizes(), strict=True)
    ]
    packed = np.concatenate(blocks) if blocks else np.empty(0, np.int64)
    depth = np.repeat(np.arange(len(levels)), [level.count for level in levels])
    return _with_edges(program, variant, packed, depth, search.reason)


def _with_edges(
    program: Program, variant: int, packed: Words, depth: npt.NDArray[np.int64], reason: str
) -> StateGraph:
    words, count = program.layout.words, depth.shape[0]
    size = 1 << max(4, int(2 * count).bit_length())
    table, shift = np.zeros(size, np.int64), 64 - (size.bit_length() - 1)
    kernels.index_states(packed, count, words, table, shift)
    expander = _Expansion(program, variant, packed)
    parts: list[tuple[Words, Words, Words]] = []
    for low in range(0, count, program.chunk):
        made = expander.expand(low, min(count, low + program.chunk))
        target = np.empty(made, np.int64)
        kernels.find_states(packed, words, table, shift, expander.out, made, target)
        parts.append((expander.src[:made].copy(), target, expander.ev[:made].copy()))
    source, target, event = (
        np.concatenate([part[n] for part in parts]) if parts else np.empty(0, np.int64)
        for n in range(3)
    )
    expanded = ~expander.cut
    expanded[source[target < 0]] = False
    inside = target >= 0
    source, target, event = source[inside], target[inside], event[inside]
    starts = np.searchsorted(source, np.arange(count + 1))
    if not reason and not expanded.all():
        reason = "steps were cut because they leave the bounds of the instance"
    number, code = np.divmod(event, program.radix)
    return StateGraph(
        program, variant, packed.reshape(-1, words), depth, starts, source, target, number, code,
        expanded, reason,
    )  # fmt: skip


class _Expansion:
    """Buffers of the full form, and which states had a step cut."""

    def __init__(self, program: Program, variant: int, packed: Words) -> None:
        self.program = program
        self.variant = variant
        self.packed = packed
        self.out = np.empty(program.slots * program.layout.words, np.int64)
        self.src = np.empty(program.slots, np.int64)
        self.ev = np.empty(program.slots, np.int64)
        self.cut = np.zeros(packed.shape[0] // program.layout.words, np.bool_)
        self._dead = np.empty(program.chunk, np.int64)
        self._tally = np.zeros(program.tally.size, np.int64)

    def expand(self, low: int, high: int) -> int:
        """Expand states; those with a cut step are marked."""
        made = self._call(low, high)
        if self._tally[CUT] and high - low > 1:
            for place in range(low, high):
                self._call(place, place + 1)
                self.cut[place] = self._tally[CUT] > 0
            made = self._call(low, high)
        elif self._tally[CUT]:
            self.cut[low] = True
        return made

    def _call(self, low: int, high: int) -> int:
        self._tally.fill(0)
        return self.program.expand_full(
            self.packed, low, high, self.variant, 0,
            self.out, self._dead, self._tally, self.src, self.ev,
        )  # fmt: skip
