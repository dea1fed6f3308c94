"""The explicit engine: exhaustive breadth-first search of an instance, compiled to machine code.

Reading order: `packing` (states as words), `writer`, `terms`, `updates`, `expand`, `claims` (the
language as generated source), `lower` and `cache` (source to machine code),
`kernels`, `visited`, `search`, `parallel`, `swaps` (symmetry), `traces`, `run`, `results`, `vacuity`,
`graph`, `liveness`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kvspec.models.explicit.graph import StateGraph
from kvspec.models.explicit.program import Program
from kvspec.models.explicit.results import (
    Coverage,
    Exploration,
    Progress,
    TraceStep,
    Violation,
    Witness,
)
from kvspec.models.explicit.vacuity import Gap, gaps
from kvspec.spec.language.instances import Instance
from kvspec.spec.language.properties import Property


def compile_instance(instance: Instance, properties: Iterable[Property] = ()) -> Program:
    """An instance and claims about it, to be explored many times (as mutants are)."""
    return Program(instance, properties)


def explore(
    instance: Instance,
    properties: Iterable[Property] = (),
    *,
    symmetry: bool | Iterable[object] = False,
    coverage: bool = True,
    variant: int = 0,
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
    """Explore every reachable state of an instance, breadth first, and check the properties.

    symmetry: one state for all that differ by a swap of members of open sorts; True for every sort
    that allows it, or the sorts themselves. coverage: count refusals and what claims presuppose, which
    costs time. variant: the mutant explored. threads: at most so many; by default as it pays.
    deadlock: a deadlock is a violation; by default if there is an `end` property among the claims.
    max_graph: leads_to claims are checked on instances of at most so many states, else unknown.
    """
    return compile_instance(instance, properties).explore(
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


def graph(
    instance: Instance, *, variant: int = 0, max_states: int | None = 1_000_000
) -> StateGraph:
    """The whole state graph of a small instance, in breadth-first order."""
    return compile_instance(instance).graph(variant=variant, max_states=max_states)


__all__ = [
    "Coverage",
    "Exploration",
    "Gap",
    "Program",
    "Progress",
    "StateGraph",
    "TraceStep",
    "Violation",
    "Witness",
    "compile_instance",
    "explore",
    "gaps",
    "graph",
]
