"""Three small schedulers, each a function of what it remembers and of the service views.

Modelled: static request batches, iteration-level batching and chunked prefill. A policy is given the view of
each request, by the fields of `spec.serving`, and gives back which requests run in the next call and how
many rows of each; it can touch nothing else. Left out: priorities, preemption, memory limits, fairness.

A view cannot be changed, and a decision is no part of it: what a policy remembers it gets back at its next
turn, and nobody else looks at it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import attrs

from kvspec.spec.serving import ServicePhase, Work

PREFILL: Final = str(Work.PREFILL_ROWS_AVAILABLE)
DECODE: Final = str(Work.DECODE_FRONTIER_AVAILABLE)
"""What the field ``eligible_work`` says of a request that can be selected."""


@attrs.frozen
class ServiceView:
    """What a service sees of one request.

    Attributes:
        request: its number, from 0 in order of arrival, whatever order an engine was given them in.
        handle: under which its rows are held.
        facts: every field of the service view by its name; it cannot be written to.
    """

    request: int
    handle: int
    facts: Mapping[str, Any]

    @property
    def work(self) -> str:
        """What can be selected: rows of the prompt, the row of the frontier token, or nothing."""
        return str(self.facts["eligible_work"])

    @property
    def rows(self) -> int:
        """The most rows that can be selected."""
        name = "prompt_rows_remaining" if self.work == PREFILL else "next_ordinary_append_tokens"
        return int(self.facts[name])

    @property
    def is_over(self) -> bool:
        """No more output will come of it."""
        over = (str(ServicePhase.FINISHED_RETAINED), str(ServicePhase.RELEASED))
        return self.facts["phase"] in over


@attrs.frozen
class Selection:
    """One request of the next call, and how many of its rows are computed in it."""

    handle: int
    rows: int


Decision = tuple[Selection, ...]


class Policy(Protocol):
    """A scheduler. What it remembers is its own affair, and cannot be changed by others either."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        ...

    def begin(self) -> Any:
        """What it remembers before the first turn."""
        ...

    def decide(self, memory: Any, views: tuple[ServiceView, ...]) -> tuple[Any, Decision]:
        """What it remembers from now on, and what the next call is of."""
        ...


def _selected(views: Iterable[ServiceView]) -> Decision:
    """All that can be selected of each request."""
    return tuple(Selection(view.handle, view.rows) for view in views if view.rows)


@attrs.frozen
class StaticBatches:
    """Takes up to ``size`` requests, and no other before the last of them has had its last output."""

    size: int = 4
    name: str = "static batches"

    def begin(self) -> frozenset[int]:
        """No request is in the batch."""
        return frozenset()

    def decide(
        self, memory: frozenset[int], views: tuple[ServiceView, ...]
    ) -> tuple[frozenset[int], Decision]:
        """Keep the batch while one of it still runs, else form the next one in order of arrival."""
        running = [view for view in views if view.request in memory and not view.is_over]
        if not running:
            waiting = sorted((v for v in views if not v.is_over), key=lambda view: view.request)
            running = waiting[: self.size]
            memory = frozenset(view.request for view in running)
        return memory, _selected(running)


@attrs.frozen
class IterationLevel:
    """Takes at every call all that is eligible: whole prompts beside the decode steps of others."""

    name: str = "iteration-level batching"

    def begin(self) -> None:
        """It remembers nothing."""

    def decide(self, memory: None, views: tuple[ServiceView, ...]) -> tuple[None, Decision]:
        """Select everything."""
        return memory, _selected(views)


@attrs.frozen
class ChunkedPrefill:
    """Fills every call with at most ``budget`` rows: decode steps first, then chunks of prompts."""

    budget: int = 4
    name: str = "chunked prefill"

    def begin(self) -> None:
        """It remembers nothing."""

    def decide(self, memory: None, views: tuple[ServiceView, ...]) -> tuple[None, Decision]:
        """Spend the budget on decode steps, and what is left on prompts, both in order of arrival."""
        left, chosen = self.budget, []
        for view in sorted(views, key=lambda view: (view.work != DECODE, view.request)):
            rows = min(view.rows, left)
            if rows:
                chosen.append(Selection(view.handle, rows))
                left -= rows
        return memory, tuple(chosen)


POLICIES: Final[tuple[Policy, ...]] = (StaticBatches(), IterationLevel(), ChunkedPrefill())
"""The three, with sizes that suit a handful of requests."""
