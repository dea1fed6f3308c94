"""A scheduler that runs ahead of a decoder, with its own tables and checks, and with faults to switch on.

Modelled: requests with prompts, whose steps are queued for the device and computed, in order, when their
outputs come; a step ahead reads its token from the output of the step before, on the device. Rows lie in
slots of a pool that requests take and give back. A request that leaves the device has its queue run first, so
that no late step writes into a slot that was given back. The index keeps copies of published rows, and the
tokens that they are found under. Which output is the last one is the event's to say.
Damage: logits that a client's tokens were chosen by, against an uncached run; settled and published rows
against those of an uncached run; slots, in bytes, that are held and hold no row of their request.
"""

from __future__ import annotations

from itertools import count
from typing import Final

from attrs import define, field
from torch import Tensor

from kvspec.models.backend import Damage
from kvspec.models.concrete.state import State, Value
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_model import Model, token_of
from kvspec.models.decode.backend_tables import RefusedError
from kvspec.models.decode.mechanisms.checks import Performing
from kvspec.models.decode.mechanisms.slot_rows import SlotRows, is_apart, small_model
from kvspec.spec.language import Instance

FAULTS: Final = {
    "settle.drop-guard.STALE_STEP": "an output is taken whichever incarnation dispatched its step",
    "settle.drop-guard.OUTPUT_STOPPED": "an output behind the stop is taken",
    "settle.forgets-a-chunk": "the next chunk of a prompt is taken from what is published",
    "settle.records-what-is-published": "of a prompt that is not whole, published rows alone count",
    "start.drop-guard.TAG_IN_USE": "a request starts under the tag of a step in flight",
    "finish.publishes-what-ran-ahead": "all scheduled rows are published at the end",
    "finish.drop-assignment.scheduled": "what ran ahead stays scheduled at the end",
}
"""Every fault that the scheduler can be given, by name, with what it does."""


def fault_for(mutation: str) -> str | None:
    """The fault that makes the scheduler behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


@define(eq=False)
class Lane:
    """An incarnation on the device: slots of its rows by position, its outputs, rows that came back."""

    tag: int
    table: list[int] = field(factory=list)
    outputs: dict[int, int] = field(factory=dict)
    came: set[int] = field(factory=set)


@define(eq=False)
class StepInFlight:
    """A step in its frame: for whom, which rows and in which slots, and its logits once it has run."""

    handle: int
    lane: Lane
    first: int
    count: int
    slots: list[int]
    logits: Tensor | None = None


@define(eq=False)
class Request:
    """What the host knows of a request, and what its client has."""

    outcome: str = "NEW"
    prompt: list[int] = field(factory=list)
    lane: Lane | None = None
    held: list[int] = field(factory=list)
    scheduled: int = 0
    settled: int = 0
    indexed: int = 0
    client: list[int] = field(factory=list)
    chosen_by: list[Tensor] = field(factory=list)
    last: int | None = None
    is_protected: bool = False
    is_running: bool = False
    published: tuple[tuple[int, ...], list[tuple[Tensor, Tensor]]] | None = None

    @property
    def tokens(self) -> list[int]:
        """The tokens that its client knows."""
        return self.prompt + self.client


class Cache(Performing):
    """Requests, their steps in flight, and the pool (`kvspec.models.backend.Backend` of run_ahead)."""

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        self.faults = known_faults(faults, FAULTS)
        self.model: Model = small_model()

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of the system."""
        handles = instance.sizes["Handle"]
        self.context = int(instance.constants["context"])
        self.chunk = int(instance.constants["chunk"])
        self.more = int(instance.constants["more"])
        self.rows = SlotRows(self.model, max(1, handles * self.context))
        self.free = list(range(handles * self.context))
        self.requests = [Request() for _ in range(handles)]
        self.frames: list[StepInFlight | None] = [None] * instance.sizes["Frame"]

    def observe(self) -> State:
        """The variables of the system, read off the tables."""
        of, frames = self.requests, self.frames
        tables: list[list[Value]] = [
            [r.outcome for r in of],
            [r.lane.tag if r.lane is not None and r.is_running else None for r in of],
            [len(r.prompt) for r in of],
            [len(r.held) for r in of],
            [r.scheduled for r in of],
            [r.settled for r in of],
            [r.indexed for r in of],
            [len(r.client) for r in of],
            [r.last is not None for r in of],
            [r.is_protected for r in of],
            [None if f is None else f.handle for f in frames],
            [None if f is None else f.lane.tag for f in frames],
            [0 if f is None else f.first for f in frames],
            [0 if f is None else f.count for f in frames],
        ]
        return State(tuple(tuple(table) for table in tables))

    def damage(self) -> list[Damage]:
        """Every harm that can be measured now."""
        found: list[Damage] = []
        for handle, request in enumerate(self.requests):
            where = f"handle{handle}"
            found += self._of_outputs(where, request)
            found += self._of_rows(where, request)
            found += self._of_slots(where, request)
            found += self._of_index(where, request)
        return found

    def _submit(self, h: int, p: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "NEW", "HANDLE_LIVE", request.outcome)
        self._check(p >= 1, "EMPTY_PROMPT", p)
        self._check(p + self.more <= self.context, "PROMPT_TOO_LONG", p)
        request.outcome = "PENDING"
        request.prompt = _telling_prompt(self.model, h, p)

    def _start(self, h: int, i: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "PENDING", "NOT_PENDING", request.outcome)
        self._check(not request.is_running, "RUNNING", request.is_running)
        borne = [f.lane.tag for f in self.frames if f is not None and f.handle == h]
        if "start.drop-guard.TAG_IN_USE" not in self.faults:
            self._check(i not in borne, "TAG_IN_USE", borne)
        request.lane, request.is_running = Lane(i), True

    def _dispatch(self, h: int, f: int, n: int) -> None:
        request, lane = self.requests[h], self.requests[h].lane
        if lane is None or not request.is_running:
            raise RefusedError("NO_INCARNATION", f"found {request.outcome}")
        self._check(self.frames[f] is None, "FRAME_IN_USE", f)
        self._check(n >= 1, "EMPTY_APPEND", n)
        self._check(request.last is None, "OUTPUT_STOPPED", request.last)
        self._check(n <= self.chunk, "STEP_TOO_LONG", n)
        known = max(len(request.tokens), request.scheduled + 1)
        self._check(request.scheduled + n <= known, "NO_INPUT", request.scheduled + n)
        self._check(len(request.held) + n <= self.context, "NO_SLOTS", len(request.held))
        slots = [self.free.pop(0) for _ in range(n)]
        request.held += slots
        lane.table = lane.table[: request.scheduled] + slots
        self.frames[f] = StepInFlight(h, lane, request.scheduled, n, slots)
        request.scheduled += n

    def _settle(self, f: int, t: str) -> None:
        step = self._in_flight(f)
        request = self.requests[step.handle]
        older = [g for g in self._queue(step.handle, step.lane.tag) if g.first < step.first]
        self._check(not older, "OUT_OF_ORDER", len(older))
        if "settle.drop-guard.STALE_STEP" not in self.faults:
            self._check(self._is_current(step), "STALE_STEP", step.lane.tag)
        if "settle.drop-guard.OUTPUT_STOPPED" not in self.faults:
            self._check(request.last is None, "OUTPUT_STOPPED", request.last)
        gives = request.settled + step.count == len(request.tokens)
        self._check(gives or t != "STOP", "NO_OUTPUT", request.settled + step.count)
        logits = self._run(step)
        step.lane.came |= set(range(step.first, step.first + step.count))
        request.settled += step.count
        if request.settled < len(request.prompt):
            self._after_chunk(request)
        if gives:
            request.client.append(int(logits.argmax()))
            request.chosen_by.append(logits)
            request.is_protected = False
            if request.last is None and (t == "STOP" or len(request.client) > self.more):
                request.last = len(request.client)
        self.frames[f] = None

    def _after_chunk(self, request: Request) -> None:
        """What a faulty scheduler makes of a prompt that is not whole."""
        if "settle.forgets-a-chunk" in self.faults:
            request.scheduled = request.indexed
        if "settle.records-what-is-published" in self.faults:
            request.settled = request.indexed

    def _drain(self, f: int) -> None:
        step = self._in_flight(f)
        self._check(not self._counts(step), "STILL_COUNTS", f)
        self._run(step)
        self.frames[f] = None

    def _lose(self, f: int) -> None:
        step = self._in_flight(f)
        if self._counts(step):
            request, lane = self.requests[step.handle], step.lane
            for place, other in enumerate(self.frames):
                if other is not None and other.lane is lane and other.first > step.first:
                    self.frames[place] = None
            self._give_back(request, lane.table[step.first :])
            lane.table = lane.table[: step.first]
            request.scheduled = step.first
        self.frames[f] = None

    def _index(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.indexed < request.settled, "NOTHING_NEW", request.indexed)
        self._publish(request, request.settled)

    def _preempt(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.is_running, "NO_INCARNATION", request.outcome)
        self._check(not request.is_protected, "PROTECTED", request.is_protected)
        self._check(request.last is None, "OUTPUT_STOPPED", request.last)
        request.is_protected = True
        self._leave(request)

    def _finish(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "PENDING", "NOT_PENDING", request.outcome)
        self._check(request.last is not None, "NOT_STOPPED", len(request.client))
        request.outcome, request.is_running = "FINISHED", False
        ahead = "finish.publishes-what-ran-ahead" in self.faults
        self._publish(request, request.scheduled if ahead else request.settled)
        if "finish.drop-assignment.scheduled" not in self.faults:
            request.scheduled = request.settled

    def _cancel(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "PENDING", "NOT_PENDING", request.outcome)
        request.outcome = "CANCELLED"
        self._leave(request)

    def _release(self, h: int) -> None:
        request = self.requests[h]
        self._check(request.outcome == "FINISHED", "NOT_FINISHED", request.outcome)
        request.outcome = "RELEASED"
        self._leave(request)

    def _check(self, holds: bool, code: str, found: object) -> None:
        if not holds:
            raise RefusedError(code, f"found {found}")

    def _in_flight(self, f: int) -> StepInFlight:
        step = self.frames[f]
        if step is None:
            raise RefusedError("FRAME_NOT_IN_FLIGHT", f"frame {f} is free")
        return step

    def _is_current(self, step: StepInFlight) -> bool:
        """The step bears the tag of the incarnation that runs: tags are all that a host can compare."""
        request = self.requests[step.handle]
        return request.is_running and request.lane is not None and request.lane.tag == step.lane.tag

    def _counts(self, step: StepInFlight) -> bool:
        return self._is_current(step) and self.requests[step.handle].last is None

    def _queue(self, handle: int, tag: int) -> list[StepInFlight]:
        """Steps of one incarnation that are in flight, in the order of the device."""
        found = [f for f in self.frames if f is not None]
        mine = [f for f in found if f.handle == handle and f.lane.tag == tag]
        return sorted(mine, key=lambda step: step.first)

    def _run(self, step: StepInFlight) -> Tensor:
        """The step's logits [vocab], computed with the rows of its incarnation if it has not run."""
        if step.logits is None:
            lane, behind = step.lane, step.first + step.count
            known = self.requests[step.handle].tokens
            ids = [
                known[place] if place < len(known) else lane.outputs[place]
                for place in range(step.first, behind)
            ]
            table = lane.table[: step.first] + step.slots
            step.logits = self.rows.compute(ids, step.first, table)[-1]
            lane.outputs[behind] = int(step.logits.argmax())
        return step.logits

    def _leave(self, request: Request) -> None:
        """The device runs what is queued for the request; then its slots are given back."""
        if request.lane is not None:
            handle = self.requests.index(request)
            for step in self._queue(handle, request.lane.tag):
                if step.lane is request.lane:
                    self._run(step)
        self._give_back(request, list(request.held))
        request.lane, request.is_running, request.published = None, False, None
        request.scheduled = request.settled = request.indexed = 0

    def _give_back(self, request: Request, slots: list[int]) -> None:
        request.held = [slot for slot in request.held if slot not in slots]
        self.free += slots

    def _publish(self, request: Request, count: int) -> None:
        """Copies of the first rows, found under the tokens that the client has and what comes behind."""
        lane = request.lane
        table = [] if lane is None else lane.table[:count]
        key = (request.tokens + [0] * count)[:count]
        request.indexed = count
        request.published = (tuple(key), self.rows.layers(table))

    def _of_outputs(self, where: str, request: Request) -> list[Damage]:
        """Outputs that were chosen by logits which an uncached run does not give, or behind the stop."""
        found = []
        for place, logits in enumerate(request.chosen_by):
            right = self.model.run(tuple(request.prompt + request.client[:place])).logits
            if is_apart(logits, right):
                amount = float((logits - right).abs().max())
                text = f"output {place} of {where} was chosen by logits that are {amount:.3g} off"
                found.append(Damage("logits", where, amount, text))
        if request.last is not None and len(request.client) > request.last:
            amount = float(len(request.client) - request.last)
            found.append(Damage("rows", where, amount, f"{where} emitted behind its last output"))
        return found

    def _of_rows(self, where: str, request: Request) -> list[Damage]:
        """Rows that are counted and were not computed, or computed and not counted, or wrong."""
        lane = request.lane
        came = 0 if lane is None else len(lane.came)
        if request.settled != came:
            text = f"{where} counts {request.settled} settled rows, and {came} have come back"
            return [Damage("layers", where, float(abs(request.settled - came)), text)]
        if request.outcome == "FINISHED" and request.scheduled != came:
            text = (
                f"{where} has ended with {request.scheduled} rows scheduled, of which {came} came"
            )
            return [Damage("layers", where, float(request.scheduled - came), text)]
        if lane is None or not came:
            return []
        wrong = self.rows.wrong_rows(request.tokens, self.rows.layers(lane.table[:came]))
        text = f"{where} has {wrong} settled rows that are not of its tokens"
        return [Damage("rows", where, float(wrong), text)] if wrong else []

    def _of_slots(self, where: str, request: Request) -> list[Damage]:
        """Slots that a running request holds and has no row in."""
        lane = request.lane if request.is_running else None
        lost = 0 if lane is None else len(set(request.held) - set(lane.table[: request.scheduled]))
        amount = float(lost * self.rows.row_bytes)
        text = f"{where} holds {lost} slots, {amount:g} bytes, that no row of it lies in"
        return [Damage("owner", where, amount, text)] if lost else []

    def _of_index(self, where: str, request: Request) -> list[Damage]:
        """Published rows that are not those of the key, and the logits that they would give."""
        if request.published is None or not request.published[0]:
            return []
        key, layers = request.published
        wrong = self.rows.wrong_rows(key, layers)
        if not wrong:
            return []
        text = f"the key of {where} has {len(key)} tokens and {wrong} rows that are not theirs"
        found = [Damage("rows", where, float(wrong), text)]
        logits = self.rows.next_logits(key[-1], len(key) - 1, layers)
        right = self.model.run(key).logits
        if is_apart(logits, right):
            amount = float((logits - right).abs().max())
            text = f"logits behind the key of {where} are {amount:.3g} off an uncached run"
            found.append(Damage("logits", where, amount, text))
        return found


def _telling_prompt(model: Model, handle: int, length: int) -> list[int]:
    """A prompt behind each prefix of which, and of its continuation, another token comes next."""
    drawn = (
        [token_of("prompt", handle, place, salt) for place in range(length)] for salt in count()
    )
    return next(prompt for prompt in drawn if _is_telling(model, prompt))


def _is_telling(model: Model, prompt: list[int]) -> bool:
    ids = list(prompt)
    seen = [int(model.run(tuple(ids[:n])).logits.argmax()) for n in range(1, len(ids) + 1)]
    for _ in range(2):
        ids.append(seen[-1])
        seen.append(int(model.run(tuple(ids)).logits.argmax()))
    return len(set(seen)) == len(seen)
