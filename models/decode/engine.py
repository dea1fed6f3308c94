"""A small serving engine: requests on cache layouts, driven by a policy that sees the service view alone.

Modelled: handles given to requests in order of arrival; ragged calls of whatever a policy selects, chunks of
prompts beside decode steps with or without drafts; outputs, the last one, its repair, release. Before each
call the policy is given the views, computed from the observed state by the specification's own formulas, and
its decision is taken as events of `spec.scheduling`. Every step is an event that the specification's machine
follows (`engine_follow`); how many rows of a verified append stay is asked of it. Left out: preemption,
admission under memory pressure, prefix sharing.

Block b is the memory of handle b, and append x is the one of handle x: nobody else opens one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache

from torch import Tensor

from kvspec.models.concrete.machine import Event
from kvspec.models.decode.decoder import Decoder, Produced
from kvspec.models.decode.engine_calls import CallRunner, EngineCore, Work, event
from kvspec.models.decode.engine_follow import Follower, Rules
from kvspec.models.decode.engine_requests import NO_FAULTS, Clock, Ended, EngineFaults, Request, Run
from kvspec.models.decode.engine_tables import (
    FINISHED,
    READY,
    RELEASED,
    VACANT,
    Append,
    EngineTables,
    Slot,
)
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.kinds import StoreSizes, open_store
from kvspec.models.decode.policies import DECODE, PREFILL, Decision, Policy, ServiceView
from kvspec.models.decode.shapes import CacheShape
from kvspec.models.decode.speculation import Drafter
from kvspec.spec import core
from kvspec.spec.scheduling import Batch
from kvspec.spec.scheduling import system as scheduling

_ROOM = 4
"""How many times the longest sequence the rows have room for: a faulty engine appends too much."""


class BadDecisionError(DecodeError):
    """A policy selects what the specification does not let a scheduler select."""

    code = "BAD_DECISION"


class StarvedError(DecodeError):
    """Requests are not at their end, and nothing more happens to them."""

    code = "STARVED"


def _rounded(size: int) -> int:
    """The next multiple of eight, so that workloads of like sizes share their rules."""
    return -(-size // 8) * 8


def _nothing(produced: Produced) -> None:
    """The watcher of an engine that nobody watches."""


def _silence(core: EngineCore, event: Event) -> None:
    """The listener of an engine to which nobody listens."""


@lru_cache(maxsize=32)  # engines of a test have the same few sizes
def _rules(handles: int, layers: int, longest: int, requests: int) -> Rules:
    """The scheduling system with room for these requests."""
    return Rules(
        core.make_instance(
            "ENGINE",
            "the requests of an engine",
            of=scheduling,
            handles=handles,
            txns=handles,
            layers=layers,
            blocks=handles,
            longest=longest,
            versions=longest + 1,
            generations=requests + 1,
            more={Batch: 1},
        )
    )


class Engine:
    """Serves requests on layouts of one kind; ``run`` it once, or again after a call failed.

    ``handles`` is how many requests have rows at a time; a ``drafter`` guesses tokens ahead; ``watch`` is
    called after each part of a layer was staged, and may fail the call; ``listen`` hears each event once it
    was carried out; ``keep_rows`` copies the rows of each request at its end.

    Attributes:
        clock: what it has cost so far.

    Raises:
        BadConfigError: there is no such layout kind.
    """

    def __init__(
        self,
        decoder: Decoder,
        requests: Sequence[Request],
        policy: Policy,
        *,
        layout: str = "dynamic",
        handles: int = 3,
        drafter: Drafter | None = None,
        faults: EngineFaults = NO_FAULTS,
        watch: Callable[[Produced], None] = _nothing,
        listen: Callable[[EngineCore, Event], None] = _silence,
        keep_rows: bool = False,
    ) -> None:
        self.clock = Clock()
        self._requests = tuple(requests)
        self._policy, self._memory = policy, policy.begin()
        self._drafter, self._keep_rows = drafter, keep_rows
        longest = max((len(each.prompt) + each.outputs for each in requests), default=1)
        layers = decoder.config.layers
        rules = _rules(handles, layers, _rounded(longest), _rounded(len(requests)))
        sizes = StoreSizes(_ROOM * longest, 2 * handles, decoder.config.window)
        shape = CacheShape.of(decoder.config, decoder.device)
        self._store = open_store(layout, shape, sizes)
        tables = EngineTables(
            [Slot(handle) for handle in range(handles)],
            [Append() for _ in range(handles)],
            layers,
            rules.start(),
        )
        self._core = EngineCore(decoder, tables, rules, Follower(rules), faults, self.clock, listen)
        self._calls = CallRunner(self._core, self._emitted, watch)
        self._waiting = sorted(range(len(requests)), key=lambda n: requests[n].arrival)
        self._ranks = {number: rank for rank, number in enumerate(self._waiting)}
        self._ended: dict[int, Ended] = {}
        self._times: dict[int, list[int]] = {number: [] for number in range(len(requests))}
        self._stopped_at: dict[int, int] = {}
        rows = sum(len(each.prompt) + each.outputs for each in requests)
        self._most_rounds = rows + max((each.arrival for each in requests), default=0) + 1

    def run(self) -> Run:
        """Serve all requests to their end.

        Raises:
            BadDecisionError: the policy selects what cannot be selected.
            StarvedError: the policy selects nothing for good, though there is work.
        """
        while len(self._ended) < len(self._requests):
            if self.clock.rounds > self._most_rounds:
                self._starve()
                break
            self.round()
        self._release()
        follower = self._core.follower
        ended = tuple(self._ended[number] for number in sorted(self._ended))
        return Run(ended, self.clock, follower.verdict, follower.finding, follower.events)

    def views(self) -> tuple[ServiceView, ...]:
        """The service view of every request that has a handle, in the order of handles.

        They are numbered by arrival; those that arrive together, in the order in which they were given.
        """
        return tuple(
            ServiceView(self._ranks[slot.request], slot.handle, self._core.facts(slot))
            for slot in self._core.tables.slots
            if slot.request is not None
        )

    def round(self) -> None:
        """One turn of the policy, and the call that it decides on, if any."""
        self._release()
        self._arrive()
        views = self.views()
        memory, decision = self._policy.decide(self._memory, views)
        works = self._decide(views, decision)
        self._memory = memory
        works += [
            Work(slot, slot.tokens[-1:], (), is_chunk=False)
            for slot in self._core.tables.slots
            if slot.is_repairing
        ]
        if works:
            self._calls.run(works)
        self.clock.rounds += 1
        for work in works:
            slot = work.slot
            if slot.is_repairing and work.known and slot.length >= len(slot.tokens):
                self._finish(slot)

    def _arrive(self) -> None:
        """Give free handles to requests that are there, those used least first."""
        free = [each for each in self._core.tables.slots if each.phase in {VACANT, RELEASED}]
        for slot in sorted(free, key=lambda slot: slot.generation):
            if not self._waiting:
                return
            number = self._waiting[0]
            request = self._requests[number]
            if request.arrival > self.clock.rounds:
                return
            self._waiting.pop(0)
            slot.phase, slot.request, slot.layout = READY, number, self._store()
            slot.version, slot.abi, slot.prompt, slot.is_filled = 0, 0, request.prompt, True
            h, p = slot.handle, len(request.prompt)
            self._core.took(event("allocate", h=h, b=h, a=0, p=p))

    def _decide(self, views: tuple[ServiceView, ...], decision: Decision) -> list[Work]:
        """Take a decision as events of the scheduling system, and make work of it."""
        by_handle = {view.handle: view for view in views}
        asked = [selection.handle for selection in decision]
        if len(set(asked)) < len(asked) or not set(asked) <= by_handle.keys():
            raise self._bad(f"handles {asked}", f"each once, of {sorted(by_handle)}")
        events: list[Event] = []
        for selection in decision:
            events += self._events(by_handle[selection.handle], selection.rows)
        for selection in decision:
            slot = self._core.tables.slots[selection.handle]
            slot.batch = 0
            if by_handle[selection.handle].work == PREFILL:
                slot.chunk = selection.rows
        if events:
            self._core.took(*events)
        if self.views() != views:
            self._core.follower.report("a decision changed a field of the service view")
        return [self._work(by_handle[each.handle], each.rows) for each in decision]

    def _events(self, view: ServiceView, rows: int) -> list[Event]:
        """The events of one selection; one that the specification refuses is refused with its code."""
        h = view.handle
        events = [event("put_in_batch", h=h, b=0)]
        if view.work == PREFILL:
            events.append(event("choose_chunk", h=h, n=rows))
        for each in events:
            code = self._core.rules.refusal(self._core.state(), each)
            if code is not None:
                raise self._bad(f"{rows} rows of handle {h}, refused with {code}", str(view))
        if view.work == DECODE and rows != view.rows:
            raise self._bad(f"{rows} rows of handle {h}", f"{view.rows}, of the frontier token")
        return events

    def _bad(self, found: str, expected: str) -> BadDecisionError:
        return BadDecisionError(
            where=f"round {self.clock.rounds} of policy {self._policy.name}",
            found=f"a selection of {found}",
            expected=expected,
            fix="select what the view's eligible_work offers",
        )

    def _work(self, view: ServiceView, rows: int) -> Work:
        slot = self._core.tables.slots[view.handle]
        if view.work == PREFILL:
            return Work(slot, slot.prompt[slot.length :][:rows], (), is_chunk=True)
        return Work(slot, slot.tokens[-1:], self._drafts(slot), is_chunk=False)

    def _drafts(self, slot: Slot) -> tuple[int, ...]:
        """Drafts that leave room for the output that follows them, none from a stop token on."""
        if self._drafter is None or slot.request is None:
            return ()
        request = self._requests[slot.request]
        left = request.outputs - len(slot.outputs) - 1
        drafts = tuple(self._drafter(slot.tokens))[: max(left, 0)]
        return drafts[: drafts.index(request.stop)] if request.stop in drafts else drafts

    def _emitted(self, slot: Slot, token: int) -> None:
        """Put a token out; the last one stops the request."""
        if slot.request is None:
            raise ValueError(f"handle {slot.handle} has no request: nothing can be put out of it")
        request = self._requests[slot.request]
        accepted = len(slot.outputs) - len(self._times[slot.request])
        slot.outputs = (*slot.outputs, token)
        self._times[slot.request] += [self.clock.rounds + 1] * (accepted + 1)
        self._core.took(event("emit", h=slot.handle))
        if token == request.stop or len(slot.outputs) >= request.outputs:
            slot.stopped = True
            self._core.took(event("stop", h=slot.handle))
            self._stopped_at[slot.request] = self._frontier(slot)
            slot.is_repairing = request.repair
            if not request.repair:
                self._finish(slot)

    def _frontier(self, slot: Slot) -> int:
        return int(self._core.facts(slot)["output_frontier_count"])

    def _finish(self, slot: Slot) -> None:
        """End a request, and take down what came of it."""
        if slot.request is None:
            raise ValueError(f"handle {slot.handle} has no request: nothing can be finished")
        slot.phase, slot.is_repairing = FINISHED, False
        self._core.took(event("finish", h=slot.handle))
        number = slot.request
        self._ended[number] = Ended(
            number,
            slot.outputs,
            slot.length,
            (self._stopped_at.get(number, 0), self._frontier(slot)),
            self._copies(slot) if self._keep_rows else (),
            tuple(self._times[number]),
            self._requests[number].arrival,
        )

    @staticmethod
    def _copies(slot: Slot) -> tuple[tuple[Tensor, Tensor], ...]:
        snapshot = slot.rows.snapshot()
        pairs = (snapshot.read(layer) for layer in range(slot.rows.shape.layers))
        return tuple((keys.clone(), values.clone()) for keys, values in pairs)

    def _release(self) -> None:
        """Give up the rows of ended requests, and free their memory."""
        for slot in self._core.tables.slots:
            if slot.phase != FINISHED:
                continue
            h, length = slot.handle, slot.length
            slot.rows.release()
            blank = Slot(h)
            slot.phase, slot.generation = RELEASED, slot.generation + 1
            slot.request, slot.layout, slot.last_length = None, None, length
            slot.prompt, slot.outputs, slot.stopped = blank.prompt, blank.outputs, blank.stopped
            slot.computed_for = blank.computed_for
            self._core.took(event("release", h=h))
            slot.is_filled = False
            self._core.took(event("evict", b=h))

    def _starve(self) -> None:
        """Requests that come to no end: of a faulty engine they end as they are."""
        if self._core.follower.finding is None:
            raise StarvedError(
                where=f"round {self.clock.rounds} of policy {self._policy.name}",
                found=f"{len(self._requests) - len(self._ended)} requests that are not at their end",
                expected=f"all of them within {self._most_rounds} rounds",
                fix="let the policy select eligible work at every turn",
            )
        for slot in self._core.tables.slots:
            if slot.phase == READY:
                self._finish(slot)
