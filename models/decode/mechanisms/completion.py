"""Pins, reports and the one release on the decode backend, and faults to switch on.

Modelled: a part of a request is read by a peer, which takes its time over the prefix rows of its block. The
worker knows whose reports it listens for, and a letter names the generation that it is of. The block stays
with its request as long as a pin is held; the releases that were asked for stand in a queue.
Assumed: an instance without layers has two, since rows must lie somewhere.
Damage, found by trying (`completion_damage`): bytes that a peer reads and that are another's once the block
is given away; those that peers of a next request lose by a release that is left over; bytes that do not come
back when all has ended; and all that the backend measures of a handle.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from kvspec.models.backend import Damage, Reply
from kvspec.models.concrete.machine import Event
from kvspec.models.concrete.state import State
from kvspec.models.decode.backend import DecodeBackend
from kvspec.models.decode.backend_faults import known_faults
from kvspec.models.decode.backend_tables import Pool, RefusedError
from kvspec.models.decode.mechanisms.completion_damage import (
    Duty,
    bytes_lost,
    rows_in,
    rows_of_others,
    rows_of_the_next,
)
from kvspec.models.decode.mechanisms.core_part import core_part, core_tables
from kvspec.spec.language import Instance

FAULTS: Final = {
    "arrive.the-first-report-releases": "the first report of an ended request asks for its release",
    "arrive_together.each-report-releases": "each report of one step asks for a release",
    "arrive.drop-guard.NOT_OWED": "a repeated report is taken for one that was owed",
    "arrive.drop-guard.STALE_REPORT": "a report of an earlier request is taken for one of the current",
    "arrive.reports-of-ended-requests-are-ignored": "the report of an ended request is ignored",
    "cancel_request.the-cancel-releases": "a cancel asks for the release, whatever is owed",
    "land.one-sibling-is-told": "one of the siblings that share rows is reported to",
    "expire.the-lease-does-not-fence": "a lease that runs out leaves the peer at its work",
    "arrive.an-early-report-is-lost": "a report that comes before its registration is thrown away",
}
"""Every fault that the cache can be given, by name, with what it does."""

ENDED = ("FINISHED", "CANCELLED")


def fault_for(mutation: str) -> str | None:
    """The fault that makes the cache behave like a mutation of its rules, or None."""
    return mutation if mutation in FAULTS else None


class Cache(DecodeBackend):
    """The decode backend with obligations; it speaks of the system `completion`.

    Raises:
        ValueError: there is no such fault.
    """

    def __init__(self, faults: tuple[str, ...] = ()) -> None:
        chosen = known_faults(faults, FAULTS)
        super().__init__(device="cpu")
        self.forgets = chosen
        self.duties: list[list[Duty]] = []
        self.queue: list[int] = []
        self._events: list[Event] = []
        self._without_layers = False

    def reset(self, instance: Instance) -> None:
        """Begin anew, with the sizes of an instance of `completion`."""
        self._made, self._events = instance, []
        self._without_layers = not instance.sizes["Layer"]
        part = core_part(instance)
        super().reset(part)
        handles, parts = range(part.sizes["Handle"]), range(instance.sizes["Part"])
        self.duties = [[Duty() for _ in parts] for _ in handles]
        self.queue = []
        plain = dict(self._actions)
        self._actions |= {
            "finish": lambda h: self._end(plain["finish"], h, early=False),
            "cancel_request": lambda h: self._end(
                plain["cancel_request"],
                h,
                early="cancel_request.the-cancel-releases" in self.forgets,
            ),
            "release": lambda h: self._release(plain["release"], h),
            "hold": self._hold,
            "register": self._register,
            "land": self._land,
            "arrive": self._arrive,
            "arrive_together": self._arrive_together,
            "repeat": self._repeat,
            "lose": self._lose,
            "crash": self._crash,
            "stall": self._stall,
            "resume": self._resume,
            "expire": self._expire,
        }

    def observe(self) -> State:
        """The state of the core, and what each request owes."""
        tables = core_tables(super().observe(), has_layers=not self._without_layers)
        duties = [duty for listed in self.duties for duty in listed]
        return State(
            (
                *tables,
                tuple(duty.pin for duty in duties),
                tuple(duty.peer for duty in duties),
                tuple(duty.letter for duty in duties),
                tuple(duty.early for duty in duties),
                tuple(self.queue.count(h) for h in range(len(self.duties))),
            )
        )

    def perform(self, event: Event) -> Reply:
        """Carry out an event, or refuse it, and remember it."""
        self._events.append(event)
        return super().perform(event)

    def damage(self) -> list[Damage]:
        """What the backend measures, rows that peers find to be another's, bytes that do not come back."""
        return [
            *super().damage(),
            *rows_of_others(self),
            *rows_of_the_next(self),
            *bytes_lost(self),
        ]

    @property
    def pool(self) -> Pool:
        """Blocks, and who owns them."""
        return self._held().pool

    @property
    def phases(self) -> list[str]:
        """The phase of each handle."""
        return [slot.entry.phase for slot in self._held().slots]

    def again(self) -> Cache:
        """Another cache in the same state, after the same events, which goes on without faults."""
        made = type(self)(faults=tuple(self.forgets))
        made.reset(self._made)
        for event in self._events:
            made.perform(event)
        made.forgets = type(self.forgets)()
        return made

    def _is_current(self, h: int, duty: Duty) -> bool:
        return duty.letter == self._held().slots[h].generation + 1

    def _has_ended(self, h: int) -> bool:
        return self._held().slots[h].entry.phase in ENDED

    def _owes(self, h: int) -> bool:
        return any(duty.is_owed for duty in self.duties[h])

    def _end(self, end: Callable[..., Any], h: int, *, early: bool) -> None:
        """End the request, and ask for its release unless something is owed."""
        end(h)
        if early or not self._owes(h):
            self.queue.append(h)

    def _release(self, release: Callable[..., Any], h: int) -> None:
        """Give up the rows of a request whose release stands in the queue."""
        tables = self._held()
        if self._has_ended(h) and tables.batch.find(h) < 0 and h not in self.queue:
            raise RefusedError("RELEASE_NOT_ASKED", f"handle{h} owes its rows")
        release(h)
        self.queue.remove(h)
        for duty in self.duties[h]:
            if not duty.is_owed:
                duty.pin = "NONE"
            if duty.peer in {"DONE", "LOST"}:
                duty.peer = "IDLE"

    def _meet(self, h: int, *duties: Duty, always: bool = False) -> None:
        """Drop pins; whoever drops the last one of an ended request asks for the release."""
        for duty in duties:
            duty.pin = "MET"
        if self._has_ended(h) and (always or not self._owes(h)):
            self.queue.append(h)

    def _hold(self, h: int, p: int) -> None:
        """Pin the rows of a ready request for a part, whose peer begins to read them."""
        entry, duty = self._held().slots[h].entry, self.duties[h][p]
        _need(entry.phase == "DECODE_READY", "HANDLE_TERMINAL", f"handle{h} is {entry.phase}")
        _need(duty.pin == "NONE", "ALREADY_PINNED", f"the pin is {duty.pin}")
        duty.pin, duty.peer, duty.block = "HELD", "BUSY", entry.block
        duty.wanted = None if entry.block is None else rows_in(self.pool, entry.block)

    def _register(self, h: int, p: int) -> None:
        """Listen for the report of a part, or meet it by the one that came before."""
        duty = self.duties[h][p]
        _need(duty.pin == "HELD", "NOT_WAITING_FOR_REGISTRATION", f"the pin is {duty.pin}")
        if duty.early:
            duty.early = False
            self._meet(h, duty)
        else:
            duty.pin = "AWAITED"

    def _land(self, h: int, p: int) -> None:
        """The peer has read the block, and writes to each request that it was read for."""
        duty = self.duties[h][p]
        _need(duty.peer in {"BUSY", "FENCED"}, "NOT_BUSY", f"the peer is {duty.peer}")
        _need(duty.peer == "BUSY", "LEASE_ENDED", f"the peer is {duty.peer}")
        pool = self._held().pool
        together = {h}.union(*(owners for owners in pool.owners if h in owners))
        for g in together:
            other = self.duties[g][p]
            if other.is_used:
                other.peer = "DONE"
                if g == h or "land.one-sibling-is-told" not in self.forgets:
                    other.letter = self._held().slots[g].generation + 1

    def _arrive(self, h: int, p: int) -> None:
        """A letter arrives; whether it counts or not, it is gone."""
        duty = self.duties[h][p]
        _need(duty.letter >= 1, "NO_REPORT", "no letter is on its way")
        current, duty_waits = self._is_current(h, duty), duty.waits
        letter, duty.letter = duty.letter, 0
        if not current and "arrive.drop-guard.STALE_REPORT" not in self.forgets:
            raise RefusedError("STALE_REPORT", f"the letter is of request {letter}")
        if not duty_waits and "arrive.drop-guard.NOT_OWED" not in self.forgets:
            raise RefusedError("NOT_OWED", f"the pin is {duty.pin}")
        if duty.pin == "HELD":
            duty.early = duty.early or "arrive.an-early-report-is-lost" not in self.forgets
            return
        if self._has_ended(h) and "arrive.reports-of-ended-requests-are-ignored" in self.forgets:
            return
        self._meet(h, duty, always="arrive.the-first-report-releases" in self.forgets)

    def _arrive_together(self, h: int) -> None:
        """All letters that the worker listens for arrive in one step."""
        came = [d for d in self.duties[h] if d.pin == "AWAITED" and self._is_current(h, d)]
        _need(bool(came), "NO_REPORT", "no letter that is awaited is on its way")
        for duty in came:
            duty.letter = 0
        self._meet(h, *came)
        if "arrive_together.each-report-releases" in self.forgets and h in self.queue:
            self.queue += [h] * (len(came) - 1)

    def _repeat(self, h: int, p: int) -> None:
        """The peer writes once more, after its first letter has arrived."""
        duty = self.duties[h][p]
        _need(duty.peer == "DONE" and not duty.waits, "NOT_REPORTED", f"the peer is {duty.peer}")
        duty.letter = self._held().slots[h].generation + 1

    def _lose(self, h: int, p: int) -> None:
        """A letter is lost, and with it the word of the peer if it was the first."""
        duty = self.duties[h][p]
        _need(duty.letter >= 1, "NO_REPORT", "no letter is on its way")
        if self._is_current(h, duty) and duty.waits:
            duty.peer = "LOST"
        duty.letter = 0

    def _crash(self, h: int, p: int) -> None:
        """The peer stops in the middle."""
        duty = self.duties[h][p]
        _need(duty.is_used, "NOT_BUSY", f"the peer is {duty.peer}")
        duty.peer = "LOST"

    def _stall(self, h: int, p: int) -> None:
        """The peer stands still in the middle."""
        duty = self.duties[h][p]
        _need(duty.peer == "BUSY", "NOT_BUSY", f"the peer is {duty.peer}")
        duty.peer = "STALLED"

    def _resume(self, h: int, p: int) -> None:
        """The peer goes on."""
        duty = self.duties[h][p]
        _need(duty.peer == "STALLED", "NOT_STALLED", f"the peer is {duty.peer}")
        duty.peer = "BUSY"

    def _expire(self, h: int, p: int) -> None:
        """The lease of a part runs out, and its peer is kept from the block."""
        duty = self.duties[h][p]
        _need(duty.waits, "NOT_OWED", f"the pin is {duty.pin}")
        if duty.is_used and "expire.the-lease-does-not-fence" not in self.forgets:
            duty.peer = "FENCED"
        self._meet(h, duty)


def _need(holds: bool, code: str, detail: str) -> None:
    if not holds:
        raise RefusedError(code, detail)
