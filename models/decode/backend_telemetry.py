"""What the backend tells of itself, and when: after each step, under the same lock, off its own tables.

Modelled: the instrument lets a step happen, and then tells what came of it: the receipt of a
publication is there before anything names its snapshot. Calls that were refused before they became an
append are counted and not logged; an append that ends without publication is logged as a failure with
its base. An append that is aborted after its prepare was refused has failed, one that is aborted
without this was cancelled. What is allocated and resident is told by sources of their own, which name
the event that they follow. Left out: staged rows and batch rows; they are no event of the log.

Snapshots are told in the second numbering: release makes one more, finish makes none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from attrs import define, field, frozen

from kvspec.models.backend import Reply
from kvspec.models.decode.backend_appends import Appends
from kvspec.models.decode.backend_lives import (
    Life,
    Operation,
    abi_digest,
    allocated,
    released,
    resident_bytes,
    stands,
)
from kvspec.models.decode.backend_tables import Entry, Tables
from kvspec.models.telemetry.faults import AT, EMIT_BEFORE_PUBLISH, FINISH_AS_RELEASE, CrashError
from kvspec.models.telemetry.outcomes import CANCELLED, FAILURE, SUCCESS, outcome_of
from kvspec.models.telemetry.records import follows
from kvspec.models.telemetry.telemetry import Telemetry
from kvspec.spec.documents.closing import Closing
from kvspec.spec.documents.log import HandleEnd

Names = dict[str, Any]
Act = Callable[[str, Names], Reply]

ATTEMPT_OF: Final = {
    "allocate": "request_allocate",
    "begin": "append",
    "cancel_request": "cancel",
    "cancel_txn": "cancel",
    "enter": "enter",
    "evict": "evict",
    "finish": "finish",
    "forget": "forget",
    "fork": "fork",
    "leave": "leave",
    "release": "release",
    "reorder": "reorder",
    "retry": "retry",
    "truncate": "truncate",
}
"""What an action attempts, as metrics call it; stages, prepare and publish belong to the attempt of begin."""

PAST: Final = 4096
"""Ended requests of which is kept how they ended, beside the last one of each handle."""

ROWS: Final = ("stage_k", "stage_v")
"""Actions of single rows: nothing is told of these."""


@frozen(eq=False)
class Step:
    """A step that was taken, or refused with a code; before: the request that it is about, as it was."""

    names: Names
    before: Entry
    code: str


@define(eq=False)
class Instrument:
    """Follows the steps of one backend, from a reset to the next.

    Attributes:
        lives: the request of each handle, which may have been released.
        operations: the open append of each transaction.
        past: where the last requests ended whose handles were given to others.
        forgotten: how many more there were.
    """

    tables: Tables
    appends: Appends
    telemetry: Telemetry
    lives: dict[int, Life] = field(factory=dict)
    operations: dict[int, Operation] = field(factory=dict)
    past: deque[HandleEnd] = field(factory=lambda: deque(maxlen=PAST))
    forgotten: int = 0
    _publications: int = 0

    def begin_run(self) -> None:
        """Tell the header, and let the gauges read this backend."""
        self.telemetry.begin(abi_digest(self.tables), self.tables.shape.bytes_per_token)
        if self.telemetry.metrics is not None:
            for name, read in _GAUGES.items():
                self.telemetry.metrics.level(name, partial(read, self))

    def follow(self, action: str, names: Names, act: Act) -> Reply:
        """Let the step happen, then tell what came of it.

        Raises:
            CrashError: the fault emit-before-publish ends the process before the step.
        """
        if action in ROWS:
            return act(action, names)
        handle = names.get("h", names.get("p"))
        before = Entry() if handle is None else self.tables.slots[handle].entry
        if action == "publish" and EMIT_BEFORE_PUBLISH in self.telemetry.faults:
            self._tell_too_early(names["x"])
        reply = act(action, names)
        try:
            self._count(action, reply)
            handler = _HANDLERS.get((action, reply.accepted))
            if handler is not None:
                handler(self, Step(names, before, reply.code or ""))
        except Exception as error:  # noqa: BLE001 - what goes wrong here must not reach the cache
            self.telemetry.fail(error)
        return reply

    def emitted(self, handle: int, token: int) -> None:
        """A token was put out from the snapshot that the handle shows."""
        try:
            life, now = self.lives[handle], self.telemetry.clock()
            first, since = not life.outputs, life.output_ns or life.begun_ns
            base = self.tables.slots[handle].entry.version
            self._tell(
                life, "output_emit",
                base_snapshot=base, output_index=life.outputs, token_id=token,
            )  # fmt: skip
            life.outputs += 1
            life.output_ns = now
            if self.telemetry.metrics is not None:
                self.telemetry.metrics.output()
            self._time("first_output_seconds" if first else "between_outputs_seconds", since)
        except Exception as error:  # noqa: BLE001 - as in follow
            self.telemetry.fail(error)

    def closing(self) -> Closing:
        """Where the requests of this run stand, read off the tables: what a log must come to."""
        held = (stands(life, self.tables.slots[handle]) for handle, life in self.lives.items())
        is_all = self.telemetry.run == 1 and not self.forgotten
        return Closing(is_all=is_all, sources=(), handles=(*self.past, *held))

    def allocate(self, step: Step) -> None:
        """A request has a handle and a prefix block, and no rows of its own."""
        life = self._begin_life(step.names["h"])
        told = self._tell(
            life, "request_allocate", result_snapshot=0, committed_tokens=0, outcome=SUCCESS
        )
        self._observe(step.names["h"], life, told, residency=False)

    def begin(self, step: Step) -> None:
        """An append has captured its base."""
        x, txn, life = (
            step.names["x"],
            self.appends.txns[step.names["x"]],
            self.lives[step.names["h"]],
        )
        life.appends += 1
        name = f"{life.request_id}/append-{life.appends}"
        told = self._tell(
            life, "append_start",
            operation_id=name, base_snapshot=txn.base_version,
            interval_start=txn.start, interval_end=txn.start + txn.count,
        )  # fmt: skip
        begun = self.telemetry.clock()
        self.operations[x] = Operation(life, name, step.names["h"], txn.base_version, begun, told)

    def not_begun(self, step: Step) -> None:
        """An append was refused before it began."""
        self._outcome("append", outcome_of(step.code))

    def prepare(self, step: Step) -> None:
        """A refused prepare says why an append that is aborted afterwards has failed."""
        operation = self.operations.get(step.names["x"])
        if operation is not None:
            operation.refused = step.code

    def publish(self, step: Step) -> None:
        """The receipt is there: only now does anything name the new snapshot."""
        operation = self.operations.pop(step.names["x"])
        receipt = self.appends.txns[step.names["x"]].receipt
        told = ""
        if receipt is not None and EMIT_BEFORE_PUBLISH not in self.telemetry.faults:
            committed = len(self.tables.slots[operation.handle].entry.tokens)
            told = self._tell_published(operation, receipt.version, committed)
        self._end_append(operation, SUCCESS)
        self._observe(operation.handle, operation.life, told or operation.life.last[0])

    def not_published(self, step: Step) -> None:
        """A publication was refused, and if that ended the append, its base is what readers see."""
        x = step.names["x"]
        if x in self.operations and self.appends.txns[x].state == "REJECTED":
            self._fail(step.names["x"], outcome_of(step.code), step.code)

    def cancel_txn(self, step: Step) -> None:
        """One append was given up: it failed if its prepare was refused, else it was cancelled."""
        refused = self.operations[step.names["x"]].refused
        self._fail(step.names["x"], FAILURE if refused else CANCELLED, refused or "CANCELLED")

    def cancel_request(self, step: Step) -> None:
        """A request was given up, and with it every append that it had open."""
        life = self.lives[step.names["h"]]
        for x, operation in list(self.operations.items()):
            if operation.life is life and self.appends.txns[x].state == "ABORTED":
                self._fail(x, CANCELLED, "REQUEST_CANCELLED")
        self._end_life(step.names["h"], CANCELLED)

    def finish(self, step: Step) -> None:
        """A request has put out its last token; its rows are still owned."""
        if FINISH_AS_RELEASE in self.telemetry.faults:
            life = self.lives[step.names["h"]]
            self._tell_released(life, step.before, life.generation + 1)
        else:
            self._end_life(step.names["h"], SUCCESS)

    def release(self, step: Step) -> None:
        """A handle owns nothing any more, and its generation is fenced."""
        life, slot = self.lives[step.names["h"]], self.tables.slots[step.names["h"]]
        told = self._tell_released(life, step.before, slot.generation)
        life.end = released(life, slot)
        self._time("release_lag_seconds", life.ended_ns)
        self._observe(step.names["h"], life, told)

    def fork(self, step: Step) -> None:
        """Each child has a prefix; the parent is as it was.

        What a child holds is told from its own first event on: an observation follows an event of
        the same request, and a fork is one of the parent.
        """
        parent = self.lives[step.names["p"]]
        chosen = [handle for handle, is_child in enumerate(step.names["children"]) if is_child]
        for handle in chosen:
            child, entry = (
                self._begin_life(handle, parent.trace_id),
                self.tables.slots[handle].entry,
            )
            self._tell(
                parent, "fork",
                base_snapshot=step.before.version,
                child_request_id=child.request_id, child_generation=child.generation,
                child_snapshot=entry.version, child_tokens=len(entry.tokens),
                outcome=SUCCESS,
            )  # fmt: skip

    def truncate(self, step: Step) -> None:
        """A handle shows a shorter snapshot."""
        life, entry = self.lives[step.names["h"]], self.tables.slots[step.names["h"]].entry
        told = self._tell(
            life, "truncate",
            base_snapshot=step.before.version, result_snapshot=entry.version,
            committed_tokens=len(entry.tokens), outcome=SUCCESS,
        )  # fmt: skip
        self._observe(step.names["h"], life, told)

    def _begin_life(self, handle: int, trace_id: str | None = None) -> Life:
        slot = self.tables.slots[handle]
        if handle in self.lives:
            older = self.lives.pop(handle)
            self.forgotten += len(self.past) == PAST
            self.past.append(stands(older, slot))
        name = f"run{self.telemetry.run}-handle{handle}-request{slot.births}"
        trace = trace_id or self.telemetry.trace_id(name)
        life = Life(name, trace, slot.generation, self.telemetry.clock())
        self.lives[handle] = life
        if self.telemetry.metrics is not None:
            self.telemetry.metrics.request(name)
        return life

    def _end_life(self, handle: int, outcome: str) -> None:
        life, entry = self.lives[handle], self.tables.slots[handle].entry
        self._tell(
            life, "finish",
            base_snapshot=entry.version, result_snapshot=entry.version,
            committed_tokens=len(entry.tokens), outcome=outcome,
        )  # fmt: skip
        life.ended_ns = self.telemetry.clock()
        self._time("request_seconds", life.begun_ns)

    def _tell_released(self, life: Life, before: Entry, generation: int) -> str:
        return self._tell(
            life, "release",
            base_snapshot=before.version, result_snapshot=before.version + 1,
            committed_tokens=0, result_generation=generation, outcome=SUCCESS,
        )  # fmt: skip

    def _tell_published(self, operation: Operation, result: int, committed: int) -> str:
        return self._tell(
            operation.life, "append_publish", operation.start,
            operation_id=operation.operation_id,
            base_snapshot=operation.base, result_snapshot=result,
            committed_tokens=committed, outcome=SUCCESS,
        )  # fmt: skip

    def _tell_too_early(self, x: int) -> None:
        """The fault: success is told on the way to the publication, and the second time it ends there."""
        txn, operation = self.appends.txns[x], self.operations.get(x)
        if operation is None or txn.state != "PREPARED":
            return
        self._tell_published(operation, txn.base_version + 1, txn.start + txn.count)
        self._publications += 1
        if self._publications == AT:
            raise CrashError("the process died between the event and the publication")

    def _fail(self, x: int, outcome: str, reason: str) -> None:
        operation = self.operations.pop(x)
        self._tell(
            operation.life, "failure", operation.start,
            operation_id=operation.operation_id,
            base_snapshot=operation.base, reason=reason, outcome=outcome,
        )  # fmt: skip
        self._end_append(operation, outcome)

    def _end_append(self, operation: Operation, outcome: str) -> None:
        self._outcome("append", outcome)
        self._time("append_seconds", operation.begun_ns)

    def _observe(self, handle: int, life: Life, cause: str, *, residency: bool = True) -> None:
        """What is allocated, and what is resident, after an event."""
        whose = {
            "trace_id": life.trace_id,
            "request_id": life.request_id,
            "handle_generation": life.generation,
            "caused_by_event_id": cause,
        }
        tell = self.telemetry.tell
        tell("allocator_observe", **whose, **allocated(self.tables, handle))
        if residency:
            payload = resident_bytes(self.tables, self.tables.slots[handle].entry)
            tier = self.tables.shape.device.type
            tell("residency_observe", **whose, tier=tier, resident_payload_bytes=payload)

    def _tell(self, life: Life, event_type: str, cause: str = "", **fields: Any) -> str:
        """Tell an event about a request.

        By default it follows the last one, where its type may follow that one's and works on the
        snapshot that it left in sight.
        """
        earlier, kind, seen = life.last
        base = fields.get("base_snapshot")
        if not cause and base is not None and base == seen and follows(event_type, kind):
            cause = earlier
        told = self.telemetry.tell(
            event_type,
            trace_id=life.trace_id,
            request_id=life.request_id,
            handle_generation=life.generation,
            caused_by_event_id=cause or None,
            **fields,
        )
        life.last = (told, event_type, fields.get("result_snapshot", base))
        return told

    def _count(self, action: str, reply: Reply) -> None:
        """The attempt, and its outcome unless it is an append, which ends later."""
        kind = ATTEMPT_OF.get(action)
        if kind is None or self.telemetry.metrics is None:
            return
        self.telemetry.metrics.attempt(kind)
        if action != "begin":
            self._outcome(kind, SUCCESS if reply.accepted else outcome_of(reply.code or ""))

    def _outcome(self, kind: str, outcome: str) -> None:
        if self.telemetry.metrics is not None:
            self.telemetry.metrics.outcome(kind, outcome)

    def _time(self, name: str, since: int) -> None:
        if self.telemetry.metrics is not None:
            self.telemetry.metrics.duration(name, self.telemetry.clock() - since)


_HANDLERS: Final[dict[tuple[str, bool], Callable[[Instrument, Step], None]]] = {
    ("allocate", True): Instrument.allocate,
    ("begin", True): Instrument.begin,
    ("begin", False): Instrument.not_begun,
    ("prepare", True): Instrument.prepare,
    ("prepare", False): Instrument.prepare,
    ("publish", True): Instrument.publish,
    ("publish", False): Instrument.not_published,
    ("cancel_txn", True): Instrument.cancel_txn,
    ("cancel_request", True): Instrument.cancel_request,
    ("finish", True): Instrument.finish,
    ("release", True): Instrument.release,
    ("fork", True): Instrument.fork,
    ("truncate", True): Instrument.truncate,
}
"""Who tells of an action that was accepted, or refused; the others are counted alone."""


def _entries(of: Instrument) -> list[Entry]:
    return [slot.entry for slot in of.tables.slots if slot.entry.rows is not None]


_GAUGES: Final[dict[str, Callable[[Instrument], float]]] = {
    "running_requests": lambda of: sum(
        slot.entry.phase == "DECODE_READY" for slot in of.tables.slots
    ),
    "open_appends": lambda of: len(of.operations),
    "committed_tokens": lambda of: sum(len(entry.tokens) for entry in _entries(of)),
    "kv_payload_bytes": lambda of: sum(resident_bytes(of.tables, entry) for entry in _entries(of)),
    "kv_blocks_held": lambda of: sum(held is not None for held in of.tables.pool.held),
}
"""How each gauge is read when the metrics are scraped."""
