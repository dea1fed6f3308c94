"""Program: an instance and claims about it, compiled once and explored many times.

What is compiled is decided when it is first needed: the fast form of `expand` for a search without
coverage, the full form for coverage, traces and graphs.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kvspec.models.concrete.machine import Event, Machine
from kvspec.models.concrete.state import State
from kvspec.models.explicit.cache import load
from kvspec.models.explicit.claims import check_source, ends_source, select_source
from kvspec.models.explicit.expand import Expander, count_events
from kvspec.models.explicit.packing import MARK, WORD_BITS, decode, encode, make_layout
from kvspec.models.explicit.results import Exploration, Progress
from kvspec.models.explicit.swaps import Swaps, make_swaps
from kvspec.models.explicit.tally import make_tally
from kvspec.models.explicit.visited import Visited, Words
from kvspec.spec.language.expr import Expr, Symbol
from kvspec.spec.language.instances import Instance
from kvspec.spec.language.properties import Property

if TYPE_CHECKING:
    from kvspec.models.explicit.graph import StateGraph

UNROLLED_EVENTS = 16
LARGEST_CHUNK = 4096
_SUCCESSORS = 1 << 18


class Program:
    """A compiled instance. `explore` may be called again and again; calls share buffers.

    unroll: an action with at most so many events is written out event by event in the fast form.
    word_bits: usable bits of a word, lowered only to force states of several words.
    """

    def __init__(
        self,
        instance: Instance,
        properties: Iterable[Property] = (),
        *,
        word_bits: int = WORD_BITS,
        unroll: int = UNROLLED_EVENTS,
    ) -> None:
        self.instance = instance
        self.properties = tuple(properties)
        self.layout = make_layout(instance, word_bits)
        self.tally = make_tally(instance.system, self.properties)
        self.unroll = unroll
        actions = instance.system.actions.values()
        self.event_counts = [count_events(action, self.layout) for action in actions]
        self.radix = 1 + max((len(action.guards) for action in actions), default=0)
        per_state = max(1, sum(self.event_counts))
        self.chunk = max(1, min(LARGEST_CHUNK, _SUCCESSORS // per_state))
        self.slots = self.chunk * per_state

    def explore(
        self,
        *,
        variant: int = 0,
        symmetry: bool | Iterable[object] = False,
        coverage: bool = False,
        threads: int | None = None,
        max_states: int | None = None,
        max_depth: int | None = None,
        max_bytes: int | None = None,
        max_seconds: float | None = None,
        progress: Callable[[Progress], None] | None = None,
        stop_at_first: bool = True,
        deadlock: bool | None = None,
        max_graph: int = 1_000_000,
    ) -> Exploration:
        """Explore this instance breadth first; see `kvspec.models.explicit.explore`."""
        from kvspec.models.explicit.run import Options, explore_program

        options = Options(
            variant=variant,
            symmetry=symmetry,
            coverage=coverage,
            threads=threads,
            max_states=max_states,
            max_depth=max_depth,
            max_bytes=max_bytes,
            max_seconds=max_seconds,
            progress=progress,
            stop_at_first=stop_at_first,
            deadlock=deadlock,
            max_graph=max_graph,
        )
        return explore_program(self, options)

    def graph(self, *, variant: int = 0, max_states: int | None = 1_000_000) -> StateGraph:
        """The whole state graph, for small instances."""
        from kvspec.models.explicit.graph import make_graph

        return make_graph(self, variant=variant, max_states=max_states)

    def compile(self, *, coverage: bool) -> float:
        """Compile what an exploration calls, which is done once; gives the seconds it took."""
        start = time.perf_counter()
        words = np.full(self.layout.words, MARK, np.int64)
        some = np.zeros(1, np.int64)
        tally = np.zeros(self.tally.size, np.int64)
        expand = self.expand_full if coverage else self.expand_fast
        expand(words, 0, 0, 0, 0, some, some, tally, some, some)
        check = self.check_full if coverage else self.check_fast
        if check is not None:
            check(words, 0, 0, 0, tally)
        if self.ends is not None:
            self.ends(words, some, 0, 0)
        Visited(self.layout.words).warm()
        return time.perf_counter() - start

    def claims(self, *kinds: str) -> tuple[Property, ...]:
        """The claims of these kinds."""
        return tuple(claim for claim in self.properties if claim.kind in kinds)

    @cached_property
    def expand_fast(self) -> Callable[..., int]:
        """Successors and counts."""
        return load(self.source(full=False))

    @cached_property
    def expand_full(self) -> Callable[..., int]:
        """Successors, counts, refusals, sources and events."""
        return load(self.source(full=True))

    @cached_property
    def check_fast(self) -> Callable[..., int] | None:
        """Invariants and witnesses of states, or None if there are none."""
        if not self.claims("invariant", "lemma", "witness"):
            return None
        return load(check_source(self.layout, self.tally, self.properties, full=False))

    @cached_property
    def check_full(self) -> Callable[..., int]:
        """Invariants, witnesses, antecedents and members of enumerations."""
        return load(check_source(self.layout, self.tally, self.properties, full=True))

    @cached_property
    def ends(self) -> Callable[..., int] | None:
        """Dead states that no end property accepts, or None if there is no end property."""
        if not self.claims("end"):
            return None
        return load(ends_source(self.layout, self.properties))

    def select(
        self, formulas: tuple[Expr, ...], bound: tuple[Symbol, ...] = ()
    ) -> Callable[..., int]:
        """A function that tells which formulas hold in each state, for members they have free."""
        return load(select_source(self.layout, formulas, bound))

    def swaps(self, symmetry: bool | Iterable[object]) -> Swaps | None:
        """The symmetry reduction over the named sorts, or over all that allow it."""
        return make_swaps(self.layout, self.properties, symmetry)

    def initial(self, variant: int = 0) -> Words:
        """The packed initial states."""
        states = Machine(self.instance, variant).initial_states()
        packed = [self.pack(state) for state in states]
        return np.array(packed, np.int64).reshape(-1)

    def pack(self, state: State) -> tuple[int, ...]:
        """The words of a state."""
        table = {}
        for variable, values in zip(
            self.instance.system.variables.values(), state.tables, strict=True
        ):
            table[variable.name] = [encode(variable.type, value) for value in values]
        return self.layout.pack(table)

    def unpack(self, words: Any) -> State:
        """The state of packed words."""
        table = self.layout.unpack(words)
        return State(
            tuple(
                tuple(decode(variable.type, code) for code in table[variable.name])
                for variable in self.instance.system.variables.values()
            )
        )

    @cached_property
    def events(self) -> list[Event]:
        """Every event, in the order of their numbers."""
        return Machine(self.instance).events()

    def event(self, code: int) -> tuple[Event, str | None]:
        """The event of a recorded code, and the code of the refusal if it was one."""
        number, guard = divmod(int(code), self.radix)
        event = self.events[number]
        if guard == 0:
            return event, None
        action = self.instance.system.action(event.action)
        return event, action.guards[guard - 1].code.name

    def source(self, *, full: bool) -> str:
        """The generated source of `expand`, to be read."""
        return Expander(
            self.layout, self.tally, self.claims("step"), full=full, unroll=self.unroll
        ).source()
