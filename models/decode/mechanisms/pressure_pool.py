"""The tables of a pool that is too small: who has which slot, in what order they came, and what is parked.

Modelled: a request is a record with its table of slots, the parked slots are a queue in the order of their
release. The scheduler's checks are here, and the faults that it can be given. Left out: what slots hold.
"""

from __future__ import annotations

from copy import deepcopy
from itertools import product
from typing import Final

from attrs import define, field

from kvspec.models.concrete.machine import Event
from kvspec.models.decode.mechanisms.checks import Checked

NEEDED: Final = 2
"""Slots that a request must have to finish."""

_FLUSHES: Final = ("end", "leave", "preempt")
FAULTS: Final = {
    "leave.flush-finds-nothing": "an owner is refused whose request was flushed before",
    "preempt.nobody-gives-way": "no request is ever preempted",
    "preempt.parked-slots-do-not-count": "requests are preempted while slots are parked",
    **{
        f"{action}.drop-guard.{code}": f"{action} gives away {what}"
        for action in ("arrive", "take")
        for code, what in (("SLOT_HELD", "a slot of another"), ("SLOT_PARKED", "a parked slot"))
    },
    **{
        f"{action}.drop-assignment.parked": f"{action} frees slots under the steps in flight"
        for action in _FLUSHES
    },
    **{
        f"{action}.drop-assignment.holds": f"{action} leaves an ended request its slots"
        for action in ("end", "leave")
    },
    "preempt.drop-guard.NOT_THE_YOUNGEST": "whoever holds slots is preempted, the oldest as well",
}
"""Every fault that the scheduler can be given, by name, with what it does."""


@define
class Request:
    """A request: where it is in its life, how many came before it, and its slots in the order of its rows."""

    life: str = "ABSENT"
    age: int = 0
    is_leaving: bool = False
    table: list[int] = field(factory=list)

    @property
    def waits(self) -> bool:
        """It lacks a slot, and its owner still wants it."""
        return self.life == "ACTIVE" and not self.is_leaving and not self.has_enough

    @property
    def has_enough(self) -> bool:
        """It has all slots that it needs."""
        return len(self.table) >= NEEDED


class Pool(Checked):
    """Slots and the requests that share them.

    Attributes:
        slots: how many there are.
        requests: all that may come.
        arrivals: requests that have come.
        parked: slots that wait for the device, the one that was released first in front.
    """

    def __init__(self, requests: int, slots: int, faults: frozenset[str]) -> None:
        self._faults = faults
        self.slots = slots
        self.requests = [Request() for _ in range(requests)]
        self.arrivals = 0
        self.parked: list[int] = []

    def is_held(self, s: int) -> bool:
        """Some request has the slot."""
        return any(s in request.table for request in self.requests)

    def is_free(self, s: int) -> bool:
        """Nobody has the slot, and it waits for nothing."""
        return not self.is_held(s) and s not in self.parked

    def _has(self, fault: str) -> bool:
        return f"{self._action}.{fault}" in self._faults

    def _need_free(self, s: int) -> None:
        self._need(not self.is_held(s), "SLOT_HELD")
        self._need(s not in self.parked, "SLOT_PARKED")

    def _arrive(self, q: int, s: int) -> None:
        request = self.requests[q]
        self._need(request.life == "ABSENT", "REQUEST_KNOWN")
        self._need(self.slots >= NEEDED, "NEVER_FITS")
        self._need_free(s)
        self._need(all(each.table for each in self.requests if each.waits), "OLDER_WAITS")
        self.requests[q] = Request("ACTIVE", self.arrivals, table=[s])
        self.arrivals += 1

    def _take(self, q: int, s: int) -> None:
        request = self.requests[q]
        self._need(request.life == "ACTIVE", "NOT_ACTIVE")
        self._need(not request.is_leaving, "IS_LEAVING")
        self._need(not request.has_enough, "HAS_ENOUGH")
        self._need_free(s)
        oldest = min((each.age for each in self.requests if each.waits), default=request.age)
        self._need(oldest >= request.age, "OLDER_WAITS")
        if s not in request.table:
            request.table.append(s)

    def _preempt(self, v: int, q: int) -> None:
        victim, asker = self.requests[v], self.requests[q]
        self._need(asker.waits, "HAS_ENOUGH")
        self._need(victim.age >= asker.age, "YOUNGER_ASKS")
        self._need(bool(victim.table), "NOTHING_TO_GAIN")
        youngest = max((each.age for each in self.requests if each.table), default=0)
        self._need(victim.age >= youngest, "NOT_THE_YOUNGEST")
        self._need(not self._comes_back(), "SLOTS_COME_BACK")
        self._flush(victim)

    def _comes_back(self) -> bool:
        """A slot is free, or will be when the device settles, as far as the scheduler looks."""
        if self._has("nobody-gives-way"):
            return True
        looked_at = range(self.slots)
        if self._has("parked-slots-do-not-count"):
            return any(self.is_free(s) for s in looked_at)
        return any(s in self.parked or not self.is_held(s) for s in looked_at)

    def _settle_slot(self, s: int) -> None:
        self._need(s in self.parked, "NOT_PARKED")
        self.parked.remove(s)

    def _end(self, q: int) -> None:
        self._need(self.requests[q].has_enough, "LACKS_SLOTS")
        self._let_go(self.requests[q])

    def _give_up(self, q: int) -> None:
        self._need(self.requests[q].life == "ACTIVE", "NOT_ACTIVE")
        self.requests[q].is_leaving = True

    def _leave(self, q: int) -> None:
        request = self.requests[q]
        has_something = bool(request.table) or not self._has("flush-finds-nothing")
        self._need(request.is_leaving and has_something, "NOT_LEAVING")
        self._let_go(request)

    def _let_go(self, request: Request) -> None:
        request.life, request.is_leaving = "ENDED", False
        self._flush(request)

    def _flush(self, request: Request) -> None:
        """Give up all slots of a request, if it has any."""
        if not self._has("drop-assignment.parked"):
            self.parked += [s for s in request.table if s not in self.parked]
        if not self._has("drop-assignment.holds"):
            request.table.clear()

    # What becomes of it.

    def played_on(self, rounds: int) -> tuple[Pool, int]:
        """A copy on which everybody takes every turn that there is, and how many slots were given in it.

        In each round the scheduler preempts whom it may, the device settles what was released first, the
        scheduler gives out what is free, and requests end or leave. Nobody new comes.
        """
        played, given = deepcopy(self), 0
        everybody = range(len(self.requests))
        for _ in range(rounds):
            moves = [
                *(Event("preempt", (("v", v), ("q", q))) for v, q in product(everybody, repeat=2)),
                *(Event("settle_slot", (("s", s),)) for s in played.parked[:1]),
                *_takes(everybody, range(self.slots)),
                *(Event(action, (("q", q),)) for action in ("end", "leave") for q in everybody),
            ]
            taken = [event for event in moves if played.perform(event).accepted]
            given += sum(event.action == "take" for event in taken)
            if not taken and not played.parked:
                break
        return played, given

    def unfree(self) -> list[int]:
        """Slots that one more request cannot be admitted with, since they are held or parked."""
        refused = []
        for s in range(self.slots):
            tried = deepcopy(self)
            tried.requests.append(Request())
            admission = Event("arrive", (("q", len(self.requests)), ("s", s)))
            if tried.perform(admission).code in ("SLOT_HELD", "SLOT_PARKED"):
                refused.append(s)
        return refused


def _takes(requests: range, slots: range) -> list[Event]:
    return [Event("take", (("q", q), ("s", s))) for q, s in product(requests, slots)]
