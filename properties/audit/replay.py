"""Replay: what each event of the cache means as steps of the specification, and what must come of it.

A handler takes a step and compares what the event tells with what the step gave. The guards and the
assignments are the specification's: nothing here decides whether an append may be published.
An event that failed leaves its handle unjudged until it is allocated anew.
"""

from __future__ import annotations

from typing import Final

from kvspec.models.concrete.compiled import Cells
from kvspec.properties.audit.findings import Problem
from kvspec.properties.audit.followed import Gone, Live
from kvspec.properties.audit.memory import Outputs, Recent
from kvspec.properties.audit.refusals import Attempt, publication, refused, told
from kvspec.properties.audit.window import EMITS, LOGITS, TXNS, window
from kvspec.spec.documents.event import Event
from kvspec.spec.documents.log import HandleEnd

UNJUDGED: Final = Problem("", "", "", "")
"""The answer for an event of a handle that is no longer followed."""


class Replay:
    """All live handles, and the generation with which each released one would begin again.

    taken: generations that were taken from the log, since the handle was not seen before. losses: of
    events of the cache. closed: if given, gets the end of each generation that is released. dropped: the
    handle that was dropped last. line: where the event stands that is looked at; unit: of what.
    stale: generations of which a late event was told already.
    """

    def __init__(
        self, tombstones: int, closed: list[HandleEnd] | None = None, unit: str = "line "
    ) -> None:
        self.window = window()
        self.live: dict[str, Live] = {}
        self.released: Recent[str, Gone] = Recent(tombstones)
        self.stale: Recent[tuple[str, int], bool] = Recent(tombstones)
        self.unit = unit
        self.line = 0
        self.closed = closed
        self.dropped: tuple[str, Live] | None = None
        self.taken = 0
        self.losses = 0

    def find(self, event: Event) -> Live | Problem:
        """The handle that an event speaks of, or why it speaks of none."""
        found = self.live.get(event.request_id)
        given = event.handle_generation
        if found is None:
            gone = self.released.get(event.request_id)
            if gone is not None and given < gone.generation:
                return self._stale(event, self._after(gone))
            return Problem("UNKNOWN_HANDLE", "request_id", "a live handle", repr(event.request_id))
        if not found.followed:
            return UNJUDGED
        current = found.cells[self.window.generation]
        if given != current:
            expected = f"{current}, as told in {self.unit}{found.since}"
            return self._other_generation(event, current, expected)
        if event.trace_id != found.trace:
            return Problem("TRACE_CHANGED", "trace_id", repr(found.trace), repr(event.trace_id))
        return found

    def request_allocate(self, event: Event) -> Problem | None:
        """A generation begins: of a handle that is free, with an empty snapshot."""
        name, given = event.request_id, event.handle_generation
        found, is_first = self.live.get(name), False
        if found is None or not found.followed:
            gone = self.released.get(name) if found is None else None
            if gone is None:
                self.taken += 1
            elif given != gone.generation:
                return self._other_generation(event, gone.generation, self._after(gone))
            is_first = found is None and gone is None
            found = Live(self.window.make(given), event.trace_id, self.losses, Outputs())
        code = self.window.allocate(found.cells)
        if code is not None:
            return refused(
                self.window, code, event, found, (("allocate", {"h": 0, "b": 0, "a": 0}),)
            )
        current = found.cells[self.window.generation]
        if given != current:
            return Problem("GENERATION_SKIPPED", "handle_generation", current, given)
        found.trace, found.losses, found.outputs = event.trace_id, self.losses, Outputs()
        found.since, found.taken = self.line, is_first
        self.live[name] = found
        self.released.pop(name)
        return self._result(event, found)

    def append_start(self, event: Event) -> Problem | None:
        """An append begins on the snapshot that is seen now."""
        found = self.find(event)
        if not isinstance(found, Live):
            return found
        operation = str(event.operation_id)
        x = self._slot(found, operation)
        if x is None:
            return Problem("OPEN_APPENDS", "operation_id", f"at most {TXNS} open", f"{TXNS + 1}")
        first, end = event.interval_start or 0, event.interval_end or 0
        code = self.window.begin[x](found.cells, first, end - first)
        if code is not None:
            names: Attempt = "begin", {"x": x, "h": 0, "k": 0, "a": 0, "p": first, "n": end - first}
            return refused(self.window, code, event, found, (names,), "interval_start")
        found.operations[operation] = x
        found.names[x] = operation
        return self._base(event, found.cells[self.window.base_version[x]])

    def _slot(self, found: Live, operation: str) -> int | None:
        """The transaction for an operation: its own if its id is known, else one that has ended."""
        known = found.operations.get(operation)
        if known is not None:
            return known
        w, cells = self.window, found.cells
        for step in range(TXNS):
            x = (found.next + step) % TXNS
            if not w.is_live(cells, x):
                old = found.names[x]
                if old is not None:
                    w.forget[x](cells)
                    del found.operations[old]
                    found.names[x] = None
                found.next = (x + 1) % TXNS
                return x
        return None

    def _operation(self, event: Event) -> tuple[Live, int] | Problem:
        """The handle and the transaction of an append that ends; its generation may be over."""
        found = self.live.get(event.request_id)
        x = found.operations.get(str(event.operation_id)) if found is not None else None
        if found is None or not found.followed or x is None:
            known = self.find(event)
            if isinstance(known, Problem):
                return known
            expected, told = "an append that was started", repr(event.operation_id)
            return Problem("UNKNOWN_OPERATION", "operation_id", expected, told)
        captured = found.cells[self.window.base_generation[x]]
        if self.window.is_live(found.cells, x) and event.handle_generation != captured:
            return self._stale(event, f"{captured}, that of the start of the append")
        return found, x

    def append_publish(self, event: Event) -> Problem | None:
        """All rows of one append become visible."""
        pair = self._operation(event)
        if isinstance(pair, Problem):
            return pair
        found, x = pair
        w, cells = self.window, found.cells
        base = cells[w.base_version[x]]
        code = w.publish(cells, x)
        if code is not None:
            steps = publication(w, cells, x)
            return refused(w, code, event, found, steps, "operation_id")
        return self._base(event, base) or self._trace(event, found) or self._result(event, found)

    def failure(self, event: Event) -> Problem | None:
        """One append ends; a conflict is a publication that the specification refuses."""
        pair = self._operation(event)
        if isinstance(pair, Problem):
            return pair
        found, x = pair
        w, cells = self.window, found.cells
        base = cells[w.base_version[x]]
        if event.outcome == "conflict":
            code = w.publish(cells, x)
            if code != event.reason:
                expected = "the code of a refusal" if code is None else code
                return Problem("NO_CONFLICT", "reason", expected, repr(event.reason))
        else:
            code = w.cancel_txn[x](cells)
            if code is not None:
                step: Attempt = "cancel_txn", {"x": x}
                return refused(w, code, event, found, (step,), "operation_id")
        problem = self._base(event, base) or self._trace(event, found)
        self._drop_if_over(event.request_id, found)
        return problem

    def output_emit(self, event: Event) -> Problem | None:
        """A token is put out by a ready handle, from the snapshot that is seen now."""
        found = self.find(event)
        if not isinstance(found, Live):
            return found
        cells, index = found.cells, event.output_index
        if not self.window.can_emit(cells, 0):
            return told(self.window, EMITS, event, found, cells, {"h": 0})
        expected = found.outputs.emit(-1 if index is None else index)
        if expected is not None:
            return Problem("OUTPUT_INDEX", "output_index", expected, index)
        problem = self._base(event, self.window.snapshot_of(cells, 0))
        if problem is None and not self.window.has_logits(cells, 0, index or 0):
            rows = cells[self.window.rows]
            expected = f"below {rows}: a prompt and every output before it have their rows"
            return Problem(LOGITS.code.name, "output_index", expected, index)
        return problem

    def fork(self, event: Event) -> Problem | None:
        """A child handle begins with a prefix of the rows; the parent stays as it is."""
        found = self.find(event)
        if not isinstance(found, Live):
            return found
        w, name, given = self.window, str(event.child_request_id), event.child_generation
        child = found if name == event.request_id else self.live.get(name)
        if child is not None and not child.followed:
            return UNJUDGED
        if child is None:
            gone = self.released.get(name)
            if gone is None:
                self.taken += 1
            cells = w.make(gone.generation if gone is not None else given or 0)
            child = Live(cells, event.trace_id, self.losses, found.outputs.cut())
            child.taken = gone is None
        w.bring(found.cells, child.cells)
        code = w.fork(found.cells, event.child_tokens)
        if code is not None:
            step: Attempt = "fork", {"p": 0, "children": (False, True), "n": event.child_tokens}
            return refused(w, code, event, found, (step,), "child_request_id")
        w.take(found.cells, child.cells)
        child.trace, child.losses, child.outputs = event.trace_id, self.losses, found.outputs.cut()
        child.since = self.line
        self.live[name] = child
        self.released.pop(name)
        return self._base(event, w.snapshot_of(found.cells, 0)) or self._child(event, child.cells)

    def _child(self, event: Event, cells: Cells) -> Problem | None:
        w = self.window
        if event.child_generation != cells[w.generation]:
            told = cells[w.generation], event.child_generation
            return Problem("CHILD_GENERATION", "child_generation", *told)
        if event.child_snapshot != w.snapshot_of(cells, 0):
            told = w.snapshot_of(cells, 0), event.child_snapshot
            return Problem("CHILD_SNAPSHOT", "child_snapshot", *told)
        return None

    def truncate(self, event: Event) -> Problem | None:
        """A shorter snapshot of one handle."""
        found = self.find(event)
        if not isinstance(found, Live):
            return found
        base = self.window.snapshot_of(found.cells, 0)
        code = self.window.truncate(found.cells, event.committed_tokens)
        if code is not None:
            step: Attempt = "truncate", {"h": 0, "n": event.committed_tokens}
            return refused(self.window, code, event, found, (step,), "committed_tokens")
        found.outputs = found.outputs.cut()
        return self._base(event, base) or self._result(event, found)

    def finish(self, event: Event) -> Problem | None:
        """Generation ends, or the request is cancelled with every append it has open."""
        found = self.find(event)
        if not isinstance(found, Live):
            return found
        w = self.window
        base = w.snapshot_of(found.cells, 0)
        name = "cancel_request" if event.outcome == "cancelled" else "finish"
        code = (w.cancel_request if name == "cancel_request" else w.finish)(found.cells)
        if code is not None:
            return refused(w, code, event, found, ((name, {"h": 0}),))
        return self._base(event, base) or self._result(event, found)

    def release(self, event: Event) -> Problem | None:
        """Ownership ends; what is kept of the handle is dropped once no append to it is open."""
        found = self.find(event)
        if not isinstance(found, Live):
            if found is UNJUDGED:
                self._give_up(event)
            return found
        w = self.window
        base = w.snapshot_of(found.cells, 0)
        code = w.release(found.cells)
        if code is not None:
            return refused(w, code, event, found, (("release", {"h": 0}),))
        problem = self._base(event, base) or self._result(event, found)
        if problem is None and event.result_generation != found.cells[w.generation]:
            told = found.cells[w.generation], event.result_generation
            problem = Problem("RESULT_GENERATION", "result_generation", *told)
        if self.closed is not None:
            self.closed.append(self.end(event.request_id, found))
        self._drop_if_over(event.request_id, found)
        return problem

    def end(self, name: str, found: Live) -> HandleEnd:
        """Where a handle is, its generation told as the one that its events name."""
        w, cells = self.window, found.cells
        after = cells[w.generation]
        before = after - 1 if cells[w.phase] == "RELEASED" else after
        snapshot = w.snapshot_of(cells, 0)
        return HandleEnd(
            request_id=name,
            handle_generation=before,
            end_generation=after,
            phase=cells[w.phase],
            snapshot=snapshot,
            committed_tokens=cells[w.rows],
        )

    def lose(self, event: Event) -> None:
        """Follow a handle no longer, whose event could not be explained; and no child of a failed fork."""
        name, given = event.request_id, event.handle_generation
        found, begins = self.live.get(name), event.event_type == "request_allocate"
        if found is None:
            gone = self.released.get(name)
            if gone is None or begins or given >= gone.generation:
                self.live[name] = self._stranger()
        elif begins or found.taken or given >= found.cells[self.window.generation]:
            found.followed = False
        child = event.child_request_id
        if child and child not in self.live:
            self.live[child] = self._stranger()

    def _stranger(self) -> Live:
        found = Live(self.window.make(0), "", self.losses, Outputs())
        found.followed = False
        return found

    def _give_up(self, event: Event) -> None:
        """Drop a handle that is not followed any more, as its release says that it is over."""
        del self.live[event.request_id]
        if event.result_generation is not None:
            self.released.put(event.request_id, Gone(event.result_generation, self.line))

    def _drop_if_over(self, name: str, found: Live) -> None:
        w, cells = self.window, found.cells
        if cells[w.phase] == "RELEASED" and not w.has_live(cells, 0):
            del self.live[name]
            self.dropped = name, found
            snapshot = w.snapshot_of(cells, 0)
            self.released.put(name, Gone(cells[w.generation], self.line, snapshot, cells[w.rows]))

    def is_proof(self, name: str) -> bool:
        """Whether no loss of events can explain what was found of a handle just now."""
        found = self.live.get(name)
        if found is None and self.dropped is not None and self.dropped[0] == name:
            found = self.dropped[1]
        return not self.losses or (found is not None and found.losses == self.losses)

    def _base(self, event: Event, base: object) -> Problem | None:
        if event.base_snapshot != base:
            return Problem("BASE_SNAPSHOT", "base_snapshot", base, event.base_snapshot)
        return None

    def _trace(self, event: Event, found: Live) -> Problem | None:
        is_own = event.handle_generation == found.cells[self.window.generation]
        if is_own and event.trace_id != found.trace:
            return Problem("TRACE_CHANGED", "trace_id", repr(found.trace), repr(event.trace_id))
        return None

    def _result(self, event: Event, found: Live) -> Problem | None:
        snapshot = self.window.snapshot_of(found.cells, 0)
        if event.result_snapshot != snapshot:
            return Problem("RESULT_SNAPSHOT", "result_snapshot", snapshot, event.result_snapshot)
        rows = found.cells[self.window.rows]
        if event.committed_tokens != rows:
            return Problem("COMMITTED_TOKENS", "committed_tokens", rows, event.committed_tokens)
        return None

    def _after(self, gone: Gone) -> str:
        return f"{gone.generation}, after the release in {self.unit}{gone.at}"

    def _other_generation(self, event: Event, current: int, expected: str) -> Problem:
        given = event.handle_generation
        if given < current:
            return self._stale(event, expected)
        return Problem("GENERATION_SKIPPED", "handle_generation", expected, given)

    def _stale(self, event: Event, expected: str) -> Problem:
        """An event of a generation that is over; of each such generation one is told."""
        which = event.request_id, event.handle_generation
        if self.stale.get(which):
            return UNJUDGED
        self.stale.put(which, entry=True)
        return Problem("STALE_GENERATION", "handle_generation", expected, which[1])
