"""One ragged call of an engine, from the begin of its appends to the outputs that come of it.

Modelled: each request's append begins, is staged layer by layer, prepared, verified where it has drafts,
published and forgotten by itself, and each of these is an event that the follower hears. A call that fails
aborts all its appends, a row that fails its own. Left out: who is in the call; the engine says that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import attrs
import torch
from torch import Tensor

from kvspec.models.concrete.evaluate import Bound
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.decoder import Decoder, Produced
from kvspec.models.decode.engine_follow import Follower, Rules
from kvspec.models.decode.engine_requests import Clock, EngineFaults
from kvspec.models.decode.engine_tables import (
    OPEN,
    PREPARED,
    PUBLISHED,
    Append,
    EngineTables,
    Slot,
)
from kvspec.models.decode.errors import DecodeError
from kvspec.models.decode.hooks import Part
from kvspec.models.decode.kinds import AnyLayout
from kvspec.models.decode.ragged import RaggedCall
from kvspec.models.decode.speculation import accepted_drafts, keep_rows
from kvspec.spec.language import Expr
from kvspec.spec.serving import VIEW_FIELDS, ServicePhase

OUTPUT_READY = str(ServicePhase.OUTPUT_READY)


def event(action: str, **values: Bound) -> Event:
    """An event by the names of its parameters."""
    return Event(action, tuple(values.items()))


@attrs.define(eq=False)
class EngineCore:
    """What the parts of an engine share."""

    decoder: Decoder
    tables: EngineTables
    rules: Rules
    follower: Follower
    faults: EngineFaults
    clock: Clock
    listen: Callable[[EngineCore, Event], None]

    def state(self) -> State:
        """The state of the system's variables, as observed."""
        return self.tables.observe()

    def facts(
        self, slot: Slot, formulas: Mapping[str, Callable[[Expr], Expr]] = VIEW_FIELDS
    ) -> Mapping[str, Any]:
        """The service view of a slot, by the specification's formulas on the observed state."""
        return self.rules.facts(self.state(), formulas, slot.handle)

    def took(self, *events: Event) -> None:
        """Events were carried out as one: tell the follower, and who listens."""
        self.follower.take(events, self.state())
        for each in events:
            self.listen(self, each)


@attrs.define(eq=False)
class Work:
    """What one request does in a call.

    Attributes:
        slot: whose.
        known: tokens of it that get a row.
        drafts: behind these.
        is_chunk: the known tokens are of the prompt.
        start: where its rows begin.
        holder: the rows that they are appended to.
    """

    slot: Slot
    known: tuple[int, ...]
    drafts: tuple[int, ...]
    is_chunk: bool
    start: int = 0
    holder: AnyLayout | None = None

    @property
    def tokens(self) -> tuple[int, ...]:
        """All tokens that get a row in the call."""
        return self.known + self.drafts

    @property
    def last_known(self) -> int:
        """The place of the logits behind the last known token."""
        return len(self.known) - 1


class CallRunner:
    """Runs calls of one engine.

    ``emitted`` is told of each output; ``watch`` is called whenever a part of a layer was staged.
    """

    def __init__(
        self,
        core: EngineCore,
        emitted: Callable[[Slot, int], None],
        watch: Callable[[Produced], None],
    ) -> None:
        self._core = core
        self._emitted = emitted
        self._watch = watch

    def run(self, works: Sequence[Work]) -> None:
        """Carry out one call; if it fails as a whole, no row of it becomes visible."""
        begun: list[Work] = []
        try:
            for place, work in enumerate(works):
                begun.append(work)
                self._begin(place, work)
            call, logits = self._forward(begun)
        except BaseException:
            for work in begun:
                self._abort(work)
            raise
        self._count(call)
        for place, work in enumerate(begun):
            self._land(work, place not in call.failures, logits[place], begun)

    def _append(self, work: Work) -> Append:
        return self._core.tables.appends[work.slot.handle]

    def _begin(self, place: int, work: Work) -> None:
        slot, append = work.slot, self._append(work)
        work.start, work.holder = slot.length, slot.rows
        if self._core.faults.place_is_handle:
            work.holder = self._core.tables.slots[place].layout or work.holder
        append.staging = work.holder.begin(len(work.tokens))
        append.state, append.target, append.key = OPEN, slot.handle, 0
        append.base_generation, append.base_version = slot.generation, slot.version
        append.txn_abi, append.start, append.count = slot.abi, work.start, len(work.tokens)
        append.drafts, append.base_tokens = len(work.drafts), len(slot.tokens)
        append.tokens = work.tokens
        h = slot.handle
        rows, drafts = len(work.tokens), len(work.drafts)
        self._core.took(event("begin", x=h, h=h, k=0, a=0, p=work.start, n=rows, d=drafts))

    def _forward(self, works: list[Work]) -> tuple[RaggedCall, Tensor]:
        core = self._core
        stagings = [self._append(work).staging for work in works]
        restart = core.faults.restart_chunks
        starts = [0 if restart and work.is_chunk else work.start for work in works]
        call = RaggedCall([staging for staging in stagings if staging is not None], starts)
        device = core.decoder.device
        steps = call.forward_layers(
            core.decoder, [torch.tensor(work.tokens, device=device) for work in works]
        )
        while True:
            try:
                produced = next(steps)
            except StopIteration as stop:
                return call, stop.value
            self._staged(call, works, produced)
            self._watch(produced)

    def _staged(self, call: RaggedCall, works: list[Work], produced: Produced) -> None:
        name = "stage_k" if produced.part is Part.KEY else "stage_v"
        self._core.took(
            *(
                event(name, x=work.slot.handle, l=produced.layer, p=position)
                for place, work in enumerate(works)
                if place not in call.failures
                for position in range(work.start, work.start + len(work.tokens))
            )
        )

    def _count(self, call: RaggedCall) -> None:
        clock, counts = self._core.clock, call.counts
        clock.calls += 1
        clock.tokens += sum(counts)
        clock.padding += max(counts) * len(counts) - sum(counts)

    def _land(self, work: Work, is_whole: bool, logits: Tensor, works: list[Work]) -> None:
        """Publish the rows of one request, or abort them; put out what its logits tell."""
        skips = self._core.faults.skip_row and not work.is_chunk
        if not is_whole or (skips and any(other.is_chunk for other in works)):
            self._abort(work)
        else:
            try:
                self._publish(work, logits)
            except DecodeError:
                self._abort(work)
                return
        if is_whole:
            self._emit(work, logits, always=skips)

    def _publish(self, work: Work, logits: Tensor) -> None:
        core, slot, append, h = self._core, work.slot, self._append(work), work.slot.handle
        append.state = PREPARED
        core.took(event("prepare", x=h))
        if work.drafts:
            self._verify(work, append, logits)
        if work.holder is None or append.staging is None:
            raise ValueError(f"append {h} was never begun: begin it before its publication")
        work.holder.install(append.staging)
        kept = append.staging.count
        slot.version += 1
        slot.outputs += work.drafts[: append.accepted]
        slot.computed_for += work.tokens[:kept]
        append.state, append.receipt = PUBLISHED, slot.version
        append.accepted = append.base_tokens = 0
        core.took(event("publish", x=h))
        append.forget()
        core.took(event("forget", x=h))

    def _verify(self, work: Work, append: Append, logits: Tensor) -> None:
        """Drop the rows of drafts that the target did not accept; the specification says how many stay."""
        h, faults, first = work.slot.handle, self._core.faults, work.last_known
        drafts = len(work.drafts)
        agreed = accepted_drafts(logits[first : first + drafts], work.drafts)
        kept = self._core.rules.after(self._core.state(), "count", h, "verify", x=h, a=agreed)
        append.drafts, append.accepted, append.count = 0, agreed, kept
        rows = len(work.tokens) if faults.publish_drafts else kept
        rows = min(rows + faults.keep_rejected, len(work.tokens))
        if append.staging is not None and work.holder is not None:
            append.staging = keep_rows(work.holder, append.staging, rows)
        self._core.took(event("verify", x=h, a=agreed))

    def _emit(self, work: Work, logits: Tensor, *, always: bool) -> None:
        """Put out the tokens whose turn it is: one, unless rows stand that should not."""
        accepted = len(work.slot.tokens) - work.start - len(work.known) if work.drafts else 0
        place = work.last_known + accepted
        ready = always or self._core.facts(work.slot)["phase"] == OUTPUT_READY
        while ready and place < len(work.tokens) and not work.slot.stopped:
            self._emitted(work.slot, int(logits[place].argmax()))
            place += 1
            ready = self._core.facts(work.slot)["phase"] == OUTPUT_READY

    def _abort(self, work: Work) -> None:
        append, h = self._append(work), work.slot.handle
        if append.state not in {OPEN, PREPARED}:
            return
        append.abort()
        self._core.took(event("cancel_txn", x=h))
        append.forget()
        self._core.took(event("forget", x=h))
